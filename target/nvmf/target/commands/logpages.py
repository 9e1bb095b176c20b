# SPDX-License-Identifier: BSD-3-Clause
"""Get Log Page (Base 2.0, 5.16) of I/O controllers; the discovery log is in discovery."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nvmf.spec.ana import MAX_GROUP, ana_log_size
from nvmf.spec.identify import IDENTIFY_SIZE
from nvmf.spec.logs import (
    ERROR_ENTRY_SIZE,
    CriticalWarning,
    Effects,
    FirmwareSlotLog,
    SmartLog,
    data_units,
    encode_changed_namespaces,
    encode_effects,
    encode_supported_features,
    encode_supported_pages,
)
from nvmf.spec.opcodes import AdminOpcode, Csi, FeatureId, IoOpcode, LogId
from nvmf.spec.sqe import At, LogRequest
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.request import Completion, Request, expect_length
from nvmf.target.commands.featureset import FEATURES
from nvmf.target.commands.identify import ALL_NAMESPACES, FIRMWARE, find_namespace
from nvmf.target.commands.reservecommands import notification_page, notification_read
from nvmf.target.model.controller import Controller
from nvmf.target.model.errorlog import ERROR_LOG_ENTRIES

_RGO = 1
"""Return Groups Only (LSP)."""
# No command reports a scope, because Linux would log "unusual effects" for it.
_SUPPORTED = Effects(csupp=1)
_IO_READ = Effects(csupp=1)
_IO_WRITE = Effects(csupp=1, lbcc=1)

ADMIN_EFFECTS: dict[int, Effects] = dict.fromkeys(
    (
        AdminOpcode.GET_LOG_PAGE,
        AdminOpcode.IDENTIFY,
        AdminOpcode.ABORT,
        AdminOpcode.SET_FEATURES,
        AdminOpcode.GET_FEATURES,
        AdminOpcode.ASYNC_EVENT_REQUEST,
        AdminOpcode.KEEP_ALIVE,
    ),
    _SUPPORTED,
)
IO_EFFECTS: dict[int, Effects] = {
    IoOpcode.FLUSH: _IO_READ,
    IoOpcode.WRITE: _IO_WRITE,
    IoOpcode.READ: _IO_READ,
    IoOpcode.WRITE_UNCORRECTABLE: _IO_WRITE,
    IoOpcode.COMPARE: _IO_READ,
    IoOpcode.WRITE_ZEROES: _IO_WRITE,
    IoOpcode.DATASET_MANAGEMENT: _IO_WRITE,
    IoOpcode.VERIFY: _IO_READ,
    IoOpcode.COPY: _IO_WRITE,
    IoOpcode.RESERVATION_REGISTER: _IO_READ,
    IoOpcode.RESERVATION_REPORT: _IO_READ,
    IoOpcode.RESERVATION_ACQUIRE: _IO_READ,
    IoOpcode.RESERVATION_RELEASE: _IO_READ,
}

_Page: TypeAlias = Callable[[Controller, Request, LogRequest], bytes]


def _supported_pages(controller: Controller, request: Request, log: LogRequest) -> bytes:
    return encode_supported_pages(PAGES)


def errors(controller: Controller, request: Request, log: LogRequest) -> bytes:
    """Return Error Information, the newest entry first."""
    entries = b"".join(entry.encode() for entry in controller.look_for_errors().entries)
    return entries.ljust(ERROR_LOG_ENTRIES * ERROR_ENTRY_SIZE, b"\0")


def _smart(controller: Controller, request: Request, log: LogRequest) -> bytes:
    nsid, health = request.sqe.nsid, controller.subsystem.health
    health.look(request.now)
    if nsid in (0, ALL_NAMESPACES):
        total = health.totals({one.identity.uuid for one in controller.namespaces.values()})
        degraded = not health.degraded.isdisjoint(controller.namespaces)
    else:
        total = health.of(find_namespace(controller, nsid).identity.uuid)
        degraded = nsid in health.degraded
    return SmartLog(
        critical_warning=CriticalWarning.RELIABILITY_DEGRADED if degraded else 0,
        available_spare=100,
        data_units_read=data_units(total.get("read_bytes", 0)),
        data_units_written=data_units(total.get("write_bytes", 0)),
        host_read_commands=total.get("reads", 0),
        host_write_commands=total.get("writes", 0),
        controller_busy_time=int(health.busy_seconds / 60),
        power_cycles=health.power_cycles,
        power_on_hours=int(health.on_seconds / 3600),
        unsafe_shutdowns=health.unsafe_shutdowns,
        media_errors=total.get("media_errors", 0),
        error_log_entries=controller.look_for_errors().count,
    ).encode()


def _firmware_slot(controller: Controller, request: Request, log: LogRequest) -> bytes:
    return FirmwareSlotLog(afi=1, frs1=FIRMWARE).encode()


def _changed_namespaces(controller: Controller, request: Request, log: LogRequest) -> bytes:
    return encode_changed_namespaces(controller.changed_namespaces)


def _effects(controller: Controller, request: Request, log: LogRequest) -> bytes:
    if log.csi != Csi.NVM:
        raise StatusError(
            Status.INVALID_LOG_PAGE, f"command set {log.csi} is not supported", location=At.LOG_CSI
        )
    return encode_effects(ADMIN_EFFECTS, IO_EFFECTS)


def _features(controller: Controller, request: Request, log: LogRequest) -> bytes:
    there = set(FEATURES)
    if not controller.subsystem.lasting.nwpc:
        there.discard(FeatureId.NAMESPACE_WRITE_PROTECTION)
    return encode_supported_features(there)


def _nvme_mi(controller: Controller, request: Request, log: LogRequest) -> bytes:
    return bytes(IDENTIFY_SIZE)


def _ana(controller: Controller, request: Request, log: LogRequest) -> bytes:
    page = controller.subsystem.ana.log_page(controller, only_groups=bool(log.lsp & _RGO))
    # Hosts (nvme-cli) read the maximum size according to Identify, in parts, whatever the content.
    return page.ljust(ana_log_size(MAX_GROUP, controller.subsystem.max_namespaces), b"\0")


def _reservation_notification(controller: Controller, request: Request, log: LogRequest) -> bytes:
    return notification_page(controller)


PAGES: dict[LogId, _Page] = {
    LogId.SUPPORTED_PAGES: _supported_pages,
    LogId.ERROR: errors,
    LogId.SMART: _smart,
    LogId.FIRMWARE_SLOT: _firmware_slot,
    LogId.CHANGED_NAMESPACES: _changed_namespaces,
    LogId.COMMANDS_EFFECTS: _effects,
    LogId.ANA: _ana,
    LogId.FEATURES_EFFECTS: _features,
    LogId.NVME_MI_EFFECTS: _nvme_mi,
    LogId.RESERVATION_NOTIFICATION: _reservation_notification,
}
"""The log pages of I/O controllers."""


def check_offset(log: LogRequest, size: int) -> None:
    """Raise Invalid Field if the offset is beyond a page of size bytes, or not a multiple of 4."""
    if log.offset_is_index or log.offset % 4 or log.offset > size:
        kind = "index" if log.offset_is_index else "byte"
        raise StatusError(
            Status.INVALID_FIELD,
            f"log page {log.lid:02x}h of {size} bytes: invalid offset, {kind} {log.offset}",
            location=At.OT if log.offset_is_index else At.LPO,
        )


def cut(page: bytes, log: LogRequest) -> bytes:
    """Return the requested part of a page, with zeroes beyond its end (undefined there).

    Raise Invalid Field like check_offset().
    """
    check_offset(log, len(page))
    return page[log.offset : log.offset + log.length].ljust(log.length, b"\0")


def parse(request: Request, max_transfer: int) -> LogRequest:
    """Return the log request; check that the SGL has its length, and MDTS permits it."""
    log = LogRequest.of(request.sqe)
    expect_length(request, log.length)
    if log.length > max_transfer:
        raise StatusError(
            Status.INVALID_FIELD,
            f"{log.length} bytes of a log page; the maximum is {max_transfer}",
            location=At.NUMDL,
        )
    return log


def get_log_page(controller: Controller, request: Request) -> Completion:
    """Get Log Page of an I/O controller."""
    log = parse(request, controller.subsystem.mdts)
    if log.lid not in PAGES:
        raise StatusError(Status.INVALID_LOG_PAGE, f"there is no log page {log.lid:02x}h")
    data = cut(PAGES[LogId(log.lid)](controller, request, log), log)
    if not log.rae:
        controller.events.log_read(log.lid)
        if log.lid == LogId.CHANGED_NAMESPACES:
            controller.changed_namespaces.clear()
        elif log.lid == LogId.RESERVATION_NOTIFICATION:
            notification_read(controller)
    return Completion(data=data)
