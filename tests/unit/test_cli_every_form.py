# SPDX-License-Identifier: BSD-3-Clause
"""Every command that the parser has, on terminals of 80 and of 200 columns and piped.

WALK has a line for each: a command that is added without one fails test_every_command_has_a_walk.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf.auth.key import Key
from nvmf.cli.app import make_parser
from support.calling import Caller
from support.clientlab import url
from support.walk import NQN, Serving

FORMS = {"80": 80, "200": 200, "piped": 0}
CLOSED = "nqn.2026-01.example:closed"
WALK: dict[str, tuple[str, ...]] = {
    # Storage administrator: a target.
    "target serve": ("--ram 1M --trsvcid 0 --rpc-socket {dir}/own-{form} ^listening on",),
    "target ls": ("", "-o json"),
    "target stats": ("",),
    "target log-level": ("", "info"),
    "target subsystem add": ("nqn.2026-01.example:{form}", "nqn.2026-01.example:{form} =1"),
    "target subsystem remove": ("nqn.2026-01.example:{form}", "nqn.2026-01.example:{form} =1"),
    "target namespace add": (
        "{nqn} -n 9 --store ram --size 64k",
        "{nqn} --store ram --size 9000T =1",
    ),
    "target namespace resize": ("{nqn} 9 32k",),
    "target namespace replace": ("{nqn} 9 --store ram --size 64k",),
    "target namespace mask": ("{nqn} 9 --all",),
    "target namespace limit": ("{nqn} 9 --iops 1000", "{nqn} 9"),
    "target namespace protect": ("{nqn} 9", "{nqn} 9 none"),
    "target namespace remove": ("{nqn} 9", "{nqn} 9 =1"),
    "target port add": ("-a {address} -s 4420",),
    "target port remove": ("-a {address} -s 4420",),
    "target host allow": ("{closed} {host}",),
    "target host set-keys": ("{closed} {host} --dhchap-key {dir}/host.key",),
    "target host remove": ("{closed} {host}",),
    "target ana set": ("-a 127.0.0.1 -s {port} optimized",),
    "target mirror show": ("",),
    "target mirror add-leg": ("{nqn} 1 {dir}/leg =1",),
    "target mirror remove-leg": ("{nqn} 1 {dir}/leg =1",),
    "target mirror replace-leg": ("{nqn} 1 {dir}/leg {dir}/other =1",),
    "target mirror events": ("",),
    "target mirror resync": ("{nqn} 1 =1",),
    "target fault add": ("delay --delay 1us =1",),
    "target fault list": ("",),
    "target fault remove": ("7 =1",),
    "target save": ("{dir}/saved-{form}.toml",),
    "target reload": ("=1",),
    "target restore": ("{dir}/absent.json =1",),
    "target clear": ("--rpc-socket {dir}/nobody =1",),
    "target shell": ("ls",),
    "rpc": ("spdk_get_version", "no_such_method =1", "thread_get_stats"),
    "top": ("-n 1",),
    "config check": ("{dir}/good.toml", "{dir}/absent.toml =1"),
    "config schema": ("",),
    "config import": ("{dir}/nvmetcli.json",),
    "config export": ("{dir}/good.toml",),
    "doctor": ("=0,1",),
    "devices": ("", "-o json"),
    # Storage administrator: a host.
    "discover": ("-a 127.0.0.1 -s {port}", "-a 127.0.0.1 -s 1 =1"),
    "id-ctrl": ("{url}", "{url} -H", "{nobody} =1"),
    "id-ns": ("{url} -n 1 -H",),
    "list-ns": ("{url}", "{url} -a", "-a {url}", "{url} -n 2 -y 0", "-a =2"),
    "read": ("{url} -s 0 -c 7 -d {dir}/out -t -f", "{url} -p 1 -d {dir}/out =2"),
    "write": ("{url} -s 0 -d {dir}/block -f -l",),
    "flush": ("{url}",),
    "write-uncor": ("{url} -s 100",),
    "write-zeroes": ("{url} -s 100 -d",),
    "verify": ("{url} -s 8 -c 1 -f",),
    "dsm": ("{url} -d -s 8,16 -b 2,2",),
    "copy": ("{url} -d 200 -s 8,16 -b 1,1 -f", "{url} -d 8 -s 8 =1", "{url} -d 8 -s 8 -b 1,2 =2"),
    "compare": ("{url} -s 0 -d {dir}/block -f -t", "{url} -s 0 -d {dir}/other =1"),
    "compare-and-write": ("{url} --expected {dir}/one -d {dir}/one",),
    "smart-log": ("{url} -H",),
    "error-log": ("{url}",),
    "ana-log": ("{url}", "{url} -g"),
    "changed-ns-list-log": ("{url}",),
    "get-log": ("{url} -i 2 -l 512", "{url} -i 2 -l 64 -o 64 -s 0 -r", "{url} -l 4 =2"),
    "get-feature": ("{url} -f 7 -H",),
    "set-feature": ("{url} -f 0x0b -v 0x100", "{url} -f 0x0b -V 0 -s =1", "{url} -f 7 =2"),
    "show-regs": ("{url} -H",),
    "reset": ("{url}", "{nobody} =1", "nvme999 =1"),
    "resv-register": ("{url} -k 1", "{url} -r 1 -c 1 -o json =0,1"),
    "resv-acquire": ("{url} -c 1 -t 1 =1",),
    "resv-release": ("{url} -c 1 -t 1 =1",),
    "resv-report": ("{url} -d 16 -e",),
    "list": ("",),
    "list-subsys": ("",),
    "connect": ("-t none -a 127.0.0.1 -n {nqn} =1,2",),
    "connect-all": ("-t none -a 127.0.0.1 =1,2",),
    "disconnect": ("-n nqn.2026-01.example:not-connected =1",),
    "disconnect-all": ("-t none",),
    "show-hostnqn": ("",),
    "gen-hostnqn": ("",),
    "gen-dhchap-key": ("-m 1",),
    "check-dhchap-key": ("-f {dir}/host.key", "-k nonsense =1,2"),
    "completion": ("bash",),
    # Python developer and lab engineer.
    "bench": ("{url} --rw read --bs 512 --size 8k --force", "{url} --size 101% =2"),
    "capture": ("{dir}/capture-{form}.pcapng -- true =1", "=2"),
    "explain": ("{dir}/capture-{form}.pcapng",),
    "replay": ("{dir}/absent.pcapng {url} =2",),
    "fio-engine build": ("--fio-source {dir}/absent =1",),
    "fio-engine path": ("--fio {dir}/absent =1",),
    "verbs": ("-- true",),
    "lab check": ("{dir}/absent.toml =1",),
    "lab profiles": ("",),
    "lab schema": ("",),
    "lab export": ("csv {dir}/absent =1",),
    "lab run": ("{dir}/absent.toml =1",),
    "lab report": ("{dir}/absent =1",),
    "lab compare": ("{dir}/absent {dir}/absent =1",),
    "pmem bench": ("{url} --methods none =2", "{nobody} --force =1"),
    "pmem bench-replicas": ("{nobody} --force =1,2",),
    "pmem demo": ("--runtime none =2",),
}
"""Arguments by command; ^TEXT: it gets SIGINT after this text; =N,N: its statuses, if not 0."""


def leaves(parser: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    """Yield the commands that can be called."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from leaves(below, f"{path} {name}".strip())
            return
    yield path


