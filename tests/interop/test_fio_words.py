# SPDX-License-Identifier: BSD-3-Clause
"""The fio engine's messages for a file name that cannot be used."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.served import SUBNQN, Served, config

HANG = 300
"""Seconds after which a command counts as hanging."""


@pytest.mark.parametrize(
    ("subnqn", "hint"),
    [(SUBNQN, True), (SUBNQN.replace(":", r"\:") + "0", False)],
    ids=["colons", "another"],
)
def test_colons_split_file_names(
    tmp_path: Path, fio: Path, fio_engine: Path, subnqn: str, hint: bool
) -> None:
    """The colons of an NQN are written '\\:'; a name that is written correctly gets no such
    advice.
    """
    with Served(tmp_path, config()) as target:
        name = f"traddr=127.0.0.1 trsvcid={target.wait_ready().port} subnqn={subnqn} nsid=1"
        done = subprocess.run(
            [fio, "--name=words", f"--ioengine=external:{fio_engine}", f"--filename={name}",
             "--rw=read", "--size=4k"],
            capture_output=True, text=True, timeout=HANG, check=False, cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
        )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Connect Invalid Parameters" in said
    assert ("fio splits file names at ':'" in said) == hint
