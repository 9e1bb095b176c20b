# SPDX-License-Identifier: BSD-3-Clause
"""Authentication by the target's commands: the commands allowed before it, and its effects."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from nvmf.auth import HostAuth, HostKeys, Key
from nvmf.auth.response import Parties
from nvmf.config import ConfigError, advice, load, loads
from nvmf.spec import commands
from nvmf.spec.auth import DhGroup, Hash, Reason
from nvmf.spec.fabrics import ConnectResult
from nvmf.spec.opcodes import AdminOpcode, FabricsType, IoOpcode
from nvmf.spec.properties import Property
from nvmf.spec.sqe import Sqe
from nvmf.spec.status import DNR, Status
from nvmf.target.command.request import Completion
from nvmf.target.lasting.access import host_keys
from nvmf.target.model.queue import Queue
from nvmf.target.model.subsystem import Subsystem
from support.faketarget import ENABLED, HOST, NQN, Bench, FakeHandle
from wire import dhchap

KEY, CTRL_KEY = dhchap.key_text(b"h" * 32), dhchap.key_text(b"c" * 32)
KEYS = HostKeys(Key.parse(KEY), Key.parse(CTRL_KEY), groups=(DhGroup.NULL,))
REQUIRED = Status.AUTHENTICATION_REQUIRED | DNR
INVALID = Status.INVALID_FIELD | DNR


class Table:
    """An engine's table of namespaces."""

    users = 0

    def set(self, nsid: int, namespace: object) -> None: ...

    def close(self) -> None: ...


def bench() -> Bench:
    """A subsystem for one host, which must authenticate."""
    return Bench(
        subsystem=Subsystem(
            NQN, "SERIAL", hosts=frozenset({HOST}), keys={HOST: KEYS}, make_table=Table
        )
    )


def calls(queue: Queue) -> list[tuple[object, ...]]:
    assert isinstance(queue.handle, FakeHandle)
    return queue.handle.calls


def send(one: Bench, queue: Queue, message: bytes) -> Completion:
    return one.do(queue, commands.authentication_send(len(message)), message)


def receive(one: Bench, queue: Queue, room: int = 4096) -> Completion:
    return one.do(queue, commands.authentication_receive(room), length=room)


def authenticate(one: Bench, queue: Queue, key: str = KEY, *, mutual: bool = False) -> HostAuth:
    """Authenticate as the product's host does."""
    host = HostAuth(Parties(HOST, NQN), Key.parse(key), Key.parse(CTRL_KEY) if mutual else None)
    while True:
        message = host.outgoing()
        if message is not None:
            assert send(one, queue, message).status == 0
        if host.done:
            return host
        done = receive(one, queue)
        assert done.status == 0
        host.incoming(done.data)


def connected(one: Bench) -> Queue:
    queue = one.queue()
    done = one.connect(queue)
    assert done.status == 0
    assert ConnectResult.decode(done.dw0) == ConnectResult(cntlid=1, atr=1)
    return queue


def locked_io(one: Bench) -> tuple[Queue, Queue]:
    """Return the admin queue of an enabled controller, and an I/O queue that must authenticate."""
    admin = connected(one)
    authenticate(one, admin)
    one.do(admin, commands.property_set(Property.CC, ENABLED))
    io = one.queue(1, 128)
    one.connect(io, cntlid=1)
    return admin, io


