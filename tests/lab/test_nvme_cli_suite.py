# SPDX-License-Identifier: BSD-3-Clause
"""The tests of nvme-cli's own source, unmodified, on a namespace of our target over siw.

``./dev lab`` fetches them (nvme_cli_suite.py).  They run the nvme-cli of this machine.

They are written for an SSD with one namespace, which they delete, create and attach before and
after each test.  Our target has no Namespace Management: the suite's `nvme_bin` is a program that
answers these commands itself, and passes all others to nvme.  The tests of these commands do not
apply.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import network, nvme_cli_suite
from lab.cells import use_device
from lab.guest import Guest
from lab.kernel_host import Controller, KernelHost
from lab.network import Network
from lab.prepare import CACHE
from lab.steered import NSID, Steered

APPLICABLE = (
    *(
        "compare",
        "copy",
        "ctrl_reset",
        "dsm",
        "error_log",
        "flush",
        "fw_log",
        "get_lba_status",
        "id_ctrl",
    ),
    *("id_ns", "lba_status_log", "read_write", "smart_log", "verify", "writeuncor", "writezeros"),
)
"""The tests: each is a module, nvme_NAME_test.py, and a class with one method."""
_MANAGEMENT = "tests Namespace Management, which the target does not have"
NOT_APPLICABLE = {
    "attach_detach_ns": _MANAGEMENT,
    "create_max_ns": _MANAGEMENT,
    "format": "creates a namespace with each format, for which it needs Namespace Management",
    "simple_template": "is a template, which sends no command",
    "get_features": "also reads two features of interrupts, which only PCIe controllers have",
}
"""The tests that cannot apply, with the reason."""
FEATURES = ("0x01", "0x02", "0x04", "0x05", "0x07", "0x0a", "0x0b")
INTERRUPT_FEATURES = ("0x08", "0x09")
"""The features that the suite's get_features reads."""
FOLDER = "/run/lab/nvme-cli"
RUN = Path(__file__).with_name("nvme_cli_run.py")
# The suite's test of Compare transfers 1024 bytes for one block.  The target supports no SGL that
# is longer than the data of its command (bit 18 of SGLS), so a block must not be smaller.
NAMESPACE = {"store": "ram", "size": "64MiB", "block_size": 4096}

# What the suite calls instead of nvme; the file `deleted` exists between delete-ns and create-ns.
_PROGRAM = f"""#!/bin/sh
case $1 in
    delete-ns) exec touch {FOLDER}/deleted ;;
    create-ns) exec rm -f {FOLDER}/deleted ;;
    attach-ns | detach-ns) exit 0 ;;
    list-ns) [ ! -e {FOLDER}/deleted ] || exec echo '{{"nsid_list": []}}' ;;
esac
exec nvme "$@"
"""
# $1 controller.  Each feature is printed with the status of nvme.
_FEATURES = f"""
for feature in {" ".join(FEATURES + INTERRUPT_FEATURES)}; do
    nvme get-feature "$1" --feature-id=$feature --human-readable > /dev/null 2>&1
    echo $feature $?
done
"""


@pytest.fixture(scope="module")
def suite() -> Path:
    """The folder with the suite's modules."""
    found = nvme_cli_suite.folder(CACHE)
    if not found:
        pytest.skip(f"there are no tests of nvme-cli: {nvme_cli_suite.excuse(CACHE)}")
    return found / "tests"


@pytest.fixture(scope="module")
def target(
    cable: Network, need_product: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Steered]:
    with Steered(cable, tmp_path_factory.mktemp("nvme-cli"), {NSID: NAMESPACE}) as one:
        yield one
        one.close()


@pytest.fixture(scope="module")
def controller(vm: Guest, suite: Path, target: Steered) -> Iterator[Controller]:
    """The controller of the kernel's host, with the suite and its settings in the guest."""
    use_device(vm, "siw")
    host = KernelHost(vm, network.HOST)
    with host.connected(target.nqn, "-i", "2") as one:
        settings = {
            "controller": one.path,
            "ns1": host.devices(target.nqn)[0].path,
            "log_dir": f"{FOLDER}/logs",
            "nvme_bin": f"{FOLDER}/nvme",
            "do_validate_pci_device": False,
        }
        vm.run(["sh", "-c", f'mkdir -p {FOLDER}; cp -r "$1" {FOLDER}', "sh", str(suite)])
        vm.write(f"{FOLDER}/tests/config.json", json.dumps(settings))
        vm.write(f"{FOLDER}/nvme", _PROGRAM)
        vm.run(f"chmod +x {FOLDER}/nvme")
        yield one


def test_no_other_tests(suite: Path) -> None:
    """Each test of the suite is listed here."""
    there = {file.name for file in suite.glob("nvme_*_test.py")}
    assert there == {f"nvme_{name}_test.py" for name in (*APPLICABLE, *NOT_APPLICABLE)}


@pytest.mark.unclean(r"nvme nvme\d+: resetting controller")
@pytest.mark.parametrize("name", APPLICABLE)
def test_nvme_cli(controller: Controller, target: Steered, guest: Guest, name: str) -> None:
    argv = [sys.executable, str(RUN), FOLDER, f"nvme_{name}_test"]
    done = guest.run(argv, check=False)
    assert done.status == 0, done.output
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["run"] == 1, done.output
    target.check_log()
    for reason in counts["skipped"].values():
        pytest.skip(f"{name}: {reason}")


@pytest.mark.parametrize("name", NOT_APPLICABLE)
def test_not_applicable(name: str) -> None:
    """Show the reason in the report."""
    pytest.skip(f"{name} {NOT_APPLICABLE[name]}")


def test_features(controller: Controller, target: Steered, guest: Guest) -> None:
    """The target has the features that the suite reads, except those of PCIe."""
    done = guest.run(["sh", "-s", "-", controller.path], stdin=_FEATURES).check()
    found = dict(line.split() for line in done.stdout.splitlines())
    assert {feature for feature, status in found.items() if status == "0"} == set(FEATURES)
    assert set(found) == {*FEATURES, *INTERRUPT_FEATURES}
    target.check_log()
