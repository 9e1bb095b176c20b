# SPDX-License-Identifier: BSD-3-Clause
"""What commands about a controller share: arguments of nvme-cli, where it is, how to run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from nvmf.auth.key import protect_process
from nvmf.cli.base import UsageError, number_argument
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import OPTIONS, number
from nvmf.initiator.base.transport_id import DEFAULT_PORT
from nvmf.spec.nqn import DISCOVERY_NQN

T = TypeVar("T")
URL_OPTIONS = {name: option.brief for name, option in OPTIONS.items() if not option.secret}
"""What a URL may carry, for --help: all of ConnectOptions but the secrets."""


def url_options_help(names: Iterable[str] = URL_OPTIONS) -> str:
    """The part of --help about the options of a URL."""
    lines = [f"  {name:<25}{URL_OPTIONS[name]}" for name in names]
    return "\n".join(
        ["options of a URL, ...?NAME=VALUE&NAME=VALUE (a flag that is given comes first):", *lines]
    )


def add_target_arguments(
    parser: argparse.ArgumentParser, *, nqn: bool = True, **defaults: Any
) -> None:
    """Where the controller is and how to connect: a URL, or the flags of nvme-cli.

    defaults are those that the command gives options_of(), for the help.
    """
    shown = ConnectOptions(**defaults)
    group = add_place_arguments(parser, nqn=nqn)
    group.add_argument("-w", "--host-traddr", metavar="HOST", help="source address")
    group = parser.add_argument_group("as whom, and how")
    add_identity_arguments(group)
    group.add_argument(
        "-I", "--hostid", metavar="UUID", help="identifier of this host (default: /etc/nvme/hostid)"
    )
    group.add_argument(
        "-i",
        "--nr-io-queues",
        metavar="N",
        type=number_argument,
        help=f"I/O queues to ask for (default: {shown.queues})",
    )
    group.add_argument(
        "-Q",
        "--queue-size",
        metavar="N",
        type=number_argument,
        help=f"entries of an I/O queue (default: {shown.queue_depth})",
    )
    loss = "give a lost controller up after this time, -1 for never"
    for short, long, what in (
        ("-k", "--keep-alive-tmo", f"keep-alive timeout, 0 for none (default: {shown.kato:g})"),
        (
            "-c",
            "--reconnect-delay",
            f"between attempts to reconnect (default: {shown.reconnect_delay:g})",
        ),
        ("-l", "--ctrl-loss-tmo", f"{loss} (default: {shown.ctrl_loss_tmo:g})"),
    ):
        group.add_argument(short, long, metavar="SECONDS", type=seconds_argument, help=what)
    group.add_argument(
        "--io-timeout",
        metavar="SECONDS",
        type=seconds_argument,
        help=f"of an I/O command (default: {shown.io_timeout:g})",
    )
    group.add_argument(
        "--disable-sqflow", action="store_true", default=None, help="no SQ flow control"
    )
    add_secret_arguments(parser)
    parser.epilog = url_options_help()


def add_place_arguments(
    parser: argparse.ArgumentParser, *, nqn: bool = True
) -> argparse._ArgumentGroup:
    """The controller alone, as a URL or with flags."""
    group = parser.add_argument_group("where the target is")
    group.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, in the place of the flags (options: below)",
    )
    group.add_argument(
        "-t", "--transport", choices=("rdma",), default="rdma", help="rdma is all there is"
    )
    group.add_argument("-a", "--traddr", metavar="HOST", help="address or name of the target")
    group.add_argument(
        "-s", "--trsvcid", metavar="PORT", help=f"port of the target (default: {DEFAULT_PORT})"
    )
    if nqn:
        group.add_argument("-n", "--nqn", metavar="NQN", help="NQN of the subsystem")
    group.add_argument(
        "--device",
        choices=("auto", "iwarp", "system"),
        help="the embedded device (iwarp), one of libibverbs (system), or a system device where it "
        "reaches the address (default: auto)",
    )
    group.add_argument(
        "--remote-keys",
        choices=("command", "buffer"),
        help="what the target may reach: the bytes of each command until it completes, or all I/O "
        "buffers, which is faster (default: command)",
    )
    return group


def add_identity_arguments(group: argparse._ArgumentGroup) -> None:
    """As whom to connect."""
    group.add_argument(
        "-q", "--hostnqn", metavar="NQN", help="NQN of this host (default: /etc/nvme/hostnqn)"
    )


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Keys of in-band authentication."""
    group = parser.add_argument_group(
        "in-band authentication (DH-HMAC-CHAP)",
        "Everybody on this machine sees the arguments of a command: prefer a file.",
    )
    for short, long, whose in (
        ("-S", "--dhchap-secret", "this host's key"),
        ("-C", "--dhchap-ctrl-secret", "the controller's key: it has to authenticate too"),
    ):
        group.add_argument(short, long, metavar="KEY", help=f"{whose}, as gen-dhchap-key prints it")
        group.add_argument(f"{long}-file", metavar="FILE", help="the same, in a file")


