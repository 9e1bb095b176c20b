# SPDX-License-Identifier: BSD-3-Clause
"""A program: actions of our command and our Python client on a target; prints a line of JSON for
each.

``our_cases.py [--quick] URL-OF-SUBSYSTEM URL-OF-DISCOVERY URL-OF-NOTHING``, beside the guest or in
it.  All of it is one process, because an emulated machine takes seconds to start Python.  --quick
omits what the quick tests do not ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

from nvmf.cli.main import main as nvmeof
from nvmf.initiator import Namespace, connect

SIZE = 3 << 20
"""Bytes that the command writes and reads back."""


def report(name: str, status: int, out: str = "", err: str = "") -> None:
    print(json.dumps({"name": name, "status": status, "out": out, "err": err}), flush=True)


def command(name: str, *argv: str) -> None:
    """Run ``nvmeof ARGV``; print its output and its exit status."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = nvmeof(argv)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except Exception:
            status = -1
            err.write(traceback.format_exc())
    report(name, status, out.getvalue(), err.getvalue())


def identify(url: str) -> None:
    """Run the cases of the command line that the quick tests ask for."""
    command("id-ctrl", "id-ctrl", url, "-o", "json")
    command("id-ns", "id-ns", url, "-N", "2", "-o", "json")


def commands(url: str, discovery: str, nothing: str) -> None:
    """Run the other cases of the command line."""
    command("discover", "discover", discovery, "-o", "json")
    command("refused", "id-ctrl", nothing)
    with tempfile.TemporaryDirectory() as folder:
        there, back = Path(folder, "there"), Path(folder, "back")
        there.write_bytes(os.urandom(SIZE))
        command("write", "write", url, "-d", str(there))  # the command flushes at the end
        command("read", "read", url, "-d", str(back), "-z", str(SIZE))
        report("compare", int(not back.exists() or back.read_bytes() != there.read_bytes()))


# ---- the client ---------------------------------------------------------------------------------


async def sizes(disk: Namespace) -> None:
    """Write and Read of one block to 1 MiB, with FUA and without."""
    for blocks in (1, 2, 7, 8, 9, 16, 255, 256, 2048):
        data = os.urandom(blocks * disk.block_size)
        await disk.write(0, data, fua=blocks % 2 == 1)
        assert bytes(await disk.read(0, blocks)) == data, f"{blocks} blocks"
    await disk.flush()


async def zeroes(disk: Namespace) -> None:
    """Write Zeroes and Deallocate change exactly the blocks that they name."""
    size = disk.block_size
    data = os.urandom(64 * size)
    await disk.write(4096, data)
    await disk.write_zeroes(4104, 16)
    await disk.flush()
    expected = data[: 8 * size] + bytes(16 * size) + data[24 * size :]
    assert bytes(await disk.read(4096, 64)) == expected, "after Write Zeroes"
    await disk.deallocate([(4096, 8), (4128, 8)])
    back = bytes(await disk.read(4096, 64))
    gone = back[32 * size : 40 * size]
    assert gone in (bytes(8 * size), data[32 * size : 40 * size]), "in the deallocated"
    for first, end in ((8, 32), (40, 64)):
        start, stop = first * size, end * size
        assert back[start:stop] == expected[start:stop], "around the deallocated"


async def many(disk: Namespace) -> None:
    """Run 200 commands at once."""
    data = [os.urandom(8 * disk.block_size) for _ in range(200)]
    await asyncio.gather(*(disk.write(i * 8, piece) for i, piece in enumerate(data)))
    back = await asyncio.gather(*(disk.read(i * 8, 8) for i in range(200)))
    assert [bytes(piece) for piece in back] == data


async def client(url: str) -> None:
    """Run the cases of the Python client."""
    steps: list[Callable[[Namespace], Awaitable[None]]] = [sizes, zeroes, many]
    async with connect(url) as controller:
        disk = controller.namespace(1)
        for step in steps:
            await step(disk)


def main(url: str, discovery: str, nothing: str, *, quick: bool) -> None:
    identify(url)
    if not quick:
        commands(url, discovery, nothing)
    try:
        asyncio.run(client(url))
        report("client", 0)
    except Exception:
        report("client", 1, err=traceback.format_exc())


if __name__ == "__main__":
    urls = [one for one in sys.argv[1:] if one != "--quick"]
    main(*urls, quick="--quick" in sys.argv)
