# SPDX-License-Identifier: BSD-3-Clause
"""Status codes, and the exception that carries one to the single place that sends it.

A status here is SCT << 8 | SC (Base 2.0, 3.3.3.2), with MORE and DNR above it: the CQE's status
field without the phase bit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from nvmf.errors import Error

DNR = 0x4000
"""Do Not Retry: the same command would fail again."""
MORE = 0x2000
"""More: the Error Information log page has an entry for this error."""
CODE_MASK = 0x07FF
"""SCT and SC."""


class Named(IntEnum):
    """An IntEnum whose members have the specification's name as their title."""

    title: str

    def __new__(cls, value: int, title: str = "") -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.title = title
        return member


class Status(Named):
    """Generic, command specific (admin and fabrics), media and path related status values.

    The values 180h to 1BFh differ in meaning between fabrics and I/O commands; NvmStatus has those
    of I/O commands.
    """

    SUCCESS = 0x000, "Successful Completion"
    INVALID_OPCODE = 0x001, "Invalid Command Opcode"
    INVALID_FIELD = 0x002, "Invalid Field in Command"
    COMMAND_ID_CONFLICT = 0x003, "Command ID Conflict"
    DATA_TRANSFER_ERROR = 0x004, "Data Transfer Error"
    ABORTED_POWER_LOSS = 0x005, "Commands Aborted due to Power Loss Notification"
    INTERNAL_ERROR = 0x006, "Internal Error"
    ABORT_REQUESTED = 0x007, "Command Abort Requested"
    ABORTED_SQ_DELETION = 0x008, "Command Aborted due to SQ Deletion"
    ABORTED_FAILED_FUSED = 0x009, "Command Aborted due to Failed Fused Command"
    ABORTED_MISSING_FUSED = 0x00A, "Command Aborted due to Missing Fused Command"
    INVALID_NAMESPACE_OR_FORMAT = 0x00B, "Invalid Namespace or Format"
    COMMAND_SEQUENCE_ERROR = 0x00C, "Command Sequence Error"
    INVALID_SGL_SEGMENT_DESCRIPTOR = 0x00D, "Invalid SGL Segment Descriptor"
    INVALID_NUMBER_OF_SGL_DESCRIPTORS = 0x00E, "Invalid Number of SGL Descriptors"
    SGL_DATA_LENGTH_INVALID = 0x00F, "Data SGL Length Invalid"
    METADATA_SGL_LENGTH_INVALID = 0x010, "Metadata SGL Length Invalid"
    SGL_DESCRIPTOR_TYPE_INVALID = 0x011, "SGL Descriptor Type Invalid"
    INVALID_USE_OF_CMB = 0x012, "Invalid Use of Controller Memory Buffer"
    PRP_OFFSET_INVALID = 0x013, "PRP Offset Invalid"
    ATOMIC_WRITE_UNIT_EXCEEDED = 0x014, "Atomic Write Unit Exceeded"
    OPERATION_DENIED = 0x015, "Operation Denied"
    SGL_OFFSET_INVALID = 0x016, "SGL Offset Invalid"
    HOST_IDENTIFIER_INCONSISTENT_FORMAT = 0x018, "Host Identifier Inconsistent Format"
    KEEP_ALIVE_TIMER_EXPIRED = 0x019, "Keep Alive Timer Expired"
    KEEP_ALIVE_TIMEOUT_INVALID = 0x01A, "Keep Alive Timeout Invalid"
    ABORTED_PREEMPT = 0x01B, "Command Aborted due to Preempt and Abort"
    SANITIZE_FAILED = 0x01C, "Sanitize Failed"
    SANITIZE_IN_PROGRESS = 0x01D, "Sanitize In Progress"
    SGL_DATA_BLOCK_GRANULARITY_INVALID = 0x01E, "SGL Data Block Granularity Invalid"
    COMMAND_NOT_SUPPORTED_IN_CMB = 0x01F, "Command Not Supported for Queue in CMB"
    NAMESPACE_WRITE_PROTECTED = 0x020, "Namespace is Write Protected"
    COMMAND_INTERRUPTED = 0x021, "Command Interrupted"
    TRANSIENT_TRANSPORT_ERROR = 0x022, "Transient Transport Error"
    PROHIBITED_BY_LOCKDOWN = 0x023, "Command Prohibited by Command and Feature Lockdown"
    ADMIN_MEDIA_NOT_READY = 0x024, "Admin Command Media Not Ready"
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range"
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded"
    NAMESPACE_NOT_READY = 0x082, "Namespace Not Ready"
    RESERVATION_CONFLICT = 0x083, "Reservation Conflict"
    FORMAT_IN_PROGRESS = 0x084, "Format In Progress"

    COMPLETION_QUEUE_INVALID = 0x100, "Completion Queue Invalid"
    INVALID_QUEUE_IDENTIFIER = 0x101, "Invalid Queue Identifier"
    INVALID_QUEUE_SIZE = 0x102, "Invalid Queue Size"
    ABORT_COMMAND_LIMIT_EXCEEDED = 0x103, "Abort Command Limit Exceeded"
    AER_LIMIT_EXCEEDED = 0x105, "Asynchronous Event Request Limit Exceeded"
    INVALID_FIRMWARE_SLOT = 0x106, "Invalid Firmware Slot"
    INVALID_FIRMWARE_IMAGE = 0x107, "Invalid Firmware Image"
    INVALID_INTERRUPT_VECTOR = 0x108, "Invalid Interrupt Vector"
    INVALID_LOG_PAGE = 0x109, "Invalid Log Page"
    INVALID_FORMAT = 0x10A, "Invalid Format"
    FIRMWARE_NEEDS_CONVENTIONAL_RESET = (
        0x10B,
        "Firmware Activation Requires Conventional Reset",
    )
    INVALID_QUEUE_DELETION = 0x10C, "Invalid Queue Deletion"
    FEATURE_NOT_SAVEABLE = 0x10D, "Feature Identifier Not Saveable"
    FEATURE_NOT_CHANGEABLE = 0x10E, "Feature Not Changeable"
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10F, "Feature Not Namespace Specific"
    OVERLAPPING_RANGE = 0x114, "Overlapping Range"
    NAMESPACE_INSUFFICIENT_CAPACITY = 0x115, "Namespace Insufficient Capacity"
    NAMESPACE_IDENTIFIER_UNAVAILABLE = 0x116, "Namespace Identifier Unavailable"
    NAMESPACE_ALREADY_ATTACHED = 0x118, "Namespace Already Attached"
    NAMESPACE_IS_PRIVATE = 0x119, "Namespace Is Private"
    NAMESPACE_NOT_ATTACHED = 0x11A, "Namespace Not Attached"
    THIN_PROVISIONING_NOT_SUPPORTED = 0x11B, "Thin Provisioning Not Supported"
    CONTROLLER_LIST_INVALID = 0x11C, "Controller List Invalid"
    INVALID_CONTROLLER_IDENTIFIER = 0x11F, "Invalid Controller Identifier"
    ANA_ATTACH_FAILED = 0x125, "ANA Attach Failed"
    IO_COMMAND_SET_NOT_SUPPORTED = 0x129, "I/O Command Set Not Supported"
    IO_COMMAND_SET_NOT_ENABLED = 0x12A, "I/O Command Set Not Enabled"
    IO_COMMAND_SET_COMBINATION_REJECTED = 0x12B, "I/O Command Set Combination Rejected"
    INVALID_IO_COMMAND_SET = 0x12C, "Invalid I/O Command Set"
    INCOMPATIBLE_FORMAT = 0x180, "Connect Incompatible Format"
    CONTROLLER_BUSY = 0x181, "Connect Controller Busy"
    CONNECT_INVALID_PARAMETERS = 0x182, "Connect Invalid Parameters"
    CONNECT_RESTART_DISCOVERY = 0x183, "Connect Restart Discovery"
    CONNECT_INVALID_HOST = 0x184, "Connect Invalid Host"
    INVALID_QUEUE_TYPE = 0x185, "Disconnect Invalid Queue Type"
    DISCOVER_RESTART = 0x190, "Discover Restart"
    AUTHENTICATION_REQUIRED = 0x191, "Authentication Required"

    WRITE_FAULT = 0x280, "Write Fault"
    UNRECOVERED_READ_ERROR = 0x281, "Unrecovered Read Error"
    GUARD_CHECK_ERROR = 0x282, "End-to-end Guard Check Error"
    APPLICATION_TAG_CHECK_ERROR = 0x283, "End-to-end Application Tag Check Error"
    REFERENCE_TAG_CHECK_ERROR = 0x284, "End-to-end Reference Tag Check Error"
    COMPARE_FAILURE = 0x285, "Compare Failure"
    ACCESS_DENIED = 0x286, "Access Denied"
    DEALLOCATED_OR_UNWRITTEN_BLOCK = 0x287, "Deallocated or Unwritten Logical Block"
    STORAGE_TAG_CHECK_ERROR = 0x288, "End-to-End Storage Tag Check Error"

    INTERNAL_PATH_ERROR = 0x300, "Internal Path Error"
    ANA_PERSISTENT_LOSS = 0x301, "Asymmetric Access Persistent Loss"
    ANA_INACCESSIBLE = 0x302, "Asymmetric Access Inaccessible"
    ANA_TRANSITION = 0x303, "Asymmetric Access Transition"
    CONTROLLER_PATHING_ERROR = 0x360, "Controller Pathing Error"
    HOST_PATHING_ERROR = 0x370, "Host Pathing Error"
    ABORTED_BY_HOST = 0x371, "Command Aborted By Host"


