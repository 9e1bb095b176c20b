# SPDX-License-Identifier: BSD-3-Clause
"""Administration of a running target: JSON-RPC 2.0 on a unix socket, by SPDK's method names.

A method is a function in a module that ``methods.MODULES`` names; everything else finds it there.
"""
