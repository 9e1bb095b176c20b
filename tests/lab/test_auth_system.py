# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication over rxe: our end on libibverbs, and the kernel's host controlled by our
commands.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import network
from lab.authentication import (
    BOTH,
    CASES,
    CTRL_KEY,
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
from lab.kernel_initiator import HOSTNQN, Initiator
from lab.nvmet import KernelTarget
from lab.our_host import OurHost
from lab.ours import OursInside
from lab.waiting import until

pytestmark = [
    pytest.mark.usefixtures("need_product"),
    pytest.mark.timeout(600),
]

TRIED = (0, 3)
"""Cases: one without Diffie-Hellman and one with the smallest group; siw has the others."""
WHERE = ["-t", "rdma", "-a", network.GUEST, "-s", "4420"]


@pytest.fixture(scope="module")
def rxe(vm: Guest) -> Guest:
    need_kernel(vm)
    use_device(vm, "rxe")
    return vm


# ---- the kernel's host, our target ----


@pytest.fixture(scope="module")
def target(rxe: Guest) -> Iterator[OursInside]:
    text = target_config(network.GUEST, "system", HOSTNQN)
    one = OursInside(rxe, network.GUEST, text=text)
    yield one
    one.check()
    for key in (KEY, CTRL_KEY, OTHER):
        assert key[10:40] not in one.log
    one.close()


@pytest.fixture(scope="module")
def ours(rxe: Guest) -> Iterator[Initiator]:
    one = Initiator(rxe)
    rxe.write("/run/lab/host.key", KEY + "\n")
    rxe.write("/run/lab/ctrl.key", CTRL_KEY + "\n")
    yield one
    one.close()


@pytest.mark.feature("dhchap", "dhchap-mutual")
@pytest.mark.parametrize("index", TRIED, ids=["-".join(CASES[index]) for index in TRIED])
@pytest.mark.parametrize(
    ("secrets", "ways"),
    [
        (("-S", KEY), "one way"),
        (("--dhchap-secret", KEY, "--dhchap-ctrl-secret", CTRL_KEY), "both ways"),
        (
            (
                *("--dhchap-secret-file", "/run/lab/host.key"),
                *("--dhchap-ctrl-secret-file", "/run/lab/ctrl.key"),
            ),
            "both ways",
        ),
    ],
    ids=["one-way", "both-ways", "files"],
)
def test_connect(
    target: OursInside,
    ours: Initiator,
    guest: Guest,
    index: int,
    secrets: tuple[str, ...],
    ways: str,
) -> None:
    """`nvmeof connect` with secrets: each queue authenticates, and the block device works."""
    before = len(target.log)
    found = ours.connect(network.GUEST, 4420, nqn_of(index), "-i", "1", *secrets)
    (namespace,) = found["namespaces"]
    guest.run(
        f"head -c 64K /dev/urandom > /run/lab/data &&"
        f" dd if=/run/lab/data of={namespace['path']} bs=64K oflag=direct status=none &&"
        f" dd if={namespace['path']} bs=64K count=1 iflag=direct status=none |"
        " cmp - /run/lab/data"
    )
    ours.run("disconnect", "-n", nqn_of(index))
    hashed, group = CASES[index]
    line = f": authenticated (SHA-{hashed[3:]}, {group_name(group)}, {ways})"
    until(lambda: target.log[before:].count(line) == 2, line, state=lambda: target.log[before:])


@pytest.mark.feature("dhchap")
@pytest.mark.unclean("nvme")
@pytest.mark.parametrize(
    ("index", "secrets", "says"),
    [
        (0, ("-S", OTHER), "see that the secrets (-S, -C) and the host NQN are those of"),
        (WRONG, ("-S", KEY, "-C", CTRL_KEY), "see that the secrets (-S, -C) and the host NQN"),
        (0, (), "the target asks for it: give its secret with -S"),
    ],
    ids=["wrong key", "wrong controller key", "no key"],
)
def test_refused(
    target: OursInside,
    ours: Initiator,
    guest: Guest,
    index: int,
    secrets: tuple[str, ...],
    says: str,
) -> None:
    """The refusal is one sentence, without the secret."""
    who = ["-n", nqn_of(index), "-q", HOSTNQN, "-i", "1"]
    said = ours.refused("connect", *WHERE, *who, *secrets)
    assert f"the kernel cannot connect to {nqn_of(index)} at {network.GUEST}:4420: " in said
    assert "authentication" in said
    assert says in said
    assert all(key[10:40] not in said for key in (KEY, CTRL_KEY, OTHER))
    assert ours.controllers() == []


# ---- the kernel's target, our host ----


@pytest.fixture(scope="module")
def nvmet(rxe: Guest) -> Iterator[KernelTarget]:
    one = KernelTarget(rxe, network.GUEST, service=4430, block_sizes=(4096,))
    yield one
    forget(one)
    one.close()


@pytest.mark.parametrize("index", TRIED, ids=["-".join(CASES[index]) for index in TRIED])
def test_kernel_target(nvmet: KernelTarget, guest: Guest, index: int) -> None:
    """Our client on libibverbs, in the guest."""
    hashed, group = CASES[index]
    allow(nvmet, HOSTNQN, hashed, group)
    host = OurHost(guest, "system", network.GUEST, nvmet.nqn, nvmet.service)
    result = host.nvmeof("-v list-ns", "-q", HOSTNQN, *BOTH, timeout=SLOW)
    for queue in authenticated_queues(guest):
        line = f"queue {queue} authenticated (SHA-{hashed[3:]}, {group_name(group)}, both ways)"
        assert line in result.stderr
    assert "64.00 MiB" in result.stdout
