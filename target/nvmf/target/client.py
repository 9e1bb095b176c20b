# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a running target's administration socket.

``async with connect() as rpc: await rpc.subsystems()``; connect_sync() does the same without
asyncio. nvmeof/docs/rpc.md describes the methods.
"""

from __future__ import annotations

from nvmf.rpc import results
from nvmf.rpc.client import Client, Connecting, connect
from nvmf.rpc.errors import (
    AnswerError,
    AnswerLostError,
    AnswerTimeoutError,
    ClientError,
    Code,
    NoTargetError,
    RpcError,
)
from nvmf.rpc.sync import SyncClient
from nvmf.rpc.sync import connect as connect_sync

__all__ = [
    "AnswerError",
    "AnswerLostError",
    "AnswerTimeoutError",
    "Client",
    "ClientError",
    "Code",
    "Connecting",
    "NoTargetError",
    "RpcError",
    "SyncClient",
    "connect",
    "connect_sync",
    "results",
]
