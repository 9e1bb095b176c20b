# SPDX-License-Identifier: BSD-3-Clause
"""The embedded RoCEv2 device and rxe: small MTU, packet loss, and a host that restarts.

rxe repeats the registrations of memory among the requests that it sends again, and these fail: if
one of its own requests is lost, or the last acknowledgement for a while, the kernel's host loses
its connection, to any target. So only the packets that it receives are lost here, except
acknowledgements; and all of those in both directions with the kernel's target.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import block, network
from lab.cells import NETDEV, use_device
from lab.conftest import Lab
from lab.guest import Guest
from lab.kernel_host import KernelHost
from lab.network import Network
from lab.nvmet import KernelTarget
from lab.our_host import OurHost, Outside
from lab.ours import OursOutside

MTU = 1500
LOADS = (
    block.Load("4k", 32, 2, size=256 * block.KIB),
    block.Load("128k", 8, size=2 * block.MIB),
    block.Load("4k-1m", 16, size=2 * block.MIB),
)
INCOMING = f"""
modprobe -a ifb sch_netem sch_ingress act_mirred cls_matchall cls_u32 act_gact
ip link show ifb0 >/dev/null 2>&1 || ip link add ifb0 type ifb
ip link set ifb0 mtu {MTU} up
tc qdisc replace dev ifb0 root netem loss random 0.5%
tc qdisc add dev {NETDEV} handle ffff: ingress
tc filter add dev {NETDEV} parent ffff: prio 2 matchall action mirred egress redirect dev ifb0
"""
BUT_ACKNOWLEDGEMENTS = f"""
tc filter add dev {NETDEV} parent ffff: prio 1 protocol ip u32 \\
    match ip protocol 17 0xff match ip dport 4791 0xffff match u8 0x11 0xff at 28 action pass
"""
"""The opcode of the BTH, behind 20 bytes of IPv4 and 8 of UDP, is RC Acknowledge."""
OUTGOING = f"tc qdisc replace dev {NETDEV} root netem loss random 0.5%"
FORGOTTEN = "the peer has forgotten this connection"
NEW_DEVICE = "rdma link del rxe0 2>/dev/null; true"
"""Its first queue pair has the number that it has after a boot, whatever other tests did."""
NO_LOSS = f"""
tc qdisc del dev {NETDEV} ingress 2>/dev/null
tc qdisc del dev {NETDEV} root 2>/dev/null
ip link del ifb0 2>/dev/null
true
"""


@contextmanager
def path(guest: Guest, cable: Network, *, outgoing: bool) -> Iterator[None]:
    """A path with Ethernet's MTU that loses one packet in 200."""
    try:
        with cable.mtu(MTU):
            guest.run(f"ip link set {NETDEV} mtu {MTU}", quiet=True)
            guest.run(INCOMING + (OUTGOING if outgoing else BUT_ACKNOWLEDGEMENTS))
            yield
            dropped = guest.run("tc -s qdisc show dev ifb0").stdout
            assert "dropped 0," not in dropped, "no packet was lost"
    finally:
        guest.run(NO_LOSS + f"ip link set {NETDEV} mtu {network.MTU}", quiet=True)


def test_kernel_host(guest: Guest, cable: Network, tmp_path: Path, need_product: None) -> None:
    use_device(guest, "rxe")
    with path(guest, cable, outgoing=False):
        target = OursOutside(cable, tmp_path, network.HOST, "roce")
        try:
            host = KernelHost(guest, target.address, target.service)
            with host.connected(target.nqn, "-i", "2", namespaces=3):
                block.fio_verify(guest, host.devices(target.nqn)[1], LOADS)
            target.check()
            assert target.log.count("queue 1: connected") == 1, target.log
        finally:
            target.close()


def test_our_host(guest: Guest, cable: Network, need_product: None) -> None:
    use_device(guest, "rxe")
    with path(guest, cable, outgoing=True), KernelTarget(guest, network.GUEST) as target:
        host = OurHost(Outside(cable), "roce", target.address, target.nqn, target.service)
        host.fio_verify(2, LOADS)


def test_restarted_host(machine: Lab, cable: Network, tmp_path: Path, need_product: None) -> None:
    """A host that lost its power connects at its first try, though its old connections are still
    there: rxe gives its first queue pairs the same numbers again.
    """
    target = OursOutside(cable, tmp_path, network.HOST, "roce")
    try:
        before = machine.guest()
        before.run(NEW_DEVICE, quiet=True)
        use_device(before, "rxe")
        host = KernelHost(before, target.address, target.service)
        host.try_connect(target.nqn, "-i", "1", "-k", "1200").check()
        host.wait_live(target.nqn, 3)
        before.power_off()
        after = machine.guest()
        use_device(after, "rxe")
        again = KernelHost(after, target.address, target.service)
        with again.connected(target.nqn, "-i", "1", namespaces=3):
            block.fio_verify(after, again.devices(target.nqn)[1], LOADS[:1])
        assert FORGOTTEN in target.log, target.log
        target.check()
    finally:
        target.close()