_FLAGS = {name: option.argument for name, option in OPTIONS.items() if option.flags}
"""Option of ConnectOptions to the flag that gives it."""


def where_of(args: argparse.Namespace, *, need_nqn: bool = True) -> TransportId:
    """The transport id that the arguments give; UsageError where they give none, or two."""
    nqn = getattr(args, "nqn", None)
    try:
        if args.url is None:
            if args.traddr is None:
                raise UsageError("give the target: a URL, or -a ADDRESS")
            place = TransportId(
                args.traddr.strip("[]"),
                args.trsvcid or DEFAULT_PORT,
                DISCOVERY_NQN if nqn is None else nqn,
            )
        else:
            given = [flag for flag in ("traddr", "trsvcid", "nqn") if getattr(args, flag, None)]
            if given:
                raise UsageError(f"give the target as a URL or with --{given[0]}, not both")
            place = TransportId.parse(args.url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not need_nqn and not place.is_discovery:
        raise UsageError(
            f"discover asks the port, not a subsystem of it: leave {place.subnqn} out of the URL"
        )
    if need_nqn and place.is_discovery and nqn is not None:
        raise UsageError(
            "the discovery subsystem has no namespaces: give another NQN; see discover"
        )
    if need_nqn and place.is_discovery:
        raise UsageError("give the NQN of the subsystem, in the URL or with -n; see discover")
    return place


def options_of(args: argparse.Namespace, place: TransportId, **defaults: Any) -> ConnectOptions:
    """Options from the flags, then from the URL, then the defaults of the subcommand."""
    flags = {name: getattr(args, flag, None) for name, flag in _FLAGS.items()}
    chosen = {**defaults, **place.options, **{k: v for k, v in flags.items() if v is not None}}
    try:
        options = ConnectOptions().with_options(chosen)
        host_identity(options.hostnqn, options.hostid)
        options.keys()
    except ValueError as error:
        said = str(error)
        name = said.split(" ", 1)[0].rstrip(":")
        if flags.get(name) is not None:  # a person knows the flag, not the option behind it
            said = f"--{_FLAGS[name].replace('_', '-')}{said.removeprefix(name)}"
        raise UsageError(said) from None
    if options.authenticates:
        with contextlib.suppress(OSError):  # a key is in memory now
            protect_process()
    return options


def run_async(work: Coroutine[Any, Any, int]) -> int:
    """Run to the end; SIGTERM ends it as an interrupt does."""

    async def main() -> int:
        task = asyncio.ensure_future(work)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    return asyncio.run(main())


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """What work returns, on a thread of its own that nobody waits for after an interrupt.

    asyncio.to_thread is waited for, however long a pipe has nothing to read.
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
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(settle, finish, outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done


def seconds_argument(text: str) -> float:
    """Seconds, such as 5 or 0.5; for argparse."""
    try:
        return number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds such as 5 or 0.5"
        ) from None
