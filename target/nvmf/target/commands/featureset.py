# SPDX-License-Identifier: BSD-3-Clause
"""Set and Get Features (Base 2.0, 5.15 and 5.27): each feature is a pair of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from nvmf.spec.features import AsyncEvents, HostBehavior, NumberOfQueues, Timestamp
from nvmf.spec.opcodes import FeatureId
from nvmf.spec.sqe import At, GetFeaturesDw10, SetFeaturesDw10
from nvmf.spec.status import Status, StatusError
from nvmf.target.command.events import EVENTS
from nvmf.target.command.request import Completion, Request, expect_data, expect_length
from nvmf.target.commands import protection
from nvmf.target.commands import reservecommands as reserve
from nvmf.target.commands.identify import (
    ALL_NAMESPACES,
    DISCOVERY_EVENTS,
    IO_EVENTS,
    chosen_namespaces,
    find_accessible,
)
from nvmf.target.model.controller import Controller

_EXTENDED_HOST_ID = 1
_POWER_STATE = 0x1F
_HOST_ID_BYTES = 16
_OVER, _UNDER, _ALL_SENSORS = 0, 1, 0xF
_NO_LIMIT = 0xFFFF
"""Initial over temperature threshold, in kelvins: nothing measures a temperature."""

_Function: TypeAlias = Callable[[Controller, Request], Completion]
_Set: TypeAlias = Callable[[Controller, Request], Completion | None]
"""Returns None if the command completes later."""


@dataclass(frozen=True, slots=True)
class Feature:
    """The functions that get and set a feature."""

    get: _Function
    set: _Set
    of_namespaces: bool = False
    """Whether each namespace has a value of its own."""


def _no_feature(why: str) -> StatusError:
    return StatusError(Status.INVALID_FIELD, why, location=At.DW10)


def _bad_value(why: str) -> StatusError:
    return StatusError(Status.INVALID_FIELD, why, location=At.DW11)


def _no_data(request: Request) -> None:
    expect_length(request, 0)


def _refuse(status: Status, why: str) -> _Function:
    def function(controller: Controller, request: Request) -> Completion:
        raise StatusError(status, why)

    return function


def _remembered(fid: FeatureId, mask: int) -> Feature:
    """Return a feature without effect: its value, limited to mask, is only remembered."""

    def get(controller: Controller, request: Request) -> Completion:
        _no_data(request)
        return Completion(controller.feature(fid))

    def set_(controller: Controller, request: Request) -> Completion:
        _no_data(request)
        controller.features[fid] = request.sqe.cdw11 & mask
        return Completion()

    return Feature(get, set_)


def _remembered_of_namespaces(fid: FeatureId, mask: int) -> Feature:
    """Return such a feature with a value for each namespace."""

    def key(nsid: int) -> int:
        return nsid << 8 | fid

    def get(controller: Controller, request: Request) -> Completion:
        _no_data(request)
        nsid = request.sqe.nsid
        if nsid not in (0, ALL_NAMESPACES):  # nvme-cli reads it without a namespace
            find_accessible(controller, nsid)
        return Completion(controller.features.get(key(nsid or ALL_NAMESPACES), 0))

    def set_(controller: Controller, request: Request) -> Completion:
        _no_data(request)
        nsid, value = request.sqe.nsid, request.sqe.cdw11 & mask
        chosen = [*chosen_namespaces(controller, nsid), nsid]
        controller.features.update(dict.fromkeys(map(key, chosen), value))
        return Completion()

    return Feature(get, set_, of_namespaces=True)


def _get_power(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    return Completion()


def _set_power(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    if state := request.sqe.cdw11 & _POWER_STATE:
        raise _bad_value(f"power state {state}; there is only 0")
    return Completion()


def _threshold_key(selection: int) -> int:
    """Return the key of the threshold that dword 11 selects (Base 2.0, 5.27.1.3).

    Only the composite temperature exists, with an over and an under temperature threshold.
    """
    sensor, type_ = selection >> 16 & 0xF, selection >> 20 & 0x3
    if sensor:
        raise _bad_value(
            f"TMPSEL {sensor} selects a sensor; there is only the composite temperature"
        )
    if type_ not in (_OVER, _UNDER):
        raise _bad_value(f"THSEL {type_} is reserved")
    return type_ << 8 | FeatureId.TEMPERATURE_THRESHOLD


def _get_threshold(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    key = _threshold_key(request.sqe.cdw11)
    initial = 0 if key >> 8 == _UNDER else _NO_LIMIT
    return Completion(controller.features.get(key, initial))


def _set_threshold(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    selection = request.sqe.cdw11
    if selection >> 16 & 0xF == _ALL_SENSORS:
        selection &= ~(0xF << 16)
    controller.features[_threshold_key(selection)] = selection & 0xFFFF
    return Completion()


def _get_queues(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    most = controller.subsystem.max_io_queues - 1
    return Completion(NumberOfQueues(most, most).encode())


def _set_queues(controller: Controller, request: Request) -> Completion:
    asked = NumberOfQueues.decode(request.sqe.cdw11)
    if 0xFFFF in (asked.nsq, asked.ncq):
        raise _bad_value("65536 queues requested; the maximum is 65535")
    if controller.io_queues:
        raise StatusError(Status.COMMAND_SEQUENCE_ERROR, "I/O queues already exist")
    return _get_queues(controller, request)


def _get_kato(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    return Completion(controller.kato_ms)


def _set_kato(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    controller.set_kato(request.sqe.cdw11)
    return Completion()


def _get_events(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    return Completion(int(controller.enabled_events))


def _set_events(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    known = DISCOVERY_EVENTS if controller.subsystem.discovery else IO_EVENTS
    if request.sqe.cdw11 & ~int(known):
        raise _bad_value(f"events {request.sqe.cdw11:#x}; only {int(known):#x} are supported")
    before, now = controller.enabled_events, AsyncEvents(request.sqe.cdw11)
    controller.enabled_events = now
    for flag, event in EVENTS.items():
        if not now & flag:
            controller.events.drop(event)
    controller.events_enabled(now & ~before)
    return Completion()


def _has_cache(controller: Controller) -> bool:
    stores = (namespace.store for namespace in controller.namespaces.values())
    return any(store.volatile_write_cache for store in stores)


def _get_write_cache(controller: Controller, request: Request) -> Completion:
    _no_data(request)
    if not _has_cache(controller):
        raise _no_feature("there is no volatile write cache")
    return Completion(1)


def _set_write_cache(controller: Controller, request: Request) -> Completion:
    _get_write_cache(controller, request)
    if not request.sqe.cdw11 & 1:
        raise StatusError(Status.FEATURE_NOT_CHANGEABLE, "the system's cache cannot be disabled")
    return Completion()


def _get_timestamp(controller: Controller, request: Request) -> Completion:
    expect_length(request, Timestamp.SIZE)
    milliseconds, at, origin = controller.timestamp
    value = milliseconds + int((request.now - at) * 1000) & (1 << 48) - 1
    return Completion(data=Timestamp(value.to_bytes(6, "little"), origin << 1).encode())


def _set_timestamp(controller: Controller, request: Request) -> Completion:
    value = Timestamp.decode(expect_data(request, Timestamp.SIZE)).value
    controller.timestamp = (value, request.now, 1)
    return Completion()


def _get_behavior(controller: Controller, request: Request) -> Completion:
    expect_length(request, HostBehavior.SIZE)
    return Completion(data=controller.host_behavior)


def _set_behavior(controller: Controller, request: Request) -> Completion:
    data = expect_data(request, HostBehavior.SIZE)
    asked = HostBehavior.decode(data)
    if max(asked.acre, asked.etdas, asked.lbafee) > 1:
        raise StatusError(Status.INVALID_FIELD, "a host behavior field is neither 0 nor 1")
    controller.host_behavior = asked.encode()
    return Completion()


def _get_host_id(controller: Controller, request: Request) -> Completion:
    if not request.sqe.cdw11 & _EXTENDED_HOST_ID:
        raise _bad_value("only 128-bit host identifiers are supported")
    expect_length(request, _HOST_ID_BYTES)
    return Completion(data=controller.hostid)


FEATURES: dict[FeatureId, Feature] = {
    FeatureId.ARBITRATION: _remembered(FeatureId.ARBITRATION, 0xFFFFFF07),
    FeatureId.POWER_MANAGEMENT: Feature(_get_power, _set_power),
    FeatureId.TEMPERATURE_THRESHOLD: Feature(_get_threshold, _set_threshold),
    FeatureId.ERROR_RECOVERY: _remembered_of_namespaces(FeatureId.ERROR_RECOVERY, 0xFFFF),
    FeatureId.VOLATILE_WRITE_CACHE: Feature(_get_write_cache, _set_write_cache),
    FeatureId.NUMBER_OF_QUEUES: Feature(_get_queues, _set_queues),
    FeatureId.WRITE_ATOMICITY: _remembered(FeatureId.WRITE_ATOMICITY, 1),
    FeatureId.ASYNC_EVENT_CONFIGURATION: Feature(_get_events, _set_events),
    FeatureId.TIMESTAMP: Feature(_get_timestamp, _set_timestamp),
    FeatureId.KEEP_ALIVE_TIMER: Feature(_get_kato, _set_kato),
    FeatureId.HOST_BEHAVIOR: Feature(_get_behavior, _set_behavior),
    FeatureId.HOST_IDENTIFIER: Feature(
        _get_host_id,
        _refuse(Status.COMMAND_SEQUENCE_ERROR, "Connect has already set the host identifier"),
    ),
    FeatureId.RESERVATION_NOTIFICATION_MASK: Feature(
        reserve.get_mask, reserve.set_mask, of_namespaces=True
    ),
    FeatureId.RESERVATION_PERSISTENCE: Feature(
        reserve.get_persistence, reserve.set_persistence, of_namespaces=True
    ),
    FeatureId.NAMESPACE_WRITE_PROTECTION: Feature(
        protection.get, protection.set_, of_namespaces=True
    ),
}
"""The features of I/O controllers."""
DISCOVERY_FEATURES: dict[FeatureId, Feature] = {
    fid: FEATURES[fid] for fid in (FeatureId.ASYNC_EVENT_CONFIGURATION, FeatureId.KEEP_ALIVE_TIMER)
}
"""The features of discovery controllers."""


def _find(controller: Controller, fid: int) -> Feature:
    features = DISCOVERY_FEATURES if controller.subsystem.discovery else FEATURES
    if fid not in features:
        raise _no_feature(f"feature {fid:02x}h is not supported")
    return features[FeatureId(fid)]


def get_features(controller: Controller, request: Request) -> Completion:
    """Get Features: only the current value (ONCS reports no support for others)."""
    dw10 = GetFeaturesDw10.decode(request.sqe.cdw10)
    feature = _find(controller, dw10.fid)
    if dw10.sel:
        raise StatusError(
            Status.INVALID_FIELD,
            f"SEL {dw10.sel} is not supported",
            location=At.SEL,
        )
    return feature.get(controller, request)


def set_features(controller: Controller, request: Request) -> Completion | None:
    """Set Features: values apply until the next reset, except those that are persistent."""
    dw10 = SetFeaturesDw10.decode(request.sqe.cdw10)
    feature = _find(controller, dw10.fid)
    if dw10.sv:
        raise StatusError(Status.FEATURE_NOT_SAVEABLE, f"feature {dw10.fid:02x}h")
    if not feature.of_namespaces and request.sqe.nsid not in (0, ALL_NAMESPACES):
        raise StatusError(
            Status.FEATURE_NOT_NAMESPACE_SPECIFIC,
            f"feature {dw10.fid:02x}h is of the controller, not of namespace {request.sqe.nsid:#x}",
            location=At.NSID,
        )
    return feature.set(controller, request)
