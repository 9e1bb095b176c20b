# SPDX-License-Identifier: BSD-3-Clause
"""The responder of FLUSH and ATOMIC WRITE on Linux's rxe, by pyverbs; it runs in the guest.

``flush_responder.py ADDRESS PORT [DAX]``: memory of its own, or of a device DAX, which alone can be
registered for persistence.  It accepts one connection, waits until the peer (c/roce_flush_peer.c)
has written its mark, and checks all of what it wrote.  ``flush_responder.py check DAX`` only checks
it, later.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import time

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, ConnParam
from pyverbs.mr import MR
from pyverbs.qp import QPCap, QPInitAttr

PATIENCE = 60.0
LENGTH = 2 << 20
"""Bytes; a device DAX is mapped in units of 2 MiB."""
DATA, TAIL = 3 * 4096 + 100, 16384
VALUE, MARK = 0x0123456789ABCDEF, 0x6B72616D206C6C61
ACCESS = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
)
FLUSH_GLOBAL, FLUSH_PERSISTENT = 1 << 8, 1 << 9
"""IB_UVERBS_ACCESS_FLUSH_...: pyverbs of rdma-core 44 has no names for them."""


def memory(dax: str) -> mmap.mmap:
    if not dax:
        return mmap.mmap(-1, LENGTH)
    file = os.open(dax, os.O_RDWR)
    try:
        return mmap.mmap(file, LENGTH, mmap.MAP_SHARED)
    finally:
        os.close(file)


def main(address: str, service: str, dax: str = "") -> None:
    region = memory(dax)
    region[:LENGTH] = bytes(LENGTH)
    at = ctypes.addressof(ctypes.c_char.from_buffer(region))
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    info = AddrInfo(src=address, src_service=service, port_space=ce.RDMA_PS_TCP,
                    flags=ce.RAI_PASSIVE)  # fmt: skip
    listener = CMID(creator=info, qp_init_attr=QPInitAttr(qp_type=e.IBV_QPT_RC, cap=cap))
    listener.listen()
    print("listening", flush=True)
    connection = listener.get_request()
    rights = ACCESS | FLUSH_GLOBAL | (FLUSH_PERSISTENT if dax else 0)
    whole = MR(connection.pd, LENGTH, rights, address=at)
    bare = MR(connection.pd, LENGTH, ACCESS, address=at)
    reply = struct.pack("=QIII", at, whole.rkey, bare.rkey, LENGTH)
    parameters = ConnParam(resources=4, depth=4, retry=7, rnr_retry=7, data_len=len(reply))
    parameters.set_private_data(reply)
    connection.accept(parameters)
    end = time.monotonic() + PATIENCE
    while struct.unpack_from("=Q", region, LENGTH - 8)[0] != MARK:
        assert time.monotonic() < end, f"no mark within {PATIENCE:.0f} s"
        time.sleep(0.001)
    check(region)


def check(region: mmap.mmap) -> None:
    assert region[:DATA] == bytes((i * 7 + i // 256) & 255 for i in range(DATA)), "the data"
    assert struct.unpack_from("=Q", region, TAIL)[0] == VALUE, "the value after the FLUSH"
    assert region[TAIL + 8 : LENGTH - 8] == bytes(LENGTH - TAIL - 16), "bytes that nobody wrote"
    print("verified", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(memory(sys.argv[2]))
    else:
        main(*sys.argv[1:])
