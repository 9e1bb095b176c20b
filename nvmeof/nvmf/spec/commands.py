# SPDX-License-Identifier: BSD-3-Clause
"""Builders of submission queue entries for hosts: 64 bytes each.

CID, PSDT and the SGL are left zero: the engine sets them.  Builders raise ValueError if an argument
does not fit its field.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from nvmf.spec.auth import AuthCommand
from nvmf.spec.fabrics import ConnectDw10, ConnectDw11
from nvmf.spec.opcodes import AdminOpcode, Cns, FabricsType, FeatureId, IoOpcode
from nvmf.spec.reservations import (
    AcquireAction,
    AcquireDw10,
    PersistenceChange,
    RegisterAction,
    RegisterDw10,
    ReleaseAction,
    ReleaseDw10,
    ReservationType,
)
from nvmf.spec.sqe import (
    GetFeaturesDw10,
    IdentifyDw10,
    IdentifyDw11,
    LogDw10,
    LogDw11,
    LogDw14,
    SetFeaturesDw10,
    Sqe,
    encode_blocks,
)

ALL_NAMESPACES = 0xFFFFFFFF
MAX_BLOCKS = 65536
"""Maximum logical blocks of one command."""
MAX_DSM_RANGES = 256
MAX_COPY_RANGES = 256

_FUA = 1 << 30
_FUSE_FIRST, _FUSE_SECOND = 1, 2
_LIMITED_RETRY = 1 << 31
_DEALLOCATE = 1 << 25
_DSM_DEALLOCATE = 1 << 2


def identify(
    cns: int = Cns.CONTROLLER, nsid: int = 0, *, cntid: int = 0, csi: int = 0, specific: int = 0
) -> bytes:
    """Identify; the controller returns 4096 bytes."""
    dw10 = IdentifyDw10(cns, cntid).encode()
    dw11 = IdentifyDw11(specific, csi).encode()
    return Sqe(AdminOpcode.IDENTIFY, nsid, dw10, dw11).encode()


def get_log_page(
    lid: int,
    length: int,
    *,
    nsid: int = ALL_NAMESPACES,
    offset: int = 0,
    lsp: int = 0,
    rae: bool = False,
    csi: int = 0,
) -> bytes:
    """Get Log Page: length bytes (a multiple of 4) from offset (bytes, a multiple of 4)."""
    if length <= 0 or length % 4 or offset % 4:
        raise ValueError(f"log page length {length} and offset {offset} must be multiples of 4")
    dwords = length // 4 - 1
    return Sqe(
        AdminOpcode.GET_LOG_PAGE,
        nsid,
        LogDw10(lid, lsp, int(rae), dwords & 0xFFFF).encode(),
        LogDw11(dwords >> 16).encode(),
        offset & 0xFFFFFFFF,
        offset >> 32,
        LogDw14(csi=csi).encode(),
    ).encode()


def get_features(fid: int, *, nsid: int = 0, sel: int = 0, cdw11: int = 0) -> bytes:
    """Get Features."""
    return Sqe(AdminOpcode.GET_FEATURES, nsid, GetFeaturesDw10(fid, sel).encode(), cdw11).encode()


def set_features(
    fid: int, cdw11: int = 0, *, nsid: int = 0, save: bool = False, cdw12: int = 0
) -> bytes:
    """Set Features."""
    dw10 = SetFeaturesDw10(fid, int(save)).encode()
    return Sqe(AdminOpcode.SET_FEATURES, nsid, dw10, cdw11, cdw12).encode()


def set_number_of_queues(queues: int) -> bytes:
    """Set Features, Number of Queues: requests this many I/O queues (at least 1)."""
    return set_features(FeatureId.NUMBER_OF_QUEUES, (queues - 1) << 16 | (queues - 1))


def set_keep_alive(kato_ms: int) -> bytes:
    """Set Features, Keep Alive Timer: ms, 0 is off."""
    return set_features(FeatureId.KEEP_ALIVE_TIMER, kato_ms)


def keep_alive() -> bytes:
    """Keep Alive."""
    return Sqe(AdminOpcode.KEEP_ALIVE).encode()


def async_event_request() -> bytes:
    """Asynchronous Event Request."""
    return Sqe(AdminOpcode.ASYNC_EVENT_REQUEST).encode()


def abort(cid: int, sqid: int = 0) -> bytes:
    """Abort one command."""
    return Sqe(AdminOpcode.ABORT, cdw10=cid << 16 | sqid).encode()


def connect(
    qid: int, sqsize: int, *, kato_ms: int = 0, disable_sq_flow_control: bool = False
) -> bytes:
    """Connect; its data is fabrics.ConnectData.  sqsize is 0's based (entries - 1)."""
    return Sqe(
        AdminOpcode.FABRICS,
        FabricsType.CONNECT,
        ConnectDw10(0, qid).encode(),
        ConnectDw11(sqsize, sq_flow_control_disabled=int(disable_sq_flow_control)).encode(),
        kato_ms,
    ).encode()


