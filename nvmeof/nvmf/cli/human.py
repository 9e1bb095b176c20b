# SPDX-License-Identifier: BSD-3-Clause
"""Output of -H (the bit fields of values by name) and -b (raw bytes), as nvme-cli has them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from nvmf.cli.base import UsageError
from nvmf.spec.opcodes import FeatureId

Fields = tuple[tuple[int, int, str], ...]
"""Lowest bit, highest bit, meaning."""

CONTROLLER: Mapping[str, Fields] = {
    "cmic": ((0, 0, "more than one port"), (1, 1, "more than one controller"),
             (2, 2, "virtual function"), (3, 3, "ANA reporting")),
    "oacs": ((0, 0, "Security Send and Receive"), (1, 1, "Format NVM"), (2, 2, "firmware commands"),
             (3, 3, "Namespace Management"), (4, 4, "Device Self-test"), (5, 5, "Directives"),
             (6, 6, "NVMe-MI commands"), (7, 7, "Virtualization Management"),
             (8, 8, "Doorbell Buffer Config"), (9, 9, "Get LBA Status")),
    "lpa": ((0, 0, "SMART log per namespace"), (1, 1, "Commands Supported and Effects log"),
            (2, 2, "extended length and offset of Get Log Page"), (3, 3, "Telemetry logs"),
            (4, 4, "Persistent Event log")),
    "oncs": ((0, 0, "Compare"), (1, 1, "Write Uncorrectable"), (2, 2, "Dataset Management"),
             (3, 3, "Write Zeroes"), (4, 4, "Save and Select of features"), (5, 5, "reservations"),
             (6, 6, "Timestamp"), (7, 7, "Verify"), (8, 8, "Copy")),
    "fuses": ((0, 0, "fused Compare and Write"),),
    "fna": ((0, 0, "formats apply to all namespaces"), (1, 1, "erases apply to all namespaces"),
            (2, 2, "cryptographic erase")),
    "vwc": ((0, 0, "volatile write cache present"),
            (1, 2, "Flush of all namespaces (2: not supported, 3: supported)")),
    "sgls": ((0, 1, "SGLs supported (1: any alignment, 2: of dwords)"), (2, 2, "keyed descriptors"),
             (20, 20, "offsets in data blocks")),
    "sqes": ((0, 3, "required entry size, 2^n bytes"), (4, 7, "maximum entry size, 2^n bytes")),
    "cqes": ((0, 3, "required entry size, 2^n bytes"), (4, 7, "maximum entry size, 2^n bytes")),
}  # fmt: skip
NAMESPACE: Mapping[str, Fields] = {
    "nsfeat": ((0, 0, "thin provisioning"), (1, 1, "atomic units of the namespace"),
               (2, 2, "reads of deallocated blocks may fail"), (3, 3, "NGUID and EUI64 not reused"),
               (4, 4, "preferred sizes and alignments")),
    "flbas": ((0, 3, "format in use"), (4, 4, "metadata at the end of each block")),
    "mc": ((0, 0, "metadata in the data buffer"), (1, 1, "metadata in a separate buffer")),
    "dpc": ((0, 2, "protection types supported"), (3, 3, "protection in the first bytes"),
            (4, 4, "protection in the last bytes")),
    "dps": ((0, 2, "protection type"), (3, 3, "protection in the first bytes")),
    "nmic": ((0, 0, "may be attached to more than one controller"),),
    "rescap": ((0, 0, "Persist Through Power Loss"), (1, 1, "Write Exclusive"),
               (2, 2, "Exclusive Access"), (3, 3, "Write Exclusive, Registrants Only"),
               (4, 4, "Exclusive Access, Registrants Only"),
               (5, 5, "Write Exclusive, All Registrants"),
               (6, 6, "Exclusive Access, All Registrants"),
               (7, 7, "ignore existing key, as of 1.3")),
    "dlfeat": ((0, 2, "deallocated blocks read as (0: unknown, 1: 00h, 2: FFh)"),
               (3, 3, "DEAC of Write Zeroes")),
}  # fmt: skip
FEATURES: Mapping[int, Fields] = {
    FeatureId.VOLATILE_WRITE_CACHE: ((0, 0, "volatile write cache enabled"),),
    FeatureId.NUMBER_OF_QUEUES: (
        (0, 15, "I/O submission queues, 0's based"),
        (16, 31, "I/O completion queues, 0's based"),
    ),
    FeatureId.ASYNC_EVENT_CONFIGURATION: (
        (0, 7, "SMART / health warnings"),
        (8, 8, "namespace attributes"),
        (9, 9, "firmware activation"),
        (11, 11, "ANA change"),
        (31, 31, "discovery log change"),
    ),
    FeatureId.KEEP_ALIVE_TIMER: ((0, 31, "Keep Alive Timeout in ms"),),
    FeatureId.NAMESPACE_WRITE_PROTECTION: (
        (0, 2, "state (0: none, 1: protected, 2: until power cycle, 3: permanent)"),
    ),
}


def add_human(parser: argparse.ArgumentParser) -> None:
    """Add -H."""
    parser.add_argument(
        "-H", "--human-readable", action="store_true", help="show the bit fields of values, by name"
    )


def add_human_always(parser: argparse.ArgumentParser) -> None:
    """Add -H to a command whose output always has this form."""
    parser.add_argument(
        "-H",
        "--human-readable",
        action="store_true",
        help="accepted as by nvme-cli; the output always has this form",
    )


def add_raw(parser: argparse.ArgumentParser) -> None:
    """Add -b, and -o binary, which is the same."""
    parser.add_argument("-b", "--raw-binary", action="store_true", help="write the bytes to stdout")
    for action in parser._actions:
        if action.dest == "output_format":
            action.choices = ("normal", "json", "binary")


def check_raw(args: argparse.Namespace) -> None:
    """Raise UsageError if raw bytes would go to a terminal."""
    args.raw_binary = args.raw_binary or args.output_format == "binary"
    if args.raw_binary and sys.stdout.isatty():
        raise UsageError("--raw-binary does not write to a terminal: use a file or a pipe")


def write_raw(data: bytes) -> None:
    """Write bytes to stdout."""
    sys.stdout.flush()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        out.write(data)


def print_bits(value: int, fields: Fields, indent: str = "  ") -> None:
    """Print one line for each field of a value."""
    for low, high, meaning in fields:
        part = (value >> low) & ((1 << (high - low + 1)) - 1)
        print(f"{indent}[{high}:{low}] : {part:#x}  {meaning}")
