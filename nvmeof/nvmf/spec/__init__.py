# SPDX-License-Identifier: BSD-3-Clause
"""NVMe and NVMe-oF structures, opcodes and status codes: every byte offset there is in Python.

Sources: NVM Express Base 2.0, NVM Command Set 1.0, RDMA Transport 1.0.  Decoding bytes raises
nothing but StatusError; encoding values that do not fit raises ValueError.
"""
