# SPDX-License-Identifier: BSD-3-Clause
"""The targets of the demonstration: processes of their own, each with a mapped file."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal, Self, TypeAlias

from nvmf.children import bound
from nvmf.errors import Error

NQN = "nqn.2026-11.io.nvmeof-rdma:demo"
_SERVICE = 4420
"""The service of a target on an address of its own."""
_READY_SECONDS = 120.0
_MAPPED = Path("/dev/shm")
"""tmpfs: its files are mapped as memory, as those on DAX are."""
Device: TypeAlias = Literal["iwarp", "roce"]
"""The embedded devices: the demonstration needs no others."""
_ASLEEP = "[target]\nspin_us = 0\n"


class DemoError(Error, OSError):
    """The demonstration cannot continue; the message is a sentence."""


class Target:
    """`nvmeof target serve` with one file, which survives the process.

    kill() ends it like a crash, and start() starts it again on the same port.
    """

    def __init__(
        self, folder: Path, number: int, size: int, host: str, device: Device, address: str
    ) -> None:
        """address: Where it listens: on RoCEv2, one that no other process uses."""
        self.number = number
        self._folder = folder
        self._host = host
        self._device = device
        self._address = address
        self._port = 0 if device == "iwarp" else _SERVICE
        self._process: asyncio.subprocess.Process | None = None
        self.polls = True
        """Whether its reactor polls for a while before it sleeps; counts from the next start."""
        self.path = folder / f"memory{number}"
        with self.path.open("wb") as file:
            # A write to a page of a full tmpfs would be a signal.
            os.posix_fallocate(file.fileno(), 0, size)

    @property
    def url(self) -> str:
        """Its namespace 1."""
        return f"nvme+rdma://{self._address}:{self._port}/{NQN}?device={self._device}"

    @property
    def pid(self) -> int:
        """Its process; LookupError if it does not run."""
        if self._process is None:
            raise LookupError(f"target {self.number} does not run")
        return self._process.pid

    def _write_configuration(self) -> Path:
        path = self._folder / f"target{self.number}.toml"
        path.write_text(
            f"{'' if self.polls else _ASLEEP}"
            f'[[port]]\ntraddr = "{self._address}"\ntrsvcid = {self._port}\n'
            f'device = "{self._device}"\n'
            f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
            f'[[subsystem.namespace]]\nnsid = 1\nstore = "pmem"\n'
            f"path = {json.dumps(str(self.path))}\nmemory = [{json.dumps(self._host)}]\n"
        )
        return path

    async def start(self) -> None:
        """Start the process, and wait until it accepts connections; DemoError."""
        path = self._write_configuration()
        words = [sys.executable, "-m", "nvmf.cli.main", "target", "serve", "-o", "json"]
        words += [str(path), "--rpc-socket", str(self._folder / f"rpc{self.number}")]
        with (self._folder / f"log{self.number}").open("ab") as output:
            self._process = process = await asyncio.create_subprocess_exec(
                *bound(words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                # Ctrl-C is for the demonstration, which ends its targets.
                start_new_session=True,
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_READY_SECONDS):
                line = await process.stdout.readline()
        except TimeoutError:
            raise DemoError(
                f"target {self.number} is not ready after {_READY_SECONDS:g} s{self._last()}"
            ) from None
        if not line:
            raise DemoError(f"target {self.number} did not start{self._last()}")
        self._port = int(json.loads(line)["trsvcid"])

    def _last(self) -> str:
        text = (self._folder / f"log{self.number}").read_text(errors="replace")
        lines = text.strip().splitlines()[-2:]
        return ": " + "; ".join(lines) if lines else ""

    def strike(self) -> None:
        """End the process with SIGKILL, wherever it is."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def kill(self) -> None:
        """End the process like strike(), and wait until it has gone."""
        self.strike()
        if self._process is not None:
            await self._process.wait()
            self._process = None


class Targets:
    """Three targets, and the folder with their files; the end of ``async with`` removes all."""

    def __init__(
        self, size: int, host: str, folder: str | None = None, device: Device = "iwarp"
    ) -> None:
        self._size = size
        self._host = host
        self._device: Device = device
        self._where = Path(folder) if folder is not None else _MAPPED
        self._folder: Path | None = None
        self.all: list[Target] = []

    async def __aenter__(self) -> Self:
        try:
            self._prepare()
            await asyncio.gather(*(target.start() for target in self.all))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _prepare(self) -> None:
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="nvmeof-pmem-demo-", dir=self._where))
            network = f"127.{random.randint(1, 60)}.{random.randint(1, 254)}"
            for number in (1, 2, 3):
                # RoCEv2 has one port of an address, so that each process needs an address.
                address = f"{network}.{number}" if self._device == "roce" else "127.0.0.1"
                self.all.append(
                    Target(self._folder, number, self._size, self._host, self._device, address)
                )
        except OSError as error:
            raise DemoError(
                f"cannot make three files of {self._size >> 20} MiB in {self._where}: "
                f"{error.strerror}; choose a folder on tmpfs or DAX with --dir"
            ) from None

    async def stop_polling(self) -> None:
        """Start all again, without polling: for fewer processors than there are processes."""
        await asyncio.gather(*(target.kill() for target in self.all))
        for target in self.all:
            target.polls = False
        await asyncio.gather(*(target.start() for target in self.all))

    async def __aexit__(self, *_: object) -> None:
        # Everything is removed before the first await: a second Ctrl-C leaves nothing behind.
        for target in self.all:
            target.strike()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        await asyncio.gather(*(target.kill() for target in self.all), return_exceptions=True)
