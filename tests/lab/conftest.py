# SPDX-License-Identifier: BSD-3-Clause
"""One guest for many tests, and its kernel's log for tests that fail.

A failed test is run once more, in a new guest: if the guest died during it, and otherwise a few
times per run, because a machine that stalls for seconds exceeds the kernels' own time limits. Both
attempts are reported at the end, and two such tests fail the run. The results of the tests of
cells are kept in build/lab/results.json.

A test that would start after ``NVMF_LAB_ENDS`` (seconds since the epoch) is skipped with the
reason: CI has a limited time, and its machines are not equally fast.

``NVMF_LAB`` unset: the tests are skipped, ``./dev lab`` runs them.  ``quick``: the tests with that
marker run, which are connect, verified I/O and disconnect of each cell.  Set otherwise: all run.
A test that this machine cannot run is skipped with the reason; if ``CI`` is set too, or
``NVMF_LAB`` is ``required``, it fails.  ``NVMF_LAB_KERNELS`` names the series, ``all`` is all of
them: modules that say ``EVERY_KERNEL = True`` run on each, where cells that others represent have
the tests marked ``quick`` alone (Cell.brief) or none (Cell.left_out); other modules run on the
first, and a run of one kernel has the rule of the first.  On ``newest``, if it is not the first,
those marked ``quick`` run and modules that say ``NEWEST_KERNEL = True``; if that kernel could not
be obtained, they are skipped, also in CI.
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab import results
from lab.cells import Cell, use_device
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import HOST, CannotRun, Network
from lab.ours import OursOutside
from lab.prepare import NEWEST, ROOT, SERIES, Kernel, excuse, prepared, series_of
from lab.results import Outcome
from lab.running import GuestError
from lab.voice import voice
from support import again
from support.outcomes import Collected, whole_files

LOGS = ROOT / "build" / "lab"
CELL_SECONDS = 900
"""Time limit of a test: an emulated machine on a loaded one is slow."""
_GUEST = pytest.StashKey[Guest]()
_SINCE = pytest.StashKey[int]()
_LOG = pytest.StashKey[str]()


def _kernels() -> list[str]:
    named = os.environ.get("NVMF_LAB_KERNELS", "")
    kernels = [*SERIES, NEWEST] if named == "all" else named.split() or [SERIES[0]]
    return [series_of(kernel) for kernel in kernels]


def _kernels_of(metafunc: pytest.Metafunc) -> list[str]:
    """Return the kernels on which a test runs."""
    first, *others = _kernels()
    every = getattr(metafunc.module, "EVERY_KERNEL", False)
    quick = metafunc.definition.get_closest_marker("quick")
    on_newest = quick or getattr(metafunc.module, "NEWEST_KERNEL", False)
    return [first, *(one for one in others if (every if one in SERIES else on_newest))]


CANNOT = "the lab cannot run here"


def _cannot(reason: object) -> NoReturn:
    if os.environ.get("CI") or os.environ.get("NVMF_LAB") == "required":
        pytest.fail(f"{CANNOT}: {reason}", pytrace=False)
    pytest.skip(f"THE LAB CANNOT RUN HERE: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    voice.configure(config)
    config.addinivalue_line("markers", "quick: runs in ./dev test, where CI is not set, too")
    config.addinivalue_line("markers", "unclean(pattern): kernel log lines that this test expects")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel_series" in metafunc.fixturenames:
        metafunc.parametrize("kernel_series", _kernels_of(metafunc), scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before -k selects: record the tests of cells, and set the time limits."""
    global _there
    first = _kernels()[0]
    names = frozenset(
        results.name(*found)
        for item in items
        if (found := _of_a_cell(item)) and not _omitted(item, first)
    )
    _there = Collected(names, whole_files(config, items))
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CELL_SECONDS))
    quick = os.environ.get("NVMF_LAB") == "quick"
    left_out = [
        item
        for item in items
        if here in item.path.parents
        and (_omitted(item) or (quick and not item.get_closest_marker("quick")))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


class Lab:
    """The guest of a kernel series: booted on first use, and again after it died."""

    def __init__(self, series: str, cable: Network) -> None:
        self._series = series
        self.cable = cable
        self._guest: Guest | None = None

    @property
    def kernel(self) -> Kernel:
        """The kernel; CannotRun if it is not prepared."""
        kernel = prepared(self._series)
        if not kernel:
            raise CannotRun(f"kernel {self._series} is not prepared: ./dev lab does that.")
        return kernel

    def guest(
        self,
        *,
        nvdimm: str | None = None,
        memories: Sequence[Path] = (),
        systemd: bool = False,
    ) -> Guest:
        """Return a running guest, with an NVDIMM of this size, with files as NVDIMMs, or with
        systemd, if requested.
        """
        if self._guest:
            other = bool(nvdimm) and self._guest.nvdimm != nvdimm
            other = other or (bool(memories) and self._guest.memories != tuple(memories))
            if not self._guest.healthy() or other or self._guest.systemd != systemd:
                self.close()
        if not self._guest:
            kernel = self.kernel
            boot = partial(
                Guest, kernel, self.cable, nvdimm=nvdimm, memories=memories, systemd=systemd
            )
            try:
                self._guest = boot()
            except GuestError as error:
                voice.shout(f"kernel {self._series} did not boot, trying once more: {error}")
                self._guest = boot()
            voice.say(f"kernel {kernel.release} booted in {self._guest.boot_seconds:.0f} s")
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
    if kernel_series not in SERIES and not prepared(kernel_series):
        pytest.skip(f"the newest kernel could not be had: {excuse()}")
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
    """The guest, for the setup of a module."""
    return lab.guest()


@pytest.fixture
def guest(vm: Guest, request: pytest.FixtureRequest) -> Iterator[Guest]:
    """The guest, for a test: its kernel log must have no complaints at the end."""
    request.node.stash[_GUEST] = vm
    if vm.dead:
        raise GuestError(f"the guest {vm.dead} before this test")
    since = vm.mark(f"test {request.node.name}")
    request.node.stash[_SINCE] = since
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
    """For a failed test show the guest's kernel log of that time, and keep it in build/lab."""
    report = yield
    vm = item.stash.get(_GUEST, None)
    if report.failed and vm:
        log = item.stash.get(_LOG, "") or vm.kernel_log(item.stash.get(_SINCE, 0))
        LOGS.mkdir(parents=True, exist_ok=True)
        file = LOGS / (re.sub(r"[^\w.-]+", "_", item.name) + ".log")
        file.write_text(log)
        end = "\n".join(log.splitlines()[-60:])
        report.sections.append((f"the guest's kernel log ({file.relative_to(ROOT)})", end))
    _note(item, report, vm)
    return report


# ---- the time limit of a run ----


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, since one may boot a guest: skip a test for which there is no time."""
    ends = os.environ.get("NVMF_LAB_ENDS")
    if ends and time.time() > float(ends) and Path(__file__).parent in item.path.parents:
        pytest.skip("LEFT OUT: the time that CI has for the lab is used up (CONTRIBUTING.md)")


# ---- a second attempt ---------------------------------------------------------------------------


def _may_try_again(item: pytest.Item, reports: list[pytest.TestReport]) -> bool:
    failed = [report for report in reports if report.failed]
    if not os.environ.get("NVMF_LAB") or CANNOT in failed[0].longreprtext:
        return False
    vm = item.stash.get(_GUEST, None)
    well = vm is None or vm.healthy()
    if well and not again.spare():
        return False
    why = (vm.dead or "" if well else "has a broken kernel") if vm else ""
    voice.shout(f"the {f'guest {why}' if why else 'test failed'}: once more, {item.nodeid}")
    voice.say(again.words(reports))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of the lab; repeat it in a new guest if it failed."""
    if Path(__file__).parent not in item.path.parents:
        return None
    voice.chapter(item)
    for report in again.run(item, nextitem, lambda reports: _may_try_again(item, reports)):
        if report.failed:  # the complete report comes much later
            voice.say(f"{item.nodeid} failed ({report.when}): {again.last_line([report])}")
    return True


# ---- results of the tests of cells ----

_outcomes: dict[str, Outcome] = {}
_there = Collected(frozenset(), frozenset())


def _of_a_cell(item: pytest.Item) -> tuple[Cell, str] | None:
    """Return the cell of a test, if any, and the names of both in the results, for any kernel."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    parameters: dict[str, object] = item.callspec.params
    cell = next((one for one in parameters.values() if isinstance(one, Cell)), None)
    if cell is None:
        return None
    others = [
        str(value)
        for name, value in parameters.items()
        if name != "kernel_series" and not isinstance(value, Cell)
    ]
    return cell, " ".join([item.originalname, *others])


def _omitted(item: pytest.Item, kernel: str | None = None) -> bool:
    """Whether the test does not run with its cell on its kernel, or on the one that is given."""
    found = _of_a_cell(item)
    if found is None:
        return False
    assert isinstance(item, pytest.Function)
    if not getattr(item.module, "EVERY_KERNEL", False):
        return False
    cell, first = found[0], _kernels()[0]
    later = (kernel or item.callspec.params.get("kernel_series", first)) != first
    if item.get_closest_marker("quick"):
        return cell.left_out(later=later)
    return cell.brief(later=later)


def _note(item: pytest.Item, report: pytest.TestReport, vm: Guest | None) -> None:
    """Record the outcome of a phase, if it is a test of a cell."""
    found = _of_a_cell(item)
    if found is None or vm is None or (report.passed and report.when != "call"):
        return
    cell, test = found
    _outcomes[item.nodeid] = Outcome(
        kernel=vm.kernel.series,
        target=cell.target,
        host=cell.host,
        device=cell.device,
        test=test,
        outcome=report.outcome,
        release=vm.kernel.release,
        date=time.strftime("%Y-%m-%d"),
        file=item.path.relative_to(ROOT).as_posix(),
    )


def pytest_sessionfinish() -> None:
    if _outcomes:
        results.merge(_outcomes.values(), _there)


# ---- fixtures of tests ----


@pytest.fixture
def doomed(lab: Lab) -> Iterator[Guest]:
    """A guest that a test may kill, or leave in any state: the next test boots a new one."""
    yield lab.guest()
    lab.close()


@pytest.fixture
def machine(lab: Lab) -> Iterator[Lab]:
    """The lab, whose guest the next test boots again."""
    yield lab
    lab.close()


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The guest's RDMA device, siw if a test selects none (EITHER)."""
    return str(getattr(request, "param", "siw"))


@pytest.fixture
def host(vm: Guest, guest: Guest, kind: str) -> Iterator[KernelHost]:
    """The kernel's host."""
    use_device(vm, kind)
    yield KernelHost(vm, HOST)
    if not vm.dead:
        vm.run("nvme disconnect-all", quiet=True, timeout=120)


@pytest.fixture
def target(vm: Guest, cable: Network, tmp_path: Path, need_product: None) -> Iterator[OursOutside]:
    """Our target outside the guest, on siw's network."""
    use_device(vm, "siw")
    one = OursOutside(cable, tmp_path, HOST)
    yield one
    one.close()


@pytest.fixture(scope="session")
def need_product() -> None:
    """Skip if the product is not built."""
    for module in ("nvmf.cli.main", "nvmf.engine._engine"):
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"{module} is not there: ./dev build makes it")