def test_every_command_has_a_walk() -> None:
    assert set(leaves(make_parser(every=True))) == set(WALK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("form")
    (made / "block").write_bytes(bytes(4096))
    (made / "other").write_bytes(b"?" * 4096)
    (made / "one").write_bytes(bytes(512))
    (made / "good.toml").write_text(
        f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
        '[[subsystem.namespace]]\nstore = "ram"\nsize = "1MiB"\n'
    )
    (made / "nvmetcli.json").write_text(
        json.dumps({"hosts": [], "ports": [], "subsystems": [{"nqn": NQN, "namespaces": []}]})
    )
    (made / "host.key").write_text(Key.generate().text())
    (made / "host.key").chmod(0o600)
    return made


@pytest.fixture(scope="module")
def target(folder: Path) -> Iterator[Serving]:
    state = folder / "state"
    state.mkdir()
    text = f"""[target]
state_dir = {json.dumps(str(state))}
[[port]]
trsvcid = 0
[[subsystem]]
nqn = "{NQN}"
allow_any_host = true
[[subsystem.namespace]]
store = "ram"
size = "8MiB"
[[subsystem]]
nqn = "{CLOSED}"
"""
    serving = Serving(folder, "-", stdin=text)
    yield serving
    serving.end()


@pytest.fixture(scope="module")
def call(target: Serving, folder: Path) -> Iterator[Caller]:
    caller = Caller(target.environment, folder)
    yield caller
    caller.close()


def address(form: str) -> str:
    """Return an address of this machine on which no one else listens."""
    high, low = divmod(os.getpid(), 250)
    return f"127.{100 + high % 100}.{low}.{1 + list(FORMS).index(form)}"


@pytest.mark.parametrize("form", FORMS)
def test_every_command(call: Caller, target: Serving, folder: Path, form: str) -> None:
    """Each command ends with its status and without a traceback; a failure is one line with the
    reason.
    """
    known = {
        "url": url(target.port, NQN), "nobody": url(1, NQN), "nqn": NQN, "port": target.port,
        "host": "nqn.2014-08.org.example:walk", "dir": folder, "closed": CLOSED, "form": form,
        "address": address(form),
    }  # fmt: skip
    wrong = []
    for command, walks in WALK.items():
        for line in walks:
            words, _, statuses = line.partition("=") if line[:1] == "=" else line.partition(" =")
            words, _, until = words.partition(" ^")
            called = [*command.split(), *shlex.split(words.format(**known))]
            status, said = call(called, FORMS[form], until=until)
            expected = [int(one) for one in (statuses or "0").split(",")]
            lines = said.count("\n")
            sound = "Traceback" not in said and "internal error" not in said.lower()
            if status and command != "doctor":
                sound = sound and 1 <= lines <= 2
            if status not in expected or not sound:
                wrong.append((shlex.join(called), status, said))
    assert not wrong
