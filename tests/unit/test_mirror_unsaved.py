# SPDX-License-Identifier: BSD-3-Clause
"""Changes of the legs of a mirror that are on the legs, but not in the file: the target ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import nvmf.target
from nvmf.initiator import connect
from nvmf.target import ServerError
from support.mirrorlab import clean, mirror_text, state_of, until
from support.replicas import files

DATA = b"\5" * 4096


async def changed(before: list[str], after: list[str], more: str = "") -> None:
    """Serve a mirror, write to it, and change its legs."""
    async with nvmf.target.serve(mirror_text(before, more)) as target:
        async with connect(target.url, device="iwarp") as controller:
            await controller.namespaces[0].write(0, DATA)
        await clean(target, len(before))
        await target.apply(mirror_text(after, more))
        await clean(target, len(after))


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
async def test_the_file_is_older(tmp_path: Path, before: int, after: int) -> None:
    """The mirror becomes what the file says, with all data."""
    legs = [f'path = "{path}"' for path in files(tmp_path, 3, 4 << 20)]
    await changed(legs[:before], legs[:after])
    async with nvmf.target.serve(mirror_text(legs[:before])) as target:
        async with connect(target.url, device="iwarp") as controller:
            assert await controller.namespaces[0].read(0, 8) == DATA
        await until(lambda: len(state_of(target)["legs"]) == before)
        await clean(target, before)


async def test_too_few_legs_in_the_file(tmp_path: Path) -> None:
    """A new writer of three legs with a quorum of one needs all of them."""
    legs = [f'path = "{path}"' for path in files(tmp_path, 3, 4 << 20)]
    await changed(legs[:2], legs, "quorum = 1")
    with pytest.raises(ServerError, match=r"the configuration does not have it: if .* target save"):
        await nvmf.target.serve(mirror_text(legs[:2], "quorum = 1"))
    async with (
        nvmf.target.serve(mirror_text(legs, "quorum = 1")) as target,
        connect(target.url, device="iwarp") as controller,
    ):
        assert await controller.namespaces[0].read(0, 8) == DATA
