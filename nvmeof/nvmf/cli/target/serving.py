# SPDX-License-Identifier: BSD-3-Clause
"""A target in the foreground: started, reloaded and stopped by signals."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import resource
import signal
from functools import partial
from pathlib import Path

from nvmf.cli.base import EXIT_OK, CliError, drop_stdout
from nvmf.cli.output import counted
from nvmf.cli.target.quick import quick_config
from nvmf.config import ConfigError, RpcConfig, advice
from nvmf.paths import default_socket, further_sockets, own_folder
from nvmf.target.io.stores import ServerError
from nvmf.target.logs import TELL_EVERY, LogOutput
from nvmf.target.rpc.socket import RpcSocket, SocketInUse
from nvmf.target.service.administration import Administration, Source
from nvmf.target.service.notify import Notifier
from nvmf.target.service.server import Listening, Server
from nvmf.target.service.starting import serve

log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    with LogOutput(args.log_format) as output:
        return _serve(args, output)


def _serve(args: argparse.Namespace, output: LogOutput) -> int:
    level = getattr(logging, args.log_level.upper())
    logging.getLogger().setLevel(min(level, logging.DEBUG) if args.verbose > 1 else level)
    source: Source | None = None
    try:
        if made := quick_config(args):
            config, name = made
        else:
            (config, source), name = Source.read(Path(args.config)), args.config
    except ConfigError as error:
        raise CliError(f"cannot use the configuration:\n{error}") from None
    if args.allow_faults:
        allowed = config.target.model_copy(update={"allow_faults": True})
        config = config.model_copy(update={"target": allowed})
    for sentence in advice(config, None if source is None else args.config, key_files=False):
        log.warning("%s: %s", name, sentence)

    def announce(port: Listening) -> None:
        text = str(port)
        if args.output_format == "json":
            host, number = port.address
            text = json.dumps({"traddr": host, "trsvcid": str(number), "device": port.device})
        try:
            print(text, flush=True)
        except OSError as error:  # the reader of stdout is gone, but hosts are not
            log.info("%s (stdout: %s)", port, error.strerror)
            drop_stdout()

    _raise_descriptors()

    async def until_stopped() -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        again = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, again.set)
        notifier = Notifier()
        administration: asyncio.Future[Administration] = loop.create_future()
        server: Server | None = None
        rpc: RpcSocket | None = None
        reloading: asyncio.Task[None] | None = None
        following: asyncio.Task[None] | None = None
        telling = asyncio.create_task(_tell(output))
        try:
            # Before the ports: a client that sees them open may send a request at once.
            rpc = await _listen(administration, config.rpc, args.rpc_socket)
            starting = asyncio.ensure_future(serve(config, listening=announce))
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
            elif starting.exception() is not None:
                stopping.cancel()
            server = await starting
            administration.set_result(Administration(server, source))
            reloading = asyncio.create_task(_reload(administration.result(), again, notifier))
            notifier.feed().ready(_status(server))
            following = asyncio.create_task(notifier.follow(partial(_status, server)))
            await stopping
            log.info("stopping")
            notifier.stopping()
        except asyncio.CancelledError:
            pass
        finally:
            telling.cancel()
            for task in (reloading, following):
                if task is not None:
                    task.cancel()
            if rpc is not None:
                await rpc.close()
            if server is not None:
                await server.stop()
            await notifier.close()
        return EXIT_OK

    try:
        return asyncio.run(until_stopped())
    except ServerError as error:
        raise CliError(str(error)) from None


def _raise_descriptors() -> None:
    """Raise the limit of descriptors to its maximum: 1024 is too few for 500 hosts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _listen(
    administration: asyncio.Future[Administration], config: RpcConfig, path: str | None
) -> RpcSocket | None:
    """Open the administration socket; raise ServerError if a given path cannot be used."""
    chosen = Path(path) if path else config.socket
    if path is None and not config.enabled:
        return None
    place = chosen or default_socket()
    if place is None:
        log.warning("no administration socket: no folder for it; use --rpc-socket")
        return None
    names = [place] if chosen is not None else [place, *further_sockets(place)]
    for number, name in enumerate(names, 1):
        rpc = RpcSocket(administration, name)
        try:
            if chosen is None:
                own_folder(name)
            await rpc.start()
            return rpc
        except SocketInUse as error:  # a different target has the default path
            if number < len(names):
                continue
            failed: ServerError = error
        except ServerError as error:
            failed = error
        except OSError as error:
            failed = ServerError(f"no administration socket: {name.parent}: {error.strerror}")
        if chosen is not None:
            raise failed
        log.warning("%s", failed)
        break
    return None


async def _tell(output: LogOutput) -> None:
    """Log the number of suppressed lines periodically."""
    while True:
        await asyncio.sleep(TELL_EVERY)
        output.tell()


def _status(server: Server) -> str:
    """Return a summary for `systemctl status`."""
    ports = ", ".join(str(port).removeprefix("listening on ") for port in server.ports)
    subsystems = [s for s in server.core.subsystems.values() if not s.discovery]
    namespaces = sum(len(subsystem.namespaces) for subsystem in subsystems)
    what = f"{counted(namespaces, 'namespace')} in {counted(len(subsystems), 'subsystem')}"
    return f"{what} on {ports or 'no port'}"


async def _reload(administration: Administration, again: asyncio.Event, notifier: Notifier) -> None:
    """Read the file again after each SIGHUP; errors are logged."""
    while True:
        await again.wait()
        again.clear()
        notifier.reloading()
        try:
            await administration.reload()
        except (ConfigError, ServerError):
            pass
        except Exception:
            log.exception("cannot reload the configuration file")
        notifier.ready(_status(administration.server))
