# SPDX-License-Identifier: BSD-3-Clause
"""NVMe and NVMe-oF structures, opcodes and status codes: all byte offsets used by Python code.

Sources: NVM Express Base 2.0, NVM Command Set 1.0, RDMA Transport 1.0.  Decoding raises only
StatusError; encoding raises ValueError if a value does not fit its field.
"""
