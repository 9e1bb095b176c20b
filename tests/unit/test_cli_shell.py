# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target shell`, restore, clear and save: nvmetcli's habits, from a pipe and a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from nvmf.cli.main import main
from nvmf.cli.target import file_commands
from nvmf.config import from_dict
from nvmf.initiator.sync import connect
from nvmf.target.client import RpcError, connect_sync
from support.clientlab import OPTIONS, url
from support.served import Served
from support.shellterminal import Terminal

NQN = "nqn.2026-11.io.example:disk"
HOST = "nqn.2026-11.io.example:host"
HANG = 60
CONFIG = f"""
[[port]]
traddr = "127.0.0.1"
trsvcid = 0
device = "iwarp"
[[subsystem]]
nqn = "{NQN}"
hosts = ["{HOST}"]
[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, CONFIG) as served:
        yield served.wait_ready()


def run(served: Served, *words: str, stdin: str = "", status: int = 0) -> tuple[str, str]:
    """Run a `nvmeof target` command; return its stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
    ):
        found = main(["target", *words, "--rpc-socket", str(served.rpc_socket)])
    assert found == status, (out.getvalue(), err.getvalue())
    return out.getvalue(), err.getvalue()


def shell(served: Served, *lines: str, status: int = 0) -> str:
    """Run lines from a pipe; return stdout, or stderr after a failure."""
    out, err = run(served, "shell", stdin="\n".join(lines) + "\n", status=status)
    return err if status else out


