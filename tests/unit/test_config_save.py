# SPDX-License-Identifier: BSD-3-Clause
"""A configuration written back into its text: comments, order and spelling are kept."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest

from nvmf.config import Config, ConfigError, loads, plain
from nvmf.config.models import NamespaceConfig, PortConfig, SubsystemConfig
from nvmf.config.save import merge, write
from nvmf.target.change import edit

A, B = "nqn.2026-11.io.example:a", "nqn.2026-11.io.example:b"
TEXT = f"""\
# Everything about this target.

[target]
spin_us = 100   # the default, and meant

[[port]]
trsvcid = 4420
device = "iwarp"   # no hardware here

[[subsystem]]
nqn = "{A}"   # the first
hosts = [
  "nqn.2026-11.io.example:h1",   # build machine
]

# its disk
[[subsystem.namespace]]
store = "ram"
size = "1MiB"   # small

[[subsystem.namespace]]
nsid = 7
store = "file"
path = "disk.img"   # beside this file

[[subsystem]]
nqn = "{B}"
allow_any_host = true
"""
BASE = Path("/srv")


def saved(*edits: edit.Edit) -> str:
    config = loads(TEXT, base=BASE)
    for change in edits:
        config = change(config)
    text = merge(TEXT, config, base=BASE)
    assert means(loads(text, base=BASE)) == means(config)
    return text


def means(config: Config) -> tuple[object, ...]:
    """Return the meaning of a configuration: namespaces by their numbers, in any order."""
    spaces = [dict(subsystem.numbered()) for subsystem in config.subsystems]
    bare = [one.model_copy(update={"namespaces": ()}) for one in config.subsystems]
    return spaces, config.model_copy(update={"subsystems": bare})


def removed(text: str) -> list[str]:
    return [line for line in TEXT.splitlines() if line not in text.splitlines()]


def test_the_same_is_written_the_same() -> None:
    assert saved() == TEXT


def test_the_file_asked_for_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.toml"
    with pytest.raises(FileNotFoundError) as refused:
        write(path, TEXT)
    assert refused.value.filename == str(path)


def test_a_full_disk_names_it_too(tmp_path: Path) -> None:
    """The existing file remains as it is."""
    path = tmp_path / "x.toml"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(OSError, match="too large") as refused:
            write(path, TEXT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refused.value.filename == str(path)
    assert [one.name for one in tmp_path.iterdir()] == ["x.toml"]
    assert path.read_text() == "old"


def test_a_port_has_its_address() -> None:
    text = saved(lambda c: edit.add_port(c, PortConfig(trsvcid=4421)))
    assert '[[port]]\ntraddr = "127.0.0.1"\ntrsvcid = 4421\n' in text


@pytest.mark.feature("save")
def test_one_value() -> None:
    text = saved(lambda c: edit.change_namespace(c, A, 1, size=2 << 20))
    assert 'size = "2MiB"' in text
    assert removed(text) == ['size = "1MiB"   # small']


LABELLED = f"""\
# The file's own.
[[port]]
trsvcid = 4420

# What this subsystem is for,
# in two lines.
[[subsystem]]   # the only one
nqn = "{A}"
allow_any_host = true

