# SPDX-License-Identifier: BSD-3-Clause
"""The independent peer, tested with itself and with known values."""

import pytest

from support.responder import NvmeResponder
from wire import capture, mpa, nvme, rdmap
from wire.crc32c import crc32c
from wire.errors import Rejected, WireViolation
from wire.exchange import dialogues
from wire.host import NvmeHost, Queue
from wire.nvme import Status
from wire.peer import IwarpPeer

SUBNQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000000aa"

CRC_EXAMPLES = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
"""RFC 3720 appendix B.4."""


@pytest.mark.parametrize(("data", "expected"), CRC_EXAMPLES)
def test_crc32c(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_siw_first_bytes() -> None:
    """The first bytes that siw sends, as recorded."""
    request = bytes.fromhex("4d504120494420526571204672616d651002000400010001")
    found = mpa.decode_start(request)
    assert found is not None
    assert (found[0].revision, found[0].words, found[1]) == (2, (1, 1), 24)
    assert found[0].encode() == request
    fpdu = bytes.fromhex(
        "0022414300000000000000000000000100000000"
        "0000559e5e40d47027f1cb000000004000000000"
    )  # fmt: skip
    whole = mpa.decode_fpdu(fpdu, False)
    assert whole is not None
    segment = rdmap.decode(whole[0])
    assert isinstance(segment, rdmap.Untagged)
    assert (segment.op, segment.msn, len(segment.payload)) == (rdmap.Op.SEND, 1, 16)
    assert mpa.encode_fpdu(rdmap.encode_untagged(3, segment.payload, msn=1), False) == fpdu


def test_recording_round_trip() -> None:
    """Every recorded frame decodes, and encodes to the same bytes."""
    frames = capture.load(capture.RECORDING)
    for frame in frames:
        if frame.start:
            assert frame.mpa.encode() == frame.data
            continue
        segment = frame.segment
        if isinstance(segment, rdmap.Tagged):
            again = rdmap.encode_tagged(
                segment.op, segment.stag, segment.to, segment.payload, last=segment.last
            )
        else:
            again = rdmap.encode_untagged(
                segment.op, segment.payload, msn=segment.msn, qn=segment.qn, mo=segment.mo,
                rsvd=segment.rsvd, last=segment.last,
            )  # fmt: skip
        assert mpa.encode_fpdu(again, False) == frame.data
    assert [len(found.exchanges) for found in dialogues(frames)] == [15, 30, 62]


@pytest.mark.parametrize("crc", [False, True])
def test_host_and_responder(crc: bool) -> None:
    """Commands and data both ways."""
    with (
        NvmeResponder(SUBNQN, lambda sqe: bytes(4096)) as responder,
        NvmeHost(("127.0.0.1", responder.port), SUBNQN, crc=crc).connect(io_queues=2) as host,
    ):
        data = bytes(range(256)) * 200
        host.write(7, data[:51200])
        assert host.read(7, 100) == data[:51200]
        assert bytes(responder.store[7 * 512 :][: len(data)]) == data
        assert host.queues[1].call(nvme.sqe(0x7E, nsid=1)).status == Status.INVALID_OPCODE
        host.shutdown()


def test_reject() -> None:
    with NvmeResponder(SUBNQN, lambda sqe: b"") as responder:
        responder.refuse = lambda start: nvme.cm_reject(nvme.Reject.HSQSIZE)
        with pytest.raises(Rejected) as refusal:
            Queue.open(("127.0.0.1", responder.port))
        assert refusal.value.private_data == b"\0\0\4\0"


def test_a_violation_is_seen() -> None:
    """The peer detects violations."""
    with NvmeResponder(SUBNQN, lambda sqe: b"") as responder:
        peer = IwarpPeer.connect(("127.0.0.1", responder.port), nvme.cm_request(0, 32, 31))
        peer.send(bytes(64))
        assert peer.ending() is None
        peer.close()
        with pytest.raises(WireViolation, match="PSDT"):
            responder.close()
        responder.errors.clear()
