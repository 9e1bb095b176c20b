# SPDX-License-Identifier: BSD-3-Clause
"""The units under a real systemd, installed as described in the administrator's guide."""

from __future__ import annotations

import json
import re
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import network
from lab.cells import use_device
from lab.conftest import Lab
from lab.guest import Guest
from lab.kernel_host import HOSTID, HOSTNQN
from lab.prepare import ROOT
from support import documents

# systemd's log is in the kernel's log here, and the tests cause complaints on purpose.
pytestmark = pytest.mark.unclean(r"systemd\[1\]")

NQN = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-00000000005e"
SECOND = NQN[:-1] + "f"
UNIT = "nvmeof-target.service"
SUBSYSTEM = """
[[subsystem]]
nqn = "{nqn}"
allow_any_host = true

[[subsystem.namespace]]
store = "file"
path = "/srv/nvmeof/{name}.img"
"""
CONFIG = f"""
[[port]]
traddr = "{network.GUEST}"
device = "iwarp"
{SUBSYSTEM.format(nqn=NQN, name="disk")}"""

KEYED = f"""
[[subsystem]]
nqn = "{SECOND}"

[[subsystem.host]]
nqn = "{HOSTNQN}"
dhchap_key_credential = "host"
dhchap_dhgroups = ["null"]

[[subsystem.namespace]]
store = "ram"
size = "1MiB"
"""

# The program in the path, as the guide requires, and a folder that it assumes: the tree's, with a
# configuration. The tree is bound to /opt, since the unit's user can read neither /root nor /tmp.
# $1 the tree, $2 its packages
_PROGRAM = """
set -eu
mkdir -p /opt/nvmeof /etc/nvme /run/tree
mount --bind "$1" /opt/nvmeof
ln -s /opt/nvmeof/systemd /run/tree/systemd
cat > /usr/local/bin/nvmeof <<END
#!/bin/sh
p=/opt/nvmeof
export PYTHONPATH=\\$p/nvmeof:\\$p/target:\\$p/initiator:\\$p/config:\\$p/$2
export PYTHONDONTWRITEBYTECODE=1
exec /usr/bin/python3 -m nvmf.cli.main "\\$@"
END
chmod 755 /usr/local/bin/nvmeof
"""
_SECOND = """
install -m 0600 -o nvmeof -g nvmeof /dev/null /srv/nvmeof/second.img
truncate -s 16M /srv/nvmeof/second.img
"""
(_INSTALL,) = documents.blocks("As a service", "sh", documents.ADMINISTRATOR)
# Its last line starts the service.
(_SET_UP,) = documents.blocks("The configuration", "sh", documents.ADMINISTRATOR)
_FILES, _, _START = _SET_UP.strip().rpartition("\n")


@pytest.fixture(scope="module")
def vm(lab: Lab, need_product: None) -> Iterator[Guest]:
    guest = lab.guest(systemd=True)
    packages = Path(sysconfig.get_paths()["purelib"]).relative_to(ROOT)
    guest.run(["bash", "-s", "-", str(ROOT), str(packages)], stdin=_PROGRAM, timeout=120)
    guest.write("/run/tree/target.toml", CONFIG)
    script = f"PATH=/usr/local/bin:$PATH; cd /run/tree\n{_INSTALL}\n{_FILES}\n{_SECOND}\n"
    guest.run(["bash", "-es"], stdin=script, timeout=120)
    use_device(guest, "siw")
    guest.run("modprobe nvme-rdma")
    yield guest
    if not guest.dead:
        guest.run(f"systemctl stop {UNIT}; nvme disconnect-all", check=False, timeout=120)
    lab.close()


def show(guest: Guest, *names: str) -> dict[str, str]:
    """Properties of the unit."""
    said = guest.run(["systemctl", "show", UNIT, *(f"-p{name}" for name in names)], quiet=True)
    return dict(line.split("=", 1) for line in said.stdout.splitlines())


