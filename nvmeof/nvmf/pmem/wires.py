# SPDX-License-Identifier: BSD-3-Clause
"""The floor of replication: the same bytes to as many targets at the same time, by the engine.

It needs the namespaces to be exported to this host as memory; without that there is no floor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from nvmf.initiator import ConnectOptions, TransportId
from nvmf.initiator.client.bringup import device_kinds
from nvmf.pmem.figures import PERCENTILES, cpu_of, of_part
from nvmf.pmem.remote import RemoteMemory
from nvmf.pmem.replicarows import MirrorRow, ReplicaPlan, new_row
from nvmf.replication import NamespaceReplica

WIRE = "wire of "


async def measure_wires(
    plan: ReplicaPlan, rows: list[MirrorRow], say: Callable[[str], None]
) -> None:
    """Measure the wire to one target and to all of them, at each size and depth; add the rows.

    Rows have a reason instead of figures if a namespace cannot be opened as memory.

    Raises:
        OSError: A replica cannot be reached, or a connection was lost.
        ReplicationError: A replica cannot be used.
    """
    if plan.read_percent:
        return  # the floor writes
    await release(plan.urls)
    async with AsyncExitStack() as stack:
        wires: list[RemoteMemory] = []
        why = ""
        try:
            for url in plan.urls:
                wires.append(await stack.enter_async_context(await _connect(plan, url)))
        except OSError as error:
            why = error.strerror or str(error)
        for size in plan.sizes:
            for depth in plan.depths:
                for count in dict.fromkeys((1, len(plan.urls))):
                    row = new_row(f"{WIRE}{count}", size, depth)
                    rows.append(row)
                    row["skipped"] = why or _misfit(wires, size, depth)
                    if not row["skipped"]:
                        say(f"measuring {row['system']}, {size} bytes, depth {depth}")
                        await _measure(plan, wires[:count], row)


async def release(urls: Sequence[str]) -> None:
    """Give up the reservations that a run has left: they exclude the wire, and all other hosts.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: A replica cannot be used.
    """
    for url in urls:
        replica = NamespaceReplica(url)
        try:
            await replica.fence()
            await replica.give_up()
        finally:
            await replica.close()


async def _connect(plan: ReplicaPlan, url: str) -> RemoteMemory:
    place = TransportId.of(url)
    options = ConnectOptions().with_options(place.options)
    return await RemoteMemory.connect(
        place,
        method="write-send",
        force=True,  # the floor makes nothing persistent
        hostnqn=plan.hostnqn or options.hostnqn,
        device=device_kinds(options.device)[0],
        depth=max(plan.depths),
        slot_bytes=(max(plan.sizes) + 7) & ~7,
    )


def _misfit(wires: Sequence[RemoteMemory], size: int, depth: int) -> str:
    least = min(wire.size for wire in wires)
    if size > least:
        return f"the range has {least} bytes"
    accepted = min(wire.depth for wire in wires)
    return f"a target accepts a depth of {accepted}" if depth > accepted else ""


async def _measure(plan: ReplicaPlan, wires: Sequence[RemoteMemory], row: MirrorRow) -> None:
    before = cpu_of(plan.processes)
    found = await wires[0].bench(
        "floor",
        size=row["size"],
        depth=row["depth"],
        seconds=plan.seconds,
        percentiles=PERCENTILES,
        also=wires[1:],
        # Polling would take processors from targets on this machine.
        sleeps=len(os.sched_getaffinity(0)) <= len(plan.processes),
    )
    after = cpu_of(plan.processes)
    row["figures"] = of_part(found["write"], found["seconds"], found["cpu_seconds"])
    if before is not None and after is not None:
        row["target_cpu_seconds"] = after - before


def compare_with_wires(rows: Sequence[MirrorRow], count: int, mirror: str) -> None:
    """Set of_wire of a replica and of a mirror of so many replicas."""
    wires = {
        (row["system"], row["size"], row["depth"]): row["figures"]["bytes_per_second"]
        for row in rows
        if row["system"].startswith(WIRE) and row["figures"]
    }
    for row in rows:
        if row["figures"] is None:
            continue
        targets = count if row["system"].startswith((mirror, f"{WIRE}{count}")) else 1
        floor = wires.get((f"{WIRE}{targets}", row["size"], row["depth"]))
        row["of_wire"] = row["figures"]["bytes_per_second"] / floor if floor else None
