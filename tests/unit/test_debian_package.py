# SPDX-License-Identifier: BSD-3-Clause
"""The files of the Debian package agree with the rest of the tree; ./dev deb builds it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nvmf.config.loader import loads

ROOT = Path(__file__).parents[2]
DEBIAN = ROOT / "systemd" / "debian"


def test_version() -> None:
    """The package has the version of the project."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (DEBIAN / "changelog").read_text().startswith(f"nvmeof ({version}) ")


def test_every_unit_is_installed() -> None:
    (units,) = re.findall(r"^UNITS = (.*)$", (DEBIAN / "rules").read_text(), re.MULTILINE)
    assert set(units.split()) == {path.stem for path in (ROOT / "systemd").glob("*.service")}


def test_first_configuration() -> None:
    """The configuration is valid as shipped, and with its example uncommented."""
    text = (DEBIAN / "target.toml").read_text()
    as_installed = loads(text, "target.toml")
    assert not as_installed.subsystems
    assert [str(port.traddr) for port in as_installed.ports] == ["127.0.0.1"]
    uncommented = loads(re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE), "target.toml")
    (subsystem,) = uncommented.subsystems
    assert [str(one.path) for one in subsystem.namespaces] == ["/srv/nvmeof/disk.img"]
    # The folder that systemd-tmpfiles makes for the service's user.
    assert "d /srv/nvmeof " in (ROOT / "systemd" / "nvmeof.tmpfiles").read_text()


@pytest.mark.parametrize("name", ["nvmeof.postinst", "nvmeof.prerm", "nvmeof.postrm"])
def test_scripts_of_maintainers(name: str) -> None:
    text = (DEBIAN / name).read_text()
    assert "\n#DEBHELPER#\n" in text
    assert "\nset -e\n" in text
    subprocess.run(["sh", "-n", DEBIAN / name], check=True, timeout=60)


def vendored(*words: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, DEBIAN / "vendored.py", *words],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_packages_that_it_contains() -> None:
    """The package contains each dependency with its own dependencies, in one version; nothing of
    the tests.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = vendored("requirements", "run").split()
    names = {line.partition("==")[0] for line in lines}
    assert names >= {re.split(r"[<>=]", need)[0] for need in project["dependencies"]}
    assert names >= {"pydantic-core", "typing-extensions"}
    assert not names & {"pytest", "numpy", "ruff", "nvmeof-rdma"}
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", line) for line in lines)


def test_the_tree_is_a_source_package() -> None:
    """dpkg-buildpackage in the tree finds its folder, and pip what to fetch."""
    assert (ROOT / "debian").resolve() == DEBIAN
    assert (DEBIAN / "rules").stat().st_mode & 0o111
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = vendored("needed").splitlines()
    assert {*tables["project"]["dependencies"], *tables["build-system"]["requires"]} < {*needed}
    assert "debian/wheels/build.txt" in (DEBIAN / "rules").read_text()


def test_licences_of_what_it_contains() -> None:
    """debian/copyright has a licence for each package of an environment that it is asked about."""
    folder = next(path for path in sys.path if list(Path(path).glob("pydantic-*.dist-info")))
    program = (
        "import importlib.metadata, runpy, sys\n"
        f"module = runpy.run_path({str(DEBIAN / 'vendored.py')!r})\n"
        "for line in sys.stdin.read().split():\n"
        "    print(module['stanza'](importlib.metadata.distribution(line.partition('==')[0])))\n"
    )
    names = vendored("requirements", "run")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        input=names,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("License: ") == len(names.split())
    assert "/usr/share/common-licenses/Apache-2.0" in done.stdout
    for field in ("Files:", "Copyright:"):
        assert len(re.findall(rf"^{field}", done.stdout, re.MULTILINE)) == len(names.split())