def property_get(offset: int, size: int = 4) -> bytes:
    """Property Get of 4 or 8 bytes; dwords 0 and 1 of the completion are the value."""
    return Sqe(AdminOpcode.FABRICS, FabricsType.PROPERTY_GET, _property_size(size), offset).encode()


def property_set(offset: int, value: int, size: int = 4) -> bytes:
    """Property Set of 4 or 8 bytes."""
    return Sqe(
        AdminOpcode.FABRICS,
        FabricsType.PROPERTY_SET,
        _property_size(size),
        offset,
        value & 0xFFFFFFFF,
        value >> 32,
    ).encode()


def _property_size(size: int) -> int:
    if size not in (4, 8):
        raise ValueError(f"a property has 4 or 8 bytes, not {size}")
    return size // 8


def disconnect() -> bytes:
    """Disconnect of an I/O queue."""
    return Sqe(AdminOpcode.FABRICS, FabricsType.DISCONNECT).encode()


def authentication_send(length: int) -> bytes:
    """Authentication Send of a message of length bytes (see spec.auth)."""
    return _authentication(FabricsType.AUTHENTICATION_SEND, length)


def authentication_receive(length: int) -> bytes:
    """Authentication Receive of a message of at most length bytes."""
    return _authentication(FabricsType.AUTHENTICATION_RECEIVE, length)


def _authentication(fctype: FabricsType, length: int) -> bytes:
    command = AuthCommand(length)
    return Sqe(AdminOpcode.FABRICS, fctype, command.cdw10, command.length).encode()


def _blocks(opcode: IoOpcode, nsid: int, slba: int, blocks: int, flags: int, dsm: int = 0) -> bytes:
    if not 1 <= blocks <= MAX_BLOCKS:
        raise ValueError(f"{blocks} blocks: a command takes 1 to {MAX_BLOCKS}")
    return encode_blocks(opcode, nsid, slba, (blocks - 1) | flags, dsm)


def _rw_flags(fua: bool, limited_retry: bool) -> int:
    return (_FUA if fua else 0) | (_LIMITED_RETRY if limited_retry else 0)


def read(
    nsid: int, slba: int, blocks: int, *, fua: bool = False, limited_retry: bool = False
) -> bytes:
    """Read of blocks (1 to 65536) logical blocks."""
    return _blocks(IoOpcode.READ, nsid, slba, blocks, _rw_flags(fua, limited_retry))


def write(
    nsid: int, slba: int, blocks: int, *, fua: bool = False, limited_retry: bool = False
) -> bytes:
    """Write of blocks (1 to 65536) logical blocks."""
    return _blocks(IoOpcode.WRITE, nsid, slba, blocks, _rw_flags(fua, limited_retry))


def compare(nsid: int, slba: int, blocks: int, *, fua: bool = False) -> bytes:
    """Compare with blocks logical blocks of data."""
    return _blocks(IoOpcode.COMPARE, nsid, slba, blocks, _rw_flags(fua, False))


def compare_and_write(
    nsid: int, slba: int, blocks: int, *, fua: bool = False
) -> tuple[bytes, bytes]:
    """Fused Compare and Write commands, to be submitted consecutively (Base 2.0, 3.4.2)."""
    first, second = (
        bytearray(compare(nsid, slba, blocks)),
        bytearray(write(nsid, slba, blocks, fua=fua)),
    )
    first[1] |= _FUSE_FIRST
    second[1] |= _FUSE_SECOND
    return bytes(first), bytes(second)


