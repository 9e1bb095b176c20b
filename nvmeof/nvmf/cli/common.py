# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of commands for a controller: nvme-cli's arguments, its location, how to run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from nvmf.auth.key import protect_process
from nvmf.cli.base import Terminated, UsageError, number_argument, warn_of_names
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import OPTIONS, number
from nvmf.initiator.base.transport_id import DEFAULT_PORT
from nvmf.spec.nqn import DISCOVERY_NQN

T = TypeVar("T")
_SECONDS = {None: 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of time."""
URL_OPTIONS = {name: option.brief for name, option in OPTIONS.items() if not option.secret}
"""What a URL may carry, for --help: all of ConnectOptions except secrets."""


def url_options_help(names: Iterable[str] = URL_OPTIONS) -> str:
    """Return the part of --help about the options of a URL."""
    lines = [f"  {name:<25}{URL_OPTIONS[name]}" for name in names]
    return "\n".join(
        ["options of a URL, ...?NAME=VALUE&NAME=VALUE (flags take precedence):", *lines]
    )


ONE_QUEUE: dict[str, Any] = {"queues": 1, "ctrl_loss_tmo": 0}
"""Options not given by flags or URL: a command that runs once does not wait for reconnection."""


def add_target_arguments(
    parser: argparse.ArgumentParser, *, nqn: bool = True, blocks: bool = False, **defaults: Any
) -> None:
    """Add the location of the controller and the connection options: a URL, or nvme-cli's flags.

    blocks: the command has -s and -c of nvme-cli's commands for blocks (add_range_flags).
    defaults: those of the command for options_of(), shown in the help.
    """
    shown = ConnectOptions(**defaults)
    group = add_place_arguments(parser, nqn=nqn, blocks=blocks)
    group.add_argument("-w", "--host-traddr", metavar="HOST", help="source address")
    group = parser.add_argument_group("host and connection options")
    add_identity_arguments(group)
    group.add_argument(
        "-I", "--hostid", metavar="UUID", help="identifier of this host (default: /etc/nvme/hostid)"
    )
    group.add_argument(
        "-i",
        "--nr-io-queues",
        metavar="N",
        type=number_argument,
        help=f"number of I/O queues (default: {shown.queues})",
    )
    group.add_argument(
        "-Q",
        "--queue-size",
        metavar="N",
        type=number_argument,
        help=f"entries per I/O queue (default: {shown.queue_depth})",
    )
    loss = "give up a lost controller after this time, -1 for never"
    for short, long, what in (
        ("-k", "--keep-alive-tmo", f"keep-alive timeout, 0 for none (default: {shown.kato:g})"),
        (
            "-c",
            "--reconnect-delay",
            f"delay between attempts to reconnect (default: {shown.reconnect_delay:g})",
        ),
        ("-l", "--ctrl-loss-tmo", f"{loss} (default: {shown.ctrl_loss_tmo:g})"),
    ):
        flags = [long] if blocks and short == "-c" else [short, long]
        group.add_argument(*flags, metavar="SECONDS", type=seconds_argument, help=what)
    group.add_argument(
        "--io-timeout",
        metavar="SECONDS",
        type=seconds_argument,
        help=f"timeout of an I/O command (default: {shown.io_timeout:g})",
    )
    group.add_argument(
        "--disable-sqflow", action="store_true", default=None, help="disable SQ flow control"
    )
    add_secret_arguments(parser)
    parser.epilog = url_options_help()


def add_place_arguments(
    parser: argparse.ArgumentParser, *, nqn: bool = True, blocks: bool = False
) -> argparse._ArgumentGroup:
    """Add the location of the controller, as a URL or with flags."""
    group = parser.add_argument_group("target")
    group.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, instead of the flags (options: see below)",
    )
    group.add_argument(
        "-t", "--transport", choices=("rdma",), default="rdma", help="only rdma is supported"
    )
    group.add_argument("-a", "--traddr", metavar="HOST", help="address or name of the target")
    flags = ["--trsvcid"] if blocks else ["-s", "--trsvcid"]
    group.add_argument(*flags, metavar="PORT", help=f"port of the target (default: {DEFAULT_PORT})")
    if nqn:
        group.add_argument("-n", "--nqn", metavar="NQN", help="NQN of the subsystem")
    group.add_argument(
        "--device",
        choices=("auto", "iwarp", "roce", "system"),
        help="an embedded device (iwarp, roce), a libibverbs device (system), or a system device "
        "if one reaches the address, else iwarp (default: auto)",
    )
    group.add_argument(
        "--remote-keys",
        choices=("command", "buffer"),
        help="memory that the target can access: the data of each command until it completes, or "
        "all I/O buffers, which is faster (default: command)",
    )
    return group


def add_identity_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the identity of the host."""
    group.add_argument(
        "-q", "--hostnqn", metavar="NQN", help="NQN of this host (default: /etc/nvme/hostnqn)"
    )


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the keys of in-band authentication."""
    group = parser.add_argument_group(
        "in-band authentication (DH-HMAC-CHAP)",
        "Command arguments are visible to all users of this machine: prefer a file.",
    )
    for short, long, whose in (
        ("-S", "--dhchap-secret", "this host's key"),
        ("-C", "--dhchap-ctrl-secret", "the controller's key, to authenticate the controller too"),
    ):
        group.add_argument(
            short, long, metavar="KEY", help=f"{whose}, in the format of gen-dhchap-key"
        )
        group.add_argument(f"{long}-file", metavar="FILE", help="file with the key")


_FLAGS = {name: option.argument for name, option in OPTIONS.items() if option.flags}
"""Option of ConnectOptions to the flag that gives it."""


def add_block_flags(group: argparse._ActionsContainer, *, count: bool = True) -> None:
    """Add nvme-cli's -s, and -c, to a command with start_block and block_count."""
    group.add_argument(
        "-s",
        dest="start_or_port",
        metavar="N",
        help="with a URL the first logical block, as in nvme-cli; with -a the port of the target",
    )
    if count:
        group.add_argument(
            "-c",
            dest="block_count",
            metavar="N",
            type=_from_zero,
            default=argparse.SUPPRESS,
            help="number of logical blocks, 0's based as in nvme-cli: -c 0 is one block",
        )


def _from_zero(text: str) -> int:
    return number_argument(text) + 1


def _as_nvme_cli(args: argparse.Namespace) -> None:
    """Give -s and -n the meaning that they have with a URL: first block, and NSID."""
    nqn, start = getattr(args, "nqn", None), getattr(args, "start_or_port", None)
    number_of_n = args.url is not None and nqn is not None and nqn.isdecimal()
    if number_of_n and hasattr(args, "namespace_id"):
        args.namespace_id, args.nqn = int(nqn or 0), None
    if start is None:
        return
    args.start_or_port = None
    if args.url is None:
        if args.trsvcid:
            raise UsageError("give the port once: -s and --trsvcid are the same with -a")
        args.trsvcid = start
        return
    if args.start_block:
        raise UsageError("give the first block once: -s and -b are the same with a URL")
    try:
        lists = isinstance(args.start_block, tuple)
        numbers = tuple(number_argument(one) for one in start.split(",")) if lists else ()
        args.start_block = numbers or number_argument(start)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"-s with a URL is the first logical block: {error}") from None


