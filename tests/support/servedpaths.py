# SPDX-License-Identifier: BSD-3-Clause
"""A target with two ports in its own process, for tests without asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.clientlab import RAM, config, url
from support.relay import free_ports
from support.served import Served


@contextmanager
def two_served(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the URLs of one subsystem on two ports."""
    one, two = free_ports(2)
    more = f'[[port]]\ntrsvcid = {two}\ndevice = "iwarp"\n'
    text = config(RAM, port=one).replace("[[subsystem]]", f"{more}[[subsystem]]", 1)
    served = Served(folder, text).wait_ready()
    try:
        yield url(one), url(two)
    finally:
        assert served.end() == 0
