# SPDX-License-Identifier: BSD-3-Clause
"""Our host (the command, the Python client, the fio engine) against nvmet-rdma, and ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lab import block, network
from lab.cells import Cell, use_device
from lab.guest import Guest
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.our_host import OurHost, Outside
from lab.ours import OursInside

CELLS = (
    Cell("kernel", "siw", "ours_outside"),
    Cell("kernel", "siw", "ours"),
    Cell("kernel", "rxe", "ours"),
    Cell("ours", "siw", "ours"),
    Cell("ours", "rxe", "ours"),
    Cell("ours", "siw", "ours_outside"),
)

# Run by the environment's Python: one line of JSON on stdout.
CLIENT = """
import asyncio, json, os
from nvmf.initiator import connect

async def main():
    async with connect("nvme+rdma://{address}:{service}/{nqn}?device={device}") as controller:
        disk = controller.namespace(1)
        size = disk.block_size
        written = []
        for blocks in (1, 2, 7, 8, 9, 16, 255, 256, 2048):
            data = os.urandom(blocks * size)
            await disk.write(0, data, fua=blocks % 2 == 1)
            written.append(bytes(await disk.read(0, blocks)) == data)
        await disk.flush()
        many = [os.urandom(8 * size) for _ in range(200)]
        await asyncio.gather(*(disk.write(i * 8, data) for i, data in enumerate(many)))
        back = await asyncio.gather(*(disk.read(i * 8, 8) for i in range(200)))
        print(json.dumps([written, [bytes(b) for b in back] == many]))

asyncio.run(main())
"""


@dataclass(frozen=True)
class Row:
    """A cell that is set up."""

    cell: Cell
    target: KernelTarget | OursInside
    host: OurHost
    device: str


@pytest.fixture(scope="module", params=CELLS, ids=str)
def row(
    request: pytest.FixtureRequest, vm: Guest, cable: Network, need_product: None
) -> Iterator[Row]:
    cell: Cell = request.param
    use_device(vm, cell.device)
    target: KernelTarget | OursInside
    target = (KernelTarget if cell.target == "kernel" else OursInside)(vm, network.GUEST)
    outside = cell.host == "ours_outside"
    device = "iwarp" if outside else "system"
    place = Outside(cable) if outside else vm
    yield Row(cell, target, OurHost(place, device, network.GUEST, target.nqn), device)
    target.close()


@pytest.fixture(autouse=True)
def unharmed(row: Row, guest: Guest) -> Iterator[None]:
    """The target lives on after every test, and says nothing strange."""
    yield
    if isinstance(row.target, OursInside):
        row.target.check()


def test_discover(row: Row) -> None:
    log = row.host.nvmeof("discover", "-o", "json", nqn=None).json()
    assert row.target.nqn in json.dumps(log)
    assert row.target.address in json.dumps(log)


def test_identify(row: Row) -> None:
    controller = row.host.nvmeof("id-ctrl", "-o", "json").json()
    assert controller["subnqn"] == row.target.nqn
    for nsid, size in enumerate(row.target.block_sizes, 1):
        namespace = row.host.nvmeof("id-ns", "-N", str(nsid), "-o", "json").json()
        assert namespace["nsze"] == 64 * block.MIB // size


def test_write_and_read(row: Row) -> None:
    data = os.urandom(3 * block.MIB)
    row.host.nvmeof("write", stdin=data)
    row.host.nvmeof("flush")
    read = row.host.nvmeof(f"read -z {len(data)}")
    # The bytes passed through a decoder; compare what passed the same way.
    assert read.stdout == data.decode(errors="replace")


def test_client(row: Row) -> None:
    host = row.host
    script = CLIENT.format(
        address=host.address, service=host.service, nqn=host.nqn, device=row.device
    )
    written, many = json.loads(host.python(script).stdout)
    assert all(written)
    assert many


@pytest.mark.parametrize("nsid", [1, 2])
def test_verify(row: Row, nsid: int) -> None:
    loads = block.LOADS if row.target.block_sizes[nsid - 1] > 512 else block.SMALL + block.LOADS
    row.host.fio_verify(nsid, loads, f"device={row.device}")


def test_bench(row: Row) -> None:
    for kind in ("randread", "randwrite"):
        row.host.nvmeof(f"bench --rw {kind} -z 4096 -Q 32 --runtime 2")


@pytest.mark.unclean("nvmet")
def test_refused(row: Row) -> None:
    """What is not there is refused in a sentence."""
    result = row.host.nvmeof("id-ctrl", nqn=row.target.nqn[:-4] + "dead", check=False)
    assert result.status == 1
    assert "Traceback" not in result.output
    assert "Connect Invalid" in result.output or "Invalid" in result.output, result.output
