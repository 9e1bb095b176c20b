# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof discover`: subsystems offered by a port and its referrals, or by the network."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    CliError,
    Failures,
    Subparsers,
    UsageError,
    add_command,
    number_argument,
    printable,
    seconds_argument,
    warn_of_names,
)
from nvmf.cli.common import add_target_arguments, options_of, run_async, where_of
from nvmf.cli.output import plain, print_fields, print_json, print_table
from nvmf.cli.records import line, record
from nvmf.engine import EngineError
from nvmf.initiator import ConnectionLost, ConnectOptions, TransportId
from nvmf.initiator.discovery.referrals import MAX_DEPTH, FoundLog, discover_all
from nvmf.initiator.discovery.watching import DISCOVERY_KATO, Change, watch
from nvmf.initiator.hostfiles import FOLDER, HostFileError, configured
from nvmf.spec.nqn import validate_nqn
from nvmf.spec.status import StatusError

Start = tuple[TransportId, ConnectOptions]
_MDNS_SECONDS = 3.0


def add_commands(subparsers: Subparsers) -> None:
    """Add discover."""
    parser = add_command(
        subparsers,
        "discover",
        discover,
        "list the subsystems that a port offers to this host",
        "Referrals to other discovery services are followed. Without an address, the discovery\n"
        f"controllers in the host files are queried: {FOLDER}/nvme-fabrics.conf and drop-ins, or\n"
        "config.json and discovery.conf. One queue is connected: -i, -Q and similar options are\n"
        "accepted for compatibility with nvme-cli but have no effect; -c and -l apply with -p.",
        examples=(
            "nvmeof discover -t rdma -a 192.0.2.1 -s 4420",
            "nvmeof discover -a 192.0.2.1 --persistent -o json",
            "nvmeof discover --mdns",
        ),
    )
    add_target_arguments(parser, nqn=False, kato=0)
    group = parser.add_argument_group("what to discover")
    group.add_argument(
        "-n",
        "--nqn",
        dest="discovery_nqn",
        metavar="NQN",
        help="NQN of the discovery subsystem (default: the well-known one)",
    )
    group.add_argument(
        "-p",
        "--persistent",
        action="store_true",
        help="stay connected, and print changes as they occur, until SIGINT or SIGTERM "
        f"(keep-alive timeout: {DISCOVERY_KATO:g})",
    )
    group.add_argument(
        "--depth",
        metavar="N",
        type=number_argument,
        default=MAX_DEPTH,
        help=f"maximum depth of referrals to follow (default: {MAX_DEPTH}; 0: none)",
    )
    group.add_argument(
        "-J", "--config", metavar="FILE", type=Path, help="read FILE instead of the host files"
    )
    group.add_argument(
        "-r", "--raw", metavar="FILE", type=Path, help="also write the binary log to FILE"
    )
    group.add_argument(
        "--mdns", action="store_true", help="list the discovery services announced by mDNS"
    )
    group.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds_argument,
        default=_MDNS_SECONDS,
        help=f"listening time of --mdns (default: {_MDNS_SECONDS:g})",
    )


def discover(args: argparse.Namespace) -> int:
    """Read the discovery logs and print them."""
    given = args.url is not None or args.traddr is not None
    if args.mdns:
        if given or args.persistent or args.raw:
            raise UsageError("--mdns searches the network: remove the address, -p and -r")
        if args.wait <= 0:
            raise UsageError(f"--wait must be more than 0 seconds, not {args.wait:g}")
        return run_async(_announced(args))
    starts = [_given(args)] if given else _configured(args)
    if args.raw and (len(starts) > 1 or args.persistent):
        raise UsageError("--raw writes one log: specify an address, and remove -p")
    if args.persistent:
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
            return run_async(_watch_all(args, starts))
        return EXIT_OK
    return run_async(_read_all(args, starts, single=given))


def _given(args: argparse.Namespace) -> Start:
    place = where_of(args, need_nqn=False)
    if args.discovery_nqn is not None:
        try:
            place = replace(place, subnqn=validate_nqn(args.discovery_nqn))
        except ValueError as error:
            raise UsageError(f"--nqn: {error}") from None
        warn_of_names(place.subnqn)
    options = options_of(args, place, kato=DISCOVERY_KATO if args.persistent else 0)
    if args.persistent and not options.kato:
        raise UsageError("-p requires a keep-alive timeout: -k must be more than 0")
    return replace(place, options={}), options


