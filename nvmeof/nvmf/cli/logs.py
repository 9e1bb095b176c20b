# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof smart-log`, `error-log`, `ana-log`, `changed-ns-list-log`, `get-log`: log pages."""

from __future__ import annotations

import argparse

from nvmf.cli.admin import add_admin_command, on_controller
from nvmf.cli.base import Command, Subparsers, UsageError, nsid_argument, number_argument
from nvmf.cli.common import as_nvme_cli, with_url
from nvmf.cli.human import add_human_always, add_raw, check_raw, write_raw
from nvmf.cli.output import counted, plain, print_fields, print_json, print_table
from nvmf.initiator import Controller
from nvmf.spec.ana import AnaState, ana_log_size, decode_ana_log
from nvmf.spec.commands import ALL_NAMESPACES
from nvmf.spec.logs import (
    CHANGED_NAMESPACES_OVERFLOW,
    ERROR_ENTRY_SIZE,
    ErrorEntry,
    SmartLog,
    decode_changed_namespaces,
)
from nvmf.spec.opcodes import LogId

_MOST = 16 << 20
"""Maximum bytes of get-log."""
_MOST_LSP = 0x7F
_MOST_LPO = 1 << 64
_MOST_ANA = 1 << 20
"""Maximum bytes of the ANA log page, whatever the controller claims."""


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands."""
    parser = add_admin_command(subparsers, "smart-log", smart, "show SMART / health information")
    _add_nsid(parser)
    add_raw(parser)
    add_human_always(parser)
    parser = add_admin_command(
        subparsers, "error-log", errors, "show the error information log, newest first"
    )
    parser.add_argument(
        "-e",
        "--log-entries",
        metavar="N",
        type=number_argument,
        default=64,
        help="maximum number of entries (default: 64)",
    )
    add_raw(parser)
    parser = add_admin_command(
        subparsers, "ana-log", ana, "show the ANA groups, their states and namespaces"
    )
    parser.add_argument(
        "-g", "--groups", action="store_true", help="only the groups, without their namespaces"
    )
    add_raw(parser)
    parser = add_admin_command(
        subparsers,
        "changed-ns-list-log",
        changed,
        "show the namespaces that changed since the controller was connected",
        "A new controller is connected for the command: its list is empty unless namespaces change "
        "at that moment.",
    )
    add_raw(parser)
    parser = add_admin_command(
        subparsers, "get-log", page, "print a log page", flags="--log-id 2 --log-len 512"
    )
    parser.add_argument("-i", "--log-id", metavar="LID", type=number_argument, help="log page")
    parser.add_argument(
        "--aen",
        metavar="N",
        type=number_argument,
        help="dword 0 of an asynchronous event, which names the log page; with a URL also -a, as "
        "in nvme-cli",
    )
    parser.add_argument(
        "-l", "--log-len", metavar="BYTES", type=number_argument, required=True, help="length"
    )
    parser.add_argument(
        "--lpo", metavar="BYTES", type=number_argument, default=0, help="offset (default: 0)"
    )
    parser.add_argument(
        "--lsp",
        metavar="N",
        type=number_argument,
        default=0,
        help="log specific field (default: 0); with a URL also -s, as in nvme-cli",
    )
    with_url(parser, trsvcid=("lsp", _MOST_LSP), traddr=("aen", 0xFFFFFFFF))
    _add_nsid(parser)
    parser.add_argument(
        "-r", "--rae", action="store_true", help="retain the asynchronous event of the log page"
    )
    add_raw(parser)
    _offset_by_o(parser)


def _offset_by_o(parser: Command) -> None:
    """Let -o be nvme-cli's --lpo if its value is a number."""
    for action in parser._actions:
        if action.dest == "output_format":
            action.choices = None  # _lpo() checks it
            action.metavar = "{normal,json,binary}"
            action.help = "output format (default: normal); with a number --lpo, as in nvme-cli"


def _lpo(args: argparse.Namespace) -> None:
    """Give -o its meaning."""
    if args.output_format in ("normal", "json", "binary"):
        return
    try:
        args.lpo = number_argument(args.output_format)
    except argparse.ArgumentTypeError:
        raise UsageError(
            f"-o must be normal, json or binary, or an offset, not {args.output_format!r}"
        ) from None
    args.output_format = "normal"


def _add_nsid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-N",
        "--namespace-id",
        metavar="NSID",
        type=nsid_argument,
        default=ALL_NAMESPACES,
        help="namespace (default: all, 0xffffffff); with a URL also -n, as in nvme-cli",
    )


