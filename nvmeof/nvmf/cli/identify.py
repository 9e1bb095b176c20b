# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof id-ctrl`, `id-ns`, `list-ns`: Identify data of a controller and its namespaces."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, add_command, nsid_argument, number_argument
from nvmf.cli.common import (
    ONE_QUEUE,
    add_target_arguments,
    as_nvme_cli,
    options_of,
    run_async,
    where_of,
    with_url,
)
from nvmf.cli.human import (
    CONTROLLER,
    NAMESPACE,
    Fields,
    add_human,
    add_raw,
    check_raw,
    print_bits,
    write_raw,
)
from nvmf.cli.output import counted, plain, print_fields, print_json, print_table, size_text
from nvmf.initiator import Controller, Namespace, connect
from nvmf.initiator.base.nsidlist import NsidList
from nvmf.spec.identify import PowerState
from nvmf.spec.opcodes import Cns

EXAMPLE = "nvmeof {} -a 192.0.2.1 -n nqn.2026-01.example:disk"


_CTRL_HEX = {
    "vid", "ssvid", "cmic", "cntlid", "ver", "rtd3r", "rtd3e", "oaes", "ctratt", "rrls",
    "oacs", "frmw", "lpa", "avscc", "apsta", "rpmbs", "hctma", "sanicap", "sqes", "cqes",
    "oncs", "fuses", "fna", "vwc", "sgls", "fcatt",
}  # fmt: skip
_NS_HEX = {
    "nsze", "ncap", "nuse", "nsfeat", "flbas", "mc", "dpc", "dps", "nmic", "rescap", "fpi",
}  # fmt: skip
"""Fields that nvme-cli prints in hexadecimal."""


def add_commands(subparsers: Subparsers) -> None:
    """Add id-ctrl, id-ns and list-ns."""
    parser = add_command(
        subparsers,
        "id-ctrl",
        id_ctrl,
        "show Identify Controller data",
        examples=(EXAMPLE.format("id-ctrl -H"), EXAMPLE.format("id-ctrl -o json")),
    )
    add_human(parser)
    add_raw(parser)
    add_target_arguments(parser, **ONE_QUEUE)
    parser = add_command(
        subparsers,
        "id-ns",
        id_ns,
        "show Identify Namespace data of a namespace",
        examples=(EXAMPLE.format("id-ns --namespace-id 1"),),
    )
    add_namespace_argument(parser)
    add_human(parser)
    add_raw(parser)
    add_target_arguments(parser, **ONE_QUEUE)
    parser = add_command(
        subparsers,
        "list-ns",
        list_ns,
        "list the active namespaces",
        examples=(
            EXAMPLE.format("list-ns"),
            "nvmeof list-ns nvme+rdma://192.0.2.1:4420/nqn.2026-01.example:disk",
        ),
    )
    parser.add_argument(
        "-N",
        "--namespace-id",
        metavar="NSID",
        type=nsid_argument,
        default=0,
        help="begin with this namespace (default: the first); with a URL also -n, as in nvme-cli",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="list the allocated namespaces, attached to the controller or not; with a URL also "
        "-a, as in nvme-cli",
    )
    parser.add_argument(
        "-y",
        "--csi",
        metavar="N",
        type=number_argument,
        help="only namespaces of this command set: 0 NVM, 1 key value, 2 zoned",
    )
    add_target_arguments(parser, **ONE_QUEUE)
    with_url(parser, traddr=("all", None))


