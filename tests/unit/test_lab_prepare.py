# SPDX-License-Identifier: BSD-3-Clause
"""The choice of the newest kernel, and the message if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import nvme_cli_suite, packages, prepare
from lab.packages import Apt, CannotPrepare


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prepare, "CACHE", tmp_path)
    return tmp_path


def test_series_of_the_newest(cache: Path) -> None:
    assert prepare.series_of("6.1") == "6.1"
    assert prepare.series_of("newest") == "newest"
    assert "./dev lab --kernel newest" in prepare.excuse()
    (cache / "newest").write_text("7.3\n")
    assert prepare.series_of("newest") == "7.3"


def test_no_newest_kernel_is_no_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(series: str) -> prepare.Kernel:
        raise CannotPrepare(f"no mirror has {series}")

    monkeypatch.setattr(prepare, "prepare", fail)
    assert prepare.main(["newest"]) == 0
    assert prepare.excuse() == "no mirror has newest"
    assert prepare.main(["6.1"]) == 1


class _Apt(Apt):
    def __init__(self, depends: str) -> None:
        self._depends = depends

    def _show(self, package: str) -> str:
        return f"Package: {package}\nDepends: {self._depends}\nSize: 1\n"


def test_parts_of_an_image() -> None:
    """Some are built for one release; others with that name are for all releases."""
    depends = (
        "kmod, linux-base (>= 4), linux-base-7.3.4-amd64 (= 1), linux-binary-7.3.4-amd64 (= 1)"
    )
    found = _Apt(depends).depends("linux-image-7.3.4-amd64", r"linux-(?:binary|base)-[^ ,|]+")
    assert found == ["linux-base-7.3.4-amd64", "linux-binary-7.3.4-amd64"]


def test_without_the_tests_of_nvme_cli(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are skipped with the reason; the kernels are prepared all the same."""

    def fail(apt: Apt) -> None:
        raise CannotPrepare("no mirror has sources")

    monkeypatch.setattr(packages, "mirrors", lambda: iter(["http://mirror.invalid/debian"]))
    monkeypatch.setattr(Apt, "update", fail)
    assert "./dev lab" in nvme_cli_suite.excuse(cache)
    assert prepare.main(["nvme-cli"]) == 0
    assert nvme_cli_suite.folder(cache) is None
    assert nvme_cli_suite.excuse(cache) == "no mirror has sources"
