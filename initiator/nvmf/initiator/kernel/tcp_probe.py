# SPDX-License-Identifier: BSD-3-Clause
"""A probe after RDMA has failed: whether the port speaks NVMe over TCP, or anything."""

from __future__ import annotations

import socket
import struct
from enum import Enum

SECONDS = 2.0
_ICREQ, _ICRESP, _ICREQ_LENGTH = 0x00, 0x01, 128


class Answer(Enum):
    """The kind of answer of a TCP port."""

    NVME_TCP = "nvme-tcp"
    OPEN = "open"
    """Connections are accepted, but not with NVMe over TCP."""
    REFUSED = "refused"
    """The host answers, and the port is closed."""
    SILENT = "silent"


def ask_tcp(address: str, port: str, within: float = SECONDS) -> Answer:
    """Send an Initialize Connection Request (NVMe/TCP Transport 1.0, 3.6.2.2); return the result.

    within: seconds, of each step.
    """
    # Common header: type, flags, HLEN, PDO, PLEN; then PFV, HPDA, DGST, MAXR2T, and zeroes.
    request = struct.pack("<BBBBIHBBI", _ICREQ, 0, _ICREQ_LENGTH, 0, _ICREQ_LENGTH, 0, 0, 0, 0)
    try:
        with socket.create_connection((address, int(port)), timeout=within) as stream:
            try:
                stream.sendall(request.ljust(_ICREQ_LENGTH, b"\0"))
                header = stream.recv(8, socket.MSG_WAITALL)
            except OSError:
                return Answer.OPEN
            return Answer.NVME_TCP if header[:1] == bytes([_ICRESP]) else Answer.OPEN
    except ConnectionRefusedError:
        return Answer.REFUSED
    except OSError:
        return Answer.SILENT
