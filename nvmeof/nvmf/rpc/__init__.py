# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a target's administration socket: JSON-RPC 2.0, with SPDK's method names.

``results`` has the types of all results, which the target and its clients share; ``client`` and
``sync`` are the clients. ``calls`` and ``sync_calls`` have one method for each method of the
target; ./dev manual generates them, and nvmeof/docs/rpc.md, from the target's methods.
"""
