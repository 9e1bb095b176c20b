# SPDX-License-Identifier: BSD-3-Clause
"""Options in the URL of remote memory: they apply as those of a controller do."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvmf.auth import Key
from nvmf.initiator import AuthenticationError
from nvmf.pmem.remote import RemoteMemory
from support.memorylab import HOST, OTHER, READER, memory_of, over_roce, running
from support.roce import own_address


async def test_the_host_of_the_url() -> None:
    async with running() as target:
        where = f"{target.url}?hostnqn={HOST}"
        async with await RemoteMemory.connect(where, force=True) as memory:
            await memory.write(0, b"1")
            assert memory_of(target) == [(HOST, "read-write")]
        async with await RemoteMemory.connect(where, read_only=True, hostnqn=READER):
            assert (READER, "read-only") in memory_of(target)  # arguments take precedence
        with pytest.raises(PermissionError, match=OTHER):
            await RemoteMemory.connect(f"{target.url}?hostnqn={OTHER}", force=True)


async def test_the_device_of_the_url() -> None:
    async with running(over_roce(own_address())) as target:
        options = f"hostnqn={HOST}&device=roce&host_traddr={own_address()}"
        async with await RemoteMemory.connect(f"{target.url}?{options}", force=True) as memory:
            assert memory.flushes


async def test_the_keys_of_the_url(tmp_path: Path) -> None:
    """A target that is to prove who it is, and does not, gets nothing."""
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text(Key.generate().text())
    async with running() as target:
        where = f"{target.url}?hostnqn={HOST}&dhchap_secret_file={path}"
        async with await RemoteMemory.connect(where, force=True):
            pass
        with pytest.raises(AuthenticationError, match="would not prove who it is"):
            await RemoteMemory.connect(f"{where}&dhchap_ctrl_secret_file={path}", force=True)
        path.unlink()
        with pytest.raises(ValueError, match="No such file"):
            await RemoteMemory.connect(where, force=True)