def add_namespace_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option for the NSID (nvme-cli's -n is the NQN with -a, and the NSID with a URL)."""
    parser.add_argument(
        "-N",
        "--namespace-id",
        metavar="NSID",
        type=nsid_argument,
        default=1,
        help="namespace identifier (default: 1); with a URL also -n, as in nvme-cli",
    )


def add_start_argument(parser: argparse.ArgumentParser) -> None:
    """Add -b, the start of a range of blocks."""
    parser.add_argument(
        "-b",
        "--start-block",
        metavar="LBA",
        type=number_argument,
        default=0,
        help="first logical block (default: 0)",
    )


def add_fua(parser: argparse.ArgumentParser, what: str) -> None:
    """Add -f, nvme-cli's --force-unit-access."""
    parser.add_argument(
        "-f",
        "--force-unit-access",
        action="store_true",
        help=f"set Force Unit Access (FUA) in {what}",
    )


def to_move(controller: Controller, nsid: int) -> Namespace:
    """Return a namespace for data transfer; raise CliError if its format is not supported."""
    namespace = controller.namespace(nsid)
    try:
        namespace.block_size  # noqa: B018
    except ValueError as error:
        raise CliError(str(error)) from None
    return namespace


def room_from(namespace: Namespace, lba: int, size: int | None = None) -> int:
    """Return the bytes from a block to the end; raise CliError if none, or fewer than size."""
    blocks = max(namespace.blocks - lba, 0)
    room = blocks * namespace.block_size
    if lba > namespace.blocks or (size is None and not room) or (size or 0) > room:
        raise CliError(
            f"namespace {namespace.nsid} has {namespace.blocks} blocks of {namespace.block_size} "
            f"bytes: only {counted(blocks, 'block')} ({room} bytes) from block {lba} to the end"
        )
    return room


def id_ctrl(args: argparse.Namespace) -> int:
    """Execute Identify Controller."""

    check_raw(args)

    async def run(controller: Controller) -> int:
        if args.raw_binary:
            write_raw(await controller.identify_data(Cns.CONTROLLER))
            return EXIT_OK
        fields = {"nvme": str(controller.version), **plain(controller.identify)}
        fields["ieee"] = controller.identify.ieee[
            ::-1
        ].hex()  # the OUI is stored in reverse byte order
        power = PowerState.decode(bytes.fromhex(fields.pop("psd0")))
        if args.output_format == "json":
            print_json({**fields, "psds": [power]})
            return EXIT_OK
        _print(args, fields, _CTRL_HEX, CONTROLLER)
        print(
            f"ps 0 : mp:{power.watts:.2f}W {'non-' if power.flags & 2 else ''}operational "
            f"enlat:{power.enlat} exlat:{power.exlat} rrt:{power.rrt} rrl:{power.rrl} "
            f"rwt:{power.rwt} rwl:{power.rwl}"
        )
        return EXIT_OK

    return run_async(_with_controller(args, run))


def id_ns(args: argparse.Namespace) -> int:
    """Execute Identify Namespace."""

    check_raw(args)

    async def run(controller: Controller) -> int:
        namespace = controller.namespace(args.namespace_id)
        if args.raw_binary:
            write_raw(await controller.identify_data(Cns.NAMESPACE, namespace.nsid))
            return EXIT_OK
        fields = namespace_fields(namespace)
        if args.output_format == "json":
            print_json(fields)
            return EXIT_OK
        print(f"namespace {namespace.nsid}: {size_text(namespace.info.size)}")
        formats = fields.pop("lbafs")
        _print(args, fields, _NS_HEX, NAMESPACE)
        for index, one in enumerate(formats):
            used = " (in use)" if one["in_use"] else ""
            print(f"lbaf {index:2} : ms:{one['ms']} lbads:{one['lbads']} rp:{one['rp']}{used}")
        return EXIT_OK

    return run_async(_with_controller(args, run))


def list_ns(args: argparse.Namespace) -> int:
    """List the active namespaces, or all."""
    as_nvme_cli(args)

    async def run(controller: Controller) -> int:
        namespaces = [n for n in controller.namespaces if n.nsid >= args.namespace_id]
        if args.csi is not None:
            namespaces = [n for n in namespaces if (n.ids.csi or 0) == args.csi]
        inactive: list[int] = []
        if args.all:
            active = {n.nsid for n in controller.namespaces}
            allocated = await _allocated(controller, args.csi)
            inactive = [n for n in allocated if n >= args.namespace_id and n not in active]
        if args.output_format == "json":
            entries = [
                {
                    "nsid": n.nsid,
                    "blocks": n.blocks,
                    "block_size": n.info.block_size,
                    "size": n.info.size,
                    "uuid": n.ids.uuid,
                }
                for n in namespaces
            ]
            print_json({"nsid_list": [*entries, *({"nsid": n, "active": False} for n in inactive)]})
        else:
            rows: list[tuple[object, ...]] = [
                (n.nsid, n.blocks, n.info.block_size, size_text(n.info.size), n.ids.uuid or "-")
                for n in namespaces
            ]
            rows += [(n, "-", "-", "-", "not attached to the controller") for n in inactive]
            print_table(("NSID", "Blocks", "Block", "Size", "UUID"), rows)
        return EXIT_OK

    return run_async(_with_controller(args, run))


async def _allocated(controller: Controller, csi: int | None) -> list[int]:
    """Return the NSIDs that exist in the subsystem, attached to the controller or not."""
    cns = Cns.ALLOCATED_NAMESPACES if csi is None else Cns.CSI_ALLOCATED_NAMESPACES
    listed = NsidList()
    while not listed.complete:
        listed.add(await controller.identify_data(cns, listed.after, csi=csi or 0))
    return listed.nsids


def namespace_fields(namespace: Namespace) -> dict[str, Any]:
    """Return the fields of Identify Namespace, its identifiers, and the format in use."""
    info = namespace.info
    fields: dict[str, object] = {
        field.name: plain(getattr(info, field.name)) for field in dataclasses.fields(info)
    }
    fields["lbafs"] = [
        {"ms": ms, "lbads": lbads, "rp": rp & 3, "in_use": index == info.format_index}
        for index, (ms, lbads, rp) in enumerate(info.formats)
    ]
    fields["uuid"] = str(namespace.ids.uuid) if namespace.ids.uuid else None
    fields["csi"] = namespace.ids.csi
    fields["block_size"] = info.block_size
    fields["metadata_size"] = info.metadata_size
    return fields


def _print(
    args: argparse.Namespace,
    fields: dict[str, object],
    hexed: set[str],
    known: Mapping[str, Fields],
) -> None:
    """Print the fields; with -H, the bit fields of those known below each."""
    shown = _hexed(fields, hexed)
    if not args.human_readable:
        print_fields(shown)
        return
    width = max(map(len, shown))
    for name, value in shown.items():
        print_fields({name.ljust(width): value})
        number = fields[name]
        if name in known and isinstance(number, int):
            print_bits(number, known[name])


def _hexed(fields: dict[str, object], names: set[str]) -> dict[str, object]:
    """Return the fields, with the named ones in hexadecimal."""
    return {name: f"{value:#x}" if name in names else value for name, value in fields.items()}


async def _with_controller(
    args: argparse.Namespace, work: Callable[[Controller], Coroutine[object, None, int]]
) -> int:
    place = where_of(args)
    options = options_of(args, place, **ONE_QUEUE)
    async with connect(place, options) as controller:
        coroutine: Coroutine[object, None, int] = work(controller)
        return await coroutine
