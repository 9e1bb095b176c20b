# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control in the configuration: an algorithm that the kernel lacks is an error."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from nvmf.config import ConfigError, loads
from nvmf.config import congestion as module


def said(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(f'[iwarp]\ncongestion = "{name}"\n', "t.toml")
    return str(caught.value)


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in place of the kernel's lists."""
    monkeypatch.setattr(module, "_LISTS", tmp_path)
    return tmp_path


def test_what_the_kernel_has_is_taken() -> None:
    assert loads('[iwarp]\ncongestion = "reno"\n').iwarp.congestion == "reno"


def test_what_it_has_not_is_refused_with_what_it_has(lists: Path) -> None:
    (lists / "tcp_available_congestion_control").write_text("reno cubic bbr\n")
    assert said("none_such") == (
        "t.toml:2: iwarp.congestion: this kernel has no TCP congestion control 'none_such': choose "
        "bbr, cubic or reno, or load the module tcp_none_such"
    )


def test_one_name_and_none(lists: Path) -> None:
    assert "choose a different one, or load" in said("none_such")
    (lists / "tcp_available_congestion_control").write_text("reno\n")
    assert "choose reno, or load" in said("none_such")


def test_what_the_user_may_not_have(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    (lists / "tcp_allowed_congestion_control").write_text("reno bbr\n")
    monkeypatch.setattr(socket.socket, "setsockopt", refuse)
    assert (
        f"user {os.geteuid()} may not choose the TCP congestion control 'cubic': choose bbr or "
        "reno, or add it to net.ipv4.tcp_allowed_congestion_control"
    ) in said("cubic")
