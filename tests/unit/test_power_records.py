# SPDX-License-Identifier: BSD-3-Clause
"""The check of memory after a crash detects every content that must not be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.powerrecords import BLOCK, History, Journal, Lost, Write, check, content

SIZE = 8 * BLOCK
BLOCKS = Write(0, "1.0.2", BLOCK, 2 * BLOCK, True)
BYTES = Write(1, "1.1.1", 4 * BLOCK + 100, 1000, False)
BEFORE = Write(0, "1.0.1", 0, 4 * BLOCK, True)


def history(path: Path, *, late: bool) -> History:
    """One worker writes blocks twice, a second one writes bytes; the last writes are acknowledged,
    or not.
    """
    journal = Journal(path)
    for write in (BEFORE, BLOCKS, BYTES):
        journal.issue(write)
        if write is BEFORE or not late:
            journal.acknowledge(write.worker)
    return History.of(path)


def image(*writes: Write) -> bytearray:
    found = bytearray(b"\xee" * SIZE)
    for write in writes:
        found[write.offset : write.offset + write.length] = write.data
    return found


BASE = bytes(image())


def test_a_record_names_itself() -> None:
    data = content("3.1.7", 2 * BLOCK + 10)
    assert len(data) == 2 * BLOCK + 10
    assert data.startswith(b"3.1.7#0 ")
    assert data[BLOCK:].startswith(b"3.1.7#1 ")
    assert data == content("3.1.7", 2 * BLOCK + 10)


def test_all_acknowledged(tmp_path: Path) -> None:
    wanted = image(BEFORE, BLOCKS, BYTES)
    known = history(tmp_path / "journal", late=False)
    assert known.acknowledged == {0: 2, 1: 1}
    assert not check(BASE, known, bytes(wanted))
    for at in (0, BLOCK, 3 * BLOCK - 1, 4 * BLOCK, BYTES.offset + 999, SIZE - 1):
        spoiled = bytearray(wanted)
        spoiled[at] ^= 1
        with pytest.raises(Lost, match=f"byte {at} is wrong"):
            check(BASE, known, bytes(spoiled))
    with pytest.raises(Lost, match=r"acknowledged write there is .*1\.0\.2"):
        check(BASE, known, bytes(image(BEFORE, BYTES)))  # an acknowledged write is missing
    with pytest.raises(Lost, match=r"acknowledged write there is .*1\.1\.1"):
        check(BASE, known, bytes(image(BEFORE, BLOCKS)))


def test_what_was_under_way(tmp_path: Path) -> None:
    known = history(tmp_path / "journal", late=True)
    assert [write.tag for write in known.under_way] == ["1.0.2", "1.1.1"]
    assert check(BASE, known, bytes(image(BEFORE))) == {"absent": 2}
    assert check(BASE, known, bytes(image(BEFORE, BLOCKS, BYTES))) == {"whole": 2}
    half = image(BEFORE)
    half[2 * BLOCK : 3 * BLOCK] = BLOCKS.data[BLOCK:]  # the second block only
    half[BYTES.offset + 7 : BYTES.offset + 500] = BYTES.data[7:500]
    assert check(BASE, known, bytes(half)) == {"in part": 2}
    torn = bytearray(half)
    torn[2 * BLOCK + 64 : 2 * BLOCK + 128] = BEFORE.data[2 * BLOCK + 64 : 2 * BLOCK + 128]
    with pytest.raises(Lost, match="torn"):
        check(BASE, known, bytes(torn))
    strange = bytearray(half)
    strange[BYTES.offset] ^= 1
    with pytest.raises(Lost, match="not of the old or the new record"):
        check(BASE, known, bytes(strange))
    for at in (BYTES.offset - 1, BYTES.offset + 1000):  # next to it
        strange = bytearray(half)
        strange[at] ^= 1
        with pytest.raises(Lost, match="nobody wrote it"):
            check(BASE, known, bytes(strange))


def test_a_journal_that_ends_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    known = history(path, late=True)
    with path.open("a") as file:
        file.write("acknowl")
    assert History.of(path).writes == known.writes
    assert not History.of(tmp_path / "missing").writes
