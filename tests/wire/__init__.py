# SPDX-License-Identifier: BSD-3-Clause
"""A second, independent implementation of the wire: MPA, DDP, RDMAP and NVMe-oF capsules in
Python.

It shares no code with the product.  The tests send these bytes to the target and to the client,
written from the RFCs and the NVMe specifications alone, so that a misreading that both ends of
the product share still fails a test.  Hosts and targets that tests start are in `support`.
"""
