# SPDX-License-Identifier: BSD-3-Clause
"""A process that forks while it has controllers and targets of the synchronous interfaces."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, signal, sys
import nvmf.target.sync
from nvmf.initiator import ConnectionLost
from nvmf.initiator.sync import connect
from nvmf.target import ServerError

with nvmf.target.sync.serve(ram="1MiB") as target, connect(target.url) as controller:
    url = target.url
    disk = controller.namespace(1)
    file = disk.open("r+b")
    file.write(b"parent")
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # ends a child that hangs
        for call in (
            lambda: disk.read(0, 1),
            lambda: controller.namespaces,
            lambda: file.flush(),
            lambda: target.url,
            lambda: next(disk.stream()),
        ):
            try:
                call()
            except (ConnectionLost, ServerError) as error:
                assert f"forked from process {os.getppid()}" in str(error), error
            else:
                raise AssertionError("a call was possible in the child")
        with connect(url) as other:
            assert other.namespace(1).pread(6, 0) == b"parent"
        sys.exit(7)  # which leaves the with block
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert disk.pread(6, 0) == b"parent", "the parent's connection works"
    file.close()
sys.exit(status)
"""


def test_forked() -> None:
    """In the child calls raise, close() and stop() do nothing, and it can connect by itself."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 7, ended.stderr
