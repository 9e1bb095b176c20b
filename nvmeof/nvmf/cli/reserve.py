# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof resv-register`, `resv-acquire`, `resv-release`, `resv-report`: reservations."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import Any

from nvmf.cli.base import (
    EXIT_OK,
    Subparsers,
    UsageError,
    add_command,
    count_argument,
    number_argument,
)
from nvmf.cli.common import (
    ONE_QUEUE,
    add_target_arguments,
    as_nvme_cli,
    options_of,
    run_async,
    where_of,
    with_url,
)
from nvmf.cli.human import add_raw, check_raw, write_raw
from nvmf.cli.identify import EXAMPLE, add_namespace_argument
from nvmf.cli.output import print_json, print_table
from nvmf.initiator import connect
from nvmf.initiator.base.reservations import Reservations
from nvmf.spec.reservations import ReservationStatus, ReservationType

_TYPES = ", ".join(f"{int(kind)} {kind.name.replace('_', ' ').lower()}" for kind in ReservationType)
_NOTE = (
    "The registration belongs to this host, by its host ID (-I), and stays after the command has "
    "ended."
)
_SHORT = "\nWith a URL, -t is --rtype and -a {}, as in nvme-cli."
_ACTIONS = {"resv-acquire": "--racqa", "resv-release": "--rrela"}
_MOST_TYPE = max(ReservationType)
_HEAD_DWORDS = 16
_MOST_DWORDS = (256 << 10) // 4
"""Dwords of a report: at least the head, at most what the client transfers at once."""
_KEYS = {
    "crkey": "the current key of this host",
    "nrkey": "the new key",
    "prkey": "the key of the registrants to preempt",
}
_REGISTER_KEYS = (("nrkey",), ("crkey",), ("crkey", "nrkey"))
"""Required keys of register, unregister and replace."""
_EXAMPLES = {
    "resv-register": ("--nrkey 0x11", "--rrega 1 --crkey 0x11"),
    "resv-acquire": ("--crkey 0x11 --rtype 1", "--racqa 1 --crkey 0x11 --prkey 0x22 --rtype 1"),
    "resv-release": ("--crkey 0x11 --rtype 1", "--rrela 1 --crkey 0x11"),
    "resv-report": ("--namespace-id 1",),
}
"""Required options of each command, and further examples."""


def add_commands(subparsers: Subparsers) -> None:
    """Add resv-register, resv-acquire, resv-release and resv-report."""
    parser = _add(subparsers, "resv-register", register, "register this host's reservation key")
    _key(parser, "crkey", "-c")
    _key(parser, "nrkey", "-k")
    _number(parser, 2, "0 register (default), 1 unregister, 2 replace", "-r", "--rrega")
    _number(
        parser,
        3,
        "2: does not persist across a restart of the target, 3: persists",
        "-p",
        "--cptpl",
    )
    parser.add_argument(
        "-i", "--iekey", action="store_true", help="ignore the current key of this host"
    )
    _finish(parser)
    parser = _add(subparsers, "resv-acquire", acquire, "reserve a namespace, or preempt a holder")
    _key(parser, "crkey", "-c")
    _key(parser, "prkey", "-p")
    parser.add_argument("--rtype", metavar="TYPE", type=number_argument, default=0, help=_TYPES)
    _number(parser, 2, "0 acquire (default), 1 preempt, 2 preempt and abort", "--racqa")
    _finish(parser)
    with_url(parser, transport=("rtype", _MOST_TYPE), traddr=("racqa", 2))
    parser = _add(subparsers, "resv-release", release, "release a reservation, or clear all")
    _key(parser, "crkey", "-c")
    parser.add_argument("--rtype", metavar="TYPE", type=number_argument, default=0, help=_TYPES)
    _number(parser, 1, "0 release (default), 1 clear", "--rrela")
    _finish(parser)
    with_url(parser, transport=("rtype", _MOST_TYPE), traddr=("rrela", 1))
    parser = _add(
        subparsers, "resv-report", report, "show the reservation and the registered hosts"
    )
    parser.add_argument(
        "-d",
        "--numd",
        metavar="N",
        type=count_argument,
        help="dwords to transfer, 16 for the reservation and 16 for each host (default: as many as "
        "there are)",
    )
    parser.add_argument(
        "-e",
        "--eds",
        action="store_true",
        help="accepted as by nvme-cli; the extended data structure is always requested, because "
        "host identifiers over fabrics have 128 bits",
    )
    add_raw(parser)
    _finish(parser)


