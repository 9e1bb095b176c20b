# SPDX-License-Identifier: BSD-3-Clause
"""A controller of the kernel: its state, without sysfs reads on the event loop for each I/O."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from nvmf.initiator import ConnectionLost, ConnectOptions, State, TransportId
from nvmf.initiator.kernel import sysfs
from nvmf.initiator.kernel.controller import KernelController
from support.fakekernel import FakeKernel


@pytest.fixture
def controller(tmp_path: Path) -> KernelController:
    kernel = FakeKernel(tmp_path)
    kernel.controller(0)
    (one,) = sysfs.controllers(kernel.system)
    Path(one.path).touch()
    return KernelController(TransportId("192.0.2.1"), ConnectOptions(), one, kernel.system)


def folder(controller: KernelController) -> Path:
    info = controller.info
    assert info is not None
    return info.folder


async def test_work_reads_one_file_and_not_on_the_loop(
    controller: KernelController, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[str, bool]] = []
    text = sysfs._text

    def noted(path: Path) -> str | None:
        reads.append((path.name, threading.current_thread() is threading.main_thread()))
        return text(path)

    monkeypatch.setattr(sysfs, "_text", noted)
    assert await controller.on_thread(lambda: 5) == 5
    assert reads == [("state", False)]


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("live", State.LIVE),
        ("connecting", State.RECONNECTING),
        ("resetting", State.RECONNECTING),
        ("deleting", State.LOST),
        ("dead", State.LOST),
    ],
)
async def test_states(controller: KernelController, word: str, state: State) -> None:
    (folder(controller) / "state").write_text(f"{word}\n")
    assert controller.state is state


async def test_work_of_a_lost_controller(controller: KernelController) -> None:
    shutil.rmtree(folder(controller))
    assert controller.state is State.LOST
    done: list[int] = []
    with pytest.raises(ConnectionLost, match="the kernel has given up the connection to"):
        await controller.on_thread(lambda: done.append(1))
    assert not done


async def test_work_of_a_closed_controller(controller: KernelController) -> None:
    shutil.rmtree(folder(controller))
    await controller.close()
    with pytest.raises(ConnectionLost, match="the controller was closed"):
        await controller.on_thread(lambda: None)
