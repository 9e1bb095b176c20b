# SPDX-License-Identifier: BSD-3-Clause
"""Opcodes, and the identifiers that select within a command."""

from __future__ import annotations

from enum import IntEnum


class AdminOpcode(IntEnum):
    """Admin commands (Base 2.0, figure 138)."""

    DELETE_IO_SQ = 0x00
    CREATE_IO_SQ = 0x01
    GET_LOG_PAGE = 0x02
    DELETE_IO_CQ = 0x04
    CREATE_IO_CQ = 0x05
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT_REQUEST = 0x0C
    NAMESPACE_MANAGEMENT = 0x0D
    FIRMWARE_COMMIT = 0x10
    FIRMWARE_DOWNLOAD = 0x11
    DEVICE_SELF_TEST = 0x14
    NAMESPACE_ATTACHMENT = 0x15
    KEEP_ALIVE = 0x18
    FABRICS = 0x7F


class IoOpcode(IntEnum):
    """I/O commands of the NVM command set (NVM Command Set 1.0, figure 16)."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    WRITE_UNCORRECTABLE = 0x04
    COMPARE = 0x05
    WRITE_ZEROES = 0x08
    DATASET_MANAGEMENT = 0x09
    VERIFY = 0x0C
    RESERVATION_REGISTER = 0x0D
    RESERVATION_REPORT = 0x0E
    RESERVATION_ACQUIRE = 0x11
    RESERVATION_RELEASE = 0x15
    COPY = 0x19
    FABRICS = 0x7F


class FabricsType(IntEnum):
    """FCTYPE of a fabrics command (Base 2.0, figure 380)."""

    PROPERTY_SET = 0x00
    CONNECT = 0x01
    PROPERTY_GET = 0x04
    AUTHENTICATION_SEND = 0x05
    AUTHENTICATION_RECEIVE = 0x06
    DISCONNECT = 0x08


class Cns(IntEnum):
    """Controller or Namespace Structure of Identify (Base 2.0, figure 273)."""

    NAMESPACE = 0x00
    CONTROLLER = 0x01
    ACTIVE_NAMESPACES = 0x02
    NAMESPACE_DESCRIPTORS = 0x03
    NVM_SETS = 0x04
    CSI_NAMESPACE = 0x05
    CSI_CONTROLLER = 0x06
    CSI_ACTIVE_NAMESPACES = 0x07
    INDEPENDENT_NAMESPACE = 0x08
    ALLOCATED_NAMESPACES = 0x10
    ALLOCATED_NAMESPACE = 0x11
    NAMESPACE_CONTROLLERS = 0x12
    CONTROLLERS = 0x13
    CSI_ALLOCATED_NAMESPACES = 0x1A
    CSI_ALLOCATED_NAMESPACE = 0x1B
    IO_COMMAND_SETS = 0x1C


class Csi(IntEnum):
    """Command Set Identifier."""

    NVM = 0x00
    KEY_VALUE = 0x01
    ZONED = 0x02


class LogId(IntEnum):
    """Log Page Identifier (Base 2.0, figure 202)."""

    SUPPORTED_PAGES = 0x00
    ERROR = 0x01
    SMART = 0x02
    FIRMWARE_SLOT = 0x03
    CHANGED_NAMESPACES = 0x04
    COMMANDS_EFFECTS = 0x05
    ANA = 0x0C
    FEATURES_EFFECTS = 0x12
    NVME_MI_EFFECTS = 0x13
    DISCOVERY = 0x70
    RESERVATION_NOTIFICATION = 0x80


class FeatureId(IntEnum):
    """Feature Identifier (Base 2.0, figure 317)."""

    ARBITRATION = 0x01
    POWER_MANAGEMENT = 0x02
    TEMPERATURE_THRESHOLD = 0x04
    ERROR_RECOVERY = 0x05
    VOLATILE_WRITE_CACHE = 0x06
    NUMBER_OF_QUEUES = 0x07
    INTERRUPT_COALESCING = 0x08
    INTERRUPT_VECTOR = 0x09
    WRITE_ATOMICITY = 0x0A
    ASYNC_EVENT_CONFIGURATION = 0x0B
    TIMESTAMP = 0x0E
    KEEP_ALIVE_TIMER = 0x0F
    HOST_BEHAVIOR = 0x16
    HOST_IDENTIFIER = 0x81
    RESERVATION_NOTIFICATION_MASK = 0x82
    RESERVATION_PERSISTENCE = 0x83
    NAMESPACE_WRITE_PROTECTION = 0x84


FEATURE_DATA = {
    FeatureId.TIMESTAMP: 8,
    FeatureId.HOST_BEHAVIOR: 512,
    FeatureId.HOST_IDENTIFIER: 16,
}
"""Bytes of the data structure of features that have one (Base 2.0, 5.15); the extended format of
the Host Identifier, which fabrics use.
"""


def command_title(opcode: int, *, io: bool) -> str:
    """Return the name of a command, for messages."""
    kinds = IoOpcode if io else AdminOpcode
    try:
        return kinds(opcode).name.replace("_", " ").title()
    except ValueError:
        return f"command {opcode:02x}h"
