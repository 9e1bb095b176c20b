# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof get-feature`, `set-feature`, `show-regs`: features and properties of a controller."""

from __future__ import annotations

import argparse

from nvmf.cli.admin import add_admin_command, on_controller
from nvmf.cli.base import CliError, Command, Subparsers, UsageError, nsid_argument, number_argument
from nvmf.cli.common import as_nvme_cli, with_url
from nvmf.cli.datafile import open_data, take_data
from nvmf.cli.human import (
    FEATURES,
    add_human,
    add_human_always,
    add_raw,
    check_raw,
    print_bits,
    write_raw,
)
from nvmf.cli.output import plain, print_fields, print_json
from nvmf.initiator import Controller, NvmeError
from nvmf.initiator.client.admin import Admin
from nvmf.spec.opcodes import FEATURE_DATA, FeatureId
from nvmf.spec.properties import Cap, Cc, Csts, Property, Version

_SELECTS = ("current", "default", "saved", "supported capabilities")
_SUPPORTED = 3
_RAW = "\n-b writes the data structure of a feature that has one, and else the value, in 4 bytes."
_LONGEST = 4096
"""Maximum bytes of a feature's data structure."""
_EXHID = 1
"""Dword 11 of the Host Identifier: 16 bytes, as all fabrics have it."""


def add_commands(subparsers: Subparsers) -> None:
    """Add the commands."""
    known = ", ".join(f"{int(one):#x} {one.name.lower().replace('_', ' ')}" for one in FeatureId)
    for name, run, summary, flags in (
        ("get-feature", get, "show the value of a feature", "-f 0x07"),
        ("set-feature", put, "set a feature for this connection", "-f 0x84 --value 1 -N 1"),
    ):
        parser = add_admin_command(
            subparsers,
            name,
            run,
            summary,
            f"Values of a feature that belongs to a controller last as long as the connection of "
            f"this\ncommand. Features: {known}.{_RAW if run is get else ''}",
            flags=flags,
        )
        parser.add_argument(
            "-f", "--feature-id", metavar="FID", type=number_argument, required=True, help="feature"
        )
        parser.add_argument(
            "-N",
            "--namespace-id",
            metavar="NSID",
            type=nsid_argument,
            default=0,
            help="namespace, for features of namespaces (default: 0)",
        )
        if run is get:
            add_human(parser)
            add_raw(parser)
            parser.add_argument(
                "--sel",
                metavar="N",
                type=int,
                choices=range(4),
                default=0,
                help="0 current, 1 default, 2 saved, 3 supported capabilities (default: 0); with a "
                "URL also -s, as in nvme-cli",
            )
            with_url(parser, trsvcid=("sel", 3))
        else:
            _add_values(parser)
    parser = add_admin_command(
        subparsers, "show-regs", registers, "show the properties of the controller"
    )
    add_human_always(parser)


