# SPDX-License-Identifier: BSD-3-Clause
"""Administration of a running target: JSON-RPC 2.0 on a Unix socket, with SPDK's method names.

A method is a function in a module that is listed in ``methods.MODULES``.
"""
