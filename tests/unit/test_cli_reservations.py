# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of the commands for reservations."""

from __future__ import annotations

import pytest

from nvmf.cli.app import run


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("register", "specify --nrkey, the new key"),
        ("register --rrega 2 --crkey 1", "specify --nrkey, the new key"),
        ("register --rrega 2 --nrkey 1", "the current key of this host; or use --iekey"),
        ("register --rrega 1", "specify --crkey, the current key of this host; or use --iekey"),
        ("register --nrkey 0", "0 is not a key: expected 1 to 0xffffffffffffffff"),
        ("register --nrkey 0x10000000000000000", "is not a key"),
        ("register --nrkey x", "'x' is not a whole number"),
        ("acquire --rtype 1", "specify --crkey, the current key of this host (see"),
        ("release --rtype 1", "specify --crkey, the current key of this host (see"),
        ("release --rrela 1", "specify --crkey, the current key of this host (see"),
    ],
)
def test_a_key_that_is_missing(flags: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The missing key is reported before connecting to any target."""
    try:
        status = run([*f"resv-{flags}".split(), "nvme+rdma://192.0.2.1/nqn.2026-11.io.example:a"])
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert words in capsys.readouterr().err
