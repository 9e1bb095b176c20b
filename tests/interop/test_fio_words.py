# SPDX-License-Identifier: BSD-3-Clause
"""The fio engine's messages for a file name or a namespace that cannot be used."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

from support.responder import Connection, NvmeResponder, identify
from support.served import SUBNQN, Served, config
from support.spoiling import CAP
from wire.nvme import Io

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


def large_blocks(capsule: bytes) -> bytes:
    """Identify data with an MDTS of 8 KiB and blocks of 64 KiB."""
    data, cns = bytearray(identify(capsule)), capsule[40]
    if cns == 1:
        data[77] = 1
    elif cns == 0:
        struct.pack_into("<QQQ", data, 0, 16, 16, 16)
        data[130] = 16
    return bytes(data)


def test_a_block_that_exceeds_mdts(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """The job is refused, and no command is sent: its number of blocks would be 0 - 1."""
    sent: list[bytes] = []

    def hook(connection: Connection, capsule: bytes) -> bool:
        if not connection.qid or capsule[0] not in (Io.READ, Io.WRITE):
            return False
        sent.append(capsule)
        connection.complete(capsule)
        return True

    with NvmeResponder(SUBNQN, large_blocks, cap=CAP) as responder:
        responder.hook = hook
        subnqn = SUBNQN.replace(":", r"\:")
        name = f"traddr=127.0.0.1 trsvcid={responder.port} subnqn={subnqn} nsid=1"
        done = subprocess.run(
            [fio, "--name=words", f"--ioengine=external:{fio_engine}", f"--filename={name}",
             "--rw=write", "--bs=64k", "--number_ios=2", "--ctrl_loss_tmo=0"],
            capture_output=True, text=True, timeout=HANG, check=False, cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
        )  # fmt: skip
    said = done.stdout + done.stderr
    assert not sent
    assert done.returncode == 1, said
    assert "its blocks have 65536 bytes" in said
    assert "at most 8192 (MDTS)" in said


def test_no_name_and_no_address(tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """fio makes a file name of its own: the message says which options are missing."""
    done = subprocess.run(
        [fio, "--name=words", f"--ioengine=external:{fio_engine}", "--rw=read", "--size=4k"],
        capture_output=True, text=True, timeout=HANG, check=False, cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "give --traddr and --subnqn, or --filename" in done.stdout + done.stderr


def test_every_option_of_the_engine_is_documented() -> None:
    root = Path(__file__).parents[2]
    source = (root / "initiator" / "fio" / "nvmeof.c").read_text()
    options = set(re.findall(r'^\t\t\.name = "(\w+)"', source, re.MULTILINE))
    table = (root / "nvmeof" / "docs" / "fio.md").read_text().partition("## Persistence")[0]
    documented = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))
    )
    assert options
    assert options <= documented
