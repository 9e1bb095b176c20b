# SPDX-License-Identifier: BSD-3-Clause
"""The first hour of three users with the command line, on terminals of 80 and 200 columns and
piped.

A storage administrator, a Python developer and a lab engineer: each step works the first time,
and each mistake is answered by one line that says what to do.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nvmf.initiator.sync import connect
from support.clientlab import OPTIONS, url
from support.walk import NQN, PROGRAM, Serving, on_terminal

HOST = "nqn.2014-08.org.example:laptop"
Do = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walk")


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[Serving]:
    serving = Serving(folder, "--ram", "8MiB", "--trsvcid", "0")
    yield serving
    serving.end()


@pytest.fixture(params=[80, 200, 0], ids=["80", "200", "piped"])
def columns(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def do(target: Serving, columns: int) -> Do:
    """Run a command; return its exit status and the output that a user sees."""

    def call(*args: object) -> tuple[int, str]:
        words = [*PROGRAM, *map(str, args)]
        if columns:
            return on_terminal(words, columns, target.environment)
        done = subprocess.run(
            words, env=target.environment, capture_output=True, text=True, check=False, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    return call


@pytest.fixture
def where(target: Serving) -> str:
    return url(target.port, NQN)


# ---- the storage administrator ----


def test_the_administrator(do: Do, columns: int, tmp_path: Path) -> None:
    status, said = do("target", "ls")
    assert status == 0
    assert f"subsystem {NQN}" in said
    disk = tmp_path / "disk.img"
    disk.write_bytes(bytes(1 << 20))
    add = ("target", "namespace", "add", NQN)
    status, said = do(*add, "--store", "file", "--path", disk)
    assert (status, said) == (0, f"namespace 2 of {NQN} was added\n")
    assert do("target", "namespace", "remove", NQN, 2)[0] == 0
    for words, answer in (
        (("--store", "file"), "--store file needs --path"),
        (("--store", "ram"), "--store ram needs --size"),
        (("--store", "ram", "--size", "1", "--path", disk), "--store ram has no --path"),
    ):
        status, said = do(*add, *words)
        assert (status, said.count("\n")) == (2, 1)
        assert answer in said
    status, said = do(*add, "--store", "ram", "--size", "100T")
    assert status == 1
    assert "does not fit into this machine's memory" in said
    status, said = do(*add, "--store", "file", "--path", "/dev/no-such-disk")
    assert status == 1
    assert "truncate" not in said


def test_doctor_ends_with_a_summary(do: Do) -> None:
    said = do("doctor")[1]
    assert re.search(r"(\d+ \w+, )*\d+ ok$", said.strip().splitlines()[-1])


def test_a_refused_host(do: Do, target: Serving) -> None:
    """Both sides report the host."""
    nqn = "nqn.2026-01.example:closed"
    do("target", "subsystem", "add", nqn)
    status, said = do("list-ns", url(target.port, nqn), "-q", HOST)
    assert status == 1
    assert f"as host {HOST} failed" in said.replace("\n", " ")
    assert f"host {HOST} may not use {nqn}" in target.log.read_text()
    assert do("show-hostnqn")[1].startswith("nqn.")
    assert do("target", "host", "allow", nqn, HOST)[0] == 0
    assert do("list-ns", url(target.port, nqn), "-q", HOST)[0] == 0
    assert do("target", "subsystem", "remove", nqn)[0] == 0


def test_the_level_of_the_log(do: Do, target: Serving, where: str) -> None:
    """Connecting hosts are logged at level info only."""
    assert do("target", "log-level")[1] == "log level: info\n"
    assert do("target", "log-level", "error")[1] == "log level: error\n"
    size = target.log.stat().st_size
    assert do("list-ns", where)[0] == 0
    assert target.log.stat().st_size == size
    assert do("target", "log-level", "info")[0] == 0
    assert do("list-ns", where)[0] == 0
    assert target.log.stat().st_size > size
    assert do("target", "log-level", "loud")[0] == 2


def test_the_log_has_times(target: Serving) -> None:
    lines = target.log.read_text().splitlines()
    assert lines
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S+ [A-Z]+: ", one) for one in lines)


# ---- the lab engineer ----


def test_the_lab_engineer(do: Do, where: str, columns: int) -> None:
    with connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write_zeroes(0, disk.blocks)
    args = ("bench", where, "--bs", "4k", "--iodepth", "2", "--rw", "randrw", "--runtime", "300ms")
    for runtime in ("300ms", "3s", "30s", "300s"):  # a machine may stall during all of a run
        status, said = do(*args[:-1], runtime)
        assert status == 0, said
        if "percentiles" in said:
            break
    assert "percentiles" in said
    with connect(where, **OPTIONS) as controller:
        disk = controller.namespace(1)
        disk.write(disk.blocks - 1, b"x".ljust(disk.block_size, b"\0"))
    status, said = do(*args)
    assert status == 1
    assert "use --force" in said
    assert do(*args, "--force")[0] == 0


def test_a_mistake_is_one_line(do: Do, where: str) -> None:
    for words, answer in (
        (("benhc",), "did you mean bench?"),
        (("list-ns",), "specify the target"),
        (("read", where, "--speed", "3"), "unrecognized arguments: --speed 3"),
        (("target", "lss"), "did you mean ls?"),
        (("smart-log", "/dev/nvme0"), "is for nvme-cli: this command connects by itself"),
    ):
        status, said = do(*words)
        assert (status, said.count("\n")) == (2, 1), said
        assert answer in said
        assert "--help" in said


def test_nvme_cli_words_for_help(do: Do) -> None:
    status, said = do("help", "list-ns")
    assert (status, said.startswith("usage: nvmeof list-ns ")) == (0, True)
    assert do("help")[1].startswith("usage: nvmeof ")
    assert do("version") == do("--version")
    assert do("help", "nothing")[0] == 2


def test_help_fits(do: Do, columns: int) -> None:
    for words in ((), ("bench",), ("target", "serve"), ("read",)):
        status, said = do(*words, "--help")
        assert status == 0
        if columns:
            lines = [one for one in said.splitlines() if not one.lstrip().startswith(("-", "["))]
            assert max(map(len, lines)) <= columns


# ---- the Python developer ----


def test_the_developer(do: Do, where: str, tmp_path: Path) -> None:
    status, said = do("list-ns", where, "-o", "json")
    assert (status, json.loads(said)["nsid_list"][0]["nsid"]) == (0, 1)
    lines = do("list-ns", url(1), "-o", "json")[1].splitlines()
    found = json.loads(next(line for line in lines if line.startswith("{")))
    assert found["status"] == 1
    assert "refused" in found["error"]
    copy = tmp_path / "copy"
    assert do("read", where, "-z", "64k", "-d", copy)[0] == 0
    assert copy.stat().st_size == 65536
    content = tmp_path / "block"
    content.write_bytes(copy.read_bytes()[:512])
    same = ("compare-and-write", where, "-d", content, "--expected", content)
    assert do(*same)[0] == 0
    other = tmp_path / "other"
    other.write_bytes(b"?" * 512)
    assert do("compare-and-write", where, "-d", content, "--expected", other)[0] == 1
    assert do("compare-and-write", where, "-d", content, "--expected", tmp_path / "absent")[0] == 2


# ---- serving ----


def test_a_second_target_has_its_own_socket(folder: Path, target: Serving) -> None:
    text = '[[port]]\ntrsvcid = 0\n[[subsystem]]\nnqn = "nqn.2026-01.example:second"\n'
    second = Serving(folder, "-", stdin=text)
    try:
        assert (folder / "target-2.sock").is_socket()
        words = [*PROGRAM, "target", "ls", "--rpc-socket", str(folder / "target-2.sock")]
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout
        assert "nqn.2026-01.example:second" in said
    finally:
        second.end()
    assert (folder / "target.sock").is_socket()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ((), "specify a configuration file, -, or --ram SIZE"),
        (("a.toml", "--ram", "1M"), "--ram replaces a configuration: omit a.toml"),
        (("--ram", "1M", "-a", "here"), "--traddr: 'here' is not a numeric IPv4 or IPv6 address"),
        (("--python", "a:B", "--ram", "100"), "--ram: size 100 is not a multiple of block_size"),
        (("--ram", "1M", "--ram", "4000T"), "does not fit into this machine's memory of"),
    ],
)
def test_serving_nothing(words: tuple[str, ...], answer: str) -> None:
    done = subprocess.run(
        [*PROGRAM, "target", "serve", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (1, 2)
    assert answer in done.stderr
