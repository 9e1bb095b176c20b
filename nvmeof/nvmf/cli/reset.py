# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof reset`: a controller of the kernel, or one of a connection of this command."""

from __future__ import annotations

import argparse

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, add_command
from nvmf.cli.common import (
    ONE_QUEUE,
    add_place_arguments,
    add_secret_arguments,
    options_of,
    run_async,
    where_of,
)
from nvmf.cli.connectflags import IDENTITY, add_flags, url_options_help
from nvmf.cli.identify import EXAMPLE
from nvmf.cli.output import print_json
from nvmf.initiator import connect

_MORE = (
    "A controller of the kernel (root is required) connects again by itself, and repeats commands\n"
    "that have not completed. With a URL or -a, the command connects a controller of its own, as\n"
    "every other command does, disables it (CC.EN = 0), disconnects, and connects again: it shows\n"
    "whether the target does this properly, and ends nothing of other hosts and programs."
)


def add_commands(subparsers: Subparsers) -> None:
    """Add reset."""
    parser = add_command(
        subparsers,
        "reset",
        reset,
        "reset a controller, of the kernel or over a connection of its own",
        _MORE,
        examples=("sudo nvmeof reset /dev/nvme0", EXAMPLE.format("reset")),
    )
    add_place_arguments(parser, devices=True)
    group = parser.add_argument_group("host")
    add_flags(group, IDENTITY)
    add_secret_arguments(parser)
    parser.epilog = url_options_help(parser)


def reset(args: argparse.Namespace) -> int:
    """Reset a controller."""
    if args.url is not None and "://" not in args.url:
        from nvmf.cli.kernel import disconnect

        return disconnect.reset(args.url, as_json=args.output_format == "json")
    if args.url is None and args.traddr is None:
        raise UsageError("specify the controller: /dev/nvme0, a URL, or -a ADDRESS -n NQN")
    place = where_of(args)
    options = options_of(args, place, **ONE_QUEUE)

    async def run() -> int:
        async with connect(place, options) as controller:
            before = controller.session.cntlid
            disabled = await controller.reset()
            after = controller.session.cntlid
        done = {"device": None, "subsysnqn": place.subnqn, "cntlid": before}
        if args.output_format == "json":
            print_json({"reset": {**done, "disabled": disabled, "new_cntlid": after}})
        else:
            how = "disabled (CC.EN = 0), disconnected" if disabled else "disconnected"
            print(
                f"reset controller {before} of {place.subnqn}: {how}, and connected again as "
                f"controller {after}"
            )
        return EXIT_OK

    return run_async(run())