def journal(guest: Guest) -> str:
    return guest.run(["journalctl", "-u", UNIT, "--no-pager", "-o", "cat"], quiet=True).stdout


def wait_for(guest: Guest, unit_is: str, restarts: int) -> None:
    end = time.monotonic() + 240
    while True:
        found = show(guest, "ActiveState", "NRestarts")
        if found["ActiveState"] == unit_is and int(found["NRestarts"]) >= restarts:
            return
        assert time.monotonic() < end, f"{found}\n{journal(guest)}"
        time.sleep(1)


def subsystems(guest: Guest) -> set[str]:
    """Return the subsystems that a host is offered."""
    argv = ["nvme", "discover", "-t", "rdma", "-a", network.GUEST, "-s", "4420"]
    argv += ["--hostnqn", HOSTNQN, "--hostid", HOSTID, "-o", "json"]
    records = guest.run(argv, timeout=120).json()["records"]
    return {record["subnqn"] for record in records}


@pytest.fixture
def serving(guest: Guest) -> None:
    """Start the service for a test that is run alone, or repeated in a new guest."""
    if show(guest, "ActiveState")["ActiveState"] != "active":
        guest.run(_START, timeout=240)


@pytest.mark.feature("systemd")
def test_start(guest: Guest) -> None:
    """systemctl returns when the target serves, and shows its state."""
    guest.run(_START, timeout=240)
    found = show(guest, "ActiveState", "StatusText", "NotifyAccess", "WatchdogUSec", "MainPID")
    assert found["ActiveState"] == "active"
    assert found["StatusText"] == f"1 namespace in 1 subsystem on {network.GUEST}:4420 (iwarp)"
    assert NQN in subsystems(guest)
    user = guest.run(f"ps -o user= -p {found['MainPID']}").stdout.strip()
    assert user == "nvmeof"
    limit = guest.run(f"grep 'Max locked memory' /proc/{found['MainPID']}/limits").stdout
    assert limit.split()[3] == "unlimited"
    guest.run("test -S /run/nvmeof/target.sock && test -f /var/lib/nvmeof/discovery-generation")


@pytest.mark.feature("systemd")
def test_hardening(guest: Guest) -> None:
    """Hardening has not been relaxed: by systemd's rating, where 10 is fully exposed."""
    said = guest.run(["systemd-analyze", "security", UNIT, "--no-pager"], timeout=120).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    assert float(found[1]) < 3.0, said


@pytest.mark.feature("systemd", "reload")
def test_reload(guest: Guest, serving: None) -> None:
    guest.write("/etc/nvmeof/target.toml", CONFIG + SUBSYSTEM.format(nqn=SECOND, name="second"))
    guest.run(f"systemctl reload {UNIT}", timeout=120)
    assert {NQN, SECOND} <= subsystems(guest)
    guest.write("/etc/nvmeof/target.toml", CONFIG + "nonsense")
    assert guest.run(f"systemctl reload {UNIT}", check=False, timeout=120).status
    assert {NQN, SECOND} <= subsystems(guest)
    assert show(guest, "ActiveState")["ActiveState"] == "active"
    assert "target.toml" in journal(guest)
    guest.write("/etc/nvmeof/target.toml", CONFIG)
    guest.run(f"systemctl reload {UNIT}", timeout=120)
    assert SECOND not in subsystems(guest)


