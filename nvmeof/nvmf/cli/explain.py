# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof explain`: the NVMe-oF connections of a capture file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import BinaryIO

from nvmf.capture.container import FILE_MOST
from nvmf.capture.dialogue import Dialogue
from nvmf.capture.errors import CaptureError
from nvmf.capture.explain import NVME_PORT, Explained, explain
from nvmf.capture.words import HEADER, TOTALS, as_json, head, rows, sentence, totals
from nvmf.cli.base import (
    EXIT_DIFFERS,
    EXIT_OK,
    EXIT_TROUBLE,
    CliError,
    Subparsers,
    add_command,
    number_argument,
    printable,
)
from nvmf.cli.datafile import open_data, take_data
from nvmf.cli.output import counted, print_fields, print_json, print_table
from nvmf.paths import refuse_device

_PIECE = 1 << 20


def add_commands(subparsers: Subparsers) -> None:
    """Add explain."""
    parser = add_command(
        subparsers,
        "explain",
        run,
        "show the NVMe-oF connections of a capture file, and what is wrong",
        "The file is one of nvmeof capture, tcpdump or Wireshark: pcap or pcapng, also compressed "
        "by gzip. NVMe-oF over iWARP and RoCEv2 is shown as commands, with their data and the "
        "times between command and response; sentences name the violated sections of "
        "specifications.\n\n"
        "Exit status: 0 if no specification is violated, 1 if one is, 2 if the file cannot be "
        "read.",
        examples=(
            "nvmeof explain io.pcapng",
            "nvmeof explain --summary io.pcapng",
            "nvmeof explain -o json io.pcapng",
        ),
    )
    parser.set_defaults(trouble=EXIT_TROUBLE)
    parser.add_argument("file", metavar="FILE", help="the capture file; - is stdin")
    parser.add_argument(
        "--summary", action="store_true", help="show totals instead of each command"
    )
    parser.add_argument(
        "-s",
        "--trsvcid",
        metavar="PORT",
        type=number_argument,
        default=NVME_PORT,
        help="TCP port of iWARP connections whose beginning is not in the file (default: 4420)",
    )


def read(name: str) -> bytes:
    """Return the content of a capture file."""
    if name == "-":
        with open_data(name, "rb") as file:
            data = _read(file)
    else:
        path = Path(name)
        refuse_device(path)
        if path.is_file() and path.stat().st_size > FILE_MOST:
            raise CliError(f"{name} has more than {FILE_MOST} bytes: split it (editcap -c)")
        with path.open("rb", buffering=0) as file:
            data = _read(file)
    if len(data) > FILE_MOST:
        raise CliError(f"{name} has more than {FILE_MOST} bytes: split it (editcap -c)")
    return data


def _read(file: BinaryIO) -> bytes:
    """Return the content, or one byte more than allowed; in pieces, because read() with a size
    reserves memory for all of it."""
    data = bytearray()
    while len(data) <= FILE_MOST and (
        piece := take_data(file, min(_PIECE, FILE_MOST + 1 - len(data)))
    ):
        data += piece
    return bytes(data)


def run(args: argparse.Namespace) -> int:
    """Explain a file."""
    try:
        found = explain(read(args.file), args.trsvcid)
    except CaptureError as error:
        raise CliError(f"{args.file}: {error}") from None
    if args.output_format == "json":
        print_json(as_json(found))
    else:
        _print(found, args)
    return EXIT_DIFFERS if found.violations else EXIT_OK


def _print(found: Explained, args: argparse.Namespace) -> None:
    seconds = (found.ended - found.began) / 1e9 if found.packets else 0.0
    print(
        f"{counted(found.packets, 'packet')} in {seconds:.3f} s, "
        f"{counted(len(found.dialogues), 'NVMe-oF connection')}, "
        f"{counted(found.other, 'other packet')}"
    )
    for note in found.notes:
        print(f"note: {printable(note)}")
    for one in found.dialogues:
        print(f"\nconnection {one.number}: {one.transport}")
        print_fields(head(one), "  ")
        _print_commands(one, found, args)
        for fault in one.faults:
            print(printable(sentence(fault, found.began)))
        if one.more_faults:
            print(f"and {counted(one.more_faults, 'more sentence')} of this kind")
    print(f"\n{counted(found.violations, 'violation')} of specifications")


def _print_commands(one: Dialogue, found: Explained, args: argparse.Namespace) -> None:
    if not one.commands:
        return
    print()
    if args.summary:
        print_table(TOTALS, list(totals(one)))
    else:
        print_table(HEADER, list(rows(one, found.began)))
    print()
