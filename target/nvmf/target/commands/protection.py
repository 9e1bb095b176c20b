# SPDX-License-Identifier: BSD-3-Clause
"""Namespace Write Protection (Base 2.0, 8.12): the feature and its state transitions."""

from __future__ import annotations

from dataclasses import replace

from nvmf.spec.features import WriteProtection
from nvmf.spec.identify import Nwpc
from nvmf.spec.sqe import At
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.later import Done, answer, each
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.commands.identify import ALL_NAMESPACES, find_namespace
from nvmf.target.lasting.lasting import Lasting
from nvmf.target.model.controller import Controller
from nvmf.target.model.lastingkeeper import Change
from nvmf.target.model.subsystem import Subsystem

SETTLE_TIMEOUT = 10.0
"""Seconds within which writes in progress must end."""
_STATE = 0b111
_NEEDED = {
    WriteProtection.NONE: Nwpc.WRITE_PROTECT,
    WriteProtection.PROTECTED: Nwpc.WRITE_PROTECT,
    WriteProtection.UNTIL_POWER_CYCLE: Nwpc.UNTIL_POWER_CYCLE,
    WriteProtection.PERMANENT: Nwpc.PERMANENT,
}


def check(subsystem: Subsystem, nsid: int, wanted: WriteProtection) -> None:
    """Raise Feature Not Changeable or Namespace Not Ready if the state cannot be set now.

    Raise Invalid Namespace or Format if the namespace was removed.
    """
    if nsid not in subsystem.namespaces:
        raise StatusError(Status.INVALID_NAMESPACE_OR_FORMAT, f"namespace {nsid} no longer exists")
    if subsystem.lasting.closing(nsid):
        raise StatusError(
            Status.NAMESPACE_NOT_READY,
            f"namespace {nsid} is about to be write protected: try again",
            dnr=False,
        )
    subsystem.lasting.get(nsid).check(wanted)


def protect(
    subsystem: Subsystem,
    nsid: int,
    wanted: WriteProtection,
    done: Done,
    by: Controller | None = None,
) -> None:
    """Set the state of a namespace accepted by check(), notify the hosts, and call done.

    done receives the failure, or None; it may be called at once.  by: the requesting controller.
    """
    was = subsystem.lasting.get(nsid).protection is not WriteProtection.NONE
    becomes = wanted is not WriteProtection.NONE
    if becomes and not was:
        _Closing(subsystem, nsid, wanted, done, by)
        return

    def committed(failure: StatusError | None) -> None:
        if failure is None and was is not becomes:
            subsystem.changed([nsid])
        done(failure)

    subsystem.lasting.commit(nsid, _to(wanted), committed, by)


def _to(wanted: WriteProtection) -> Change:
    def change(now: Lasting) -> Lasting:
        now.check(wanted)
        return replace(now, protection=wanted)

    return change


class _Closing:
    """A transition to write protected: wait for writes in progress, flush, store the state.

    The specification requires the volatile write cache to be committed before protection begins.
    """

    def __init__(
        self,
        subsystem: Subsystem,
        nsid: int,
        wanted: WriteProtection,
        done: Done,
        by: Controller | None,
    ) -> None:
        self._by = by
        self._subsystem, self._nsid, self._wanted, self._done = subsystem, nsid, wanted, done
        self._namespace = subsystem.namespaces[nsid]
        self._over = False
        subsystem.lasting.close(nsid)
        subsystem.when_ended(list(subsystem.controllers.values()), nsid, self._ended)
        if subsystem.call_later is not None and not self._over:
            subsystem.call_later(SETTLE_TIMEOUT, self._time_is_up)

    @property
    def _there(self) -> bool:
        return self._subsystem.namespaces.get(self._nsid) is self._namespace

    def _ended(self) -> None:
        if self._there and not self._over:
            self._subsystem.work(
                self._namespace,
                self._namespace.store.flush,
                lambda error: self._subsystem.soon(lambda: self._flushed(error)),
            )
        else:
            self._flushed(None)

    def _flushed(self, error: OSError | None) -> None:
        if self._over:
            return
        self._over = True  # no timeout for the rest, the write of a file
        if not self._there:
            self._end(
                StatusError(
                    Status.INVALID_NAMESPACE_OR_FORMAT, f"namespace {self._nsid} was removed"
                )
            )
        elif error is not None:
            self._end(
                StatusError(
                    Status.WRITE_FAULT,
                    f"cannot flush earlier writes to namespace {self._nsid}: "
                    f"{error.strerror or error}",
                )
            )
        else:
            self._subsystem.lasting.commit(self._nsid, _to(self._wanted), self._end, self._by)

    def _time_is_up(self) -> None:
        if not self._over:
            self._subsystem.soon(self._late)

    def _late(self) -> None:
        if not self._over:
            self._over = True
            self._end(
                StatusError(
                    # Command Interrupted is only for hosts that have set ACRE.
                    Status.NAMESPACE_NOT_READY,
                    f"namespace {self._nsid} is not write protected: earlier commands have not "
                    f"ended within {SETTLE_TIMEOUT:g} s",
                    dnr=False,
                )
            )

    def _end(self, failure: StatusError | None) -> None:
        if self._there:
            self._subsystem.lasting.close(self._nsid, closing=False)
            if failure is None:
                self._subsystem.changed([self._nsid])
        self._done(failure)


# ---- the feature ----


def _supported(controller: Controller) -> Nwpc:
    nwpc = controller.subsystem.lasting.nwpc
    if not nwpc:
        raise StatusError(
            Status.INVALID_FIELD,
            "write protection requires a state_dir, because it must persist",
            location=At.DW10,
        )
    return nwpc


def get(controller: Controller, request: Request) -> Completion:
    """Get the write protection state of a namespace."""
    _supported(controller)
    expect_length(request, 0)
    nsid = find_namespace(controller, request.sqe.nsid).nsid
    return Completion(int(controller.subsystem.lasting.get(nsid).protection))


def set_(controller: Controller, request: Request) -> Completion | None:
    """Set the state of a namespace, or of all; completes when it is stored and in effect."""
    nwpc = _supported(controller)
    expect_length(request, 0)
    state, nsid = request.sqe.cdw11 & _STATE, request.sqe.nsid
    wanted = WriteProtection(state) if state <= WriteProtection.PERMANENT else None
    if wanted is None or not nwpc & _NEEDED[wanted]:
        raise StatusError(
            Status.INVALID_FIELD,
            f"hosts cannot set write protection state {state}",
            location=At.DW11,
        )
    every = list(controller.namespaces)
    chosen = every if nsid == ALL_NAMESPACES else [find_namespace(controller, nsid).nsid]
    for one in chosen:
        check(controller.subsystem, one, wanted)

    def begin(done: Done) -> None:
        each(
            chosen,
            lambda one, ended: protect(controller.subsystem, one, wanted, ended, controller),
            done,
        )

    return answer(controller, request, begin)
