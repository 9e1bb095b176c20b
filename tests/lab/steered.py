# SPDX-License-Identifier: BSD-3-Clause
"""Our target outside the guest, which is changed while it runs, and queried for its state."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab import network
from lab.network import Network
from lab.ours import FRIEND_NQN, PRIVATE_NQN, SERVICE, SUBNQN
from lab.waiting import until
from support.served import Served

PROGRAM = Path(__file__).with_name("steered_target.py")
NSID = 1
"""The namespace that always exists."""
KEPT = ("srq", "mr")
ORPHANED = ("TIME-WAIT", "FIN-WAIT-1", "FIN-WAIT-2", "LAST-ACK", "CLOSING")
"""States of closed sockets: the kernel ends them by itself."""


def file_namespace(path: Path) -> dict[str, Any]:
    """The configuration of a namespace on a file."""
    return {"store": "file", "path": str(path), "block_size": 4096}


def _config(
    namespaces: Mapping[int, Mapping[str, Any]], device: str, limits: Mapping[str, int]
) -> str:
    text = f"""
[target]
reactors = 2
max_queues = {limits.get("max_queues", 4096)}

[[port]]
traddr = "{network.HOST}"
trsvcid = {SERVICE}
device = "{device}"

[[subsystem]]
nqn = "{PRIVATE_NQN}"
hosts = ["{FRIEND_NQN}"]

[[subsystem]]
nqn = "{SUBNQN}"
serial = "LAB"
allow_any_host = true
max_io_queues = {limits.get("max_io_queues", 64)}
"""
    for nsid, namespace in namespaces.items():
        text += f"\n[[subsystem.namespace]]\nnsid = {nsid}\n"
        # JSON's form of a string or a number is valid TOML.
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in namespace.items())
    return text


@dataclass(frozen=True)
class State:
    """The objects and memory of a target."""

    connections: int
    controllers: int
    resources: Mapping[str, int]
    """Resources of the embedded device, except those that the target keeps."""
    descriptors: int
    sockets: tuple[str, ...]
    """States of the TCP sockets on its port, except those that belong to no process."""
    kept: Mapping[str, int] = field(compare=False)
    """Resources of the embedded device of which the target keeps some for later hosts: shared
    receive queues, one or more for each reactor, and their memory."""
    blocks: int = field(compare=False)
    """Python's allocated blocks of memory."""
    heap: int = field(compare=False)
    """Bytes that are allocated otherwise."""


class Steered(Served):
    """A run of steered_target.py in the lab's network namespace."""

    program = ("-P", str(PROGRAM))
    stdin = subprocess.PIPE
    nqn = SUBNQN
    service = SERVICE

    def __init__(
        self,
        cable: Network,
        folder: Path,
        namespaces: Mapping[int, Mapping[str, Any]],
        device: str = "iwarp",
        **limits: int,
    ) -> None:
        self._cable = cable
        self._numbers = itertools.count(1)
        super().__init__(
            folder, _config(namespaces, device, limits), wrapper=tuple(cable.command())
        )
        self.wait_ready()

    def ask(self, do: str, **what: Any) -> Any:
        """Send the target a request, and wait for the answer."""
        number = next(self._numbers)
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(json.dumps({"number": number, "do": do, **what}).encode() + b"\n")
        pipe.flush()
        start = f'{{"number": {number}, '

        def replies() -> list[str]:
            lines = self.output.split("\n")[:-1]  # the last line is incomplete
            return [line for line in lines if line.startswith(start)]

        until(lambda: replies() or not self.alive, f"an answer to {do}", state=lambda: self.log)
        reply = json.loads(replies()[0]) if replies() else {"error": f"it ended:\n{self.log}"}
        assert "error" not in reply, reply["error"]
        return reply["answer"]

    def attach(self, nsid: int, namespace: Mapping[str, Any]) -> None:
        self.ask("attach", nqn=self.nqn, nsid=nsid, namespace=namespace)

    def detach(self, nsid: int) -> None:
        self.ask("detach", nqn=self.nqn, nsid=nsid)

    def resize(self, nsid: int) -> int:
        """Resize the namespace to its file; return the bytes."""
        return int(self.ask("resize", nqn=self.nqn, nsid=nsid))

    def state(self) -> State:
        """Return the target's present state."""
        found = self.ask("state")
        resources = found["resources"]
        return State(
            found["connections"],
            found["controllers"],
            {name: count for name, count in resources.items() if name not in KEPT},
            self.descriptors,
            tuple(sorted(self._sockets())),
            {name: resources[name] for name in KEPT},
            found["blocks"],
            found["heap"],
        )

    def _sockets(self) -> list[str]:
        states = [line.split()[0] for line in self._cable.sockets(self.service)]
        return [state for state in states if state not in ORPHANED]

    def wait_alone(self) -> State:
        """Wait until no host is connected, and return the state then."""
        return self._wait(
            lambda now: not (now.connections or now.controllers or now.resources["qp"]),
            "no host is connected",
        )

    def wait_same(self, before: State) -> State:
        """Wait until the state is as before; the caller checks kept objects and memory."""
        return self._wait(
            lambda now: (
                replace(now, descriptors=before.descriptors) == before
                and now.descriptors <= before.descriptors
            ),
            f"the target holds what it held before: {before}",
        )

    def _wait(self, reached: Callable[[State], bool], what: str) -> State:
        states = [self.state()]

        def step() -> bool:
            states.append(self.state())
            return reached(states[-1])

        until(step, what, state=lambda: f"{states[-1]}\n{self.log}")
        return states[-1]

    def _finish(self) -> None:
        super()._finish()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        """End the target, and check that it had no errors."""
        if self.alive:
            self.check_log()
            assert self.end(30) == 0, f"our target ended badly:\n{self.log}"
        self.check_log()
