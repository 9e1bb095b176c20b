# SPDX-License-Identifier: BSD-3-Clause
"""The code blocks of README.md and of the documents run as they are written.

They run on this machine, in namespaces with a separate network and /run, so that the ports
and the socket in the blocks belong to the test.  A block is changed only as a reader would change
it: a target runs in the background, and example addresses and names are replaced by those of the
target.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nvmf.cli.main import main
from support import documents

NQN = "nqn.2026-11.io.example:disk"
HOST = "nqn.2014-08.org.nvmexpress:uuid:8d4f1b1e-6a0a-4f53-9d55-3a1f2d1c7b10"
MACHINE = f"""
{shlex.quote(sys.executable)} -c '
import fcntl, socket, struct # a minimal system has no ip(8)
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
' && mount -t tmpfs tmpfs /run && exec "$@"
"""
SERVE = "nvmeof target serve disk.toml"
# It ends with the script, and by its PID: the script's shell is not interactive.
WAIT = """
target=$!
trap 'kill $target; wait $target' EXIT
until nvmeof target ls > ls.txt 2>&1; do kill -0 $target; sleep 0.2; done
"""

pytestmark = pytest.mark.usefixtures("need_product", "need_client")


@pytest.fixture
def machine(tmp_path: Path) -> list[str]:
    """Return the command that runs a command in that environment."""
    wrapper = ["unshare", "--mount", "--net", "--", "sh", "-c", MACHINE, "sh"]
    try:
        done = subprocess.run([*wrapper, "true"], capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare(1) to make a machine with")
    if done.returncode:
        pytest.skip(f"no machine of its own can be made here: {done.stderr.decode().strip()}")
    (tmp_path / "disk.toml").write_text(documents.blocks("Serve something", "toml")[0])
    return wrapper


def shell(machine: list[str], folder: Path, *parts: str) -> str:
    """Run a script there, which ends if one of its commands fails; return its output."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*machine, "bash", "-eux", "-o", "pipefail", "-c", "\n".join(parts)],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serving(block: str) -> str:
    """Return a block whose target runs in the background, followed by a wait for it."""
    lines = block.replace("./dev run ", "").splitlines()
    (index,) = (n for n, line in enumerate(lines) if line.startswith(SERVE))
    lines[index] = f"{SERVE} > log.txt 2>&1 &" + WAIT
    return "\n".join(lines)


def test_serve_something(machine: list[str], tmp_path: Path, fio: Path, fio_engine: Path) -> None:
    """The quick tour: serve, list, write, measure, by command and from Python and fio."""
    start, look = documents.blocks("Serve something", "sh")
    picture = os.urandom(300_001)
    (tmp_path / "README.md").write_bytes(picture)
    programs = [
        *documents.blocks("Client", "python", documents.PYTHON),
        *documents.blocks("Lost connections and several paths", "python", documents.PYTHON),
        *documents.blocks("Many small commands", "python", documents.PYTHON),
    ]
    assert len(programs) == 4
    (tmp_path / "first.py").write_text(programs[0])
    (tmp_path / "second.py").write_text(programs[1])
    (tmp_path / "third.py").write_text(programs[2])
    (tmp_path / "fourth.py").write_text(programs[3])
    (load,) = documents.blocks("fio", "sh", documents.FIO)
    (names,) = documents.blocks("Names", "sh", documents.FIO)
    load = load.replace("./dev run fio", "fio") + "\n" + names
    load = load.replace("fio --name", f"{shlex.quote(str(fio))} --name")
    load = load.replace("build/dev/nvmeof-fio.so", str(fio_engine))
    said = shell(
        machine,
        tmp_path,
        serving(start),
        look,
        "head -c 300001 disk.img > back",
        "python first.py",
        "python second.py",
        "python fourth.py",
        "python third.py",
        "cmp -n 4096 disk.img /dev/zero",
        load,
    )
    assert (tmp_path / "back").read_bytes() == picture
    assert said.count("b'hello'") == 2
    assert "64 of 64 blocks have data" in said
    assert NQN in said
    assert said.count("err= 0") == 3


def test_a_target_inside_a_program(machine: list[str], tmp_path: Path) -> None:
    program, _ = documents.blocks("A target inside a program", "python", documents.PYTHON)
    (tmp_path / "inside.py").write_text(program)
    shell(machine, tmp_path, "python inside.py")


def test_a_store_written_in_python(machine: list[str], tmp_path: Path) -> None:
    (program,) = documents.blocks("A store written in Python", "python", documents.PYTHON)
    (tmp_path / "sparse.py").write_text(program)
    shell(machine, tmp_path, "python sparse.py")


def test_authentication(machine: list[str], tmp_path: Path) -> None:
    """Keys are generated and required; hosts without them cannot connect."""
    generate, use = documents.blocks("Authentication", "sh", documents.ADMINISTRATOR)
    config = (tmp_path / "disk.toml").read_text().replace("allow_any_host = true\n", "")
    (tmp_path / "disk.toml").write_text(
        config + documents.blocks("Authentication", "toml", documents.ADMINISTRATOR)[0]
    )
    ours = next(line for line in use.splitlines() if line.startswith("nvmeof "))
    ours = ours.replace("192.0.2.1", "127.0.0.1").replace("NQN", NQN) + f" -q {HOST}"
    keyless = ours.partition(" --dhchap")[0] + f" -q {HOST}"
    said = shell(
        machine,
        tmp_path,
        generate,
        serving(documents.blocks("Serve something", "sh")[0]),
        ours,
        f"! {keyless} 2> refused.txt",
    )
    assert said.splitlines()[-1].split()[0] == "1"
    assert "key" in (tmp_path / "refused.txt").read_text()


@pytest.mark.feature("save")
def test_administration(machine: list[str], tmp_path: Path) -> None:
    """The chapter for administrators changes a running target, and save stores the changes."""
    (block,) = documents.blocks("Changes at run time", "sh", documents.ADMINISTRATOR)
    shell(machine, tmp_path, "truncate -s 1G disk.img", serving(block))
    text = (tmp_path / "disk.toml").read_text()
    assert text.startswith("# disk.toml\n")
    saved = tomllib.loads(text)
    assert [port["trsvcid"] for port in saved["port"]] == [4420, 4421]
    disk, lab = saved["subsystem"]
    assert disk["namespace"][1]["path"] == str(tmp_path / "disk2.img")
    assert disk["namespace"][1]["limits"] == {"read_iops": 20000, "bandwidth": "500MiB"}
    assert lab["nqn"] == "nqn.2026-11.io.example:lab"


def test_captures(machine: list[str], tmp_path: Path) -> None:
    """A read is recorded, explained and replayed, with the target of the quick tour."""
    start, _ = documents.blocks("Serve something", "sh")
    (block,) = documents.blocks("Captures", "sh", documents.CAPTURE)
    said = shell(machine, tmp_path, serving(start), block)
    assert "Read" in said
    assert "0 violations of specifications" in said
    assert said.splitlines()[-2].endswith("0 differences")
    assert (tmp_path / "read.json").stat().st_size > 1000


def test_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that the README or a document names has help."""
    named = [words for words in documents.commands() if not words[-1].endswith("-")]
    assert ["target", "namespace", "protect"] in named
    for words in named:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert ended.value.code == 0, words
        # an unknown command ends with a status above 0; the last word may be an argument
        commands = (f"usage: nvmeof {' '.join(words[:n])} " for n in (len(words), len(words) - 1))
        out = capsys.readouterr().out
        assert any(command in out for command in commands), words
