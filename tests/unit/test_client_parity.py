# SPDX-License-Identifier: BSD-3-Clause
"""The synchronous interface against the asynchronous one, and every kind of namespace against one
protocol: names, parameters, defaults, types of results and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import nvmf.initiator
from nvmf.initiator import Controller, Namespace, Subsystem, sync
from nvmf.initiator.base.interface import AnyController, AnyGeometry, AnyNamespace
from nvmf.initiator.base.reservations import Reservations
from nvmf.initiator.kernel.controller import KernelController
from nvmf.initiator.kernel.namespace import KernelNamespace
from nvmf.initiator.multipath import MultipathNamespace
from nvmf.initiator.sync.blocking import BlockingReservations
from nvmf.spec.nqn import DISCOVERY_NQN
from support.clientlab import OPTIONS
from support.multipathrig import STEADY
from support.servedpaths import two_served

if TYPE_CHECKING:
    # Checked by mypy: each kind implements the protocols.
    def _namespaces(
        client: Namespace, kernel: KernelNamespace, paths: MultipathNamespace
    ) -> list[AnyNamespace]:
        return [client, kernel, paths]

    def _controllers(
        client: Controller, kernel: KernelController, paths: Subsystem
    ) -> list[AnyController]:
        return [client, kernel, paths]

    def _geometries(found: sync.Namespace, several: list[AnyNamespace]) -> list[AnyGeometry]:
        return [found, *several]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, as its classes define them."""
    for name in dir(kind):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(kind, name)


