# SPDX-License-Identifier: BSD-3-Clause
"""The data of Identify for controllers and namespaces."""

from __future__ import annotations

import pytest

from nvmf.spec import commands
from nvmf.spec.identify import (
    IdentifyController,
    IdentifyIndependentNamespace,
    IdentifyNamespace,
    IdentifyNvmController,
    decode_command_sets,
    decode_controller_list,
    decode_descriptors,
    decode_namespace_list,
)
from nvmf.spec.identify_ns import NSFEAT_ATOMIC
from nvmf.spec.opcodes import Cns, FeatureId
from nvmf.spec.status import DNR, Status
from nvmf.target.model.queue import Queue
from support.faketarget import NQN, Bench

INVALID = Status.INVALID_FIELD | DNR
NAMESPACE = Status.INVALID_NAMESPACE_OR_FORMAT | DNR


def identify(bench: Bench, queue: Queue, cns: int, nsid: int = 0, csi: int = 0) -> bytes:
    done = bench.do(queue, commands.identify(cns, nsid, csi=csi), length=4096)
    assert done.status == 0
    assert len(done.data) == 4096
    return done.data


def test_what_linux_insists_on(bench: Bench) -> None:
    data = IdentifyController.decode(identify(bench, bench.admin(), Cns.CONTROLLER))
    assert data.cntlid == 1
    assert data.kas > 0
    assert data.ioccsz >= 4
    assert data.in_capsule_bytes == 4096
    assert data.iorcsz >= 1
    assert data.icdoff == 0
    assert data.sgls == 1 << 0 | 1 << 2 | 1 << 20
    assert data.cmic & 2
    assert (data.sqes, data.cqes, data.maxcmd) == (0x66, 0x44, 128)
    assert data.max_transfer_bytes() == 1 << 20
    assert data.vwc & 1
    assert data.oncs == 1 | 2 | 4 | 8 | 32 | 64 | 128 | 256
    assert (data.cntrltype, data.aerl, data.acl) == (1, 3, 3)
    assert (data.subnqn, data.sn, data.nn) == (NQN, "SERIAL", 32)


def test_no_cache_no_word_of_it() -> None:
    bench = Bench()
    bench.add_namespace(1, volatile_write_cache=False)
    admin = bench.admin()
    assert not IdentifyController.decode(identify(bench, admin, Cns.CONTROLLER)).vwc & 1
    done = bench.do(admin, commands.get_features(FeatureId.VOLATILE_WRITE_CACHE))
    assert done.status == INVALID


def test_without_in_capsule_data() -> None:
    bench = Bench()
    bench.subsystem.in_capsule = 0
    data = IdentifyController.decode(identify(bench, bench.admin(), Cns.CONTROLLER))
    assert (data.sgls, data.ioccsz, data.msdbd) == (5, 4, 1)


def test_namespaces(bench: Bench) -> None:
    admin = bench.admin()
    data = IdentifyNamespace.decode(identify(bench, admin, Cns.NAMESPACE, 1))
    assert (data.nsze, data.ncap, data.block_size) == (2048, 2048, 512)
    assert (data.npwg, data.nsattr, data.dlfeat, data.nmic) == (7, 0, 9, 1)
    protected = IdentifyNamespace.decode(identify(bench, admin, Cns.NAMESPACE, 3))
    assert (protected.nsze, protected.block_size) == (256, 4096)
    assert (protected.npwg, protected.nsattr, protected.dlfeat) == (0, 1, 0)
    bench.add_namespace(9, physical_block_size=64 << 20)
    assert IdentifyNamespace.decode(identify(bench, admin, Cns.NAMESPACE, 9)).npwg == 0xFFFF
    ids = decode_descriptors(identify(bench, admin, Cns.NAMESPACE_DESCRIPTORS, 1))
    assert (ids.nguid, ids.eui64, ids.csi) == (data.nguid, data.eui64, 0)
    assert ids.uuid is not None
    assert data.nguid != protected.nguid
    independent = IdentifyIndependentNamespace.decode(
        identify(bench, admin, Cns.INDEPENDENT_NAMESPACE, 3)
    )
    assert (independent.nstat, independent.nsattr) == (1, 1)


