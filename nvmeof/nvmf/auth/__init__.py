# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication with DH-HMAC-CHAP, both ends, sans-IO (Base 2.0, 8.13)."""

from __future__ import annotations

from nvmf.auth.controller import ControllerAuth, HostKeys
from nvmf.auth.host import AuthFailed, HostAuth
from nvmf.auth.key import Key

__all__ = ["AuthFailed", "ControllerAuth", "HostAuth", "HostKeys", "Key"]
