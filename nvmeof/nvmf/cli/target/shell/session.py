# SPDX-License-Identifier: BSD-3-Clause
"""The objects of a target as tables, and those of this session that are not enabled yet.

As with nvmetcli, a port or a namespace is created first, gets its attributes, and is then enabled.
Until then it is only in this session: the target does not have an incomplete object.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from nvmf.cli.base import CliError
from nvmf.cli.target.client import target
from nvmf.cli.target.shell.words import Table
from nvmf.json import JSON

DEFAULT_PORT: Table = {"traddr": "127.0.0.1"}
"""The port of a configuration that does not mention any."""


def tables(table: Table, key: str) -> list[Table]:
    """Return the repeated tables of a table, which can be changed."""
    found = table.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def texts(table: Table, key: str) -> list[str]:
    """Return a list of text."""
    found = table.get(key)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def append(table: Table, key: str, value: JSON) -> None:
    """Append to a list of a table."""
    found = table.get(key)
    table[key] = [*(found if isinstance(found, list) else ()), value]


def remove(table: Table, key: str, unwanted: Callable[[JSON], bool]) -> bool:
    """Remove items of a list of a table; return whether there were any."""
    found = table.get(key)
    before = found if isinstance(found, list) else []
    table[key] = [one for one in before if not unwanted(one)]
    return len(before) != len([one for one in before if not unwanted(one)])


def number(table: Table, key: str) -> int:
    """Return a number of a table, 0 if it is missing."""
    found = table.get(key)
    return found if isinstance(found, int) else 0


def find(found: list[Table], key: str, value: JSON) -> Table:
    """Return the table with this value; raise CliError if there is none."""
    for table in found:
        if table.get(key) == value:
            return table
    raise CliError(f"there is no {value}")


class Session:
    """The configuration of a target, as it was last read."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.config: Table = {}
        self._revision = 0
        self.ports: dict[str, Table] = {}
        """Ports that are not enabled, by number."""
        self.namespaces: dict[tuple[str, int], Table] = {}
        """Namespaces that are not enabled, by NQN and NSID."""
        self.hosts: set[str] = set()
        """Hosts that no subsystem allows."""
        self._numbers: dict[tuple[JSON, JSON], str] = {}

    def read(self) -> None:
        """Read the configuration of the target."""
        with target(self._args) as rpc:
            found = rpc.config()
        self.config, self._revision = found["config"], found["revision"]
        self.config.setdefault("port", [dict(DEFAULT_PORT)])
        for subsystem in self.subsystems():
            spaces = tables(subsystem, "namespace")
            taken = {number(space, "nsid") for space in spaces}
            for space in spaces:
                if "nsid" not in space:
                    space["nsid"] = min(set(range(1, len(taken) + 2)) - taken)
                    taken.add(number(space, "nsid"))
        there = {(s["nqn"], n["nsid"]) for s in self.subsystems() for n in tables(s, "namespace")}
        nqns = {subsystem["nqn"] for subsystem in self.subsystems()}
        self.namespaces = {
            place: table
            for place, table in self.namespaces.items()
            if place not in there and place[0] in nqns
        }

    def change(self, edit: Callable[[Table], None]) -> None:
        """Change the configuration, if the target still has the one that was read."""
        edit(self.config)
        with target(self._args) as rpc:
            rpc.set_config(self.config, revision=self._revision)
        self.read()

    def subsystems(self) -> list[Table]:
        """Return the subsystems."""
        return tables(self.config, "subsystem")

    def subsystem(self, nqn: str) -> Table:
        """Return a subsystem."""
        return find(self.subsystems(), "nqn", nqn)

    def numbered(self) -> dict[str, Table]:
        """Return the open ports by number: a port keeps its number during the session."""
        found: dict[str, Table] = {}
        for port in tables(self.config, "port"):
            place = port.get("traddr"), port.get("trsvcid", 4420)
            if place not in self._numbers:
                self._numbers[place] = self.free_number()
            found[self._numbers[place]] = port
        return found

    def free_number(self) -> str:
        """Return the lowest number that no port of the session has had."""
        taken = {*self._numbers.values(), *self.ports}
        return next(str(n) for n in range(1, len(taken) + 2) if str(n) not in taken)

    def keep_number(self, number: str, port: Table) -> None:
        """Give an address the number of a port."""
        self._numbers = {place: n for place, n in self._numbers.items() if n != number}
        self._numbers[port.get("traddr"), port.get("trsvcid", 4420)] = number

    def drop_number(self, number: str) -> None:
        """Forget the address of a port."""
        self._numbers = {place: n for place, n in self._numbers.items() if n != number}

    def known_hosts(self) -> list[str]:
        """Return the NQNs of all hosts."""
        found = set(self.hosts)
        for subsystem in self.subsystems():
            found.update(allowed(subsystem))
        return sorted(found)


def allowed(subsystem: Table) -> list[str]:
    """Return the hosts that a subsystem allows."""
    keyed = [str(host["nqn"]) for host in tables(subsystem, "host")]
    return [*texts(subsystem, "hosts"), *keyed]
