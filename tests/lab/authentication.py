# SPDX-License-Identifier: BSD-3-Clause
"""In-band authentication: keys, the tested cases, and targets that require keys."""

from __future__ import annotations

import pytest

from lab.guest import Guest
from lab.kernel_host import HOSTNQN
from lab.nvmet import CONFIGFS, KernelTarget
from lab.prepare import SERIES
from wire import dhchap

_PREFIX = "nqn.2014-08.org.nvmexpress:uuid:5f0c1c9e-0000-4000-8000-0000000001"
KEY, CTRL_KEY = dhchap.key_text(b"h" * 32), dhchap.key_text(b"c" * 48, 2)
OTHER = dhchap.key_text(b"x" * 32)
CASES = (
    ("sha256", "null"),
    ("sha384", "null"),
    ("sha512", "null"),
    ("sha256", "ffdhe2048"),
    ("sha384", "ffdhe3072"),
    ("sha512", "ffdhe8192"),
)
"""Hash and group: all hashes, and the groups from the smallest to the largest."""
DH = ("sha256", "ffdhe2048")
"""The fastest with a DH group."""
SLOW = 900.0
"""Seconds after which a command counts as hanging.  A power of 8192 bits takes seconds in a guest
without KVM on an idle machine, and minutes on one with twenty processes for two processors.
"""
BOTH = ("--dhchap-secret", KEY, "--dhchap-ctrl-secret", CTRL_KEY)
WRONG = len(CASES)
"""The subsystem whose own key differs from the host's."""


def need_kernel(guest: Guest) -> None:
    """Skip if the guest's kernel is built without authentication."""
    (config,) = guest.kernel.folder.glob(f"boot/config-{guest.kernel.release}")
    text = config.read_text()
    for option in ("CONFIG_NVME_HOST_AUTH", "CONFIG_NVME_TARGET_AUTH"):
        if f"{option}=y" not in text and f"{option.replace('HOST_', '')}=y" not in text:
            pytest.skip(f"kernel {guest.kernel.release} is built without {option}")


def authenticated_queues(guest: Guest) -> tuple[int, ...]:
    """Return those of queues 0 and 1 on which nvmet asks for authentication.

    Kernels later than those of the matrix ask on the admin queue only, and our client follows the
    request.
    """
    return (0, 1) if guest.kernel.series in SERIES else (0,)


def group_name(group: str) -> str:
    """Return the group's name as in our log."""
    return "no DH group" if group == "null" else group


# ---- our target ----


def nqn_of(index: int) -> str:
    """Return the NQN of a case's subsystem, or of WRONG's."""
    return f"{_PREFIX}{index:02x}"


def target_config(address: str, device: str, hostnqn: str = HOSTNQN) -> str:
    """Return the table of a subsystem for each case, and of one more."""
    text = f'[[port]]\ntraddr = "{address}"\ntrsvcid = 4420\ndevice = "{device}"\n'
    for index, (hashed, group) in enumerate((*CASES, CASES[0])):
        text += f"""
[[subsystem]]
nqn = "{nqn_of(index)}"

[[subsystem.host]]
nqn = "{hostnqn}"
dhchap_key = "{KEY}"
dhchap_ctrl_key = "{OTHER if index == WRONG else CTRL_KEY}"
dhchap_hashes = ["{hashed}"]
dhchap_dhgroups = ["{group}"]

[[subsystem.namespace]]
nsid = 1
store = "ram"
size = "16MiB"
block_size = 4096
"""
    return text


# ---- the kernel's target ----

# $1 host NQN, $2 subsystem NQN, $3 key, $4 controller key, $5 hash, $6 group
_HOST = f"""
set -eu
cd {CONFIGFS}/nvmet
mkdir -p hosts/$1
echo "$3" > hosts/$1/dhchap_key
echo "$4" > hosts/$1/dhchap_ctrl_key
echo "hmac($5)" > hosts/$1/dhchap_hash
echo "$6" > hosts/$1/dhchap_dhgroup
echo 0 > subsystems/$2/attr_allow_any_host
cd subsystems/$2/allowed_hosts
[ -e $1 ] || ln -s {CONFIGFS}/nvmet/hosts/$1 $1
"""
_FORGET = f"""
cd {CONFIGFS}/nvmet
rm -f subsystems/*/allowed_hosts/*
for host in hosts/*; do [ ! -d $host ] || rmdir $host; done
"""


def allow(target: KernelTarget, hostnqn: str, hashed: str, group: str) -> None:
    """Allow a host that must authenticate in this way."""
    words = [hostnqn, target.nqn, KEY, CTRL_KEY, hashed, group]
    target.guest.run(["bash", "-s", "-", *words], stdin=_HOST, quiet=True)


def forget(target: KernelTarget) -> None:
    """Remove all hosts."""
    if not target.guest.dead:
        target.guest.run(["bash", "-s"], stdin=_FORGET, quiet=True)
