# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of commands for a controller: nvme-cli's arguments, its location, how to run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from nvmf.auth.key import protect_process
from nvmf.cli.base import (
    Terminated,
    UsageError,
    count_argument,
    nsid_argument,
    number_argument,
    warn_of_names,
)
from nvmf.cli.connectflags import (
    CONNECTION,
    IDENTITY,
    PLACE,
    SECRETS,
    add_flags,
    url_options_help,
)
from nvmf.cli.output import counted
from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.base.identity import host_identity
from nvmf.initiator.base.options import OPTIONS
from nvmf.initiator.base.transport_id import DEFAULT_PORT
from nvmf.spec.nqn import DISCOVERY_NQN

T = TypeVar("T")
ONE_QUEUE: dict[str, Any] = {"queues": 1, "ctrl_loss_tmo": 0}
"""Options not given by flags or URL: a command that runs once does not wait for reconnection."""


def add_target_arguments(
    parser: argparse.ArgumentParser,
    *,
    nqn: bool = True,
    blocks: bool = False,
    reserved: bool = False,
    **defaults: Any,
) -> None:
    """Add the location of the controller and the connection options: a URL, or nvme-cli's flags.

    blocks: the command has -s and -c of nvme-cli's commands for blocks (add_range_flags).
    reserved: the command has short flags of nvme-cli's commands for reservations.
    defaults: those of the command for options_of(), shown in the help.
    """
    shown = ConnectOptions(**defaults)
    group = add_place_arguments(parser, nqn=nqn, blocks=blocks)
    add_flags(group, ("host_traddr",))
    group = parser.add_argument_group("host and connection options")
    add_flags(group, IDENTITY)
    others = [name for name in CONNECTION if name != "host_traddr"]
    taken = ("-c", "-i", "-k") if reserved else ("-c", "-l") if blocks else ()
    add_flags(group, others, shown, without=taken)
    add_secret_arguments(parser)
    parser.epilog = url_options_help(parser)


