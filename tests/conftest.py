"""Fixtures of all tests: paths of this tree's programs.

``./dev test`` sets them in the environment. If pytest was started by hand without them, a test that
needs one is skipped with the reason.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import hypothesis
import pytest

from support import again, features, outcomes, sharing, strays

# No example is too slow on a machine that stalls, and every run tries the same examples.
hypothesis.settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins; among them is the one that records which features tests show."""
    config.pluginmanager.register(sharing, "sharing")
    config.pluginmanager.register(again, "again")
    config.pluginmanager.register(strays, "strays")
    config.pluginmanager.register(outcomes.Recorder(features.registry().names), "features")


def _path(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: start the tests with ./dev test")
    path = Path(value)
    if not path.exists():
        pytest.skip(f"{variable} names {path}, which does not exist: ./dev build makes it")
    return path


# A shell that starts the tests in the background ignores SIGINT, which programs inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def patient_device() -> None:
    """Let the embedded device wait for its peers longer than a machine may stall."""
    with contextlib.suppress(ImportError):  # tests that need the engine are then skipped
        from nvmf.engine import set_iwarp_options

        set_iwarp_options(handshake_timeout_ms=60_000)


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The build tree: ``tests/c/NAME`` in it is the program of ``tests/c/NAME.c``."""
    return _path("NVMF_BUILD_DIR")


@pytest.fixture(scope="session")
def fio() -> Path:
    """The fio program."""
    return _path("NVMF_FIO")


@pytest.fixture(scope="session")
def fio_engine() -> Path:
    """The fio engine, for ``--ioengine=external:PATH``."""
    return _path("NVMF_FIO_ENGINE")
