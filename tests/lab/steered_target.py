# SPDX-License-Identifier: BSD-3-Clause
"""A program: the target's server as a library, controlled through standard input.

It serves the configuration that it is given, and takes one JSON object a line on standard input::

{"number": 1, "do": "attach", "nqn": "...", "nsid": 2, "namespace": {...}}
    {"number": 2, "do": "detach", "nqn": "...", "nsid": 2}
    {"number": 3, "do": "resize", "nqn": "...", "nsid": 2}
    {"number": 4, "do": "state"}

Each is answered by ``{"number": 1, "answer": ...}``, or ``{"number": 1, "error": "..."}``.  It ends
with status 0 at SIGTERM and at the end of its input.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import signal
import sys
from typing import Any

from nvmf import engine
from nvmf.config import load
from nvmf.config.models import NamespaceConfig
from nvmf.target.change import edit
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve

_MALLINFO2 = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 of <malloc.h>."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLINFO2)


def _memory() -> dict[str, int]:
    """Return the allocated memory, exactly: Python's blocks, and malloc's bytes."""
    gc.collect()
    malloc = ctypes.CDLL(None)
    malloc.mallinfo2.restype = _Mallinfo2
    found = malloc.mallinfo2()
    return {"blocks": sys.getallocatedblocks(), "heap": found.uordblks + found.hblkhd}


async def _answer(server: Server, asked: dict[str, Any]) -> Any:
    nqn, nsid = asked.get("nqn", ""), asked.get("nsid", 0)
    match asked["do"]:
        case "attach":
            config = NamespaceConfig.model_validate({**asked["namespace"], "nsid": nsid})
            await server.edit(lambda served: edit.add_namespace(served, nqn, config)[0])
            return None
        case "detach":
            await server.edit(lambda served: edit.remove_namespace(served, nqn, nsid))
            return None
        case "resize":
            await server.edit(lambda served: served, follow=[(nqn, nsid)])
            return server.core.subsystems[nqn].namespaces[nsid].store.size
        case "state":
            return {
                **_memory(),
                "connections": server.connections,
                "controllers": len(server.core.controllers()),
                "resources": engine.resources(),
            }
    raise ValueError(f"there is no {asked['do']!r}")


async def _obey(server: Server) -> None:
    """Execute the requests of standard input, until its end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await reader.readline():
            asked = json.loads(line)
            reply: dict[str, Any] = {"number": asked["number"]}
            try:
                reply["answer"] = await _answer(server, asked)
            except Exception as error:
                reply["error"] = f"{type(error).__name__}: {error}"
            print(json.dumps(reply), flush=True)
    finally:
        transport.close()


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    loop = asyncio.get_running_loop()
    async with serve(load(sys.argv[1]), listening=lambda port: print(port, flush=True)) as server:
        obeying = asyncio.ensure_future(_obey(server))
        loop.add_signal_handler(signal.SIGTERM, obeying.cancel)
        await asyncio.wait({obeying})
        if not obeying.cancelled():
            obeying.result()


if __name__ == "__main__":
    asyncio.run(main())