class NvmStatus(Named):
    """Command specific status values of I/O commands (NVM Command Set 1.0, figure 10)."""

    CONFLICTING_ATTRIBUTES = 0x180, "Conflicting Attributes"
    INVALID_PROTECTION_INFORMATION = 0x181, "Invalid Protection Information"
    WRITE_TO_READ_ONLY_RANGE = 0x182, "Attempted Write to Read Only Range"
    COMMAND_SIZE_LIMIT_EXCEEDED = 0x183, "Command Size Limit Exceeded"
    OVERLAPPING_IO_RANGE = 0x187, "Overlapping I/O Range"


def status_name(status: int, *, io: bool = False) -> str:
    """Return the specification's name of a status (DNR and MORE are ignored).

    io: the status is that of an I/O command, which decides the meaning of some codes.
    """
    code = status & CODE_MASK
    kinds: tuple[type[Named], ...] = (NvmStatus, Status) if io else (Status,)
    for kind in kinds:
        try:
            return kind(code).title
        except ValueError:
            continue
    return f"Status {code >> 8:x}h/{code & 0xFF:02x}h"


def status_called(name: str) -> Status | NvmStatus:
    """Return the status of an I/O command with this name, or number such as 0x281.

    Upper and lower case, spaces, hyphens and underscores in names are equivalent. Raise ValueError
    if there is no such status, or if it is a success.
    """
    wanted = _plain(name)
    try:
        number = int(name, 0)
    except ValueError:
        number = -1
    every: tuple[Status | NvmStatus, ...] = (*NvmStatus, *Status)
    for one in every:
        if one.value and (one.value == number or wanted in (_plain(one.title), _plain(one.name))):
            return one
    raise ValueError(f"{name[:64]!r} is not an NVMe status such as 'Write Fault' or 0x281")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