def verify(nsid: int, slba: int, blocks: int, *, fua: bool = False) -> bytes:
    """Verify: read the blocks without transferring them."""
    return _blocks(IoOpcode.VERIFY, nsid, slba, blocks, _rw_flags(fua, False))


def write_zeroes(
    nsid: int, slba: int, blocks: int, *, deallocate: bool = False, fua: bool = False
) -> bytes:
    """Write Zeroes; transfers no data."""
    flags = (_DEALLOCATE if deallocate else 0) | _rw_flags(fua, False)
    return _blocks(IoOpcode.WRITE_ZEROES, nsid, slba, blocks, flags)


def write_uncorrectable(nsid: int, slba: int, blocks: int) -> bytes:
    """Write Uncorrectable; transfers no data."""
    return _blocks(IoOpcode.WRITE_UNCORRECTABLE, nsid, slba, blocks, 0)


def flush(nsid: int) -> bytes:
    """Flush."""
    return Sqe(IoOpcode.FLUSH, nsid).encode()


def dataset_management(nsid: int, ranges: int, *, deallocate: bool = True) -> bytes:
    """Dataset Management; its data is dsm_ranges()."""
    if not 1 <= ranges <= MAX_DSM_RANGES:
        raise ValueError(f"{ranges} ranges: a command takes 1 to {MAX_DSM_RANGES}")
    return Sqe(
        IoOpcode.DATASET_MANAGEMENT, nsid, ranges - 1, _DSM_DEALLOCATE if deallocate else 0
    ).encode()


def dsm_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Encode (first block, blocks) pairs as data of Dataset Management: 16 bytes per range."""
    return b"".join(struct.pack("<IIQ", 0, blocks, slba) for slba, blocks in ranges)


def copy(nsid: int, sdlba: int, ranges: int, *, fua: bool = False) -> bytes:
    """Copy to sdlba (NVM 1.0, 3.2.2); its data is copy_ranges(), descriptor format 0h."""
    if not 1 <= ranges <= MAX_COPY_RANGES:
        raise ValueError(f"{ranges} ranges: a command takes 1 to {MAX_COPY_RANGES}")
    return encode_blocks(IoOpcode.COPY, nsid, sdlba, (ranges - 1) | (_FUA if fua else 0), 0)


def copy_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    """Encode (first block, blocks) source ranges as data of Copy: 32 bytes per range."""
    return b"".join(struct.pack("<8xQH14x", slba, blocks - 1) for slba, blocks in ranges)


# ---- reservations (Base 2.0, 7.2 to 7.5) ----


def reservation_register(
    nsid: int,
    action: RegisterAction,
    *,
    ignore_existing: bool = False,
    persistence: PersistenceChange = PersistenceChange.NONE,
) -> bytes:
    """Reservation Register; its data is the current key and the new key."""
    dw10 = RegisterDw10(action, int(ignore_existing), persistence).encode()
    return Sqe(IoOpcode.RESERVATION_REGISTER, nsid, dw10).encode()


def reservation_acquire(nsid: int, action: AcquireAction, rtype: ReservationType) -> bytes:
    """Reservation Acquire; its data is the current key and the key to preempt."""
    dw10 = AcquireDw10(action, rtype=rtype).encode()
    return Sqe(IoOpcode.RESERVATION_ACQUIRE, nsid, dw10).encode()


def reservation_release(nsid: int, action: ReleaseAction, rtype: int = 0) -> bytes:
    """Reservation Release; its data is the current key."""
    dw10 = ReleaseDw10(action, rtype=rtype).encode()
    return Sqe(IoOpcode.RESERVATION_RELEASE, nsid, dw10).encode()


def reservation_report(nsid: int, length: int) -> bytes:
    """Reservation Report, extended: length bytes, a multiple of 4."""
    if length <= 0 or length % 4:
        raise ValueError(f"reservation report length {length} is not a positive multiple of 4")
    return Sqe(IoOpcode.RESERVATION_REPORT, nsid, length // 4 - 1, 1).encode()
