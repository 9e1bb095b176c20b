# SPDX-License-Identifier: BSD-3-Clause
"""Persistent memory of other machines: methods of writing to it so that the data survives."""

from nvmf.pmem.method import Method

__all__ = ["Method"]
