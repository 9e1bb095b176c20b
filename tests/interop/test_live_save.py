# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target save` while others change the target: their changes stay in effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvmf.config import save
from support.livelab import A, run
from support.served import Served


def namespaces(served: Served) -> list[int]:
    (found,) = [one for one in run(served, "ls")["subsystems"] if one["nqn"] == A]
    return [space["nsid"] for space in found["namespaces"]]


@pytest.mark.feature("reload", "atomic")
def test_a_change_while_the_file_is_written(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace that is added meanwhile is not in the file, but stays; the next save has it."""
    file, write = served.folder / "target.toml", save.write
    ram = ("--store", "ram", "--size", "1MiB")
    run(served, "namespace", "add", A, *ram)

    def late(path: Path, text: str) -> None:
        run(served, "namespace", "add", A, *ram)
        write(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(save, "write", late)
        run(served, "save")
    assert namespaces(served) == [1, 2, 3]
    assert "nsid = 2" in file.read_text()
    assert "nsid = 3" not in file.read_text()
    run(served, "save")  # the target still takes the file for its own
    assert "nsid = 3" in file.read_text()
    assert run(served, "reload")["changed"] == "nothing to do"