@pytest.mark.feature("rpc")
def test_a_script_of_nvmetcli(target: Served, tmp_path: Path) -> None:
    """Objects are created, get their attributes and are enabled; a host uses them."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    out = shell(
        target,
        "# made by hand",
        "cd /hosts",
        "create nqn.2026-11.io.example:other",
        "cd /subsystems",
        "create testnqn",
        "cd testnqn",
        "set attr allow_any_host=1 serial=00c0ffee",
        "cd namespaces",
        "create 1",
        "cd 1",
        f"set device path={image}",
        "set device uuid=ef90689c-6c46-d44c-89c1-4067801309a8",
        "enable",
        "cd ..",
        "create",
        "2 set device store=ram size=2MiB block_size=4096",
        "2 enable",
        "cd /ports",
        "create 7",
        "cd 7",
        "set addr trtype=rdma adrfam=ipv4 traddr=127.0.0.2 trsvcid=0",
        "get addr trtype traddr",
        "subsystems create testnqn",
        "pwd",
        "/subsystems ls testnqn",
    )
    assert "addr trtype=rdma\naddr traddr=127.0.0.2\n" in out
    assert "\n/ports/7\n" in out
    assert out.endswith(
        "testnqn: any host, serial 00c0ffee\n├─ allowed_hosts\n└─ namespaces\n"
        f"   ├─ 1: file, {image}, enabled\n   └─ 2: ram, 2.00 MiB, enabled\n"
    )
    with connect(url(target.port, "testnqn"), **OPTIONS) as host:
        assert [n.block_size for n in host.namespaces] == [512, 4096]
        host.namespaces[0].write(1, b"n" * 512)
    assert image.read_bytes()[512:1024] == b"n" * 512

    shell(target, "/subsystems/testnqn/namespaces/2 disable")
    shell(target, "/subsystems/testnqn/namespaces/2 set device size=4MiB")
    out = shell(target, "/subsystems/testnqn/namespaces/2 get device size")
    assert out == "device size=4MiB\n" or out == f"device size={4 << 20}\n"
    shell(target, "/subsystems/testnqn/namespaces/2 enable", "/subsystems/testnqn/namespaces")
    shell(target, "cd /subsystems/testnqn/namespaces", "delete 2", "cd ../..", "delete testnqn")
    assert "testnqn" not in shell(target, "ls")
    target.check_log()


def test_hosts_and_groups(target: Served) -> None:
    other = "nqn.2026-11.io.example:other"
    place = f"/subsystems/{NQN}/allowed_hosts"
    shell(target, f"{place} create {other}", f"{place} delete {HOST}")
    assert shell(target, f"ls {place} 1").splitlines()[1:] == [f"└─ {other}"]
    assert "is not enabled" not in shell(target, f"{place} delete {other}")
    shell(
        target,
        "/ports/1/ana_groups create 2",
        "/ports/1/ana_groups/2 set ana state=inaccessible",
        f"/subsystems/{NQN}/namespaces/1 grpid 2",
    )
    assert shell(target, "/ports/1/ana_groups/2 get") == "ana state=inaccessible\n"
    out, _ = run(target, "ls")
    assert "ANA group 2: inaccessible" in out
    assert "(ANA group 2)" in out
    shell(target, f"/subsystems/{NQN}/namespaces/1 grpid 1", "/ports/1/ana_groups delete 2")
    assert "ANA" not in run(target, "ls")[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bogus", "there is no command bogus"),
        ("cd /nowhere", "there is no nowhere in /"),
        ("/ports/9 disable", "there is no 9 in /ports"),
        ("create x", "has no command create"),
        ("/ports create one", "expected a number above 0"),
        ("/ports create 1", "1 already exists"),
        ("/ports/1 set addr traddr=127.0.0.9", "is enabled: disable it first"),
        ("/ports/1 set addr trtype=tcp", "trtype must be rdma, not tcp"),
        ("/ports/1 set addr colour=red", "there is no attribute colour in addr"),
        ("/ports/1 set colour red=1", "set needs a group: addr"),
        (f"/subsystems/{NQN} set attr allow_any_host=1", "has no effect with allow_any_host"),
        (f"/subsystems/{NQN} set attr allow_any_host=maybe", "must be 1 or 0"),
        (f"/subsystems/{NQN} set attr max_namespaces=x", "must be a number"),
        (f"/subsystems/{NQN} set attr serial", "expected NAME=VALUE"),
        (f"/subsystems/{NQN} get colour", "there is no group colour"),
        (f"/subsystems/{NQN}/namespaces/1 set device size=2MiB", "disable it first"),
        (f"/subsystems/{NQN}/namespaces delete 8", "there is no 8"),
        (f"/subsystems create {NQN}", "already exists"),
        (f"/hosts delete {HOST}", f"{NQN} allows {HOST}"),
        ("/hosts create", "create needs a name"),
        ("cd a b", "too many words"),
        ("help nothing", "there is no command nothing"),
        ("'", "the line is incomplete"),
    ],
)
def test_failures(shared: Served, line: str, said: str) -> None:
    """The error names the line and the reason; later lines are not run, and nothing has changed."""
    before = run(shared, "ls")
    err = shell(shared, "ls", line, "/subsystems create testnqn", status=1)
    assert f"line 2, {line}: " in err
    assert said in err
    assert run(shared, "ls") == before


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("shell"), CONFIG) as served:
        yield served.wait_ready()


def test_what_is_not_enabled_is_not_kept(shared: Served) -> None:
    lines = ["/ports create 5", f"/subsystems/{NQN}/namespaces create 4"]
    _, err = run(shared, "shell", stdin="\n".join(lines))
    assert "warning: port 5 is not enabled: the target does not keep it\n" in err
    assert f"warning: namespace 4 of {NQN} is not enabled" in err
    err = shell(shared, *lines, f"/subsystems/{NQN}/namespaces/4 enable", status=1)
    assert "has no storage: set device path=FILE" in err
    assert "has no traddr" in shell(shared, lines[0], "/ports/5 enable", status=1)


def test_one_command_and_json(shared: Served) -> None:
    out, _ = run(shared, "shell", f"/subsystems/{NQN}", "get", "-o", "json")
    assert json.loads(out)["attr"] == {"allow_any_host": False}
    out, _ = run(shared, "shell", "ls", "-o", "json")
    found = json.loads(out)
    assert found["subsystems"][NQN]["namespaces"]["1"]["device"]["store"] == "ram"
    assert found["hosts"] == {HOST: {}}
    _, err = run(shared, "shell", "/nowhere", "ls", status=1)
    assert "there is no nowhere" in err
    out, _ = run(shared, "shell", "/ports/1", "help")
    assert out.startswith("set GROUP NAME=VALUE")
    assert "ls [PATH]" in out


def test_another_change_is_not_overwritten(target: Served) -> None:
    with connect_sync(target.rpc_socket) as rpc:
        found = rpc.config()
        rpc.create_subsystem("testnqn")
        with pytest.raises(RpcError, match="changed by a different request"):
            rpc.set_config(found["config"], revision=found["revision"])
        assert len(rpc.subsystems()) == 3
        again = rpc.config()
        assert again["revision"] > found["revision"]
        assert rpc.set_config(again["config"], revision=again["revision"]) == "nothing to do"
        for wrong, said in (
            ({"subsystem": [{"nqn": "x", "host": [{"nqn": "h", "dhchap_key": "k"}]}]}, "_file"),
            ({"subsystem": [{"nqn": "x", "namespace": [{"store": "file", "path": "a"}]}]}, "absol"),
            (
                {"subsystem": [{"nqn": "x", "namespace": [{"store": "python", "python": "os:x"}]}]},
                "a class cannot be named",
            ),
            ({"subsystem": 3}, "expected"),
            ({"bdev": [{"name": "b", "store": "file", "path": "rel"}]}, "absolute"),
        ):
            with pytest.raises(RpcError, match=said):
                rpc.set_config(wrong)  # type: ignore[arg-type]
        assert rpc.config() == again


def test_a_key_in_the_configuration_stays(tmp_path: Path) -> None:
    key = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
    text = CONFIG.replace(f'hosts = ["{HOST}"]\n', "")
    text += f'[[subsystem.host]]\nnqn = "{HOST}"\ndhchap_key = "{key}"\n'
    with Served(tmp_path, text) as served:
        served.wait_ready()
        shell(served, f"/subsystems/{NQN} set attr serial=5")
        with connect_sync(served.rpc_socket) as rpc:
            found = rpc.config(secrets=True)["config"]
            config = from_dict(found)
        assert config.subsystems[0].serial == "5"
        (host,) = config.subsystems[0].host_tables
        assert host.dhchap_key is not None
        assert host.dhchap_key.text() == key
        assert key not in served.log


# ---- save, clear, restore ----


@pytest.mark.feature("rpc")
def test_save_clear_restore(target: Served, tmp_path: Path) -> None:
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(1 << 20))
    run(target, "namespace", "add", NQN, "-n", "3", "--store", "file", "--path", str(image))
    run(target, "port", "add", "-a", "127.0.0.3", "-s", "14423")
    saved, toml = tmp_path / "config.json", tmp_path / "saved.toml"
    _, err = run(target, "save", str(saved))
    assert "the kernel has no ram store" in err
    assert [one["nqn"] for one in json.loads(saved.read_text())["subsystems"]] == [NQN]
    run(target, "save", str(toml))
    before = run(target, "ls")[0].splitlines()[1:]  # port 0 is a different number each time
    run(target, "clear")
    assert run(target, "ls")[0].strip() == ""
    assert run(target, "restore", str(toml))[0].startswith("2 ports added, 1 subsystem added")
    assert run(target, "ls")[0].splitlines()[1:] == before
    assert "nothing to do" in run(target, "restore", str(toml))[0]
    run(target, "restore", str(saved))
    assert "namespace 3: file" in run(target, "ls")[0]
    assert "namespace 1" not in run(target, "ls")[0]
    out, _ = run(target, "restore", "-", "-o", "json", stdin=toml.read_text())
    assert "1 namespace added" in json.loads(out)["changed"]
    shell(target, f"restoreconfig {saved}", f"saveconfig {tmp_path / 'b.json'}", "clearconfig")
    assert json.loads((tmp_path / "b.json").read_text())["subsystems"]
    for name in ("none/x.toml", "none/x.json"):
        _, err = run(target, "save", str(tmp_path / name), status=1)
        assert f"cannot write {tmp_path / name}: No such file" in err
    target.check_log()


def test_restore_failures(target: Served, tmp_path: Path) -> None:
    """An invalid file changes nothing; a missing file is not a failure, as with nvmetcli."""
    before = run(target, "ls")
    for text, said in (("{}", "not a file of nvmetcli"), ("a = 1", "unknown key"), ("\xff", "")):
        file = tmp_path / "wrong"
        file.write_bytes(text.encode("latin-1"))
        assert said in run(target, "restore", str(file), status=1)[1]
    assert "cannot read" in run(target, "restore", str(tmp_path / "none"), status=1)[1]
    with mock.patch.object(file_commands, "NVMETCLI", str(tmp_path / "none")):
        assert "nothing was changed" in run(target, "restore")[0]
    missing = tmp_path / "missing.toml"
    missing.write_text(
        f'[[subsystem]]\nnqn = "{NQN}"\n[[subsystem.namespace]]\nstore = "file"\npath = "none"\n'
    )
    assert "none" in run(target, "restore", str(missing), status=1)[1]
    assert run(target, "ls") == before


# ---- on a terminal ----


@pytest.fixture
def terminal(target: Served) -> Iterator[Terminal]:
    made = Terminal(target)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def test_terminal(terminal: Terminal) -> None:
    """Prompt, completion, failures, Ctrl-C and Ctrl-D."""
    terminal.until("/> ")
    terminal.type("cd sub\t")
    terminal.until("cd subsystems/")
    terminal.type("\t")
    terminal.until(f"{NQN}/")
    terminal.type("\r")
    terminal.until(f"/subsystems/{NQN}> ")
    terminal.type("se\tat\tser\t")
    terminal.until("set attr serial=")
    terminal.type("77\r")
    terminal.until(f"{NQN}> ")
    terminal.type("get\r")
    assert "attr serial=77" in terminal.until(f"{NQN}> ")
    terminal.type("bogus\r")
    assert "there is no command bogus" in terminal.until(f"{NQN}> ")
    terminal.type("delete everything")
    terminal.until("everything")
    terminal.interrupt(f"{NQN}> ")
    terminal.type("cd\r")
    terminal.until("/> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_terminal_exit(terminal: Terminal) -> None:
    terminal.until("/> ")
    terminal.type("exit\r")
    assert terminal.end() == 0


def test_the_target_ends(terminal: Terminal, target: Served) -> None:
    """Each command reports that the target has ended, and the shell continues: it may return."""
    terminal.until("/> ")
    assert target.end() == 0
    terminal.type("ls\r")
    assert "error: " in terminal.until("/> ")
    terminal.type("cd \t")
    terminal.until("\a")  # nothing completes it
    terminal.type("\x04")
    terminal.until("\a")  # nothing is deleted
    terminal.interrupt("/> ")
    terminal.type("\x04")
    assert terminal.end() == 0
