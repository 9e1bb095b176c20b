# SPDX-License-Identifier: BSD-3-Clause
"""SPDK's framework: start, reactors, scheduler.  A target that answers has started."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import Framework, ReactorThread, Scheduler
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

START_INIT = "framework_start_init"
TICK_RATE = 1_000_000_000
_ANSWERED = 0.05
"""Seconds until the signal is sent, so that the client gets the response first."""


class SetScheduler(Params):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    name: Literal["static"]
    """A queue pair keeps its reactor."""
    period: int | None = None


class Kill(Params):
    sig_name: str
    """SIGTERM or SIGINT: the target ends; SIGHUP: it reads its configuration again."""


@method(START_INIT, Params, None)
def start_init(administration: Administration, params: Params) -> bool:
    """Return True: a target that answers has started."""
    return True


@method("framework_wait_init", Params, "wait_init")
def wait_init(administration: Administration, params: Params) -> bool:
    """Return True once the target has started."""
    return True  # the socket answers from then on


@method("framework_get_reactors", Params, "reactors")
def get_reactors(administration: Administration, params: Params) -> Framework:
    """Return the reactors."""
    return {
        "tick_rate": TICK_RATE,
        "pid": os.getpid(),
        "reactors": [
            {
                "lcore": cpu if cpu >= 0 else thread["id"] - 1,
                "busy": 0,
                "idle": 0,
                "in_interrupt": True,
                "lw_threads": [thread],
            }
            for cpu, thread in zip(_cpus(administration), threads(administration), strict=True)
        ],
    }


def _cpus(administration: Administration) -> list[int]:
    """Return the processor of each reactor, -1 if it is not bound to one."""
    config = administration.server.config.target
    return [-1] * config.reactors if config.cpus is None else list(config.cpus)


def threads(administration: Administration) -> list[ReactorThread]:
    """Return the thread of each reactor."""
    return [
        {
            "name": f"reactor_{number}",
            "id": number + 1,
            "cpumask": f"{1 << cpu:x}" if cpu >= 0 else _every_cpu(),
            "elapsed": 0,
        }
        for number, cpu in enumerate(_cpus(administration))
    ]


def _every_cpu() -> str:
    return f"{sum(1 << cpu for cpu in os.sched_getaffinity(0)):x}"


@method("framework_get_scheduler", Params, "scheduler")
def get_scheduler(administration: Administration, params: Params) -> Scheduler:
    """Return the scheduler."""
    return {"scheduler_name": "static", "scheduler_period": 0}


@method("framework_set_scheduler", SetScheduler, None)
def set_scheduler(administration: Administration, params: SetScheduler) -> bool:
    """Return True for the static scheduler; there is no other."""
    return True


@method("nvmf_get_targets", Params, None)
def get_targets(administration: Administration, params: Params) -> list[str]:
    """Return SPDK's default name of a target: there is one."""
    return ["nvmf_tgt"]


@method("spdk_kill_instance", Kill, None, changes=True)
def kill_instance(administration: Administration, params: Kill) -> bool:
    """Send the target a signal, after the response."""
    name = params.sig_name.upper()
    known = {sig.name: sig for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    known |= {str(int(sig)): sig for sig in known.values()}
    if name not in known:
        raise RpcError(
            Code.INVALID_PARAMS, f"sig_name {name[:32]}: expected SIGTERM, SIGINT or SIGHUP"
        )
    asyncio.get_running_loop().call_later(_ANSWERED, os.kill, os.getpid(), known[name])
    return True
