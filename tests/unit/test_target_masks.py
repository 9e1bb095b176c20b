# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces that only some hosts see: Identify, events, and tables of the engine."""

from __future__ import annotations

from typing import Any

import pytest

from nvmf.spec import commands
from nvmf.spec.opcodes import Cns
from nvmf.spec.status import Status
from nvmf.target.model.namespace import Identity, Namespace
from nvmf.target.model.queue import Queue
from support.faketarget import HOST, Bench, FakeNamespace, FakeStore

pytestmark = pytest.mark.feature("masks")

OTHER = "nqn.2014-08.org.example:other"


class Table:
    """A table that records its entries."""

    def __init__(self) -> None:
        self.entries: dict[int, Any] = {}
        self.users, self.closed = 0, False

    def set(self, nsid: int, namespace: Any) -> None:
        assert not self.closed
        self.entries.pop(nsid, None)
        if namespace is not None:
            self.entries[nsid] = namespace

    def close(self) -> None:
        assert not self.users
        self.closed = True


def bench() -> Bench:
    made = Bench()
    made.subsystem.make_table = Table
    return made


def namespace(nsid: int) -> Namespace:
    return Namespace(nsid, FakeStore(), Identity.derive("x", nsid, "/x"), FakeNamespace())


def active(lab: Bench, admin: Queue) -> list[int]:
    done = lab.do(admin, commands.identify(Cns.ACTIVE_NAMESPACES), length=4096)
    words = [int.from_bytes(done.data[i : i + 4], "little") for i in range(0, 4096, 4)]
    return [nsid for nsid in words if nsid]


def shown(queue: Queue) -> list[int]:
    """Return the namespaces that the engine was last told to show on an I/O queue."""
    handle: Any = queue.handle
    tables = [call[-1] for call in handle.calls if call[0] in ("connected", "show")]
    return sorted(tables[-1].entries)


def test_hosts_see_what_is_theirs() -> None:
    lab = bench()
    lab.subsystem.attach(namespace(1))
    lab.subsystem.attach(namespace(2), frozenset({HOST}))
    lab.subsystem.attach(namespace(3), frozenset({OTHER}))
    lab.subsystem.attach(namespace(4), frozenset())
    mine, theirs = lab.admin(hostnqn=HOST), lab.admin(hostnqn=OTHER)
    stranger = lab.admin(hostnqn=f"{OTHER}s")
    assert [active(lab, admin) for admin in (mine, theirs, stranger)] == [[1, 2], [1, 3], [1]]
    assert shown(lab.io(mine)) == [1, 2]
    done = lab.do(mine, commands.identify(Cns.NAMESPACE_DESCRIPTORS, nsid=3), length=4096)
    assert done.status & 0xFF == Status.INVALID_NAMESPACE_OR_FORMAT
    done = lab.do(mine, commands.identify(Cns.NAMESPACE, nsid=3), length=4096)
    assert done.data == bytes(4096)


def test_who_sees_the_same_shares_a_view() -> None:
    lab = bench()
    lab.subsystem.attach(namespace(1))
    lab.subsystem.attach(namespace(2), frozenset({HOST, OTHER}))
    views = []
    for host in (HOST, OTHER, "nqn.2014-08.org.example:a", "nqn.2014-08.org.example:b"):
        controller = lab.admin(hostnqn=host).controller
        assert controller is not None
        views.append(controller.view)
    assert views[0] is views[1]
    assert views[2] is views[3]
    assert views[0] is not views[2]


def test_a_mask_changes_under_connected_hosts() -> None:
    lab = bench()
    lab.subsystem.attach(namespace(1))
    lab.subsystem.attach(namespace(2))
    mine, theirs = lab.admin(hostnqn=HOST), lab.admin(hostnqn=OTHER)
    queues = [lab.io(mine), lab.io(theirs)]
    space = lab.subsystem.namespaces[2]
    lab.subsystem.change({2: (space, frozenset({HOST}))})
    assert [shown(queue) for queue in queues] == [[1, 2], [1]]
    assert [active(lab, mine), active(lab, theirs)] == [[1, 2], [1]]
    controllers = [mine.controller, theirs.controller]
    assert [c.changed_namespaces for c in controllers if c is not None] == [set(), {2}]
    lab.subsystem.change({2: (space, frozenset({OTHER}))})
    assert [shown(queue) for queue in queues] == [[1], [1, 2]]
    lab.subsystem.change({2: (space, None)})
    assert [shown(queue) for queue in queues] == [[1, 2], [1, 2]]
    assert [c.changed_namespaces for c in controllers if c is not None] == [{2}, {2}]
    lab.subsystem.detach(2)
    assert [shown(queue) for queue in queues] == [[1], [1]]


def test_tables_go_with_their_last_queue() -> None:
    lab = bench()
    lab.subsystem.attach(namespace(1), frozenset({HOST}))
    admin = lab.admin(hostnqn=HOST)
    assert admin.controller is not None
    table: Any = admin.controller.view.table
    table.users = 1
    lab.core.closed(admin)
    lab.core.tidy(lab.subsystem)
    assert not table.closed
    lab.subsystem.detach(1)
    assert table.entries == {}
    table.users = 0
    lab.core.tidy(lab.subsystem)
    lab.admin(hostnqn=OTHER)
    lab.core.tidy(lab.subsystem)
    assert table.closed
