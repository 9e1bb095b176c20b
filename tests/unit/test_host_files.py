# SPDX-License-Identifier: BSD-3-Clause
"""The files of /etc/nvme, of nvme-cli 2 and 3: their contents, and the messages for faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.initiator.hostfiles import (
    Endpoint,
    HostFileError,
    configured,
    read_config_json,
    read_discovery_conf,
    read_fabrics_conf,
    system_identity,
)
from nvmf.spec.nqn import DISCOVERY_NQN
from support.etclab import HOST, HOSTID, NQN, OTHER, faults

# The form of nvme-fabrics.conf(5), with everything in the manual page.
FABRICS = f"""\
# two kinds of defaults
[Discovery Controller Defaults]
keep-alive-tmo = 30
ctrl-loss-tmo  = 600

[I/O Controller Defaults]
keep-alive-tmo = 5
nr-io-queues = 8

[Discovery Controller]
controller = transport=rdma;traddr=192.0.2.10;trsvcid=8009;
[Subsystem]
nqn = {NQN}
ctrl-loss-tmo = 1800
nr-io-queues =
controller = transport=rdma;traddr=192.0.2.20
controller = transport=tcp; traddr=fd00::2 ;trsvcid=4421;queue-size=0x20;ctrl-loss-tmo=;;
"""


# ---- nvme-fabrics.conf ----


def test_fabrics_conf(etc: Path) -> None:
    (etc / "nvme-fabrics.conf").write_text(FABRICS)
    first, second, third = configured(folder=etc)
    assert (first.transport, first.traddr, first.trsvcid) == ("rdma", "192.0.2.10", "8009")
    assert (first.subnqn, first.discovery) == (DISCOVERY_NQN, True)
    assert (first.hostnqn, first.hostid) == (HOST, HOSTID)
    assert first.parameters == {"keep-alive-tmo": 30, "ctrl-loss-tmo": 600}
    assert first.found_subsystem == {"keep-alive-tmo": 5, "nr-io-queues": 8}
    assert first.source == f"{etc}/nvme-fabrics.conf:11"
    assert (second.subnqn, second.discovery, second.trsvcid) == (NQN, False, None)
    assert second.parameters == {"keep-alive-tmo": 5, "ctrl-loss-tmo": 1800}, "nr-io-queues ="
    assert (third.transport, third.traddr) == ("tcp", "fd00::2")
    assert third.parameters == {"keep-alive-tmo": 5, "queue-size": 32}
    place = second.place()
    assert (place.endpoint, place.subnqn) == ("192.0.2.20:4420", NQN)
    options = second.options()
    assert (options.kato, options.ctrl_loss_tmo, options.hostnqn) == (5, 1800, HOST)
    assert first.options(first.found_subsystem, kato=7).queues == 8
    with pytest.raises(HostFileError, match=r"nvme-fabrics.conf:17: transport tcp is not rdma"):
        third.place()


def test_precedence_and_drop_ins(etc: Path) -> None:
    (etc / "nvme-fabrics.conf").write_text(
        "[I/O Controller Defaults]\nctrl-loss-tmo=1\nreconnect-delay=1\nqueue-size=16\ntos=1\n"
    )
    folder = etc / "nvme-fabrics.conf.d"
    folder.mkdir()
    section = f"[Subsystem]\nnqn={NQN}\ncontroller = transport=rdma;traddr=192.0.2.1"
    (folder / "b.conf").write_text(
        f"{section};queue-size=64\n"
        "[I/O Controller Defaults]\nreconnect-delay=2\nctrl-loss-tmo=2\n"
        f"[Host]\nhostnqn={OTHER}\nctrl-loss-tmo=3\nkxchap-secret=DHHC-1:00:x:\n"
    )
    (folder / "a.conf").write_text(section + "\n")
    (folder / "a.conf.bak").write_text("rubbish\n")
    (folder / ".conf").write_text("rubbish\n")
    plain, mine = configured(folder=etc)
    assert plain.parameters == {
        "ctrl-loss-tmo": 1,
        "reconnect-delay": 1,
        "queue-size": 16,
        "tos": 1,
    }
    assert (plain.hostnqn, plain.hostid) == (HOST, HOSTID)
    assert mine.parameters == {
        "ctrl-loss-tmo": 3,
        "reconnect-delay": 2,
        "queue-size": 64,
        "tos": 1,
        "dhchap-secret": "DHHC-1:00:x:",
    }
    assert (mine.hostnqn, mine.hostid) == (OTHER, None), "it has nothing of the machine's identity"
    assert "DHHC" not in repr(mine)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "f.conf:1: x is before any [SECTION]"),
        ("[Host\n", "f.conf:1: '[Host' is not a section: the form is [NAME]"),
        ("[Host]\nrubbish\n", "f.conf:2: 'rubbish' is neither [SECTION] nor KEY = VALUE"),
        ("[Host]\n[Host]\n", "f.conf:2: a second [Host]: a file describes one host"),
        ("[Host]\nhostid = 1\n", "f.conf:2: host identifier '1' is not a UUID"),
        (f"[Host]\nhostid = {'0' * 32}\n", "f.conf:2: a host identifier must not be all zeroes"),
        ("[Host]\nhostnqn = m\x01\n", "f.conf:2: NQN 'm\\x01' contains a control"),
        ("[Host]\nnqn = x\n", "f.conf:2: nqn does not belong in this section"),
        ("[I/O Controller Defaults]\ntls = yes\n", "f.conf:2: tls does not belong in this"),
        ("[Subsystem]\n", "f.conf:1: [Subsystem] needs nqn = NQN"),
        ("[Subsystem]\nnqn =\n", "f.conf:2: the NQN is empty"),
        (
            "[Discovery Controller]\ncontroller = traddr=192.0.2.1\n",
            "f.conf:2: a controller line needs transport=",
        ),
        (
            "[Discovery Controller]\ncontroller = transport=rdma;traddr=\n",
            "f.conf:2: traddr is empty",
        ),
        (
            "[Discovery Controller]\ncontroller = transport=rdma;traddr=a;traddr=b\n",
            "f.conf:2: traddr is there twice",
        ),
        (
            "[Discovery Controller]\ncontroller = transport=rdma;traddr=a;speed=9\n",
            "f.conf:2: unknown key 'speed' on a controller line",
        ),
        (
            "[Discovery Controller]\ncontroller = transport=rdma;traddr=a;dhchap-secret=x\n",
            "f.conf:2: dhchap-secret applies to all paths",
        ),
        (
            "[Discovery Controller]\ncontroller = rdma\n",
            "f.conf:2: 'rdma' is not KEY=VALUE",
        ),
        (
            "[Host]\nkeep-alive-tmo = 5  # seconds\n",
            "f.conf:2: keep-alive-tmo must be a whole number, not '5  # seconds'; a comment must",
        ),
        ("[Host]\nhdr-digest = maybe\n", "f.conf:2: hdr-digest must be yes or no, not 'maybe'"),
        ("[Host]\n\0\n", "f.conf:2: contains a NUL"),
    ],
)
def test_faults_of_fabrics_conf(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "f.conf"
    path.write_text(text)
    (found, *more) = faults(lambda: configured(path, folder=tmp_path))
    assert found.startswith(said)
    assert len(more) <= 1


def test_every_fault_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.conf"
    path.write_text("[Host]\ntos = a\nqueue-size = b\n")
    (tmp_path / "f.conf.d").mkdir()
    (tmp_path / "f.conf.d" / "x.conf").write_bytes(b"[Host]\n\xff\n")
    assert [fault.split(" ")[0] for fault in faults(lambda: read_fabrics_conf(path))] == [
        "f.conf:2:",
        "f.conf:3:",
        "x.conf:2:",
    ]


def test_one_host_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "f.conf.d"
    folder.mkdir()
    (folder / "a.conf").write_text(f"[Host]\nhostnqn={HOST}\nhostid={HOSTID}\n")
    (folder / "b.conf").write_text(f"[Host]\nhostnqn={OTHER}\nhostid={HOSTID.upper()}\n")
    (folder / "c.conf").write_text("[Host]\nhostsymname = c\n")
    (folder / "d.conf").write_text(f"[Host]\nhostnqn={HOST}\n")
    first, second, third = faults(lambda: read_fabrics_conf(tmp_path / "f.conf"))
    assert first.startswith("a.conf too")  # the file that already has it is named last
    assert second == "c.conf:1: [Host] of a drop-in needs hostnqn ="
    assert third == "a.conf too"


def test_unknown_things_are_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "f.conf"
    path.write_text("[Nonsense]\na=b\n[Host]\ncolour=red\n[I/O Controller Defaults]\n" * 1)
    path.write_text(path.read_text() + "[I/O Controller Defaults]\n")
    assert read_fabrics_conf(path) == []
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "unknown section [Nonsense]" in said
    assert "unknown key 'colour'" in said
    assert "[I/O Controller Defaults] is there twice" in said


def test_nothing_there(tmp_path: Path) -> None:
    assert configured(folder=tmp_path) == []
    assert faults(lambda: configured(tmp_path / "x.conf")) == ["x.conf: there is no such file"]


# ---- discovery.conf ----


def test_discovery_conf(etc: Path) -> None:
    (etc / "discovery.conf").write_text(
        "# Used by nvme discover\n\n"
        "--transport=rdma --traddr=192.0.2.1 --trsvcid=4420 --keep-alive-tmo=9\n"
        f"-t rdma -a fd00::1 -w fd00::2 -q {OTHER} -p -i4 --ctrl_loss_tmo 3 -D\n"
        "   \n"
        "-t loop\n"
    )
    first, second, third = configured(folder=etc)
    assert (first.place().endpoint, first.hostnqn) == ("192.0.2.1:4420", HOST)
    assert first.parameters == {"keep-alive-tmo": 9}
    assert first.found_subsystem == {}, "the timeout is that of the discovery controller"
    assert (second.host_traddr, second.hostnqn, second.hostid) == ("fd00::2", OTHER, None)
    assert second.persistent
    assert second.parameters == {"nr-io-queues": 4, "ctrl-loss-tmo": 3, "duplicate-connect": True}
    assert (third.transport, third.traddr) == ("loop", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-t rdma", "a line needs -a ADDRESS"),
        ("-a 192.0.2.1", "a line needs -t TRANSPORT"),
        ("-t rdma -a 192.0.2.1 -s", "-s needs a value"),
        ("-t rdma -a 192.0.2.1 --speed 9", "'--speed' is not an option of nvme discover"),
        ("rdma", "'rdma' is not an option of nvme discover"),
        ("-", "'-' is not an option of nvme discover"),
        ("-t rdma -a 192.0.2.1 -k soon", "keep-alive-tmo must be a whole number, not 'soon'"),
        ("-t rdma -a 192.0.2.1 -I 1", "host identifier '1' is not a UUID"),
        ("-t rdma -a 192.0.2.1 -n m\x01", "NQN 'm\\x01' contains a control"),
    ],
)
def test_faults_of_discovery_conf(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "discovery.conf"
    path.write_text(f"# first\n{line}\n")
    (found,) = faults(lambda: read_discovery_conf(path))
    assert found.startswith(f"discovery.conf:2: {said}")


# ---- all files ----


@given(st.binary(max_size=300) | st.text(alphabet="[]=;#\n HostDiscvery Ctrl-", max_size=300))
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: object
) -> None:
    """Invariant: a host file is read, or refused with a sentence that names it."""
    folder = tmp_path_factory.mktemp("etc")
    for name, read in (
        ("f.conf", read_fabrics_conf),
        ("discovery.conf", read_discovery_conf),
        ("config.json", read_config_json),
    ):
        path = folder / name
        path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
        found: list[Endpoint] = []
        problems: tuple[str, ...] = ()
        try:
            found = read(path)
        except HostFileError as error:
            problems = error.problems
        said = [*problems, *(endpoint.source for endpoint in found)]
        assert all(text.startswith(str(path)) for text in said)


# ---- which files ----


def test_the_new_file_counts_alone(etc: Path, caplog: pytest.LogCaptureFixture) -> None:
    (etc / "discovery.conf").write_text("-t rdma -a 192.0.2.1\n")
    assert len(configured(folder=etc)) == 1
    (etc / "nvme-fabrics.conf").write_text("")
    assert configured(folder=etc) == []
    assert "discovery.conf is ignored" in caplog.text


@pytest.mark.parametrize("name", ["hostnqn", "hostid"])
def test_identity(etc: Path, name: str) -> None:
    assert system_identity(etc) == (HOST, HOSTID)
    (etc / name).write_text("non\x7fsense\n")
    (found,) = faults(lambda: system_identity(etc))
    assert found.startswith(f"{name}:1: ")
    (etc / name).write_text("\n")
    assert None in system_identity(etc)