class _ValueOrVerbose(argparse.Action):
    """-v of set-feature: nvme-cli's --value if a number follows, otherwise --verbose."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        text = "" if values is None else str(values)
        if "://" in text:  # -v before the URL
            namespace.behind_v, text = text, ""
        if text.strip("v"):
            try:
                namespace.value = number_argument(text)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None
        else:
            namespace.verbose = getattr(namespace, "verbose", 0) + 1 + len(text)


def _add_values(parser: Command) -> None:
    """Add what set-feature sends."""
    parser.add_argument("-V", "--value", metavar="N", type=number_argument, help="dword 11")
    parser._optionals.conflict_handler = "resolve"  # -v is also that of --verbose
    parser.add_argument(
        "-v",
        dest="value",
        metavar="N",
        nargs="?",
        action=_ValueOrVerbose,
        default=argparse.SUPPRESS,
        help="the same, as in nvme-cli; without a number, --verbose",
    )
    parser.add_argument(
        "-c", "--cdw12", metavar="N", type=number_argument, default=0, help="dword 12 (default: 0)"
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help="keep the value across resets, if the controller can; with a URL also -s, as in "
        "nvme-cli",
    )
    parser.add_argument(
        "-d",
        "--data",
        metavar="FILE",
        help="data structure of the feature, such as that of the timestamp (0x0e); - is stdin",
    )
    parser.add_argument(
        "-l",
        "--data-len",
        metavar="BYTES",
        type=number_argument,
        help="bytes to send of it (default: all)",
    )
    with_url(parser, trsvcid=("save", None))


def _check(args: argparse.Namespace) -> None:
    if args.feature_id > 0xFF:
        raise UsageError(f"--feature-id must be 0 to 0xff, not {args.feature_id:#x}")
    if args.namespace_id > 0xFFFFFFFF:
        raise UsageError(f"--namespace-id must be 0 to 0xffffffff, not {args.namespace_id:#x}")


def _title(fid: int) -> str:
    try:
        return f" ({FeatureId(fid).name.lower().replace('_', ' ')})"
    except ValueError:
        return ""


def get(args: argparse.Namespace) -> int:
    """Show a feature."""
    as_nvme_cli(args)
    _check(args)
    check_raw(args)

    async def work(controller: Controller) -> None:
        fid, data = args.feature_id, b""
        size = 0 if args.sel == _SUPPORTED else FEATURE_DATA.get(fid, 0)
        where = {"nsid": args.namespace_id, "sel": args.sel}
        if size:
            cdw11 = _EXHID if fid == FeatureId.HOST_IDENTIFIER else 0
            data, value = await controller.with_admin(
                lambda admin: admin.feature_data(fid, size, cdw11=cdw11, **where)
            )
        else:
            value = await controller.get_features(fid, **where)
        if args.raw_binary:
            write_raw(data or value.to_bytes(4, "little"))
        elif args.output_format == "json":
            shown = {"data": data.hex()} if data else {}
            print_json({"feature": fid, "select": args.sel, "nsid": args.namespace_id,
                        "value": value, **shown})  # fmt: skip
        else:
            print(f"feature {fid:#04x}{_title(fid)}, {_SELECTS[args.sel]}: {value:#010x}")
            for start in range(0, len(data.rstrip(b"\0")), 16):
                print(f"  {start:04x}: {data[start : start + 16].hex(' ')}")
            if args.human_readable and args.sel != _SUPPORTED:
                print_bits(value, FEATURES.get(fid, ()))

    return on_controller(args, work)


def put(args: argparse.Namespace) -> int:
    """Set a feature."""
    args.url = args.url or getattr(args, "behind_v", None)
    as_nvme_cli(args)
    _check(args)
    if args.value is None:
        raise UsageError("specify the value of the feature with -V or --value")
    for flag in ("value", "cdw12"):
        if getattr(args, flag) > 0xFFFFFFFF:
            raise UsageError(f"--{flag} must be 0 to 0xffffffff, not {getattr(args, flag):#x}")
    if args.data_len is not None and args.data is None:
        raise UsageError("--data-len is for --data, the file to send")
    data = _structure(args)

    async def work(controller: Controller) -> None:
        fid = args.feature_id
        try:
            await controller.with_admin(
                lambda admin: admin.set_features(
                    fid,
                    args.value,
                    nsid=args.namespace_id,
                    save=args.save,
                    cdw12=args.cdw12,
                    data=data,
                )
            )
        except NvmeError as error:
            if fid == FeatureId.NAMESPACE_WRITE_PROTECTION and not controller.identify.nwpc:
                raise CliError(
                    f"{error}: the controller does not support write protection (nwpc is 0); with "
                    "nvmeof target, it requires a state_dir, because it must persist"
                ) from None
            raise
        if args.output_format == "json":
            print_json({"feature": fid, "nsid": args.namespace_id, "value": args.value})
        else:
            saved = ", and saved" if args.save else ""
            print(f"feature {fid:#04x}{_title(fid)}: set to {args.value:#010x}{saved}")

    return on_controller(args, work)


def _structure(args: argparse.Namespace) -> bytes:
    """Return the data structure to send; raise CliError if the file is shorter than --data-len."""
    if args.data is None:
        return b""
    with open_data(args.data, "rb") as file:
        most = _LONGEST if args.data_len is None else min(args.data_len, _LONGEST)
        data = take_data(file, most)
    if not data or (args.data_len is not None and len(data) < args.data_len):
        raise CliError(f"{args.data} has {len(data)} bytes, too few for --data")
    return data


def registers(args: argparse.Namespace) -> int:
    """Show the properties."""

    async def work(controller: Controller) -> None:
        async def read(admin: Admin) -> dict[str, int]:
            sizes = ((Property.CAP, 8), (Property.VS, 4), (Property.CC, 4), (Property.CSTS, 4))
            return {one.name.lower(): await admin.property_get(one, size) for one, size in sizes}

        found = await controller.with_admin(read)
        if args.output_format == "json":
            print_json(found)
            return
        for name, kind in (("cap", Cap), ("vs", Version), ("cc", Cc), ("csts", Csts)):
            print(f"{name}: {found[name]:#x}")
            print_fields(plain(kind.decode(found[name])), "  ")

    return on_controller(args, work)
