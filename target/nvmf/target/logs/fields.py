# SPDX-License-Identifier: BSD-3-Clause
"""Structured fields of a log record: peer, host, subsystem, controller, queue.

A record with a queue, a controller or a refusal among its arguments has their fields; other
records give fields with extra=.
"""

from __future__ import annotations

import logging

from nvmf.spec.cm import CmRejectError
from nvmf.spec.status import StatusError
from nvmf.target.io.ports import where
from nvmf.target.model.controller import Controller
from nvmf.target.model.queue import Queue

NAMES = ("peer", "hostnqn", "subnqn", "cntlid", "qid", "nsid", "status")
"""Names in the order of output."""


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields of a record."""
    found: dict[str, object] = {}
    for argument in record.args if isinstance(record.args, tuple) else ():
        match argument:
            case Queue():
                found |= _of_queue(argument)
            case Controller():
                found |= _of_queue(argument.admin)
                del found["qid"]
            case StatusError():
                found["status"] = argument.name
            case CmRejectError():
                found["status"] = argument.status.title
    found |= {name: record.__dict__[name] for name in NAMES if name in record.__dict__}
    return {name: found[name] for name in NAMES if name in found}


def _of_queue(queue: Queue) -> dict[str, object]:
    found: dict[str, object] = {"peer": where(queue.peer), "qid": queue.qid}
    controller, asked = queue.controller, queue.asked
    if controller is None and asked is not None:
        found |= {"hostnqn": asked.hostnqn, "subnqn": asked.subnqn}
        if queue.qid:
            found["cntlid"] = asked.cntlid
    if controller is not None:
        found["hostnqn"] = controller.hostnqn
        found["subnqn"] = controller.subsystem.nqn
        found["cntlid"] = controller.cntlid
    return found
