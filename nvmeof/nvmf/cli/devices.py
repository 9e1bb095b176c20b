# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof devices`: lists RDMA devices, and reports their addition and removal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, add_command
from nvmf.cli.common import run_async
from nvmf.cli.output import plain, print_fields, print_json
from nvmf.doctor.machine import Machine
from nvmf.doctor.roce import UDP_PORT, Holder, holders
from nvmf.rdma.inventory import EMBEDDED, Inventory, inventory


def add_commands(subparsers: Subparsers) -> None:
    """Add devices."""
    parser = add_command(
        subparsers,
        "devices",
        devices,
        "list RDMA devices with their ports, GIDs and capabilities",
        "The embedded devices, iwarp0 and roce0, are always present. The others are those of the\n"
        "kernel, as listed by pyverbs; if there are none, the reason is printed on stderr. For\n"
        "each address whose UDP port 4791 is in use, which RoCEv2 needs, the processes that have\n"
        "it are listed with their role: target, host or verbs program.",
        examples=("nvmeof devices", "nvmeof devices --watch -o json"),
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="keep running, and print device changes (with -o json, one object per line)",
    )


def devices(args: argparse.Namespace) -> int:
    """List the devices, and watch them if requested."""
    found = inventory()
    held = holders(Machine())
    if args.output_format == "json" and not args.watch:
        print_json(_listed(found, held))
    elif args.output_format == "json":
        _event_line({"event": "list", **_listed(found, held)})
    else:
        _print(found, held)
    if args.watch:
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
            return run_async(_watch(args.output_format == "json"))
    return EXIT_OK


def _listed(found: Inventory, held: list[Holder]) -> dict[str, object]:
    return {**plain(found), f"udp_{UDP_PORT}": plain(held)}


def _print(found: Inventory, held: list[Holder]) -> None:
    for device in found.devices:
        print(f"{device.name}  ({device.transport}, {_kind(device.kind)})")
        facts: dict[str, object] = {"firmware": device.fw_ver, "vendor": f"{device.vendor_id:#x}"}
        print_fields({**facts, **device.limits}, "  ")
        for port in device.ports:
            mtu = f"MTU {port.active_mtu} of {port.max_mtu}"
            print(f"  port {port.port}: {port.state}, {port.link_layer}, {mtu}")
            for gid in port.gids:
                print(f"    GID {gid.index}: {gid.gid} {gid.type}".rstrip())
    for holder in held:
        who = str(holder) if holder.processes else "the kernel (rxe), or processes not visible here"
        print(f"UDP port {UDP_PORT} of {holder.address}: {who}")
    for note in found.notes:
        print(note, file=sys.stderr)


def _kind(kind: str) -> str:
    return "embedded" if kind in EMBEDDED else "system"


def _event_line(event: object) -> None:
    print(json.dumps(event), flush=True)


async def _watch(as_json: bool) -> int:
    from nvmf.rdma.hotplug import Hotplug, HotplugError

    try:
        with Hotplug() as monitor:
            if not as_json:
                print("watching for RDMA devices", flush=True)
            async for event in monitor:
                if as_json:
                    _event_line({"event": event.action, "name": event.name})
                else:
                    print(f"{event.action} {event.name}", flush=True)
                if event.action in ("add", "remove"):
                    # Ports and GIDs appear shortly after the device.
                    await asyncio.sleep(0.5)
                    found = await asyncio.to_thread(inventory)
                    if as_json:
                        _event_line({"event": "list", **_listed(found, holders(Machine()))})
                    else:
                        _print(found, holders(Machine()))
    except HotplugError as error:
        raise CliError(f"cannot watch devices: {error}") from None
    return EXIT_OK