def _add(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    more = "" if name == "resv-report" else _NOTE
    if name in _ACTIONS:
        more += _SHORT.format(_ACTIONS[name])
    examples = [EXAMPLE.format(f"{name} {words}") for words in _EXAMPLES[name]]
    return add_command(subparsers, name, run, summary, more, examples=examples)


def _key(parser: argparse.ArgumentParser, flag: str, short: str) -> None:
    what = f"{_KEYS[flag]} (64 bits, not 0)"
    parser.add_argument(short, f"--{flag}", metavar="KEY", type=_key_argument, help=what)


def _key_argument(text: str) -> int:
    """Parse a reservation key, which is not 0 (Base 2.0, 8.19); for argparse."""
    value = number_argument(text)
    if not 0 < value < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is not a key: expected 1 to 0xffffffffffffffff")
    return value


def _number(parser: argparse.ArgumentParser, most: int, what: str, *flags: str) -> None:
    parser.add_argument(
        *flags, metavar="N", type=int, choices=range(most + 1), default=0, help=what
    )


def _finish(parser: argparse.ArgumentParser) -> None:
    add_namespace_argument(parser)
    add_target_arguments(parser, reserved=True, **ONE_QUEUE)


def _type(value: int) -> ReservationType:
    try:
        return ReservationType(value)
    except ValueError:
        raise UsageError(f"--rtype must be one of {_TYPES}, not {value}") from None


def _need(args: argparse.Namespace, *flags: str) -> None:
    """Raise UsageError if one of these keys is missing; --iekey replaces --crkey."""
    known = {"crkey"} if getattr(args, "iekey", False) else set()
    for flag in flags:
        if getattr(args, flag) is None and flag not in known:
            other = "; or use --iekey" if flag == "crkey" and "iekey" in args else ""
            raise UsageError(f"specify --{flag}, {_KEYS[flag]}{other}")


def register(args: argparse.Namespace) -> int:
    """Execute Reservation Register."""
    if args.cptpl == 1:
        raise UsageError("--cptpl must be 0 (unchanged), 2 or 3")
    _need(args, *_REGISTER_KEYS[args.rrega])
    persist = {0: None, 2: False, 3: True}[args.cptpl]

    async def work(reservations: Reservations) -> None:
        if args.rrega == 1:
            await reservations.unregister(args.crkey or 0, ignore_existing=args.iekey)
            return
        await reservations.register(
            args.nrkey,
            current=(args.crkey or 0) if args.rrega == 2 else None,
            ignore_existing=args.iekey and args.rrega == 2,
            persist=persist,
        )

    return run_async(_with(args, work, "registered" if args.rrega != 1 else "unregistered"))


def acquire(args: argparse.Namespace) -> int:
    """Execute Reservation Acquire."""
    as_nvme_cli(args)
    rtype = _type(args.rtype)
    _need(args, "crkey")

    async def work(reservations: Reservations) -> None:
        if args.racqa:
            abort = args.racqa == 2
            await reservations.preempt(args.crkey, rtype, args.prkey or 0, abort=abort)
        else:
            await reservations.acquire(args.crkey, rtype)

    return run_async(_with(args, work, "preempted" if args.racqa else "acquired"))


def release(args: argparse.Namespace) -> int:
    """Execute Reservation Release."""
    as_nvme_cli(args)
    rtype = _type(args.rtype) if not args.rrela else None
    _need(args, "crkey")

    async def work(reservations: Reservations) -> None:
        if rtype is None:
            await reservations.clear(args.crkey)
        else:
            await reservations.release(args.crkey, rtype)

    return run_async(_with(args, work, "cleared" if args.rrela else "released"))


def report(args: argparse.Namespace) -> int:
    """Execute Reservation Report."""
    check_raw(args)
    if args.numd is not None and not _HEAD_DWORDS <= args.numd <= _MOST_DWORDS:
        raise UsageError(f"--numd must be {_HEAD_DWORDS} to {_MOST_DWORDS}, not {args.numd}")

    async def work(reservations: Reservations) -> None:
        data = await reservations.report_data(None if args.numd is None else 4 * args.numd)
        if args.raw_binary:
            write_raw(data)
            return
        found = ReservationStatus.decode(data)
        if args.output_format == "json":
            entries = [
                {
                    "cntlid": entry.cntlid,
                    "rcsts": entry.rcsts,
                    "rkey": entry.rkey,
                    "hostid": entry.hostid,
                }
                for entry in found.registrants
            ]
            head = {"gen": found.gen, "rtype": found.rtype, "ptpls": found.ptpls}
            print_json({**head, "regctl": len(entries), "regctlext": entries})
            return
        kind = _type_name(found.rtype)
        lasting = "persists across restarts" if found.ptpls else "ends with the target"
        print(f"reservation: {kind.replace('_', ' ').lower()}, {lasting}; generation {found.gen}")
        rows = [
            (
                "-" if entry.cntlid == 0xFFFF else str(entry.cntlid),
                "holder" if entry.rcsts & 1 else "",
                f"{entry.rkey:#x}",
                entry.hostid.hex(),
            )
            for entry in found.registrants
        ]
        if rows:
            print_table(("Controller", "", "Key", "Host ID"), rows)

    return run_async(_with(args, work, ""))


def _type_name(rtype: int) -> str:
    """Return the name of a reservation type, or its number if it has none."""
    try:
        return ReservationType(rtype).name if rtype else "none"
    except ValueError:
        return f"type {rtype}"


async def _with(args: argparse.Namespace, work: Any, done: str) -> int:
    place = where_of(args)
    async with connect(place, options_of(args, place, **ONE_QUEUE)) as controller:
        coroutine: Coroutine[object, None, None] = work(
            controller.namespace(args.namespace_id).reservations
        )
        await coroutine
    if done and args.output_format == "json":
        print_json({"nsid": args.namespace_id, "result": done})
    elif done:
        print(f"namespace {args.namespace_id}: {done}")
    return EXIT_OK
