# SPDX-License-Identifier: BSD-3-Clause
"""A mirror of three target processes on mapped files, behind relays, and its writer processes, with
all that can happen to them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from support.clientlab import free_port
from support.mirrorload import History, Plan
from support.relay import Relay
from support.served import SUBNQN, Served, config

SIZE = 512 << 10
PATIENCE = 60.0
"""Seconds after which a wait counts as a hang."""
_SCRIPT = Path(__file__).with_name("mirrorload.py")


class TargetProcess:
    """A target with a mapped file, on one port."""

    def __init__(self, folder: Path, memory: Path) -> None:
        with memory.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, SIZE)
        folder.mkdir()
        self.port = free_port()
        self._folder = folder
        store = f'store = "pmem"\npath = "{memory}"\nblock_size = 512'
        text = config([store], port=self.port)
        self._config = text.replace("reactors=1", "reactors=1\nspin_us=0")
        self._served: Served | None = None

    async def start(self) -> None:
        """Start the target, and wait until it listens."""
        self._served = served = Served(self._folder, self._config)
        await asyncio.to_thread(served.wait_ready)

    async def kill(self) -> None:
        """SIGKILL, if it runs."""
        served, self._served = self._served, None
        if served is not None:
            await asyncio.to_thread(served.kill)
            served.check_log()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._served is not None
        self._served.process.send_signal(number)


class WriterProcess:
    """One writer of the mirror."""

    def __init__(self, plan: Plan, log: Path, process: asyncio.subprocess.Process) -> None:
        self.plan = plan
        self._log = log
        self._process = process

    @classmethod
    async def start(cls, plan: Plan) -> Self:
        """Start the writer, which opens the mirror."""
        log = Path(plan.journal).with_suffix(".log")
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_SCRIPT),
                plan.encode(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": str(_SCRIPT.parents[1])},
            )
        return cls(plan, log, process)

    @property
    def log(self) -> str:
        """The output so far."""
        return self._log.read_text(errors="replace")

    def says(self, word: str) -> bool:
        """Return whether a line of the output begins with a word."""
        return any(line.split(" ")[0] == word for line in self.log.splitlines())

    @property
    def lost(self) -> set[str]:
        """The replicas that the writer has lost at some time."""
        lines = self.log.splitlines()
        return {line.partition(": ")[0] for line in lines if line.startswith("lost ")}

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it runs."""
        if self.alive:
            self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        await self._process.wait()

    async def ended(self) -> int:
        """Wait for its end; its status."""
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()


class Cast:
    """The targets, the relays and the writers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        self._stack = AsyncExitStack()
        self.targets: list[TargetProcess] = []
        self.relays: list[Relay] = []
        self.writers: list[WriterProcess] = []
        """All writers so far; the last one is the mirror's."""

    async def __aenter__(self) -> Self:
        memory = self._stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
        self._stack.push_async_callback(self._end)
        try:
            for number in range(3):
                name = f"target{number}"
                self.targets.append(TargetProcess(self._folder / name, Path(memory) / name))
            await asyncio.gather(*(target.start() for target in self.targets))
            for target in self.targets:
                relay = Relay(free_port(), target.port)
                self.relays.append(relay)
                await relay.open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _end(self) -> None:
        for writer in self.writers:
            await writer.kill()
        for relay in self.relays:
            await relay.cut()
        for target in self.targets:
            await target.kill()

    @property
    def history(self) -> History:
        """Return the accesses of all writers so far."""
        return History(Path(writer.plan.journal) for writer in self.writers)

    @property
    def writer(self) -> WriterProcess:
        """The latest writer."""
        return self.writers[-1]

    async def write(self, *, create: bool = False, acknowledge_at: int = 0) -> WriterProcess:
        """Start a writer, which takes the mirror over, and wait until it has."""
        number = len(self.writers) + 1
        places = [f"127.0.0.1:{relay.port}" for relay in self.relays]
        urls = tuple(f"nvme+rdma://{place}/{SUBNQN}?device=iwarp" for place in places)
        journal = str(self._folder / f"writer{number}.journal")
        plan = Plan(number, self._seed, urls, journal, create, acknowledge_at)
        if acknowledge_at:
            # Only a replica that is dead is lost: the map would name one that is merely slow.
            plan = replace(plan, timeout=60.0, patience=600.0)
        writer = await WriterProcess.start(plan)
        self.writers.append(writer)
        await self.until(lambda: writer.says("open"), "the mirror is open")
        return writer

    async def more(self, count: int, *, written: int = 0) -> None:
        """Wait for count further accesses, and as many acknowledged writes as written."""
        before = self.history

        def reached() -> bool:
            now = self.history
            return (
                now.completed - before.completed >= count
                and now.written - before.written >= written
            )

        await self.until(reached, f"{count} more accesses")

    async def until(self, reached: Callable[[], object], what: str) -> None:
        """Wait for a condition, while the writer runs."""
        writer = self.writer
        await self._until(lambda: reached() or not writer.alive, what)
        assert reached(), f"the writer has ended before {what}:\n{writer.log[-2000:]}"

    async def _until(self, reached: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not reached():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            log = self.writer.log[-2000:]
            raise AssertionError(f"not within {PATIENCE:g} s: {what}\n{log}") from None

    # ---- what can happen ----

    async def kill(self, index: int, accesses: int) -> None:
        """A target dies, and is started again on its file."""
        await self.targets[index].kill()
        await self.more(accesses)
        await self.targets[index].start()

    async def freeze(self, index: int, accesses: int) -> None:
        """A target is stopped for a while."""
        self.targets[index].signal(signal.SIGSTOP)
        try:
            await self.more(accesses)
        finally:
            self.targets[index].signal(signal.SIGCONT)

    async def cut(self, index: int, accesses: int) -> None:
        """A path is cut."""
        await self.relays[index].cut()
        await self.more(accesses)
        await self.relays[index].open()

    async def stall(self, index: int, accesses: int) -> None:
        """A path holds back data, and delivers it later."""
        self.relays[index].stall()
        await self.more(accesses)
        self.relays[index].go_on()

    async def replace(self, _: int, accesses: int) -> None:
        """The writer is killed, and a new one takes over."""
        await self.writer.kill()
        await self.write()
        await self.more(accesses)

    async def depose(self, _: int, accesses: int) -> None:
        """The writer is frozen, a new one takes over, and the old one continues: it is fenced."""
        old = self.writer
        old.signal(signal.SIGSTOP)
        new = await self.write()
        # Before all replicas have been fenced, it may read old data from one that the new writer
        # could not reach: that is documented.
        await self.until(lambda: new.says("clean"), "all replicas are the new writer's")
        old.signal(signal.SIGCONT)
        assert await old.ended() == 0, old.log
        assert old.says("deposed"), old.log
        # It has not fenced the new one, not even on a replica that it had lost.
        await self.more(30 + accesses)
