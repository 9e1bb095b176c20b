# SPDX-License-Identifier: BSD-3-Clause
"""Reservations of one namespace: permitted commands, and notifications."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.spec import commands
from nvmf.spec.reservations import AcquireAction as Acquire
from nvmf.spec.reservations import NotificationType as Told
from nvmf.spec.reservations import RegisterAction as Register
from nvmf.spec.reservations import (
    RegistrantEntry,
    ReservationStatus,
    ReservationType,
)
from nvmf.spec.status import DNR, Status, StatusError
from nvmf.target.command.gates import OPEN, Gate
from nvmf.target.lasting.reservations import Outcome, Reservation, acquire, clear, register, release
from support.faketarget import Bench

pytestmark = pytest.mark.feature("reservations")

A, B, C = (bytes([value]) * 16 for value in b"ABC")
KEYS = {A: 0xA, B: 0xB, C: 0xC}
WE, EA, WERO, EARO, WEAR, EAAR = ReservationType
CONFLICT = Status.RESERVATION_CONFLICT | DNR
NO_WRITES, NOTHING = Gate(0, CONFLICT, CONFLICT), Gate(CONFLICT, CONFLICT, CONFLICT)


def registered(*hosts: bytes) -> Reservation:
    now = Reservation()
    for host in hosts:
        now = register(now, host, Register.REGISTER, 0, KEYS[host], ignore=False).reservation
    return now


def held(rtype: ReservationType, *hosts: bytes) -> Reservation:
    """Return a reservation whose hosts are registered, and the first one has acquired it."""
    now = registered(*hosts)
    return acquire(now, hosts[0], Acquire.ACQUIRE, rtype, KEYS[hosts[0]], 0).reservation


def refused(action: Callable[[], Outcome]) -> int:
    with pytest.raises(StatusError) as caught:
        action()
    return caught.value.code & ~DNR


# Base 2.0, figure 431: the holder, a registrant, and a host that is neither.
@pytest.mark.parametrize(
    ("rtype", "registrant", "stranger"),
    [
        (WE, NO_WRITES, NO_WRITES),
        (EA, NOTHING, NOTHING),
        (WERO, OPEN, NO_WRITES),
        (EARO, OPEN, NOTHING),
        (WEAR, OPEN, NO_WRITES),
        (EAAR, OPEN, NOTHING),
    ],
)
def test_rights(rtype: ReservationType, registrant: Gate, stranger: Gate) -> None:
    now = held(rtype, A, B)
    assert now.gate(A) == OPEN
    assert now.gate(B) == registrant
    assert now.gate(C) == stranger
    assert now.holds(A)
    assert now.holds(B) is rtype.all_registrants
    assert not now.holds(C)


def test_register() -> None:
    now = registered(A)
    assert now.registrants == {A: 0xA}
    assert now.gen == 1
    again = register(now, A, Register.REGISTER, 0, 0xA, ignore=False).reservation
    assert again.registrants == {A: 0xA}
    conflict = refused(lambda: register(now, A, Register.REGISTER, 0, 0xAA, ignore=False))
    assert conflict == Status.RESERVATION_CONFLICT
    zero = refused(lambda: register(now, B, Register.REGISTER, 0, 0, ignore=False))
    assert zero == Status.INVALID_FIELD


def test_replace() -> None:
    now = registered(A)
    changed = register(now, A, Register.REPLACE, 0xA, 0xAA, ignore=False).reservation
    assert changed.registrants == {A: 0xAA}
    changed = register(now, A, Register.REPLACE, 0x7, 0xAA, ignore=True).reservation
    assert changed.registrants == {A: 0xAA}
    wrong = refused(lambda: register(now, A, Register.REPLACE, 0x7, 0xAA, ignore=False))
    assert wrong == Status.RESERVATION_CONFLICT
    assert refused(lambda: register(now, B, Register.REPLACE, 0, 0xB, ignore=False)) == wrong
    come = register(now, B, Register.REPLACE, 0, 0xB, ignore=True).reservation
    assert come.registrants == {A: 0xA, B: 0xB}


def test_a_key_moves_with_its_holder() -> None:
    now = held(EA, A, B)
    changed = register(now, A, Register.REPLACE, 0xA, 0xAA, ignore=False).reservation
    assert changed.holds(A)
    preempted = acquire(changed, B, Acquire.PREEMPT, EA, 0xB, 0xAA)
    assert preempted.reservation.holds(B)


@pytest.mark.parametrize("rtype", list(ReservationType))
def test_unregister_the_holder(rtype: ReservationType) -> None:
    now = held(rtype, A, B)
    done = register(now, A, Register.UNREGISTER, 0xA, 0, ignore=False)
    assert done.reservation.registrants == {B: 0xB}
    if rtype.all_registrants:
        assert done.reservation.rtype is rtype
        assert not done.notifications
        last = register(done.reservation, B, Register.UNREGISTER, 0xB, 0, ignore=False)
        assert last.reservation.rtype is None
    else:
        assert done.reservation.rtype is None
        expected = {B: Told.RESERVATION_RELEASED} if rtype.for_registrants else {}
        assert done.notifications == expected
    wrong = refused(lambda: register(now, A, Register.UNREGISTER, 0x7, 0, ignore=False))
    assert wrong == Status.RESERVATION_CONFLICT
    assert refused(lambda: register(now, C, Register.UNREGISTER, 0, 0, ignore=True)) == wrong


def test_acquire() -> None:
    now = held(WERO, A, B)
    assert acquire(now, A, Acquire.ACQUIRE, WERO, 0xA, 0).reservation is now
    for host, rtype, key in ((A, EA, 0xA), (B, WERO, 0xB), (A, WERO, 0x7), (C, WERO, 0xC)):
        status = refused(lambda: acquire(now, host, Acquire.ACQUIRE, rtype, key, 0))  # noqa: B023
        assert status == Status.RESERVATION_CONFLICT
    everybody = held(WEAR, A, B)
    assert acquire(everybody, B, Acquire.ACQUIRE, WEAR, 0xB, 0).reservation is everybody
    assert refused(lambda: acquire(everybody, B, Acquire.ACQUIRE, WE, 0xB, 0))


def test_preempt_the_holder() -> None:
    done = acquire(held(EARO, A, B, C), B, Acquire.PREEMPT, EARO, 0xB, 0xA)
    assert done.reservation.registrants == {B: 0xB, C: 0xC}
    assert done.reservation.holder == B
    assert done.removed == {A}
    assert done.notifications == {A: Told.REGISTRATION_PREEMPTED}
    other = acquire(held(EARO, A, B, C), B, Acquire.PREEMPT, WE, 0xB, 0xA)
    assert other.reservation.rtype is WE
    assert other.notifications == {A: Told.REGISTRATION_PREEMPTED, C: Told.RESERVATION_RELEASED}


def test_preempt_a_registrant() -> None:
    now = held(EARO, A, B, C)
    done = acquire(now, B, Acquire.PREEMPT, WE, 0xB, 0xC)
    assert done.reservation.registrants == {A: 0xA, B: 0xB}
    assert (done.reservation.rtype, done.reservation.holder) == (EARO, A)
    assert done.notifications == {C: Told.REGISTRATION_PREEMPTED}
    nobody = refused(lambda: acquire(now, B, Acquire.PREEMPT, WE, 0xB, 0x99))
    assert nobody == Status.RESERVATION_CONFLICT
    zero = refused(lambda: acquire(now, B, Acquire.PREEMPT, WE, 0xB, 0))
    assert zero == Status.INVALID_FIELD


def test_preempt_without_a_reservation() -> None:
    done = acquire(registered(A, B), A, Acquire.PREEMPT, WE, 0xA, 0xB)
    assert done.reservation.registrants == {A: 0xA}
    assert done.reservation.rtype is None


def test_preempt_all_registrants() -> None:
    now = held(EAAR, A, B, C)
    done = acquire(now, B, Acquire.PREEMPT_AND_ABORT, WE, 0xB, 0)
    assert done.reservation.registrants == {B: 0xB}
    assert (done.reservation.rtype, done.reservation.holder) == (WE, B)
    assert done.removed == {A, C}
    one = acquire(now, B, Acquire.PREEMPT, WE, 0xB, 0xC)
    assert one.reservation.rtype is EAAR
    assert one.reservation.registrants == {A: 0xA, B: 0xB}


def test_the_holder_changes_the_type() -> None:
    done = acquire(held(WE, A, B), A, Acquire.PREEMPT, EARO, 0xA, 0xA)
    assert (done.reservation.rtype, done.reservation.holder) == (EARO, A)
    assert done.reservation.registrants == {A: 0xA, B: 0xB}
    assert done.notifications == {B: Told.RESERVATION_RELEASED}


@pytest.mark.parametrize("rtype", list(ReservationType))
def test_release(rtype: ReservationType) -> None:
    now = held(rtype, A, B)
    done = release(now, A, rtype, 0xA)
    assert done.reservation.rtype is None
    assert done.reservation.registrants == now.registrants
    assert done.reservation.gen == now.gen
    assert done.notifications == ({B: Told.RESERVATION_RELEASED} if rtype.for_registrants else {})
    other = WE if rtype is not WE else EA
    assert refused(lambda: release(now, A, other, 0xA)) == Status.INVALID_FIELD
    assert refused(lambda: release(now, A, rtype, 0x7)) == Status.RESERVATION_CONFLICT
    if not rtype.all_registrants:
        assert release(now, B, rtype, 0xB).reservation is now


def test_clear() -> None:
    now = held(EA, A, B, C)
    done = clear(now, B, 0xB)
    assert not done.reservation.registrants
    assert done.reservation.rtype is None
    assert done.notifications == dict.fromkeys((A, C), Told.RESERVATION_PREEMPTED)
    assert refused(lambda: clear(now, B, 0xA)) == Status.RESERVATION_CONFLICT


Step = tuple[str, bytes, int, int, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["register", "replace", "unregister", "acquire", "preempt", "release", "clear"]
            ),
            st.sampled_from([A, B, C]),
            st.integers(0, 3),
            st.integers(0, 3),
            st.integers(1, 6),
        ),
        max_size=30,
    )
)
def test_whatever_is_done(steps: list[Step]) -> None:
    """A holder is a registrant, a refusal changes nothing, and other hosts cannot write."""
    now = Reservation()
    for what, host, current, other, kind in steps:
        rtype = ReservationType(kind)
        try:
            match what:
                case "register":
                    done = register(now, host, Register.REGISTER, current, other, ignore=False)
                case "replace":
                    done = register(now, host, Register.REPLACE, current, other, ignore=kind > 3)
                case "unregister":
                    done = register(now, host, Register.UNREGISTER, current, 0, ignore=kind > 3)
                case "acquire":
                    done = acquire(now, host, Acquire.ACQUIRE, rtype, current, 0)
                case "preempt":
                    done = acquire(now, host, Acquire.PREEMPT, rtype, current, other)
                case "release":
                    done = release(now, host, kind, current)
                case _:
                    done = clear(now, host, current)
        except StatusError:
            continue
        assert host not in done.notifications
        now = done.reservation
        assert now.holder is None or now.holder in now.registrants
        if now.rtype is None:
            assert now.holder is None
            assert all(now.gate(one) == OPEN for one in (A, B, C))
        else:
            assert now.registrants
            assert (now.holder is None) == now.rtype.all_registrants
            for one in (A, B, C):
                if one not in now.registrants:
                    assert now.gate(one).write == CONFLICT


def test_report_bytes() -> None:
    """Base 2.0, figures 449 and 450, byte by byte."""
    entry = RegistrantEntry(cntlid=0x102, rcsts=1, rkey=0x1122334455667788, hostid=bytes(range(16)))
    data = ReservationStatus(gen=7, rtype=4, ptpls=1, registrants=(entry,)).encode()
    assert data[:24].hex() == "07000000040100000001" + "00" * 14
    assert data[64:96].hex() == "020101" + "00" * 5 + "8877665544332211" + bytes(range(16)).hex()
    assert len(data) == 128
    assert ReservationStatus.decode(data).registrants == (entry,)


def test_report_of_many() -> None:
    """A report costs as much as there are registrants and controllers, not each with each: a host
    can register thousands of times, and the target serves no other host meanwhile.
    """
    compared = 0

    class Counted(bytes):
        __hash__ = bytes.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return bytes.__eq__(self, other)

    bench, many = Bench(), 60
    bench.add_namespace(1)
    hosts = [Counted(number.to_bytes(16, "big")) for number in range(1, many)]
    for host in hosts:
        admin = bench.admin(hostid=bytes(host))
        io = bench.io(admin)
        register_ = commands.reservation_register(1, Register.REGISTER)
        assert bench.do(io, register_, bytes(8) + b"\1" + bytes(7)).status == 0
        assert admin.controller is not None
        admin.controller.hostid = host
    compared = 0
    length = 64 * many
    report = bench.do(io, commands.reservation_report(1, length), length=length)
    found = ReservationStatus.decode(report.data).registrants
    assert [one.hostid for one in found] == hosts
    assert len({one.cntlid for one in found}) == len(hosts)
    assert compared < 4 * many, compared