class StatusError(Error):
    """A command failed: the status that a target will return, or that a host received."""

    status: int
    """SCT << 8 | SC, without DNR."""
    dnr: bool
    """Do Not Retry."""
    dw0: int
    """Command specific result sent with it (Connect Invalid Parameters: IATTR and IPO)."""
    detail: str
    """Text for logs and users; never sent."""
    io: bool
    """Whether the command is an I/O command."""
    location: int | None
    """The parameter in error (sqe.At), if known."""

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        dnr: bool = True,
        dw0: int = 0,
        io: bool = False,
        location: int | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.status = status & CODE_MASK
        self.dnr = dnr
        self.dw0 = dw0
        self.detail = detail
        self.io = io
        self.location = location

    @property
    def name(self) -> str:
        """The specification's name of the status."""
        return status_name(self.status, io=self.io)

    @property
    def code(self) -> int:
        """The status to send, including DNR."""
        return self.status | (DNR if self.dnr else 0)

    @classmethod
    def from_wire(cls, status: int, detail: str = "", *, io: bool = False, dw0: int = 0) -> Self:
        """Create from the status field of a CQE (without the phase bit)."""
        return cls(status, detail, dnr=bool(status & DNR), dw0=dw0, io=io)

    @property
    def code_text(self) -> str:
        """The status as numbers, for messages: (SCT 1h, SC 82h, do not retry)."""
        retry = ", do not retry" if self.dnr else ""
        return f"(SCT {self.status >> 8:x}h, SC {self.status & 0xFF:02x}h{retry})"

    @property
    def answer(self) -> str:
        """The detail, and the status that the controller sends or has sent."""
        text = f"{self.name} {self.code_text}"
        return f"{self.detail}: {text}" if self.detail else text

    def __str__(self) -> str:
        return self.answer


class DecodeError(StatusError):
    """Bytes could not be decoded as the expected structure.

    As a sentence it has no status: on a host, no controller has sent one.
    """

    def __init__(self, detail: str, status: int = Status.INVALID_FIELD) -> None:
        super().__init__(status, detail)

    def __str__(self) -> str:
        return self.detail
