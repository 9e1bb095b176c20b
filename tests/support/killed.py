# SPDX-License-Identifier: BSD-3-Clause
"""killed.py SCENARIO FOLDER: change the state of a target, and be killed at each of its system
calls.

The scenario runs once to its end, to record the possible states.  Then it runs repeatedly in a
child process that kills itself before and after the first system call, the second, and so on, as
reported by Python's profiler: the product is not involved.  The child's acknowledgements come
through a pipe.  After each death the state is read as at a start of the target: it must be that
of the last acknowledged step, or of the one after it.

Prints the number of places at which it was killed; an AssertionError reports a wrong state.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from nvmf.config import save
from nvmf.spec import commands
from nvmf.spec.features import WriteProtection
from nvmf.spec.reservations import (
    AcquireAction,
    PersistenceChange,
    RegisterAction,
    ReleaseAction,
    ReservationType,
)
from nvmf.spec.status import StatusError
from nvmf.target.lasting import generation
from nvmf.target.lasting.healthkeeper import HealthKeeper
from nvmf.target.lasting.lasting import Lasting
from nvmf.target.lasting.state import state_folder
from nvmf.target.model.reservekeeper import encode, load
from nvmf.target.model.subsystem import Subsystem
from support.faketarget import HOSTID, Bench, FakeNamespace

NQN = "nqn.2014-08.org.example:killed"
OTHER = bytes(range(2, 18))
SYSTEM = {"posix", "_io", "_socket", "select"}

Steps = Iterator[None]
"""Each next() executes a step, and returns when it would be acknowledged."""


# ---- the scenarios, and how their state is read at a start ----


def early() -> int:
    """Return a time of a clock that was set back."""
    return 1000


def count_generations(folder: Path) -> Steps:
    """The discovery log changes more often than its counter's file is written."""
    generation.RESERVE = 4
    yield
    counter = generation.Generation(folder, early)
    for _ in range(12):
        yield
        counter.advance()


def read_generation(folder: Path) -> int:
    """Return the generation from which the next run would count."""
    generation.RESERVE = 4
    return generation.Generation(folder, early).value


def reserve(folder: Path) -> Steps:
    """Two hosts register and reserve a namespace; the reservation persists through power loss
    except at the very end.
    """
    bench = Bench(subsystem=Subsystem(NQN, "SERIAL", allow_any_host=True, state=folder))
    bench.add_namespace()
    one, other = (bench.io(bench.admin(hostid=hostid)) for hostid in (HOSTID, OTHER))
    lasting, volatile = PersistenceChange.SET, PersistenceChange.CLEAR
    first, second = (1).to_bytes(8, "little"), (2).to_bytes(8, "little")
    everything = (
        (one, commands.reservation_register(1, RegisterAction.REGISTER, persistence=lasting),
         bytes(8) + first),
        (other, commands.reservation_register(1, RegisterAction.REGISTER), bytes(8) + second),
        (one, commands.reservation_acquire(1, AcquireAction.ACQUIRE,
                                           ReservationType.EXCLUSIVE_ACCESS), first + bytes(8)),
        (other, commands.reservation_acquire(1, AcquireAction.PREEMPT,
                                             ReservationType.WRITE_EXCLUSIVE), second + first),
        (other, commands.reservation_release(1, ReleaseAction.RELEASE,
                                             ReservationType.WRITE_EXCLUSIVE), second),
        (other, commands.reservation_register(1, RegisterAction.REPLACE, persistence=volatile),
         second + first),
    )  # fmt: skip
    for queue, sqe, data in everything:
        yield
        done = bench.do(queue, sqe, data)
        assert done.status == 0, hex(done.status)


def read_reservation(folder: Path) -> bytes | None:
    """Return the reservation that the namespace would have after a restart."""
    bench = Bench(subsystem=Subsystem(NQN, "SERIAL", state=folder))
    uuid = bench.add_namespace().identity.uuid
    found = load(folder / "reservations" / f"{uuid}.json")
    assert bench.subsystem.reservations.get(1) is not None, "it is not refused"
    return encode(found) if found is not None else None