def smart(args: argparse.Namespace) -> int:
    """Show SMART / health information."""

    check_raw(args)

    async def work(controller: Controller) -> None:
        data = await controller.with_admin(
            lambda admin: admin.log_page(LogId.SMART, SmartLog.SIZE, nsid=args.namespace_id)
        )
        if args.raw_binary:
            write_raw(data)
            return
        log = SmartLog.decode(data)
        if args.output_format == "json":
            print_json(log)
            return
        kelvin = log.composite_temperature
        celsius = f"{kelvin - 273} °C ({kelvin} K)" if kelvin else "not reported"
        print_fields({**plain(log), "composite_temperature": celsius})

    return on_controller(args, work)


def errors(args: argparse.Namespace) -> int:
    """Show the error information log."""

    check_raw(args)

    async def work(controller: Controller) -> None:
        count = min(args.log_entries, controller.identify.elpe + 1)
        data = await controller.log_page(LogId.ERROR, count * ERROR_ENTRY_SIZE)
        if args.raw_binary:
            write_raw(data)
            return
        entries = [
            ErrorEntry.decode(data[at : at + ERROR_ENTRY_SIZE])
            for at in range(0, len(data), ERROR_ENTRY_SIZE)
        ]
        entries = [entry for entry in entries if entry.error_count]
        if args.output_format == "json":
            print_json({"errors": entries})
            return
        print(counted(len(entries), "error log entry", "error log entries"))
        for entry in entries:
            fields = plain(entry)
            fields["status_field"] = f"{entry.status_field >> 1:#x}"
            print()
            print_fields(fields)

    return on_controller(args, work)


def ana(args: argparse.Namespace) -> int:
    """Show the ANA groups."""
    check_raw(args)

    async def work(controller: Controller) -> None:
        identify = controller.identify
        names = 0 if args.groups else identify.mnan or identify.nn
        size = -(-min(ana_log_size(identify.nanagrpid, names), _MOST_ANA) // 4) * 4
        data = await controller.with_admin(
            lambda admin: admin.log_page(LogId.ANA, size, rae=True, lsp=int(args.groups))
        )
        if args.raw_binary:
            write_raw(data)
            return
        changes, groups = decode_ana_log(data)
        if args.output_format == "json":
            print_json({"chgcnt": changes, "groups": groups})
            return
        print(f"change count {changes}")
        head, rows = (
            ("group", "state", "changes", "NSIDs"),
            [
                (one.group, _state(one.state), one.change_count, " ".join(map(str, one.nsids)))
                for one in groups
            ],
        )
        print_table(head[:3] if args.groups else head, [row[: 4 - args.groups] for row in rows])

    return on_controller(args, work)


def _state(state: int) -> str:
    try:
        return AnaState(state).word
    except ValueError:
        return str(state)


def changed(args: argparse.Namespace) -> int:
    """Show the changed namespaces."""
    check_raw(args)

    async def work(controller: Controller) -> None:
        data = await controller.log_page(LogId.CHANGED_NAMESPACES, 4096)
        if args.raw_binary:
            write_raw(data)
            return
        found = decode_changed_namespaces(data)
        if args.output_format == "json":
            print_json({"changed": found})
        elif found == [CHANGED_NAMESPACES_OVERFLOW]:
            print("more than 1024 namespaces changed")
        else:
            print(" ".join(map(str, found)) if found else "no namespace changed")

    return on_controller(args, work)


def page(args: argparse.Namespace) -> int:
    """Print a log page."""
    as_nvme_cli(args)
    _lpo(args)
    if args.aen is not None:
        args.log_id = (args.aen >> 16) & 0xFF
    if args.log_id is None:
        raise UsageError("specify the log page with -i or --log-id")
    if args.log_id > 0xFF:
        raise UsageError(f"--log-id must be 0 to 0xff, not {args.log_id:#x}")
    if not 0 < args.log_len <= _MOST or args.log_len % 4 or args.lpo % 4:
        raise UsageError(
            f"--log-len and --lpo must be multiples of 4 bytes, and --log-len at most {_MOST}"
        )
    if args.lpo + args.log_len > _MOST_LPO:
        raise UsageError(f"--lpo must be at most {_MOST_LPO - args.log_len:#x}, not {args.lpo:#x}")
    if args.lsp > _MOST_LSP:
        raise UsageError(f"--lsp must be 0 to {_MOST_LSP}, not {args.lsp}")
    check_raw(args)

    async def work(controller: Controller) -> None:
        data = await controller.with_admin(
            lambda admin: admin.log_page(
                args.log_id,
                args.log_len,
                offset=args.lpo,
                nsid=args.namespace_id,
                rae=args.rae,
                lsp=args.lsp,
            )
        )
        if args.raw_binary:
            write_raw(data)
        elif args.output_format == "json":
            print_json({"lid": args.log_id, "offset": args.lpo, "data": data})
        else:
            for at in range(0, len(data), 16):
                print(f"{args.lpo + at:06x}  {data[at : at + 16].hex(' ')}")

    return on_controller(args, work)
