# SPDX-License-Identifier: BSD-3-Clause
"""Configurations: valid ones, and the messages for errors."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.auth.key import Key
from nvmf.config import Config, ConfigError, advice, json_schema, load, loads
from nvmf.config.units import format_size, parse_size

EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "examples").glob("*.toml"))
NQN = "nqn.2014-08.org.example:x"
SUBSYSTEM = f'[[subsystem]]\nnqn = "{NQN}"\n'
NAMESPACE = f'{SUBSYSTEM}[[subsystem.namespace]]\nstore = "ram"\nsize = "1MiB"\n'


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples(path: Path) -> None:
    assert load(path).subsystems


def test_defaults() -> None:
    config = loads(NAMESPACE)
    assert config.target.reactors == 1
    assert [(p.traddr, p.trsvcid, p.device) for p in config.ports] == [("127.0.0.1", 4420, "auto")]
    (subsystem,) = config.subsystems
    assert (subsystem.mdts, subsystem.in_capsule, subsystem.queue_size) == (1 << 20, 4096, 1024)
    ((nsid, namespace),) = subsystem.numbered()
    assert (nsid, namespace.size, namespace.block_size) == (1, 1 << 20, 512)
    with pytest.raises(ValueError, match="frozen"):
        setattr(config, "target", config.target)  # noqa: B010


def test_numbers_are_filled_in() -> None:
    text = SUBSYSTEM + "".join(
        f'[[subsystem.namespace]]\nstore = "null"\nsize = 4096\n{line}\n'
        for line in ("", "nsid = 1", "", "nsid = 3", "")
    )
    (subsystem,) = loads(text).subsystems
    assert [nsid for nsid, _ in subsystem.numbered()] == [2, 1, 4, 3, 5]


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f'{SUBSYSTEM}[[subsystem.namespace]]\nstore = "file"\npath = "disk.img"\n')
    (namespace,) = load(path).subsystems[0].namespaces
    assert namespace.path == tmp_path / "disk.img"


@pytest.mark.feature("identifiers")
def test_identifiers() -> None:
    text = NAMESPACE + (
        'uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"\n'
        'nguid = "000102030405060708090a0b0c0d0e0f"\neui64 = "00:01:02:03:04:05:06:07"\n'
    )
    (namespace,) = loads(text).subsystems[0].namespaces
    assert (namespace.nguid, namespace.eui64) == (bytes(range(16)), bytes(range(8)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[target]\nreactor = 2\n", "t.toml:2: target.reactor: unknown key"),
        ("[targets]\n", "t.toml:1: targets: unknown key"),
        ("[target]\n\nreactors = 0\n", "t.toml:3: target.reactors: expected a number from 1 to 64"),
        ('[target]\nreactors = "x"\n', "t.toml:2: target.reactors: expected a whole number"),
        ("[target]\nbuffer_size = 5000\n", "t.toml:2: target.buffer_size: expected a power of two"),
        ("[target]\ncpus = [0, 1]\n", "t.toml:2: target.cpus: cpus names 2 CPUs for 1 reactors"),
        ('[[port]]\ntraddr = "localhost"\n', "t.toml:2: port[0].traddr: 'localhost' is not a num"),
        ('[[port]]\ntraddr = "fe80::1"\n', "t.toml:2: port[0].traddr: fe80::1 is link-local: add"),
        ("[[port]]\n[[port]]\n", "t.toml:2: port[1]: duplicate port 127.0.0.1:4420"),
        ("[[port]]\ntrsvcid = 70000\n", "t.toml:2: port[0].trsvcid: expected a number from 0 to"),
        ('[[port]]\ndevice = "tcp"\n', 't.toml:2: port[0].device: expected "iwarp", "roce", "sys'),
        ("[[subsystem]]\n", "t.toml:1: subsystem[0].nqn: is missing"),
        ('[[subsystem]]\nnqn = ""\n', "t.toml:2: subsystem[0].nqn: the NQN is empty"),
        (
            '[[subsystem]]\nnqn = "nqn.2014-08.org.nvmexpress.discovery"\n',
            "t.toml:2: subsystem[0].nqn: the discovery subsystem always exists",
        ),
        (
            f'[target]\ndiscovery_nqn = "{NQN}"\n{SUBSYSTEM}',
            "t.toml:2: target.discovery_nqn: discovery_nqn is the NQN of a subsystem",
        ),
        ("[[referral]]\n", "t.toml:1: referral[0].traddr: is missing"),
        (
            '[[referral]]\ntraddr = "there"\n',
            "t.toml:2: referral[0].traddr: traddr 'there' is not a numeric",
        ),
        (
            '[[referral]]\ntraddr = "::"\n',
            "t.toml:2: referral[0].traddr: hosts cannot connect to traddr ::",
        ),
        (
            '[[referral]]\ntraddr = "::1"\nadrfam = "ipv4"\n',
            "t.toml:2: referral[0].traddr: traddr ::1 is not of adrfam ipv4",
        ),
        (
            '[[referral]]\ntraddr = "::1"\n' * 2,
            "t.toml:3: referral[1]: duplicate referral rdma [::1]:4420",
        ),
        (SUBSYSTEM * 2, f"t.toml:4: subsystem[1].nqn: duplicate subsystem nqn {NQN}"),
        (SUBSYSTEM + "mdts = 12345\n", "t.toml:3: subsystem[0].mdts: expected a power of two"),
        (
            SUBSYSTEM + "in_capsule = 100\n",
            "t.toml:3: subsystem[0].in_capsule: expected a multiple",
        ),
        (SUBSYSTEM + 'hosts = ["m\\n"]\n', "t.toml:3: subsystem[0].hosts[0]: NQN 'm\\n' cont"),
        (
            SUBSYSTEM + f'allow_any_host = true\nhosts = ["{NQN}"]\n',
            "t.toml:4: subsystem[0].hosts: hosts has no effect with allow_any_host",
        ),
        (
            SUBSYSTEM + f'serial = "{"x" * 21}"\n',
            "t.toml:3: subsystem[0].serial: expected text of 1 to 20",
        ),
        (
            SUBSYSTEM + "[[subsystem.namespace]]\n",
            "t.toml:3: subsystem[0].namespace[0].store: is missing",
        ),
        (
            SUBSYSTEM + '[[subsystem.namespace]]\nstore = "ram"\n',
            't.toml:3: subsystem[0].namespace[0]: store = "ram" needs size',
        ),
        (
            SUBSYSTEM + '[[subsystem.namespace]]\nstore = "file"\n',
            't.toml:3: subsystem[0].namespace[0]: store = "file" needs path',
        ),
        (
            NAMESPACE + 'path = "/x"\n',
            't.toml:6: subsystem[0].namespace[0].path: store = "ram" has no path',
        ),
        (
            NAMESPACE + "direct = true\n",
            't.toml:6: subsystem[0].namespace[0].direct: direct requires store = "file"',
        ),
        (
            NAMESPACE + "power_fail_atomic = false\n",
            "t.toml:6: subsystem[0].namespace[0].power_fail_atomic: "
            'power_fail_atomic requires store = "pmem"',
        ),
        (
            NAMESPACE + "persistent = true\n",
            't.toml:6: subsystem[0].namespace[0].persistent: persistent requires store = "pmem"',
        ),
        (
            NAMESPACE + "block_size = 520\n",
            "t.toml:6: subsystem[0].namespace[0].block_size: expected 512 or 4096",
        ),
        (
            NAMESPACE.replace("1MiB", "0"),
            "t.toml:5: subsystem[0].namespace[0].size: size must be at least one block, of 512",
        ),
        (
            NAMESPACE.replace("1MiB", "1MB") + "block_size = 4096\n",
            "t.toml:5: subsystem[0].namespace[0].size: size 1000000 is not a multiple",
        ),
        (
            NAMESPACE.replace("1MiB", "a lot"),
            "t.toml:5: subsystem[0].namespace[0].size: 'a lot' is not a size such as",
        ),
        (NAMESPACE + "nsid = 0\n", "t.toml:6: subsystem[0].namespace[0].nsid: expected a number"),
        (
            NAMESPACE + "nsid = 33\n",
            "t.toml:6: subsystem[0].namespace[0].nsid: nsid 33 is above",
        ),
        (
            NAMESPACE + 'nguid = "12"\n',
            "t.toml:6: subsystem[0].namespace[0].nguid: expected 32 hex",
        ),
        (
            NAMESPACE + 'eui64 = "0000000000000000"\n',
            "t.toml:6: subsystem[0].namespace[0].eui64: an identifier must not be all zero",
        ),
        (
            SUBSYSTEM + f'[[subsystem.host]]\nnqn = "{NQN}"\ndhchap_hashes = []\n',
            "t.toml:5: subsystem[0].host[0].dhchap_hashes: expected a list of at least one",
        ),
        (
            SUBSYSTEM + f'[[subsystem.host]]\nnqn = "{NQN}"\ndhchap_hashes = ["md5"]\n',
            't.toml:5: subsystem[0].host[0].dhchap_hashes[0]: expected "sha256", "sha384" or',
        ),
        ("[target\n", "t.toml:1: is not TOML"),
        ("a = " + "[" * 100_000, "t.toml: cannot be read as TOML"),
        ("a = " + "9" * 5000, "t.toml: cannot be read as TOML"),
        (
            '[target]\nstate_dir = "/a\\u0000b"\n',
            "t.toml:2: target.state_dir: a path must not contain NUL",
        ),
        (
            SUBSYSTEM + 'mdts = "9999999TiB"\n',
            "t.toml:3: subsystem[0].mdts: a size must be less than 8 EiB",
        ),
        (
            SUBSYSTEM + 'allow_any_host = "yes"\n',
            "t.toml:3: subsystem[0].allow_any_host: expected true or false, without quotes",
        ),
        ("[target]\nreactors = true\n", "t.toml:2: target.reactors: expected a whole number"),
        ("[target]\ncpus = [5000]\n", "t.toml:2: target.cpus[0]: expected a number from -1 to"),
        ("[target]\ncpus = 3\n", "t.toml:2: target.cpus: expected a list in [ ]"),
        ("[port]\n", "t.toml:1: port: expected [[port]]"),
        ("target = 3\n", "t.toml:1: target: expected a table [target]"),
        (SUBSYSTEM + "serial = 3\n", "t.toml:3: subsystem[0].serial: expected text in quotes"),
        (SUBSYSTEM + 'serial = "é"\n', "t.toml:3: subsystem[0].serial: expected printable ASCII"),
        ('[iwarp]\ncongestion = "A"\n', "t.toml:2: iwarp.congestion: expected the name of a TCP"),
        (
            '[iwarp]\ncongestion = "none_such"\n',
            "t.toml:2: iwarp.congestion: this kernel has no TCP congestion control 'none_such': ",
        ),
        (NAMESPACE + 'uuid = "x"\n', "t.toml:6: subsystem[0].namespace[0].uuid: expected a UUID"),
        (NAMESPACE + "path = 3\n", "t.toml:6: subsystem[0].namespace[0].path: expected a path in"),
    ],
)
def test_errors_say_where_and_what(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, "t.toml")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[target]\nreactor = 2\n",
            "did you mean reactors? [target] takes reactors, cpus, spin_us",
        ),
        ("foo = 2\n", "unknown key. The file takes target, iwarp, mdns, rpc, metrics, port"),
        ("[[ports]]\n", "ports: unknown key: did you mean port?"),
        (
            SUBSYSTEM + "[[subsystem.namespaces]]\nnsid = 1\n",
            "subsystem[0].namespaces: unknown key: did you mean namespace?",
        ),
        (
            NAMESPACE + "mdts = 4\n",
            "it is one of [[subsystem]]. [[subsystem.namespace]] takes nsid",
        ),
        (NAMESPACE.replace('"1MiB"', "1MiB"), "sizes with a unit must be in quotes"),
    ],
)
def test_errors_say_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, "t.toml")
    assert said in str(caught.value)


def test_a_value_is_not_told_twice() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(NAMESPACE.replace("1MiB", "lots"))
    assert str(caught.value).count("lots") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NAMESPACE.replace(SUBSYSTEM, SUBSYSTEM + "allow_any_host = true\n"), []),
        ("", ["there is no [[subsystem]]"]),
        (SUBSYSTEM, ["no host may connect", "no [[subsystem.namespace]]"]),
        (
            NAMESPACE.replace("1MiB", "900TiB")
            + f'[[subsystem]]\nnqn = "{NQN}y"\nhosts = ["{NQN}"]',
            [
                "no host may connect",
                "y has no [[subsystem.namespace]]",
                "have 900.0 TiB in total",
            ],
        ),
    ],
)
def test_advice(text: str, words: list[str]) -> None:
    found = advice(loads(text))
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))


def test_a_number_that_is_there_twice() -> None:
    part = '[[subsystem.namespace]]\nnsid = 1\nstore = "null"\nsize = 4096\n'
    with pytest.raises(ConfigError, match=r":8: .*namespace\[1\].nsid: duplicate nsid 1"):
        loads(SUBSYSTEM + part * 2)


def test_a_file_that_is_written_by_two_namespaces() -> None:
    part = '[[subsystem.namespace]]\nstore = "file"\npath = "/x"\n'
    with pytest.raises(ConfigError, match=r".namespace\[.\].path: duplicate writable path /x"):
        loads(SUBSYSTEM + part * 2)
    loads(SUBSYSTEM + (part + "read_only = true\n") * 2)


def test_all_faults_are_told_in_the_order_of_the_file() -> None:
    text = "[target]\nspin_us = -1\nfoo = 1\n[[port]]\ntrsvcid = -1\n"
    with pytest.raises(ConfigError) as caught:
        loads(text, "t.toml")
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        "t.toml:2",
        "t.toml:3",
        "t.toml:5",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load(path)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("4KiB", 4096),
        ("4k", 4096),
        ("4 kB", 4000),
        ("1.5GiB", 3 << 29),
        ("2T", 2 << 40),
        ("1 B", 1),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", -1, "1.3B", "1 QiB", "KiB", 1.5, True, None, "1..5M"])
def test_what_is_not_a_size(text: object) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_advice_on_a_file_that_is_not_there(tmp_path: Path) -> None:
    text = f'{SUBSYSTEM}allow_any_host = true\n[[subsystem.namespace]]\nstore = "file"\n'
    (said,) = advice(loads(f'{text}path = "{tmp_path}/disk.img"\n'))
    assert said == f"{tmp_path}/disk.img (namespace 1 of {NQN}) does not exist"


def test_advice_on_key_files(tmp_path: Path) -> None:
    """The messages are those that the target would log at its start."""
    key = tmp_path / "key"
    text = f'{SUBSYSTEM}[[subsystem.namespace]]\nstore = "ram"\nsize = "1MiB"\n'
    text += f'[[subsystem.host]]\nnqn = "{NQN}"\ndhchap_key_file = "{key}"\n'

    def said() -> str:
        (sentence,) = advice(loads(text))
        return sentence

    assert said() == f"{key} (key of host {NQN} of {NQN}) does not exist"
    key.write_text("x" * 300)
    assert said() == f"the key file {key}: it is longer than 256 bytes (key of host {NQN} of {NQN})"
    key.write_text(Key.generate().text() + "\n")
    key.chmod(0o644)
    assert said() == f"{key} (key of host {NQN} of {NQN}) is world-readable: chmod 0600 it"
    key.chmod(0o600)
    assert not advice(loads(text))


@given(st.integers(0, 1 << 50))
def test_sizes_survive(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_an_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(loads(text), Config)


def test_schema_is_json() -> None:
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["properties"]) == {
        "target", "iwarp", "mdns", "rpc", "metrics", "port", "bdev", "subsystem", "referral"
    }  # fmt: skip


def test_published_schema_is_up_to_date() -> None:
    """To update it: nvmeof config schema > config/schema/nvmeof.schema.json"""
    path = Path(__file__).parents[2] / "config" / "schema" / "nvmeof.schema.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(json_schema()))
