# SPDX-License-Identifier: BSD-3-Clause
"""The default place of a target's socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nvmf import paths


def test_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.default_socket({"RUNTIME_DIRECTORY": "/run/a:/run/b"}) == Path(
        "/run/a/target.sock"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert paths.default_socket({}) == Path("/run/nvmeof/target.sock")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    found = paths.default_socket({"XDG_RUNTIME_DIR": "/run/user/7"})
    assert found == Path("/run/user/7/nvmeof/target.sock")
    assert paths.default_socket({}) == Path("/tmp/nvmeof-4000000/target.sock")


def test_a_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user can create a folder in /tmp."""
    user = 4_000_000 + os.getpid()
    monkeypatch.setattr(os, "geteuid", lambda: user)
    folder = Path(f"/tmp/nvmeof-{user}")
    folder.mkdir(mode=0o700)  # by the user that runs the test, which is not the expected owner
    try:
        assert paths.default_socket({}) is None
        with pytest.raises(PermissionError, match="different user"):
            paths.own_folder(folder / "target.sock")
    finally:
        folder.rmdir()


def test_the_folder_is_for_its_user_only(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(f"/tmp/nvmeof-test-{os.getpid()}") / "target.sock"
    try:
        paths.own_folder(place)
        assert place.parent.stat().st_mode & 0o777 == 0o700
        paths.own_folder(place)
        place.parent.chmod(0o777)
        with pytest.raises(PermissionError, match="open to others"):
            paths.own_folder(place)
    finally:
        place.parent.rmdir()
    assert paths.further_sockets(Path("/a/target.sock"))[0] == Path("/a/target-2.sock")