# one
[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "1MiB"
# two
[[subsystem.namespace]]
nsid = 2
store = "ram"
size = "1MiB"
"""


@pytest.mark.feature("save")
def test_a_comment_stays_above_its_table() -> None:
    """No matter which tables come before it, or were removed from there."""
    config = edit.add_port(loads(LABELLED), PortConfig(trsvcid=4421))
    text = merge(LABELLED, edit.remove_namespace(config, A, 1))
    assert text == LABELLED.replace(
        "\n# What", '\n[[port]]\ntraddr = "127.0.0.1"\ntrsvcid = 4421\n\n# What'
    ).replace('# one\n[[subsystem.namespace]]\nnsid = 1\nstore = "ram"\nsize = "1MiB"\n', "")


@pytest.mark.feature("save")
def test_tables_come() -> None:
    text = saved(
        lambda c: edit.add_port(c, PortConfig(traddr="::1", trsvcid=4421)),
        lambda c: edit.add_subsystem(c, SubsystemConfig(nqn=f"{A}2", serial="S")),
        lambda c: edit.add_namespace(c, f"{A}2", NamespaceConfig(store="null", size=4096))[0],
        lambda c: edit.add_namespace(c, B, NamespaceConfig(store="null", size=4096))[0],
        lambda c: edit.allow_host(c, A, "nqn.2026-11.io.example:h2"),
    )
    assert [line for line in removed(text) if "#" in line and "build machine" not in line] == []


@pytest.mark.feature("save")
def test_ana_states_of_two_groups_in_either_order() -> None:
    text = """
[[port]]
[[port.ana_group]]
id = 2   # the second, first
state = "inaccessible"
[[port.ana_group]]
id = 1
state = "optimized"
"""
    config = edit.set_ana(loads(text), "127.0.0.1", 4420, 2, "non-optimized")
    written = merge(text, config)
    assert written == text.replace("inaccessible", "non-optimized")


@pytest.mark.feature("save")
def test_an_empty_line_between_tables() -> None:
    text = saved(
        lambda c: edit.add_port(c, PortConfig(trsvcid=4421)),
        lambda c: edit.add_namespace(c, A, NamespaceConfig(store="null", size=4096))[0],
        lambda c: edit.add_subsystem(c, SubsystemConfig(nqn=f"{A}2")),
    )
    assert "trsvcid = 4421\n\n[[subsystem]]\n" in text
    assert "\n\n\n" not in text


@pytest.mark.feature("save")
def test_tables_go() -> None:
    text = saved(lambda c: edit.remove_namespace(c, A, 7), lambda c: edit.remove_subsystem(c, B))
    assert "disk.img" not in text
    assert B not in text
    assert "# its disk" in text
    text = saved(lambda c: edit.remove_subsystem(c, A), lambda c: edit.remove_subsystem(c, B))
    assert "# no hardware here" in text
    assert "subsystem" not in text


@pytest.mark.feature("save")
def test_the_last_port_goes_and_another_comes() -> None:
    """A file without the key has the default port, which need not be written."""
    text = saved(lambda config: edit.remove_port(config, "127.0.0.1", 4420))
    assert "port = []\n" in text
    assert "[[port]]" not in text
    port = PortConfig(traddr="127.0.0.1", trsvcid=4421)
    text = merge(text, edit.add_port(loads(text, base=BASE), port), base=BASE)
    assert "port = []" not in text
    assert loads(text, base=BASE).ports == (port,)


def test_what_goes_leaves_no_empty_lines() -> None:
    """The number of empty lines in a row, at the start and at the end is as before."""
    first = f'[[subsystem]]\nnqn = "{A}"\n'
    second = f'[[subsystem]]\nnqn = "{B}"\n'
    port = "[[port]]\ntrsvcid = 4421\n"
    one, two = loads(first + port), loads(second + port)
    assert merge(f"{port}\n{first}\n{second}", one) == f"{port}\n{first}"
    assert merge(f"{port}\n{first}\n{second}", two) == f"{port}\n{second}"
    assert merge(f"{first}\n{port}\n{second}", one) == f"{first}\n{port}"
    assert merge(f"{first}\n{port}\n{second}\n\n", one) == f"{first}\n{port}\n"
    assert merge(f"{port}\n{first}\n{second}", loads(port)) == port
    assert merge(f"{port}\n\n\n{first}\n\n\n{second}", two) == f"{port}\n\n\n{second}"
    assert merge(f"{first}{port}{second}", one) == f"{first}{port}"


def test_a_text_that_has_nothing() -> None:
    config = loads(TEXT, base=BASE)
    assert loads(merge("", config)) == config


def test_keys_in_brackets() -> None:
    text = 'port = [{ trsvcid = 4420 }]\nsubsystem = [{ nqn = "nqn.2026-11.io.example:a" }]\n'
    config = edit.add_port(loads(text), PortConfig(trsvcid=4421))
    assert loads(merge(text, config)) == config


def test_plain_is_short_and_complete() -> None:
    config = loads(TEXT, base=BASE)
    assert Config.model_validate(plain(config)) == config
    subsystems = plain(config)["subsystem"]
    assert isinstance(subsystems, list)
    assert subsystems[1] == {"nqn": B, "allow_any_host": True}


def test_not_a_configuration() -> None:
    with pytest.raises(ConfigError):
        merge("foo = 1\n", loads(TEXT))


def test_written_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text("old")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    write(tmp_path / "link", "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with pytest.raises(OSError, match="No such file"):
        write(tmp_path / "none" / "target.toml", "new")
    assert sorted(os.listdir(tmp_path)) == ["link", "target.toml"]