def _configured(args: argparse.Namespace) -> list[Start]:
    """Return the discovery controllers in the host files that use RDMA."""
    try:
        endpoints = [e for e in configured(args.config) if e.discovery and e.transport == "rdma"]
        if not endpoints:
            where = args.config or f"the host files in {FOLDER}"
            raise UsageError(
                f"specify the target: a URL, or -a ADDRESS ({where}: no RDMA discovery controller)"
            )
        starts = []
        for endpoint in endpoints:
            place = endpoint.place()
            base = endpoint.options(**({} if args.persistent else {"kato": 0}))
            flags = {"hostnqn": args.hostnqn, "hostid": args.hostid, "device": args.device}
            chosen = {name: value for name, value in flags.items() if value is not None}
            starts.append((place, base.with_options(chosen)))
    except HostFileError as error:
        raise CliError(f"cannot use the host files:\n{error}") from None
    return starts


# ---- logs ----


async def _read_all(args: argparse.Namespace, starts: list[Start], *, single: bool) -> int:
    logs: list[FoundLog] = []
    for place, options in starts:
        async with aclosing(discover_all(place, options, depth=args.depth)) as found:
            async for log in found:
                if single and log.depth == 0 and log.error is not None:
                    raise log.error
                logs.append(log)
                if args.output_format != "json":
                    _print_log(log)
    if args.raw:
        args.raw.write_bytes(logs[0].raw)
    if args.output_format == "json":
        shown = [_json_log(log) for log in logs]
        if single:
            first, *others = shown
            print_json(
                {"genctr": first["genctr"], "records": first["records"], "referrals": others}
            )
        else:
            print_json({"logs": shown})
    failed = any(log.error is not None and log.depth == 0 for log in logs)
    return EXIT_FAILED if failed else EXIT_OK


def _json_log(log: FoundLog) -> dict[str, object]:
    place = log.place
    fields: dict[str, object] = {
        "traddr": place.traddr,
        "trsvcid": place.trsvcid,
        "subnqn": place.subnqn,
        "depth": log.depth,
    }
    if log.error is not None:
        return fields | {"error": str(log.error)}
    return fields | {
        "genctr": log.header.genctr,
        "records": [record(entry) for entry in log.entries],
    }


def _print_log(log: FoundLog) -> None:
    if log.error is not None:
        print(f"{log.place.endpoint}: {printable(str(log.error))}", file=sys.stderr)
        return
    if log.depth:
        print()
    count = f"{len(log.entries)} record{'' if len(log.entries) == 1 else 's'}"
    generation = f"generation counter {log.header.genctr}"
    print(f"Discovery log of {log.place.endpoint}: {count}, {generation}")
    for index, entry in enumerate(log.entries):
        print(f"===== Discovery Log Entry {index} =====")
        print_fields(record(entry))


# ---- changes ----


async def _watch_all(args: argparse.Namespace, starts: list[Start]) -> int:
    ended = await asyncio.gather(*(_watch(args, *start) for start in starts))
    return max(ended)


async def _watch(args: argparse.Namespace, place: TransportId, options: ConnectOptions) -> int:
    try:
        async with watch(place, options, subnqn=place.subnqn) as changes:
            first = True
            async for change in changes:
                _print_change(args, place, change, first=first)
                first = False
    except (EngineError, StatusError, ConnectionLost) as error:
        print(f"{args.parser.prog}: {place.endpoint}: {printable(str(error))}", file=sys.stderr)
        if args.output_format == "json":
            Failures.as_json = False
            where = {"traddr": place.traddr, "trsvcid": place.trsvcid}
            print(json.dumps({**where, "error": str(error), "status": EXIT_FAILED}), flush=True)
    return EXIT_FAILED


def _print_change(
    args: argparse.Namespace, place: TransportId, change: Change, *, first: bool
) -> None:
    if args.output_format == "json":  # one document per line
        fields = {
            "traddr": place.traddr,
            "trsvcid": place.trsvcid,
            "genctr": change.header.genctr,
            "records": len(change.entries),
            "added": [record(entry) for entry in change.added],
            "removed": [record(entry) for entry in change.removed],
        }
        print(json.dumps(plain(fields)), flush=True)
        return
    if first:
        _print_log(FoundLog(place, 0, change.header, change.entries))
    else:
        print(f"Discovery log of {place.endpoint}: generation counter {change.header.genctr}")
        for sign, entries in (("-", change.removed), ("+", change.added)):
            for entry in entries:
                print(f"{sign} {line(entry)}")
    sys.stdout.flush()


# ---- announcements ----


async def _announced(args: argparse.Namespace) -> int:
    from nvmf.initiator.discovery.mdns import MdnsError, browse

    try:
        found = await browse(args.wait)
    except MdnsError as error:
        raise CliError(str(error)) from None
    if args.output_format == "json":
        print_json({"services": found})
        return EXIT_OK
    if not found:
        print(f"no discovery service found within {args.wait:g} s", file=sys.stderr)
        return EXIT_OK
    print_table(
        ("protocol", "traddr", "trsvcid", "nqn", "name"),
        [(s.protocol, s.traddr, s.trsvcid, s.nqn, s.name) for s in found],
    )
    return EXIT_OK