@pytest.mark.feature("identifiers")
@pytest.mark.parametrize("nsid", [1, 3])
def test_one_block_is_whole(bench: Bench, nsid: int) -> None:
    """The controller and its namespaces report one atomicity: a block, without boundaries."""
    admin = bench.admin()
    data = IdentifyController.decode(identify(bench, admin, Cns.CONTROLLER))
    info = IdentifyNamespace.decode(identify(bench, admin, Cns.NAMESPACE, nsid))
    assert (data.awun, data.awupf, data.acwu) == (0, 0, 0)
    assert info.nsfeat & NSFEAT_ATOMIC
    assert (info.nawun, info.nawupf, info.nacwu) == (data.awun, data.awupf, data.acwu)
    assert (info.nabsn, info.nabo, info.nabspf) == (0, 0, 0)


def test_identifiers_stay_the_same() -> None:
    first, second = Bench(), Bench()
    assert first.add_namespace(1).identity == second.add_namespace(1).identity
    assert first.add_namespace(2).identity != second.subsystem.namespaces[1].identity


@pytest.mark.parametrize(
    "cns", [Cns.NAMESPACE, Cns.CSI_NAMESPACE, Cns.INDEPENDENT_NAMESPACE, Cns.ALLOCATED_NAMESPACE]
)
def test_namespace_that_is_not_there(bench: Bench, cns: Cns) -> None:
    admin = bench.admin()
    assert identify(bench, admin, cns, 2) == bytes(4096)
    for nsid in (0, 33, 0xFFFFFFFE, 0xFFFFFFFF):
        done = bench.do(admin, commands.identify(cns, nsid), length=4096)
        assert done.status == NAMESPACE


def test_lists(bench: Bench) -> None:
    admin = bench.admin()
    bench.admin()
    for cns in (Cns.ACTIVE_NAMESPACES, Cns.ALLOCATED_NAMESPACES, Cns.CSI_ACTIVE_NAMESPACES):
        assert decode_namespace_list(identify(bench, admin, cns)) == [1, 3]
        assert decode_namespace_list(identify(bench, admin, cns, 1)) == [3]
        assert decode_namespace_list(identify(bench, admin, cns, 3)) == []
    assert decode_controller_list(identify(bench, admin, Cns.CONTROLLERS)) == [1, 2]
    assert decode_controller_list(identify(bench, admin, Cns.NAMESPACE_CONTROLLERS, 1)) == [1, 2]
    assert decode_command_sets(identify(bench, admin, Cns.IO_COMMAND_SETS)) == [1]
    done = bench.do(admin, commands.identify(Cns.ACTIVE_NAMESPACES, 0xFFFFFFFF), length=4096)
    assert done.status == NAMESPACE


def test_command_set_specific(bench: Bench) -> None:
    admin = bench.admin()
    page = identify(bench, admin, Cns.CSI_CONTROLLER)
    assert IdentifyNvmController.decode(page) == IdentifyNvmController()
    for cns in (Cns.CSI_CONTROLLER, Cns.CSI_NAMESPACE):
        done = bench.do(admin, commands.identify(cns, 1, csi=2), length=4096)
        assert done.status == INVALID


@pytest.mark.parametrize("cns", [0x04, 0x09, 0x14, 0x20, 0xFF])
def test_unknown_structure(bench: Bench, cns: int) -> None:
    assert bench.do(bench.admin(), commands.identify(cns), length=4096).status == INVALID


@pytest.mark.parametrize("length", [0, 4095, 8192])
def test_identify_of_another_length(bench: Bench, length: int) -> None:
    done = bench.do(bench.admin(), commands.identify(), length=length)
    assert done.status == Status.SGL_DATA_LENGTH_INVALID | DNR
