# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication with the kernel's host and target, over siw; our end is outside the
guest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import block, network
from lab.authentication import (
    BOTH,
    CASES,
    CTRL_KEY,
    DH,
    KEY,
    OTHER,
    SLOW,
    WRONG,
    allow,
    authenticated_queues,
    forget,
    group_name,
    need_kernel,
    nqn_of,
    target_config,
)
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import HOSTNQN, KernelHost
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.our_host import OurHost, Outside
from lab.prepare import SERIES
from lab.running import Result
from support.served import Served

pytestmark = pytest.mark.timeout(2 * SLOW + 600)
NEWEST_KERNEL = True
WAYS = {False: "one-way", True: "both-ways"}


@pytest.fixture(scope="module", autouse=True)
def kernel_can(vm: Guest) -> None:
    """Skip if the kernel is built without it."""
    need_kernel(vm)
    use_device(vm, "siw")


def need_speed(guest: Guest, group: str) -> None:
    """Skip the largest group on the newest kernel; the others have it.

    On a busy machine its host exceeds its own time limit: "error -110 initializing DH group".
    """
    if group == "ffdhe8192" and guest.kernel.series not in SERIES:
        pytest.skip("the newest kernel computes it for too long in emulation")


# ---- the kernel's host, our target ----


@pytest.fixture(scope="module")
def ours(
    kernel_can: None,
    cable: Network,
    tmp_path_factory: pytest.TempPathFactory,
    need_product: None,
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("target")
    one = Served(folder, target_config(network.HOST, "iwarp"), wrapper=tuple(cable.command()))
    yield one.wait_ready(60)
    assert one.end(30) == 0
    one.check_log()
    for key in (KEY, CTRL_KEY, OTHER):
        assert key[10:40] not in one.log


def connect(guest: Guest, nqn: str, *options: str) -> Result:
    """Run nvme connect; it may fail."""
    where = ["-t", "rdma", "-a", network.HOST, "-s", "4420", "-n", nqn, "--hostnqn", HOSTNQN]
    return guest.run(
        ["nvme", "connect", *where, "-i", "1", "-k", "60", *options], check=False, timeout=SLOW
    )


@contextmanager
def connected(guest: Guest, index: int, *options: str) -> Iterator[str]:
    """Connect the kernel's host to one of our subsystems; yield the name of its controller."""
    host = KernelHost(guest, network.HOST)
    connect(guest, nqn_of(index), *options).check()
    try:
        yield host.wait_live(nqn_of(index), timeout=60).name
    finally:
        if not guest.dead:
            host.disconnect(nqn_of(index))


def said(ours: Served, nqn: str, words: str) -> list[str]:
    return [line for line in ours.log.splitlines() if nqn in line and words in line]


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize(
    ("index", "mutual"),
    # Both ways includes one way, so one way alone is only tried with and without a DH group.
    [(index, True) for index in range(len(CASES))] + [(0, False), (CASES.index(DH), False)],
    ids=lambda value: "-".join(CASES[value]) if type(value) is int else WAYS[value],
)
def test_kernel_host(ours: Served, guest: Guest, index: int, mutual: bool) -> None:
    hashed, group = CASES[index]
    need_speed(guest, group)
    before = len(said(ours, nqn_of(index), ": authenticated ("))
    with connected(guest, index, *(BOTH if mutual else BOTH[:2])):
        (device,) = KernelHost(guest, network.HOST).devices(nqn_of(index))
        block.pattern(guest, device, 0x5A, 0, block.MIB)
        block.expect(guest, device, 0x5A, 0, block.MIB)
    lines = said(ours, nqn_of(index), ": authenticated (")[before:]
    shown = group_name(group)
    ways = "both ways" if mutual else "one way"
    assert len(lines) == 2, "each queue authenticates by itself"
    assert all(f"(SHA-{hashed[3:]}, {shown}, {ways})" in line for line in lines)
    log = guest.kernel_log()
    assert f"authenticated with hash hmac({hashed}) dhgroup {group}" in log


@pytest.mark.feature("dhchap-again")
def test_kernel_host_again(ours: Served, guest: Guest) -> None:
    """Authentication of every queue is repeated, under load."""
    with connected(guest, 3, *BOTH) as name:
        (device,) = KernelHost(guest, network.HOST).devices(nqn_of(3))
        guest.run(
            f"dd if=/dev/zero of={device.path} bs=64k count=128 oflag=direct & "
            f"echo '{KEY}' > /sys/class/nvme/{name}/dhchap_secret; wait",
            timeout=SLOW,
        )
        guest.run(
            "for i in $(seq 300); do "
            "dmesg | grep -c 'qid 0: controller authenticated' | grep -qv '^[01]$' && exit 0; "
            "sleep 0.2; done; exit 1",
            timeout=SLOW,
        )
        block.pattern(guest, device, 0x5B, 0, block.MIB)
        block.expect(guest, device, 0x5B, 0, block.MIB)
    assert said(ours, nqn_of(3), "queue 0: authenticated again (SHA-256, ffdhe2048, both ways)")


@pytest.mark.feature("dhchap")
@pytest.mark.unclean("nvme")
@pytest.mark.parametrize(
    ("index", "options", "kernel_says", "we_say"),
    [
        (0, ("--dhchap-secret", OTHER), "authentication failed", "the host has a different key"),
        (3, ("--dhchap-secret", OTHER), "authentication failed", "the host has a different key"),
        (WRONG, BOTH, "controller authentication failed", "refused the controller (AUTH_Failure2)"),
        (0, (), "qid 0", ""),
    ],
    ids=["wrong key", "wrong key with DH", "wrong controller key", "no key"],
)
def test_kernel_host_refused(
    ours: Served,
    guest: Guest,
    index: int,
    options: tuple[str, ...],
    kernel_says: str,
    we_say: str,
) -> None:
    since = guest.mark("refusal")
    before = len(said(ours, nqn_of(index), "authentication failed"))
    result = connect(guest, nqn_of(index), *options)
    assert result.status != 0
    assert kernel_says in guest.kernel_log(since)
    lines = said(ours, nqn_of(index), "authentication failed")[before:]
    assert len(lines) == bool(we_say), ours.log
    assert all(we_say in line and HOSTNQN in line for line in lines)


# ---- the kernel's target, our host ----


@pytest.fixture(scope="module")
def nvmet(vm: Guest, kernel_can: None) -> Iterator[KernelTarget]:
    target = KernelTarget(vm, network.GUEST, block_sizes=(4096,))
    yield target
    forget(target)
    target.close()


@pytest.fixture
def ask(nvmet: KernelTarget, guest: Guest) -> None:
    """Configure nvmet for the first case's authentication."""
    allow(nvmet, HOSTNQN, *CASES[0])


@pytest.fixture
def host(nvmet: KernelTarget, cable: Network, need_product: None) -> OurHost:
    return OurHost(Outside(cable), "iwarp", network.GUEST, nvmet.nqn)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_kernel_target(
    nvmet: KernelTarget, guest: Guest, host: OurHost, case: tuple[str, str], tmp_path: Path
) -> None:
    need_speed(guest, case[1])
    allow(nvmet, HOSTNQN, *case)
    (tmp_path / "key").write_text(KEY)
    shown = group_name(case[1])
    one_way = ((("--dhchap-secret-file", str(tmp_path / "key")), "one way"),)
    for options, ways in (*(one_way if case in (CASES[0], DH) else ()), (BOTH, "both ways")):
        result = host.nvmeof("-v list-ns", "-q", HOSTNQN, *options, timeout=SLOW)
        for queue in authenticated_queues(guest):
            line = f"queue {queue} authenticated (SHA-{case[0][3:]}, {shown}, {ways})"
            assert line in result.stderr, result.stderr
        assert "64.00 MiB" in result.stdout


def test_kernel_target_data(ask: None, host: OurHost) -> None:
    data = bytes(range(256)) * 4096
    host.nvmeof("write", "-q", HOSTNQN, *BOTH, stdin=data)
    read = host.nvmeof(f"read -z {len(data)}", "-q", HOSTNQN, *BOTH)
    assert read.stdout == data.decode(errors="replace")


CLIENT = """
import asyncio
from nvmf.initiator import connect

async def main():
    where = "nvme+rdma://{address}:{service}/{nqn}?device=iwarp&queues=2"
    async with connect(where, hostnqn="{host}", dhchap_secret="{key}",
                       dhchap_ctrl_secret="{ctrl}") as controller:
        disk = controller.namespace(1)
        for _ in range(3):
            await asyncio.gather(controller.reauthenticate(), disk.write(0, bytes(65536)))
        print(controller.reconnects, controller.session.authenticator.success)

asyncio.run(main())
"""


def test_kernel_target_again(ask: None, host: OurHost) -> None:
    script = CLIENT.format(
        address=host.address, service=host.service, nqn=host.nqn,
        host=HOSTNQN, key=KEY, ctrl=CTRL_KEY,
    )  # fmt: skip
    done = host.python(script, timeout=SLOW)
    assert done.stdout == "0 SHA-256, no DH group, both ways\n"


@pytest.mark.unclean("nvmet")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--dhchap-secret", OTHER),
            "Authentication failed; check|was being authenticated: .* check",
        ),
        ((*BOTH[:3], OTHER), "may not be the controller that it claims to be"),
        ((), "it asks for in-band authentication: give the key"),
    ],
    ids=["wrong key", "wrong controller key", "no key"],
)
def test_kernel_target_refuses(
    ask: None, host: OurHost, guest: Guest, options: tuple[str, ...], says: str
) -> None:
    result = host.nvmeof("id-ctrl", "-q", HOSTNQN, *options, check=False)
    assert result.status == 1
    assert re.search(says, result.stderr)
    assert "Traceback" not in result.stderr


def test_native_host_says_that_it_cannot(ask: None, host: OurHost, guest: Guest) -> None:
    result = host.nvmeof("bench --runtime 1", "-q", HOSTNQN, check=False)
    assert result.status == 1
    assert "to authenticate, which the fio engine and bench do not support" in result.stderr
