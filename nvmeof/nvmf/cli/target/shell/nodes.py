# SPDX-License-Identifier: BSD-3-Clause
"""Places in the tree of the shell: their children, and what create, delete, set, ... do there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from nvmf.cli.base import CliError, UsageError
from nvmf.cli.output import size_text
from nvmf.cli.target.shell.session import (
    Session,
    allowed,
    append,
    number,
    remove,
    tables,
)
from nvmf.cli.target.shell.words import GROUPS, Table, assigned, put, shown

Path: TypeAlias = tuple[str, ...]
"""Names from the root."""
Edit: TypeAlias = Callable[[Table], None]
"""Changes a table."""

_KINDS: dict[str, tuple[Path, tuple[str, ...]]] = {
    "root": ((), ()),
    "hosts": (("hosts",), ("create", "delete")),
    "host": (("hosts", "*"), ()),
    "ports": (("ports",), ("create", "delete")),
    "port": (("ports", "*"), ("set", "get", "enable", "disable")),
    "port_subsystems": (("ports", "*", "subsystems"), ("create", "delete")),
    "port_subsystem": (("ports", "*", "subsystems", "*"), ()),
    "ana_groups": (("ports", "*", "ana_groups"), ("create", "delete")),
    "ana_group": (("ports", "*", "ana_groups", "*"), ("set", "get")),
    "subsystems": (("subsystems",), ("create", "delete")),
    "subsystem": (("subsystems", "*"), ("set", "get")),
    "namespaces": (("subsystems", "*", "namespaces"), ("create", "delete")),
    "namespace": (
        ("subsystems", "*", "namespaces", "*"),
        ("set", "get", "enable", "disable", "grpid"),
    ),
    "allowed_hosts": (("subsystems", "*", "allowed_hosts"), ("create", "delete")),
    "allowed_host": (("subsystems", "*", "allowed_hosts", "*"), ()),
}
"""Kinds of places, with their paths and commands."""
_PORT_ONLY = "every port serves all subsystems here"


def kind(path: Path) -> str:
    """Return the kind of a place."""
    return next(
        name
        for name, (form, _) in _KINDS.items()
        if len(form) == len(path) and all(f in ("*", p) for f, p in zip(form, path, strict=True))
    )


def commands(path: Path) -> tuple[str, ...]:
    """Return the commands that a place has."""
    return _KINDS[kind(path)][1]


class Tree:
    """The places of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    # ---- places ----

    def children(self, path: Path) -> list[str]:
        """Return the names of the children of a place."""
        session = self.session
        match kind(path):
            case "root":
                return ["hosts", "ports", "subsystems"]
            case "hosts":
                return session.known_hosts()
            case "ports":
                return sorted({*session.numbered(), *session.ports}, key=int)
            case "port":
                return ["ana_groups", "subsystems"]
            case "port_subsystems":
                there = path[1] in session.numbered()
                return self.children(("subsystems",)) if there else []
            case "ana_groups":
                groups = {"1", *(str(g["id"]) for g in tables(self._port(path[1]), "ana_group"))}
                return sorted(groups, key=int)
            case "subsystems":
                return [str(one["nqn"]) for one in session.subsystems()]
            case "subsystem":
                return ["allowed_hosts", "namespaces"]
            case "namespaces":
                return [str(nsid) for nsid in sorted(self._namespaces(path[1]))]
            case "allowed_hosts":
                return allowed(session.subsystem(path[1]))
        return []

    def resolve(self, here: Path, text: str) -> Path:
        """Return the place that a path names, relative to a place; NQNs may contain slashes."""
        found = () if text.startswith("/") else here
        rest = text.strip("/")
        while rest:
            names = sorted(self.children(found), key=len, reverse=True)
            name = next((n for n in names if rest == n or rest.startswith(f"{n}/")), None)
            if name is not None:
                found = (*found, name)
            else:
                name = rest.split("/")[0]
                if name not in (".", ".."):
                    raise CliError(f"there is no {name} in /{'/'.join(found)}")
                found = found[:-1] if name == ".." else found
            rest = rest[len(name) :].lstrip("/")
        return found

    def summary(self, path: Path) -> str:
        """Return the text that ls shows after the name of a place."""
        match kind(path):
            case "port":
                port = self._port(path[1])
                closed = "" if path[1] in self.session.numbered() else ", not enabled"
                where = f"{port.get('traddr', 'no traddr')}, port {port.get('trsvcid', 4420)}"
                return f"{where}, {port.get('device', 'auto')}{closed}"
            case "ana_group":
                return str(self._group(path)["state"])
            case "subsystem":
                one = self.session.subsystem(path[1])
                who = "any host" if one.get("allow_any_host") else "allowed hosts"
                return f"{who}, serial {one['serial']}" if "serial" in one else who
            case "namespace":
                space = self._namespaces(path[1])[int(path[3])]
                words = [str(space[key]) for key in ("store", "path") if key in space]
                size = space.get("size")
                words += [size_text(size) if isinstance(size, int) else str(size)] if size else []
                staged = (path[1], int(path[3])) in self.session.namespaces
                on = not staged and space.get("enabled", True)
                return ", ".join([*words, "enabled" if on else "not enabled"])
        return ""

    def attributes(self, path: Path) -> dict[str, Table]:
        """Return the attributes of a place by group."""
        return shown(kind(path), self._table(path))

    def _table(self, path: Path) -> Table:
        match kind(path):
            case "port":
                return self._port(path[1])
            case "ana_group":
                return self._group(path)
            case "subsystem":
                return self.session.subsystem(path[1])
            case "namespace":
                return self._namespaces(path[1])[int(path[3])]
        return {}

    def _port(self, name: str) -> Table:
        return (self.session.ports | self.session.numbered())[name]

    def _group(self, path: Path) -> Table:
        groups = tables(self._port(path[1]), "ana_group")
        wanted = int(path[3])
        return next((g for g in groups if g["id"] == wanted), {"id": wanted, "state": "optimized"})

    def _namespaces(self, nqn: str) -> dict[int, Table]:
        staged = {n: t for (of, n), t in self.session.namespaces.items() if of == nqn}
        there = tables(self.session.subsystem(nqn), "namespace")
        return staged | {number(one, "nsid"): one for one in there}

    # ---- commands ----

    def create(self, path: Path, name: str | None) -> str:
        """Create a child of a place; return its name."""
        session, of = self.session, kind(path)
        if name is not None and of != "port_subsystems" and name in self.children(path):
            raise CliError(f"{name} already exists")
        match of:
            case "ports":
                made = name or session.free_number()
                _positive(made)
                session.ports[made] = {}
                return made
            case "namespaces":
                taken = self._namespaces(path[1])
                nsid = min(set(range(1, len(taken) + 2)) - set(taken))
                nsid = _positive(name) if name is not None else nsid
                session.namespaces[path[1], nsid] = {"nsid": nsid}
                return str(nsid)
            case "subsystems":
                nqn = name or _random_nqn()
                session.change(lambda config: append(config, "subsystem", {"nqn": nqn}))
                return nqn
        if name is None:
            raise UsageError("create needs a name")
        match of:
            case "hosts":
                session.hosts.add(name)
            case "allowed_hosts":
                session.change(lambda _: append(session.subsystem(path[1]), "hosts", name))
            case "ana_groups":
                group: Table = {"id": _positive(name), "state": "optimized"}
                self._change_port(path[1], lambda port: append(port, "ana_group", group))
            case "port_subsystems":
                session.subsystem(name)
                self.enable(path[:2])
        return name

    def delete(self, path: Path, name: str) -> None:
        """Delete a child of a place."""
        session = self.session
        if name not in self.children(path):
            raise CliError(f"there is no {name} in /{'/'.join(path)}")
        match kind(path):
            case "hosts":
                users = [str(s["nqn"]) for s in session.subsystems() if name in allowed(s)]
                if users:
                    raise CliError(f"{users[0]} allows {name}: delete it in its allowed_hosts")
                session.hosts.discard(name)
            case "ports":
                if name in session.numbered():
                    self.disable(("ports", name))
                del session.ports[name]
                session.drop_number(name)
            case "port_subsystems":
                if len(session.subsystems()) > 1:
                    raise CliError(f"{_PORT_ONLY}: disable closes the port for all")
                self.disable(path[:2])
            case "ana_groups":
                self._change_port(
                    path[1],
                    lambda port: _drop(port, "ana_group", "id", int(name)),
                )
            case "subsystems":
                session.change(lambda config: _drop(config, "subsystem", "nqn", name))
            case "namespaces":
                nsid = int(name)
                if session.namespaces.pop((path[1], nsid), None) is None:
                    session.change(
                        lambda _: _drop(session.subsystem(path[1]), "namespace", "nsid", nsid)
                    )
            case "allowed_hosts":
                session.change(lambda _: _disallow(session.subsystem(path[1]), name))

    def set(self, path: Path, words: Sequence[str]) -> None:
        """Set attributes of a place."""
        of, session = kind(path), self.session
        values = assigned(of, words)
        if of == "subsystem":
            session.change(lambda _: put(session.subsystem(path[1]), values))
        elif of == "ana_group":
            self._set_group(path, values)
        elif of == "port":
            if path[1] not in session.ports:
                raise CliError(f"port {path[1]} is enabled: disable it first")
            put(session.ports[path[1]], values)
        elif (path[1], int(path[3])) in session.namespaces:
            put(session.namespaces[path[1], int(path[3])], values)
        else:
            space = self._namespaces(path[1])[int(path[3])]
            if space.get("enabled", True):
                raise CliError(f"namespace {path[3]} is enabled: disable it first")
            session.change(lambda _: put(space, values))

    def _set_group(self, path: Path, values: Table) -> None:
        made: Table = {**self._group(path), **values}

        def edit(port: Table) -> None:
            _drop(port, "ana_group", "id", int(path[3]))
            append(port, "ana_group", made)

        self._change_port(path[1], edit)

    def _change_port(self, name: str, edit: Edit) -> None:
        if name in self.session.ports:
            edit(self.session.ports[name])
        else:
            port = self.session.numbered()[name]
            self.session.change(lambda _: edit(port))

    def enable(self, path: Path) -> None:
        """Serve a port or a namespace."""
        session = self.session
        if kind(path) == "port":
            staged = session.ports.get(path[1])
            if staged is not None:
                if "traddr" not in staged:
                    raise CliError(f"port {path[1]} has no traddr: set addr traddr=ADDRESS")
                session.keep_number(path[1], staged)
                session.change(lambda config: append(config, "port", staged))
                del session.ports[path[1]]
            return
        place = path[1], int(path[3])
        table = session.namespaces.get(place)
        if table is not None:
            made = {"store": "file", **table} if "path" in table else table
            if "store" not in made:
                raise CliError(f"namespace {path[3]} has no storage: set device path=FILE")
            session.change(lambda _: append(session.subsystem(path[1]), "namespace", made))
        else:
            space = self._namespaces(path[1])[place[1]]
            session.change(lambda _: put(space, {"enabled": None}))

    def disable(self, path: Path) -> None:
        """Stop serving a port or a namespace, which keeps its attributes."""
        session = self.session
        if kind(path) == "port":
            port = session.numbered().get(path[1])
            if port is not None:
                session.change(lambda config: _without(config, port))
                session.ports[path[1]] = port
        elif (path[1], int(path[3])) not in session.namespaces:
            space = self._namespaces(path[1])[int(path[3])]
            session.change(lambda _: put(space, {"enabled": False}))

    def regroup(self, path: Path, group: str) -> None:
        """Move a namespace to a different ANA group."""
        space = self._namespaces(path[1])[int(path[3])]
        values: Table = {"ana_group": _positive(group)}
        if (path[1], int(path[3])) in self.session.namespaces:
            put(space, values)
        else:
            self.session.change(lambda _: put(space, values))

    def choices(self, path: Path, command: str, before: Sequence[str]) -> list[str]:
        """Return the words that may follow a command."""
        groups = GROUPS.get(kind(path), {})
        if command == "delete":
            return self.children(path)
        if command == "create":
            other = {"allowed_hosts": ("hosts",), "port_subsystems": ("subsystems",)}
            found = other.get(kind(path))
            return self.children(found) if found is not None else []
        if command in ("set", "get") and not before:
            return list(groups)
        if command in ("set", "get"):
            return [f"{name}{'=' * (command == 'set')}" for name in groups.get(before[0], ())]
        return []


def _drop(table: Table, key: str, name: str, value: str | int) -> None:
    remove(table, key, lambda one: isinstance(one, dict) and one.get(name) == value)


def _without(table: Table, port: Table) -> None:
    remove(table, "port", lambda one: one is port)


def _disallow(subsystem: Table, nqn: str) -> None:
    remove(subsystem, "hosts", lambda one: one == nqn)
    if "host" in subsystem:
        _drop(subsystem, "host", "nqn", nqn)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{text}: expected a number above 0")
    return int(text)


def _random_nqn() -> str:
    from uuid import uuid4

    from nvmf.spec.nqn import nqn_of_uuid

    return nqn_of_uuid(uuid4())