def where_of(args: argparse.Namespace, *, need_nqn: bool = True) -> TransportId:
    """Return the transport ID from the arguments; raise UsageError for none, or two.

    Prints a warning about NQNs of an unusual form.
    """
    _as_nvme_cli(args)
    nqn = getattr(args, "nqn", None)
    try:
        if args.url is None:
            if args.traddr is None:
                raise UsageError("specify the target: a URL, or -a ADDRESS")
            place = TransportId(
                args.traddr.strip("[]"),
                args.trsvcid or DEFAULT_PORT,
                DISCOVERY_NQN if nqn is None else nqn,
            )
        else:
            given = [flag for flag in ("traddr", "trsvcid", "nqn") if getattr(args, flag, None)]
            if given:
                raise UsageError(f"specify the target as a URL or with --{given[0]}, not both")
            place = TransportId.parse(args.url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not need_nqn and not place.is_discovery:
        raise UsageError(
            f"discover queries a port, not a subsystem: remove {place.subnqn} from the URL"
        )
    if need_nqn and place.is_discovery and nqn is not None:
        raise UsageError(
            "the discovery subsystem has no namespaces: specify a different NQN; see discover"
        )
    if need_nqn and place.is_discovery:
        raise UsageError("specify the NQN of the subsystem, in the URL or with -n; see discover")
    warn_of_names(place.subnqn, getattr(args, "hostnqn", None) or place.options.get("hostnqn"))
    return place


def options_of(args: argparse.Namespace, place: TransportId, **defaults: Any) -> ConnectOptions:
    """Return the options: from the flags, else the URL, else the defaults of the subcommand."""
    flags = {name: getattr(args, flag, None) for name, flag in _FLAGS.items()}
    chosen = {**defaults, **place.options, **{k: v for k, v in flags.items() if v is not None}}
    try:
        options = ConnectOptions().with_options(chosen)
        host_identity(options.hostnqn, options.hostid)
        options.keys()
    except ValueError as error:
        said = str(error)
        name = said.split(" ", 1)[0].rstrip(":")
        if flags.get(name) is not None:  # name the flag, not the internal option
            said = f"--{_FLAGS[name].replace('_', '-')}{said.removeprefix(name)}"
        raise UsageError(said) from None
    if options.authenticates:
        with contextlib.suppress(OSError):  # the key has been read into memory
            protect_process()
    return options


def run_async(work: Coroutine[object, None, int]) -> int:
    """Run to completion; handle SIGTERM like an interrupt, with its own exit status."""

    async def main() -> int:
        task = asyncio.ensure_future(work)
        terminated = False

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        try:
            return await task
        except asyncio.CancelledError:
            raise (Terminated if terminated else KeyboardInterrupt) from None

    return asyncio.run(main())


async def in_thread(work: Callable[..., T], *args: object) -> T:
    """Return the result of work, run on a separate thread that is abandoned after an interrupt.

    asyncio.to_thread would wait for it, for as long as a pipe has no data.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(finish: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            finish(outcome)

    def run() -> None:
        finish: Callable[[Any], None] = done.set_result
        outcome: object
        try:
            outcome = work(*args)
        except Exception as error:
            finish, outcome = done.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(settle, finish, outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done


def seconds_argument(text: str) -> float:
    """Parse a time in seconds, such as 5, 0.5, 10s, 500ms, 2m or 1h; for argparse."""
    found = re.fullmatch(r"(.*?)(us|ms|s|m|h|d)?", text, re.DOTALL)
    try:
        return number(found[1] if found else text) * _SECONDS[found[2] if found else None]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 5 (seconds), 0.5, 10s, 500ms or 2m"
        ) from None
