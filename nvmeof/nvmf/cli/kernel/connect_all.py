# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect-all`: connects the kernel to every subsystem found by discovery."""

from __future__ import annotations

import argparse
import asyncio
from typing import Literal

from nvmf.cli.base import (
    EXIT_FAILED,
    EXIT_OK,
    CliError,
    Subparsers,
    UsageError,
    add_command,
    warn_of_names,
)
from nvmf.cli.common import where_of
from nvmf.cli.kernel.arguments import (
    NO_BACKEND,
    add_connect_arguments,
    endpoint_options,
    fabrics_options,
)
from nvmf.cli.kernel.connect import add_where_arguments
from nvmf.cli.kernel.words import connected_fields, print_blocks
from nvmf.cli.output import print_json, print_table
from nvmf.engine import EngineError
from nvmf.initiator import (
    ConnectionLost,
    ConnectOptions,
    KernelError,
    NvmeError,
    TransportId,
    discover,
)
from nvmf.initiator.hostfiles import HostFileError, configured
from nvmf.initiator.kernel.discovery import discovery_log
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.records import ConnectRecords, ReadLog, RecordOutcome
from nvmf.initiator.kernel.system import System
from nvmf.spec.fabrics import DiscoveryEntry


def add_commands(subparsers: Subparsers) -> None:
    """connect-all."""
    parser = add_command(
        subparsers,
        "connect-all",
        connect_all,
        "connect the kernel to all subsystems that a port offers, following referrals",
        "Without an address, the controllers in /etc/nvme are used: nvme-fabrics.conf, or\n"
        "config.json and discovery.conf.  Existing connections stay unchanged.  Root is required.\n"
        f"{NO_BACKEND}",
        examples=("sudo nvmeof connect-all -t rdma -a 192.0.2.1", "sudo nvmeof connect-all"),
    )
    add_where_arguments(parser)
    add_connect_arguments(parser)
    parser.add_argument(
        "--device",
        choices=("kernel", "iwarp", "roce", "system", "auto"),
        default="kernel",
        help="reader of the discovery log: the kernel, or the client with one of its devices "
        "(default: kernel)",
    )


def connect_all(args: argparse.Namespace) -> int:
    """Discover, connect, and print the result."""
    system = System()
    read_log: ReadLog = lambda options: discovery_log(options, system)  # noqa: E731
    if args.device != "kernel":
        read_log = lambda options: _by_client(options, args.device)  # noqa: E731
    work = ConnectRecords(read_log, system)
    failed: list[KernelError] = []
    for options, is_port in _wanted(args, system):
        try:
            if is_port:
                work.run(options)
            else:
                work.one(options)
        except KernelError as error:
            failed.append(error)
    if failed and not work.outcomes:
        raise CliError("; ".join(str(error) for error in failed))
    _print(work.outcomes, args.output_format == "json")
    failed += [outcome.error for outcome in work.outcomes if outcome.error]
    if failed:
        raise CliError("; ".join(str(error) for error in failed))
    missing = [o for o in work.outcomes if o.connected and o.connected.missing]
    return EXIT_FAILED if missing else EXIT_OK


def _wanted(args: argparse.Namespace, system: System) -> list[tuple[FabricsOptions, bool]]:
    """Return the controllers to connect, and whether each is a discovery controller."""
    if args.url is not None or args.traddr is not None:
        return [(fabrics_options(args, where_of(args, need_nqn=False)), True)]
    warn_of_names(args.hostnqn)
    try:
        endpoints = [one for one in configured(folder=system.etc) if one.transport == "rdma"]
        if not endpoints:
            raise UsageError(
                f"specify the target: a URL, or -a ADDRESS; no RDMA controller in {system.etc}"
            )
        return [(endpoint_options(args, one), one.discovery) for one in endpoints]
    except HostFileError as error:
        raise CliError(str(error)) from None


def _by_client(
    options: FabricsOptions, device: Literal["auto", "iwarp", "roce", "system"]
) -> list[DiscoveryEntry]:
    """Read the discovery log with the client in this process."""
    wanted = ConnectOptions(
        kato=0,
        device=device,
        hostnqn=options.hostnqn,
        hostid=options.hostid,
        host_traddr=options.host_traddr,
    )
    place = TransportId(options.traddr, options.trsvcid)
    try:
        return asyncio.run(discover(place, wanted))
    except (EngineError, NvmeError, ConnectionLost) as error:
        raise KernelError(str(error)) from None


def _print(outcomes: list[RecordOutcome], as_json: bool) -> None:
    if as_json:
        print_json([_fields(outcome) for outcome in outcomes])
        return
    rows = [
        (o.options.nqn, o.options.traddr, o.options.trsvcid, o.device or "-", o.result.value)
        for o in outcomes
    ]
    print_table(("NQN", "Address", "Port", "Device", "Result"), rows)
    blocks = [block for o in outcomes if o.connected for block in o.connected.namespaces]
    if blocks:
        print()
        print_blocks(blocks)


def _fields(outcome: RecordOutcome) -> dict[str, object]:
    fields: dict[str, object] = {
        "subsysnqn": outcome.options.nqn,
        "traddr": outcome.options.traddr,
        "trsvcid": outcome.options.trsvcid,
        "result": outcome.result.value,
        "device": outcome.device,
        "error": str(outcome.error) if outcome.error else None,
    }
    if outcome.connected:
        fields |= connected_fields(outcome.connected)
    return fields