@pytest.mark.parametrize("mutual", [False, True])
def test_a_whole_association(mutual: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nvmf.target")
    one = bench()
    queue = connected(one)
    assert authenticate(one, queue, mutual=mutual).error is None
    assert one.do(queue, commands.property_set(Property.CC, ENABLED)).status == 0
    io = one.queue(1, 128)
    done = one.connect(io, cntlid=1)
    assert ConnectResult.decode(done.dw0).atr == 1
    assert calls(io) == [("connected", 128, None), ("enable", False)]
    assert one.do(io, Sqe(IoOpcode.READ, 1).encode(), length=512).status == REQUIRED
    assert authenticate(one, io, mutual=mutual).error is None
    assert queue.controller is not None
    table = queue.controller.view.table
    assert calls(io)[2:] == [("connected", 128, table), ("enable", True)]
    ways = "both ways" if mutual else "one way"
    said = [r.message for r in caplog.records if ": authenticated (" in r.message]
    assert len(said) == 2
    assert all(HOST in line and f"(SHA-256, no DH group, {ways})" in line for line in said)
    assert "DHHC" not in caplog.text


@pytest.mark.parametrize(
    "sqe",
    [
        commands.property_get(Property.CAP, 8),
        commands.property_set(Property.CC, ENABLED),
        commands.identify(),
        commands.keep_alive(),
        commands.async_event_request(),
        commands.get_features(7),
        Sqe(AdminOpcode.FABRICS, 0x3F).encode(),
        Sqe(0xC0).encode(),
    ],
)
def test_nothing_else_runs_before(sqe: bytes) -> None:
    one = bench()
    queue = connected(one)
    assert one.do(queue, sqe).status == REQUIRED
    send(one, queue, dhchap.negotiate(1))
    assert one.do(queue, sqe).status == REQUIRED
    assert not queue.leaving


def test_enabling_the_controller_enables_no_queue_that_is_locked() -> None:
    one = bench()
    admin, io = locked_io(one)
    one.do(admin, commands.property_set(Property.CC, ENABLED))
    assert ("enable", True) not in calls(io)


def test_disconnect_of_a_queue_that_is_locked() -> None:
    one = bench()
    _, io = locked_io(one)
    assert one.do(io, commands.disconnect()).status == 0
    assert io.leaving


def test_authentication_after_disconnect() -> None:
    """The queue takes no commands, however far the authentication is."""
    one = bench()
    _, io = locked_io(one)
    host = HostAuth(Parties(HOST, NQN), Key.parse(KEY), None)
    negotiate = host.outgoing()
    assert negotiate is not None
    assert send(one, io, negotiate).status == 0
    assert one.do(io, commands.disconnect()).status == 0
    ended = calls(io)[:]
    assert receive(one, io).status == Status.COMMAND_SEQUENCE_ERROR | DNR
    assert send(one, io, negotiate).status == Status.COMMAND_SEQUENCE_ERROR | DNR
    assert one.do(io, commands.disconnect()).status == Status.COMMAND_SEQUENCE_ERROR | DNR
    assert calls(io) == ended


def test_failure_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    one = bench()
    queue = connected(one)
    host = authenticate(one, queue, dhchap.key_text(b"x" * 32))
    assert host.error is not None
    assert host.error.reason == Reason.FAILED
    assert queue.leaving
    (record,) = [r for r in caplog.records if "authentication failed" in r.message]
    assert record.levelname == "WARNING"
    for part in ("10.0.0.2:1000", HOST, NQN, "queue 0", "a different key"):
        assert part in record.message
    assert one.do(queue, commands.identify(), length=4096).status == REQUIRED


def test_failed_again_takes_the_queue_away() -> None:
    one = bench()
    admin, io = locked_io(one)
    authenticate(one, io)
    assert authenticate(one, io).error is None
    authenticate(one, io, dhchap.key_text(b"x" * 32))
    assert calls(io)[-1] == ("enable", False)
    assert io.leaving
    assert not admin.leaving


def test_command_that_is_wrong() -> None:
    one = bench()
    queue = connected(one)
    good = Sqe.decode(commands.authentication_send(72))
    for sqe in (
        replace(good, cdw10=good.cdw10 & 0xFFFFFF),
        replace(good, cdw10=good.cdw10 ^ 0x300),
        replace(good, cdw11=0),
        replace(good, cdw11=4097),
        replace(good, cdw11=1 << 31),
    ):
        assert one.do(queue, sqe.encode(), bytes(72)).status == INVALID
    short = one.do(queue, good.encode(), bytes(71))
    assert short.status == Status.SGL_DATA_LENGTH_INVALID | DNR
    done = one.do(queue, commands.authentication_receive(4096), length=100)
    assert done.status == Status.SGL_DATA_LENGTH_INVALID | DNR
    # None of that was a message: the transaction begins normally.
    assert authenticate(one, queue).error is None


def test_receive_without_room() -> None:
    one = bench()
    queue = connected(one)
    send(one, queue, dhchap.negotiate(1))
    assert receive(one, queue, 20).status == INVALID
    assert receive(one, queue).status == 0


@pytest.mark.parametrize(
    "fctype", [FabricsType.AUTHENTICATION_SEND, FabricsType.AUTHENTICATION_RECEIVE]
)
def test_host_without_a_key(fctype: FabricsType) -> None:
    one = Bench()
    queue = one.admin()
    assert not queue.locked
    sqe = Sqe.decode(commands.authentication_send(72))
    sqe = replace(sqe, nsid=fctype)
    done = one.do(queue, sqe.encode(), bytes(72))
    assert done.status == Status.INVALID_OPCODE | DNR


def test_a_friend_without_a_key_beside_one_with() -> None:
    one = bench()
    friend = "nqn.2014-08.org.example:friend"
    one.subsystem.hosts |= {friend}
    queue = one.queue()
    done = one.connect(queue, hostnqn=friend)
    assert ConnectResult.decode(done.dw0).atr == 0
    assert one.do(queue, commands.identify(), length=4096).status != REQUIRED


# ---- configuration ----

SUBSYSTEM = f'[[subsystem]]\nnqn = "{NQN}"\n'
TABLE = f'{SUBSYSTEM}[[subsystem.host]]\nnqn = "{HOST}"\n'


def key_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_keys_in_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key_file(tmp_path / "host.key", KEY + "\n", 0o644)
    key_file(tmp_path / "ctrl.key", CTRL_KEY)
    path = tmp_path / "target.toml"
    path.write_text(
        f'{TABLE}dhchap_key_file = "host.key"\ndhchap_ctrl_key_file = "ctrl.key"\n'
        'dhchap_hashes = ["sha512"]\ndhchap_dhgroups = ["ffdhe8192", "null"]\n'
    )
    config = load(path)
    (said,) = [line for line in advice(config, path) if "key" in line]
    assert said.startswith(f"{tmp_path / 'host.key'} ")
    assert "is world-readable" in said
    keys = host_keys(config.subsystems[0])
    assert keys == {
        HOST: HostKeys(
            Key.parse(KEY),
            Key.parse(CTRL_KEY),
            (Hash.SHA_512,),
            (DhGroup.FFDHE_8192, DhGroup.NULL),
        )
    }
    (record,) = caplog.records
    assert "is world-readable" in record.message
    assert str(tmp_path / "host.key") in record.message


def test_keys_by_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file(tmp_path / "disk-host", KEY)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (subsystem,) = loads(f'{TABLE}dhchap_key_credential = "disk-host"\n').subsystems
    assert host_keys(subsystem)[HOST].key == Key.parse(KEY)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    with pytest.raises(ValueError, match=rf"host {HOST} of {NQN}: dhchap_key: .*LoadCredential="):
        host_keys(subsystem)


def test_keys_in_the_configuration(tmp_path: Path) -> None:
    path = key_file(tmp_path / "target.toml", f'{TABLE}dhchap_key = "{KEY}"\n', 0o644)
    config = load(path)
    assert host_keys(config.subsystems[0])[HOST].key == Key.parse(KEY)
    assert any("world-readable" in line for line in advice(config, path))
    path.chmod(0o640)
    assert not any("world-readable" in line for line in advice(config, path))
    for shown in (repr(config), config.model_dump_json(), str(config.model_dump(mode="json"))):
        assert KEY[10:40] not in shown
    assert config.model_copy(deep=True) == config


def test_hosts_of_both_kinds() -> None:
    text = f'{SUBSYSTEM}hosts = ["{HOST}x"]\n[[subsystem.host]]\nnqn = "{HOST}"\n'
    (subsystem,) = loads(text).subsystems
    assert subsystem.host_nqns == (f"{HOST}x", HOST)
    assert host_keys(subsystem) == {}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (f'dhchap_key = "{KEY[:20]}"', "dhchap_key: a DH-HMAC-CHAP key has the form DHHC-1:HH:"),
        (f'dhchap_key = "{KEY[:-2]}*:"', "dhchap_key: the secret of the DH-HMAC-CHAP key is not b"),
        ("dhchap_key = 7", "dhchap_key: expected a DH-HMAC-CHAP key in quotes"),
        (
            f'dhchap_key = "{KEY}"\ndhchap_key_file = "k"',
            "set only one of dhchap_key, dhchap_key_file",
        ),
        ('dhchap_ctrl_key_file = "k"', "requires dhchap_key: hosts authenticate first"),
        ('dhchap_hashes = ["md5"]', 'expected "sha256", "sha384" or "sha512"'),
        ('dhchap_dhgroups = ["ffdhe1024"]', 'expected "null", "ffdhe2048", '),
        ("dhchap_hashes = []", "dhchap_hashes"),
        ('dhchap_dhgroups = ["null", "null"]', "duplicate group null"),
        ('dhchap_key_credential = "../x"', "expected the name of a systemd credential"),
        ('dhchap_kee_file = "k"', "did you mean dhchap_key_file?"),
    ],
)
def test_bad_keys_in_a_configuration(lines: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(f"{TABLE}{lines}\n", "t.toml")
    assert says in str(caught.value)
    assert KEY[10:30] not in str(caught.value)


def test_any_host_beside_a_host() -> None:
    text = f'{SUBSYSTEM}allow_any_host = true\n[[subsystem.host]]\nnqn = "{HOST}"\n'
    with pytest.raises(ConfigError, match=r"\[\[subsystem.host\]\] has no effect with"):
        loads(text)
    text = f'{SUBSYSTEM}hosts = ["{HOST}"]\n[[subsystem.host]]\nnqn = "{HOST}"\n'
    with pytest.raises(ConfigError, match="duplicate host"):
        loads(text)


def test_key_file_that_is_not_there(tmp_path: Path) -> None:
    (subsystem,) = loads(f'{TABLE}dhchap_key_file = "{tmp_path}/none"\n').subsystems
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        host_keys(subsystem)
    config = loads(f'{TABLE}dhchap_key_file = "{tmp_path}/none"\n')
    assert any("does not exist" in line for line in advice(config))