@pytest.mark.feature("systemd", "dhchap")
def test_credential(guest: Guest) -> None:
    """A key that only systemd can read is passed to the target as a credential, as in the unit."""
    drop_in = f"/etc/systemd/system/{UNIT}.d"
    guest.run(f"mkdir -p /etc/nvmeof/keys {drop_in}; chmod 0700 /etc/nvmeof/keys")
    guest.run(
        "umask 077; /usr/local/bin/nvmeof gen-dhchap-key > /etc/nvmeof/keys/host", timeout=120
    )
    guest.write(f"{drop_in}/keys.conf", "[Service]\nLoadCredential=host:/etc/nvmeof/keys/host\n")
    guest.write("/etc/nvmeof/target.toml", CONFIG + KEYED)
    guest.run(f"systemctl daemon-reload && systemctl restart {UNIT}", timeout=120)
    asked = "/usr/local/bin/nvmeof list-ns --device iwarp -o json"
    asked += f" -a {network.GUEST} -n {SECOND} -q {HOSTNQN}"
    key = "--dhchap-secret-file /etc/nvmeof/keys/host"
    assert guest.run(f"{asked} {key}", timeout=120).json()
    refused = guest.run(asked, check=False, timeout=120)
    assert refused.status == 1
    assert "asks for in-band authentication" in refused.output
    guest.run(f"rm -r {drop_in}")
    guest.write("/etc/nvmeof/target.toml", CONFIG)
    guest.run(f"systemctl daemon-reload && systemctl restart {UNIT}", timeout=120)


@pytest.mark.feature("discovery-events")
@pytest.mark.unclean("nvme")
def test_autoconnect(guest: Guest, serving: None) -> None:
    """A kernel host that keeps its discovery controller is connected to subsystems that are added
    later.
    """
    guest.write("/etc/nvme/hostnqn", HOSTNQN + "\n")
    guest.write("/etc/nvme/hostid", HOSTID + "\n")
    guest.run(
        f"nvme connect -t rdma -a {network.GUEST} -s 4420 -k 30"
        " -n nqn.2014-08.org.nvmexpress.discovery",
        timeout=120,
    )
    guest.write("/etc/nvmeof/target.toml", CONFIG + SUBSYSTEM.format(nqn=SECOND, name="second"))
    guest.run(f"systemctl reload {UNIT}", timeout=120)
    end = time.monotonic() + 240
    while SECOND not in guest.run("cat /sys/class/nvme/*/subsysnqn", quiet=True).stdout:
        if time.monotonic() > end:
            said = guest.run("journalctl --no-pager -b | tail -60", quiet=True).stdout
            pytest.fail(f"not connected to {SECOND}:\n{said}")
        time.sleep(1)
    guest.run("nvme disconnect-all", timeout=120)


@pytest.mark.feature("systemd")
@pytest.mark.unclean("nvme")
def test_watchdog(guest: Guest, serving: None) -> None:
    """A target that hangs is killed, and a new one is started."""
    before = show(guest, "MainPID", "NRestarts")
    guest.run(f"systemctl kill --kill-who=main -s STOP {UNIT}")
    wait_for(guest, "active", int(before["NRestarts"]) + 1)
    assert show(guest, "MainPID")["MainPID"] != before["MainPID"]
    assert NQN in subsystems(guest)
    assert f"{UNIT}: Watchdog timeout" in guest.kernel_log()


@pytest.mark.feature("systemd")
def test_stop(guest: Guest, serving: None) -> None:
    guest.run(f"systemctl stop {UNIT}", timeout=120)
    found = show(guest, "ActiveState", "Result", "ExecMainStatus")
    assert found == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}


@pytest.mark.feature("systemd")
def test_instance(guest: Guest) -> None:
    """A second target in addition to the first, with its own folders."""
    guest.write("/etc/nvmeof/other.toml", CONFIG.replace('"iwarp"', '"iwarp"\ntrsvcid = 4421'))
    guest.run("systemctl start nvmeof-target@other", timeout=240)
    argv = [
        "/usr/local/bin/nvmeof",
        "target",
        "ls",
        "--rpc-socket",
        "/run/nvmeof-other/target.sock",
    ]
    tree = json.loads(guest.run([*argv, "-o", "json"], timeout=120).stdout)
    assert tree["ports"][0]["trsvcid"] == "4421"
    guest.run("systemctl reload nvmeof-target@other", timeout=120)
    guest.run("systemctl stop nvmeof-target@other", timeout=120)