def protect(folder: Path) -> Steps:
    """A namespace is write protected, then no longer, and gets invalid blocks."""
    bench = Bench(subsystem=Subsystem(NQN, "SERIAL", state=folder))
    bench.add_namespace()
    protected, marked = Lasting(WriteProtection.PROTECTED), Lasting(invalid=((5, 2),))
    for state in (protected, Lasting(), marked, protected):
        yield
        ended: list[StatusError | None] = []
        bench.subsystem.lasting.commit(1, partial(_exactly, state), ended.append)
        assert ended == [None]


def _exactly(state: Lasting, _: Lasting) -> Lasting:
    return state


def read_protection(folder: Path) -> Lasting:
    """Return the state that the namespace would have after a restart."""
    bench = Bench(subsystem=Subsystem(NQN, "SERIAL", state=folder))
    bench.add_namespace()
    return bench.subsystem.lasting.get(1)


def live(folder: Path) -> Steps:
    """A subsystem is served, its counters are written when they change, and it is shut down."""
    now = 0.0
    with asyncio.Runner() as runner:
        keeper = HealthKeeper(folder, lambda: now)
        namespace = Bench().add_namespace()
        engine = namespace.engine
        assert isinstance(engine, FakeNamespace)
        yield
        keeper.power_on(NQN)
        keeper.subsystem(NQN).come(namespace.identity.uuid, engine, masked=False)
        runner.run(keeper.save())
        for _ in range(2):
            yield
            now += 7200
            engine.stats = {name: count + 5 for name, count in engine.stats.items()} or {"reads": 1}
            runner.run(keeper.save())
        yield
        keeper.end()
        runner.run(keeper.close())


def read_health(folder: Path) -> Any:
    """Return the counters from which the log would continue."""
    one = HealthKeeper(folder, lambda: 0.0).subsystem(NQN)
    return one.body()


def configure(folder: Path) -> Steps:
    """A configuration is saved (it is not state, but must survive a crash as well)."""
    for number in range(2):
        yield
        save.write(folder / "target.toml", f"[target]\nreactors = {number + 1}\n" * 100)


def read_configuration(folder: Path) -> str | None:
    """Return the content of the file."""
    path = folder / "target.toml"
    return path.read_text() if path.exists() else None


SCENARIOS: dict[str, tuple[Callable[[Path], Steps], Callable[[Path], Any]]] = {
    "generation": (count_generations, read_generation),
    "reservations": (reserve, read_reservation),
    "namespaces": (protect, read_protection),
    "health": (live, read_health),
    "configuration": (configure, read_configuration),
}


# ---- the kills ----


class Killer:
    """Kills this process before or after one of its system calls."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if not event.startswith("c_"):
            return
        owner = getattr(function, "__self__", None)
        module = getattr(function, "__module__", None) or type(owner).__module__
        if module in SYSTEM:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(steps: Steps, number: int) -> tuple[bool, int]:
    """Return whether the child was killed at that call, and how many steps it had acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            killer = Killer(number)
            threading.setprofile(killer)
            sys.setprofile(killer)
            next(steps)
            while next(steps, "end") != "end":
                os.write(writing, b".")
            os.write(writing, b".")
            status = 0
        finally:
            sys.setprofile(None)
            os._exit(status)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        acknowledged = len(pipe.read())
    assert status in (0, signal.SIGKILL), f"killed at {number}: status {status:#x}"
    return status != 0, acknowledged


def check(folder: Path, read: Callable[[Path], Any], states: list[Any], step: int) -> None:
    """Check that the state is the old one or the new one, and that there are no other files."""
    state_folder(folder)
    found = read(folder)
    if isinstance(found, int):
        assert found >= states[step], f"the counter is back at {found}"
    else:
        assert found in states[step : step + 2], f"after step {step}: {found}"
    left = [path.name for path in folder.rglob("*") if path.is_file()]
    assert not any(name.endswith(".new") or "damaged" in name for name in left), left


def main(name: str, folder: Path) -> None:
    """Run one scenario with all places."""
    logging.disable(logging.INFO)
    scenario, read = SCENARIOS[name]

    def fresh() -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def copy_read() -> Any:
        copy = folder.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        return read(copy)

    steps, states = scenario(fresh()), []
    for _ in steps:
        states.append(copy_read())
    states.append(copy_read())
    number, killed = 0, True
    while killed:
        number += 1
        killed, acknowledged = run_and_die(scenario(fresh()), number)
        check(folder, read, states, acknowledged)
    print(number - 1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
