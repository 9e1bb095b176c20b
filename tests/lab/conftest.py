# SPDX-License-Identifier: BSD-3-Clause
"""One guest for many tests, and its kernel's log for those that fail.

``NVMF_LAB`` unset: the tests are skipped, ``./dev lab`` runs them.  Set: they run, and are skipped
with the reason where this machine cannot; where ``CI`` is set too, or ``NVMF_LAB`` is ``required``,
that is a failure.  ``NVMF_LAB_KERNELS`` names the series, ``all`` is all of them.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.guest import Guest
from lab.network import CannotRun, Network
from lab.prepare import ROOT, SERIES, prepared

LOGS = ROOT / "build" / "lab"
CELL_SECONDS = 300
_MARK = pytest.StashKey[tuple[Guest, int]]()
_LOG = pytest.StashKey[str]()


def _kernels() -> list[str]:
    named = os.environ.get("NVMF_LAB_KERNELS", "")
    return list(SERIES) if named == "all" else named.split() or [SERIES[0]]


def _cannot(reason: object) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("NVMF_LAB") == "required":
        pytest.fail(f"the lab cannot run here: {reason}", pytrace=False)
    pytest.skip(f"THE LAB CANNOT RUN HERE: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "unclean(pattern): kernel log lines that this test expects")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel_series" in metafunc.fixturenames:
        metafunc.parametrize("kernel_series", _kernels(), scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CELL_SECONDS))


class Lab:
    """The guest of a kernel series: booted when first asked for, and again after it died."""

    def __init__(self, series: str, cable: Network) -> None:
        self._series = series
        self._cable = cable
        self._guest: Guest | None = None

    def guest(self, *, nvdimm: str | None = None) -> Guest:
        """A guest that answers, with an NVDIMM of that size if one is asked for."""
        if self._guest and (not self._guest.healthy() or (nvdimm and self._guest.nvdimm != nvdimm)):
            self.close()
        if not self._guest:
            kernel = prepared(self._series)
            if not kernel:
                raise CannotRun(f"kernel {self._series} is not prepared: ./dev lab does that.")
            self._guest = Guest(kernel, self._cable, nvdimm=nvdimm)
        return self._guest

    def close(self) -> None:
        if self._guest:
            self._guest.close()
        self._guest = None


@pytest.fixture(scope="session")
def cable() -> Iterator[Network]:
    """The network between host processes and the guest."""
    if not os.environ.get("NVMF_LAB"):
        pytest.skip("the lab runs by ./dev lab")
    try:
        network = Network()
    except (CannotRun, OSError) as error:
        _cannot(error)
    yield network
    network.close()


@pytest.fixture(scope="session")
def lab(cable: Network, kernel_series: str) -> Iterator[Lab]:
    """The lab with a kernel."""
    one = Lab(kernel_series, cable)
    try:
        one.guest()
    except CannotRun as error:
        one.close()
        _cannot(error)
    yield one
    one.close()


@pytest.fixture(scope="module")
def vm(lab: Lab) -> Guest:
    """The guest, for what a module sets up in it."""
    return lab.guest()


@pytest.fixture
def guest(vm: Guest, request: pytest.FixtureRequest) -> Iterator[Guest]:
    """The guest, for a test: its kernel must have nothing to complain about at the end."""
    if vm.dead:
        pytest.fail(f"the guest {vm.dead} in an earlier test", pytrace=False)
    since = vm.mark(f"test {request.node.name}")
    request.node.stash[_MARK] = (vm, since)
    yield vm
    if not vm.dead:
        vm.mark("test ends")
    expected = [mark.args[0] for mark in request.node.iter_markers("unclean")]
    complaints = [
        line
        for line in vm.complaints(since)
        if not any(re.search(pattern, line) for pattern in expected)
    ]
    request.node.stash[_LOG] = vm.kernel_log(since)
    if complaints:
        pytest.fail("the guest's kernel complains:\n" + "\n".join(complaints), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the guest's kernel said meanwhile, and keeps it in build/lab."""
    report = yield
    if report.failed and (marked := item.stash.get(_MARK, None)):
        vm, since = marked
        log = item.stash.get(_LOG, "") or vm.kernel_log(since)
        LOGS.mkdir(parents=True, exist_ok=True)
        file = LOGS / (re.sub(r"[^\w.-]+", "_", item.name) + ".log")
        file.write_text(log)
        end = "\n".join(log.splitlines()[-60:])
        report.sections.append((f"the guest's kernel log ({file.relative_to(ROOT)})", end))
    return report


@pytest.fixture(scope="session")
def need_product() -> None:
    """Skip where the product is not built."""
    for module in ("nvmf.cli.main", "nvmf.engine._engine"):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"{module} is not there: ./dev build makes it")
