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
)
from nvmf.initiator.connecting.bykernel import (
    ByKernel,
    ReadLog,
    connect_found_by_kernel,
    start_of,
)
from nvmf.initiator.connecting.everything import Outcome, Start
from nvmf.initiator.discovery.log import raw_log as log_by_client
from nvmf.initiator.hostfiles import HostFileError, configured
from nvmf.initiator.kernel.discovery import raw_log
from nvmf.initiator.kernel.host import Connected
from nvmf.initiator.kernel.options import FabricsOptions
from nvmf.initiator.kernel.system import System


def add_commands(subparsers: Subparsers) -> None:
    """Add connect-all."""
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
    read_log: ReadLog = lambda options, most: raw_log(options, system, most)  # noqa: E731
    if args.device != "kernel":
        read_log = lambda options, most: _by_client(options, args.device, most)  # noqa: E731
    starts = _wanted(args, system)
    outcomes = list(connect_found_by_kernel(starts, ByKernel(read_log, system)))
    if not all(outcome.place.is_discovery for outcome in outcomes):
        _print(outcomes, args.output_format == "json")
    failed = [str(outcome.error) for outcome in outcomes if outcome.error]
    if failed:
        raise CliError("; ".join(failed))
    missing = [o for o in outcomes if o.controller and o.controller.missing]
    return EXIT_FAILED if missing else EXIT_OK


def _wanted(args: argparse.Namespace, system: System) -> list[Start[FabricsOptions]]:
    """Return the controllers to connect."""
    if args.url is not None or args.traddr is not None:
        options = fabrics_options(args, where_of(args, need_nqn=False))
        return [start_of(options, discovery=True)]
    warn_of_names(args.hostnqn)
    try:
        endpoints = [one for one in configured(folder=system.etc) if one.transport == "rdma"]
        if not endpoints:
            raise UsageError(
                f"specify the target: a URL, or -a ADDRESS; no RDMA controller in {system.etc}"
            )
        return [start_of(endpoint_options(args, one), discovery=one.discovery) for one in endpoints]
    except HostFileError as error:
        raise CliError(str(error)) from None


def _by_client(
    options: FabricsOptions, device: Literal["auto", "iwarp", "roce", "system"], most: int
) -> bytes:
    """Read the discovery log with the client in this process."""
    wanted = ConnectOptions(
        kato=0,
        device=device,
        hostnqn=options.hostnqn,
        hostid=options.hostid,
        host_traddr=options.host_traddr,
    )
    place = TransportId(options.traddr, options.trsvcid, options.nqn)
    try:
        return asyncio.run(log_by_client(place, wanted, most))
    except (EngineError, NvmeError, ConnectionLost) as error:
        raise KernelError(str(error)) from None


def _print(outcomes: list[Outcome[Connected]], as_json: bool) -> None:
    devices = {o.place: o.controller.controller.name for o in outcomes if o.controller}
    if as_json:
        print_json([_fields(outcome, devices.get(outcome.place)) for outcome in outcomes])
        return
    rows = [
        (o.place.subnqn, o.place.traddr, o.place.trsvcid, devices.get(o.place, "-"), _result(o))
        for o in outcomes
    ]
    print_table(("NQN", "Address", "Port", "Device", "Result"), rows)
    blocks = [block for o in outcomes if o.controller for block in o.controller.namespaces]
    if blocks:
        print()
        print_blocks(blocks)


def _result(outcome: Outcome[Connected]) -> str:
    if outcome.error:
        return "failed"
    return "already connected" if outcome.skipped else "connected"


def _fields(outcome: Outcome[Connected], device: str | None) -> dict[str, object]:
    fields: dict[str, object] = {
        "subsysnqn": outcome.place.subnqn,
        "traddr": outcome.place.traddr,
        "trsvcid": outcome.place.trsvcid,
        "result": _result(outcome),
        "device": device,
        "error": str(outcome.error) if outcome.error else None,
    }
    if outcome.controller and not outcome.skipped:
        fields |= connected_fields(outcome.controller)
    return fields
