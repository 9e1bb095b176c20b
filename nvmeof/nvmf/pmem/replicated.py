# SPDX-License-Identifier: BSD-3-Clause
"""Measures replication: a mirror against a single replica and the wire, and the appends to a log.

Python begins and ends each operation here, on the host's side: figures of a mirror are to be
compared with those of a single replica by the same code, not with those of the methods, which the
engine measures.  With write_many(), Python begins and ends a call of as many writes as the depth.

The floor is the wire: the engine sends the same bytes to as many targets at the same time, by an
RDMA WRITE and a message behind it that each target answers at once (the floor of nvmf.pmem.bench).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from nvmf.pmem.figures import Figures, compared
from nvmf.pmem.logbench import measure_log
from nvmf.pmem.replicaload import Run
from nvmf.pmem.replicarows import MirrorRow, ReplicaPlan, ReplicaResults, new_row
from nvmf.pmem.resync import measure_resync
from nvmf.pmem.wires import compare_with_wires, measure_wires, release
from nvmf.replication import Mirror, NamespaceReplica, ReplicationError

MANY = ", write_many"


async def measure_mirror(
    plan: ReplicaPlan, rows: list[MirrorRow], say: Callable[[str], None]
) -> None:
    """Measure the wire, a single replica and the mirror of all, and add the rows.

    The content of the namespaces is lost.

    Raises:
        OSError: A replica cannot be reached.
        ReplicationError: The mirror cannot be used.
    """
    count = len(plan.urls)
    await measure_wires(plan, rows, say)
    mirror = f"mirror of {count}, quorum {plan.quorum}"
    for system in ("replica", mirror):
        replicas = [NamespaceReplica(url) for url in plan.urls]
        if system == "replica":
            only = replicas[0]
            await only.fence()
            try:
                await _blocks(plan, system, only, only.unit, rows, say)
            finally:
                await only.close()
            continue
        async with Mirror(replicas, plan.quorum) as made:
            await made.create()
            await made.clean()
            await _blocks(plan, system, made, made.block_size, rows, say)
    medians = {
        (row["system"].removeprefix("replica"), row["size"], row["depth"]): _median(row)
        for row in rows
        if row["system"].startswith("replica")
    }
    for row in rows:
        how = row["system"].removeprefix("replica").removeprefix(mirror)
        base, median = medians.get((how, row["size"], row["depth"])), _median(row)
        row["times_replica"] = median / base if base and median else None
    compare_with_wires(rows, count, mirror)


def _median(row: MirrorRow) -> float:
    found = compared(row["figures"], row["reads"])
    return found["percentiles_us"]["50"] if found else 0.0


async def _blocks(
    plan: ReplicaPlan,
    system: str,
    device: NamespaceReplica | Mirror,
    unit: int,
    rows: list[MirrorRow],
    say: Callable[[str], None],
) -> None:
    for size in plan.sizes:
        for depth in plan.depths:
            for how in ("", MANY) if depth > 1 and not plan.read_percent else ("",):
                row = new_row(system + how, size, depth)
                rows.append(row)
                if size % unit or size * (depth if how else 1) > device.size:
                    row["skipped"] = f"it writes blocks of {unit} bytes, {device.size} at most"
                    continue
                say(f"measuring {system + how}, {size} bytes, depth {depth}")
                found = await _load(plan, device, size, depth, many=bool(how))
                row["figures"], row["reads"], row["target_cpu_seconds"] = found


async def _load(
    plan: ReplicaPlan, device: NamespaceReplica | Mirror, size: int, depth: int, *, many: bool
) -> tuple[Figures, Figures | None, float | None]:
    places = range(device.size // size)
    data = random.randbytes(size)

    async def write() -> None:
        await device.write(random.choice(places) * size, data)

    async def read() -> None:
        await device.read(random.choice(places) * size, size)

    whole = data * depth

    async def write_many() -> None:
        await device.write_many([at * size for at in random.sample(places, depth)], whole)

    if many:
        return await Run(plan, size, 1, depth).of(write_many)
    return await Run(plan, size, depth).of(write, read)


LOADS = ("mirror", "log", "resync")


async def check_different(urls: Sequence[str]) -> None:
    """Reserve each replica, and raise ReplicationError if that ends the reservation of another.

    A target may be written in many ways: by its name or address, with its port or without, by any
    of several addresses. Identifiers do not tell: those of targets with equal configurations are
    equal.
    """
    held: list[NamespaceReplica] = []
    lost: list[NamespaceReplica] = []
    async with AsyncExitStack() as stack:
        for url in urls:
            replica = NamespaceReplica(url)
            stack.push_async_callback(replica.close)
            await replica.fence()
            lost = [one for one in held if not await one.holds()]
            if lost:
                break
            held.append(replica)
    await release(urls)
    if lost:
        raise ReplicationError(
            f"{lost[0].name} and {replica.name} are the same: each replica needs one of its own"
        )


async def measure_all(
    plan: ReplicaPlan,
    loads: Sequence[str],
    results: ReplicaResults,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure some of LOADS: see measure_mirror, measure_log and measure_resync.

    No two URLs may lead to one namespace: see check_different. Afterwards the namespaces are free
    again: each replica has reserved its own for a random Host Identifier, so that not even this
    host could use them.
    """
    await check_different(plan.urls)
    if "mirror" in loads:
        await measure_mirror(plan, results.mirrors, say)
    if "log" in loads:
        await measure_log(plan, results.logs, say)
    if "resync" in loads:
        await measure_resync(plan, results.resyncs, say)
    await release(plan.urls)