def add_place_arguments(
    parser: argparse.ArgumentParser,
    *,
    nqn: bool = True,
    blocks: bool = False,
    devices: bool = False,
) -> argparse._ArgumentGroup:
    """Add the location of the controller, as a URL or with flags.

    devices: the command takes a controller of the kernel as well, in place of the URL.
    """
    group = parser.add_argument_group("target")
    group.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="nvme+rdma://HOST:PORT/NQN?OPTION=VALUE, instead of the flags (options: see below)"
        + ("; or a controller of the kernel, /dev/nvme0 or nvme0" if devices else ""),
    )
    group.add_argument(
        "-t", "--transport", choices=("rdma",), default="rdma", help="only rdma is supported"
    )
    group.add_argument("-a", "--traddr", metavar="HOST", help="address or name of the target")
    flags = ["--trsvcid"] if blocks else ["-s", "--trsvcid"]
    group.add_argument(*flags, metavar="PORT", help=f"port of the target (default: {DEFAULT_PORT})")
    if nqn:
        group.add_argument("-n", "--nqn", metavar="NQN", help="NQN of the subsystem")
    add_flags(group, PLACE)
    return group


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the keys of in-band authentication."""
    group = parser.add_argument_group(
        "in-band authentication (DH-HMAC-CHAP)",
        "Command arguments are visible to all users of this machine: prefer a file.",
    )
    add_flags(group, SECRETS)


_FLAGS = {name: one.argument for name, one in OPTIONS.items() if one.flags and not one.kernel_only}
"""Option of ConnectOptions to the flag that gives it."""


def add_block_flags(
    group: argparse._ActionsContainer,
    *,
    count: bool = True,
    default: int | None = 1,
    meaning: str = "1",
) -> None:
    """Add nvme-cli's -s, and -c, to a command with start_block and block_count.

    default: number of blocks, with its meaning for the help.
    """
    group.add_argument(
        "-s",
        dest="start_or_port",
        metavar="N",
        help="with a URL the first logical block, as in nvme-cli; with -a the port of the target",
    )
    if count:
        group.add_argument(
            "--blocks",
            dest="block_count",
            metavar="N",
            type=count_argument,
            default=default,
            help=f"number of logical blocks (default: {meaning})",
        )
        group.add_argument(
            "-c",
            "--block-count",
            dest="block_count",
            metavar="N",
            type=_from_zero,
            default=argparse.SUPPRESS,
            help="the same, 0's based as in nvme-cli: -c 0 is one block",
        )


_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[1-9][0-9]*|0")


def _from_zero(text: str) -> int:
    return number_argument(text) + 1


def check_size(size: int | None, blocks: int, block_size: int) -> None:
    """Raise UsageError if -z, which nvme-cli requires besides -c, is not the size of the blocks."""
    if size not in (None, blocks * block_size):
        raise UsageError(
            f"--data-size {size} is not the size of {counted(blocks, 'block')} of {block_size} "
            "bytes: omit --data-size, or the number of blocks (-c is 0's based)"
        )


_LOCATION = {"transport": "-t", "traddr": "-a", "trsvcid": "-s"}
"""Flags of the location that nvme-cli, which has a device instead, uses for something else."""


def with_url(parser: argparse.ArgumentParser, **meanings: tuple[str, int | None]) -> None:
    """Give flags of the location a meaning with a URL: an argument, and its maximum.

    None instead of a maximum: the argument is true or false, and the flag has no value.
    """
    parser.set_defaults(with_url=meanings)
    for action in parser._actions:
        if action.dest not in meanings or not action.option_strings:
            continue
        if action.dest == "transport":
            action.choices = None  # as_nvme_cli() checks it
        if meanings[action.dest][1] is None:
            action.nargs, action.const = "?", True


def _without_value(args: argparse.Namespace, flag: str, name: str) -> None:
    """Set the argument that a flag without a value stands for."""
    given = getattr(args, flag)
    if args.url is None and "://" in str(given):  # the flag was before the URL
        args.url, given = given, True
    if given is True and args.url is None:
        raise UsageError(
            f"{_LOCATION[flag]} is --{name} with a URL only: use --{name}, or give it a value"
        )
    if given is True:
        setattr(args, name, True)
        setattr(args, flag, "rdma" if flag == "transport" else None)
    elif flag == "transport" and given != "rdma":
        raise UsageError(f"-t {given}: the transport is rdma; with a URL, -t is --{name}")


def as_nvme_cli(args: argparse.Namespace) -> None:
    """Give flags of the location the meaning that they have with a URL, such as -n the NSID."""
    for flag, (name, most) in getattr(args, "with_url", {}).items():
        given = getattr(args, flag)
        if most is None:
            _without_value(args, flag, name)
        elif args.url is not None and given not in (None, "rdma"):
            if "://" not in args.url:
                raise UsageError(f"{args.url!r} is not a URL: nvme+rdma://ADDRESS:PORT/NQN")
            try:
                value = number_argument(given)
            except argparse.ArgumentTypeError as error:
                raise UsageError(f"{_LOCATION[flag]} with a URL is --{name}: {error}") from None
            if value > most:
                raise UsageError(f"--{name} must be 0 to {most}, not {value}")
            setattr(args, name, value)
            setattr(args, flag, None)
        elif flag == "transport" and given not in (None, "rdma"):
            raise UsageError(f"without a URL, -t is the transport, rdma: use --{name} {given}")
    nqn, start = getattr(args, "nqn", None), getattr(args, "start_or_port", None)
    number_of_n = args.url is not None and nqn is not None and _NUMBER.fullmatch(nqn)
    if number_of_n and hasattr(args, "namespace_id"):
        try:
            args.namespace_id, args.nqn = nsid_argument(nqn or ""), None
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"-n with a URL is the namespace: {error}") from None
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
    as_nvme_cli(args)
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
            if args.url.startswith("/dev/"):  # as nvme-cli has it
                raise UsageError(
                    f"{args.url} is for nvme-cli: this command connects by itself, so specify the "
                    "target, nvme+rdma://HOST:PORT/NQN or -a ADDRESS -n NQN"
                )
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


def run_async(work: Coroutine[object, None, int], *, hangup: bool = False) -> int:
    """Run to completion; handle SIGTERM like an interrupt, with its own exit status.

    hangup: SIGHUP, too, unless it is ignored (nohup).
    """

    async def main() -> int:
        task = asyncio.ensure_future(work)
        terminated = False

        def terminate() -> None:
            nonlocal terminated
            terminated = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        if hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, terminate)
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
