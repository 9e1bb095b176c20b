# SPDX-License-Identifier: BSD-3-Clause
"""A second, independent reading of the wire: MPA, DDP, RDMAP and NVMe-oF capsules in pure Python.

Nothing here is shared with the product.  The tests speak to the target and to the client with
these bytes, written from the RFCs and the NVMe specifications alone, so that a misreading which
both ends of the product have in common still fails a test.
"""