def parameters(function: Any) -> list[tuple[str, str, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(one.name, str(one.kind), one.default) for one in found]


KINDS = [
    (AnyNamespace, Namespace),
    (AnyNamespace, KernelNamespace),
    (AnyNamespace, MultipathNamespace),
    (AnyNamespace, sync.Namespace),
    (AnyController, Controller),
    (AnyController, KernelController),
    (AnyController, Subsystem),
    (AnyController, sync.Controller),
    (AnyController, sync.Subsystem),
    (Reservations, BlockingReservations),
]


@pytest.mark.parametrize(
    ("protocol", "kind"), KINDS, ids=[f"{kind.__module__}.{kind.__name__}" for _, kind in KINDS]
)
def test_kinds(protocol: type, kind: type) -> None:
    """All members of the protocol exist, with the same parameters and defaults."""
    names = set()
    for name, said in members(protocol):
        names.add(name)
        if isinstance(said, property) and not hasattr(kind, name):
            made = inspect.getsource(vars(kind)["__init__"])  # an attribute of the object
            assert re.search(rf"self\.{name}\b", made) or name in ("nsid", "ids"), name
            continue
        found = inspect.getattr_static(kind, name)
        assert inspect.getdoc(getattr(kind, name)), name
        if isinstance(said, property):
            assert isinstance(found, property), name
            continue
        assert parameters(found) == parameters(said), name
        blocking = kind.__module__.startswith("nvmf.initiator.sync")
        assert inspect.iscoroutinefunction(found) == (
            inspect.iscoroutinefunction(said) and not blocking
        ), name
    assert len(names) >= 7


SAME = [
    (Controller, sync.Controller, {"connect", "session", "execute_io", "execute_pair",
                                   "with_admin", "look_again", "identify_again"}),
    (Subsystem, sync.Subsystem, {"connect"}),
    (Namespace, sync.Namespace, {"send", "receive", "serial", "replaced", "identified",
                                 "difference", "require"}),
]  # fmt: skip
"""Asynchronous class, synchronous class, and what belongs to the client itself."""


@pytest.mark.parametrize(("one", "other", "own"), SAME, ids=lambda x: getattr(x, "__name__", ""))
def test_classes(one: type, other: type, own: set[str]) -> None:
    names = {name for name, _ in members(one)} - own
    for name in names:
        first, second = inspect.getattr_static(one, name), inspect.getattr_static(other, name)
        assert inspect.getdoc(getattr(other, name)), name
        if isinstance(first, property):
            assert isinstance(second, property), name
            assert (first.fset is None) == (second.fset is None) or name == "info", name
            continue
        assert parameters(first) == parameters(second), name
        assert inspect.getdoc(getattr(one, name)), name


def test_functions() -> None:
    names = [name for name in nvmf.initiator.__all__ if name.islower()]
    assert names == [name for name in sync.__all__ if name.islower()]
    for name in names:
        one, other = getattr(nvmf.initiator, name), getattr(sync, name)
        assert parameters(one) == parameters(other), name
        first, second = inspect.signature(one).parameters, inspect.signature(other).parameters
        for parameter in first:
            if parameter != "connected":  # it is a class's own Controller
                assert first[parameter].annotation == second[parameter].annotation
        assert inspect.getdoc(one), name
        assert inspect.getdoc(other), name


def test_multipath_for_scripts(tmp_path: Any) -> None:
    """Paths, policies, adding and removing a path, and bytes, without asyncio."""
    with two_served(tmp_path) as (one, two):
        found = sync.find_paths(one, **OPTIONS)
        assert len(found) == 2
        with sync.connect_multipath([one], **STEADY) as subsystem:
            assert repr(subsystem).endswith(" by 1 path, live>")
            added = subsystem.add_path(two, **STEADY)
            assert subsystem.paths[1] is added
            subsystem.policy = "round-robin"
            assert subsystem.policy == "round-robin"
            with pytest.raises(ValueError, match="unknown policy 'any'"):
                subsystem.policy = "any"
            disk = subsystem.namespace(1)
            with disk.open("r+b") as file:
                file.seek(1000)
                file.write(b"by either path" * 1000)
            assert disk.pread(14, 1000 + 14 * 999) == b"by either path"
            assert all(path.commands for path in subsystem.paths)
            subsystem.remove_path(added)
            assert len(subsystem.paths) == 1
            assert subsystem.queues == 1
            assert (subsystem.device, subsystem.version.major) == ("iwarp", 2)
            assert subsystem.options.kato == 0
            for lacking in (
                lambda: subsystem.on_event(print),
                subsystem.reauthenticate,
                subsystem.reset,
                lambda: subsystem.reconnects,
            ):
                with pytest.raises(ValueError, match="single controller connected by the client"):
                    lacking()
        (log,) = sync.discover_all(one.replace(one.rpartition("/")[2], DISCOVERY_NQN), **OPTIONS)
        assert len(log.entries) >= 2
        header, entries = sync.discovery_log(one, **OPTIONS)
        assert header.numrec == len(entries) == len(log.entries)


def test_events_for_scripts(tmp_path: Any) -> None:
    with two_served(tmp_path) as (one, _), sync.connect(one, **OPTIONS) as controller:
        assert controller.reconnects == 0
        with controller.on_event(print) as subscription:
            assert "ended" not in repr(subscription)
        assert "ended" in repr(subscription)
        with pytest.raises(TypeError, match="nsid is a whole number, not '1'"):
            controller.namespace("1")  # type: ignore[arg-type]
        disk = controller.namespace(1)
        with pytest.raises(TypeError, match="lba is a whole number, not '0'"):
            disk.read("0", 1)  # type: ignore[arg-type]
        memory = controller.alloc(4096)
        memory.close()
        for wrong in (
            lambda: disk.write(0, memory),
            lambda: disk.readinto(0, memory),
            lambda: disk.pwrite(memory, 0),
            lambda: controller.register(memory),
        ):
            with pytest.raises(ValueError, match="closed"):
                wrong()
        into = [bytearray(3), bytearray(4)]
        assert disk.preadv(into, 7) == 7
        assert disk.pwritev([bytes(disk.block_size)], 0) == disk.block_size
        assert disk.preadinto(into[0], 9) == 3
