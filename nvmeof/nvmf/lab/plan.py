# SPDX-License-Identifier: BSD-3-Clause
"""The loads of a description: each combination of the lists of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from nvmf.config.units import format_size
from nvmf.lab.model import Lab, WorkloadConfig


@dataclass(frozen=True)
class Load:
    """A load that fio runs on each system."""

    key: str
    """Identifies the load in a results directory, and between runs."""
    workload: WorkloadConfig
    bs: int | None
    """Bytes of an I/O; None for a job file or a trace."""
    iodepth: int | None
    numjobs: int | None
    rwmixread: int | None

    @property
    def title(self) -> str:
        """A short description for people."""
        words = [self.workload.name]
        if self.bs is not None:
            words.append(format_size(self.bs))
        if self.iodepth is not None:
            words.append(f"depth {self.iodepth}")
        if self.rwmixread is not None:
            words.append(f"{self.rwmixread} % reads")
        if self.numjobs not in (None, 1):
            words.append(f"{self.numjobs} jobs")
        return ", ".join(words)

    @property
    def writes(self) -> bool:
        """Whether it changes or may change data."""
        return self.workload.writes and self.rwmixread != 100


def loads(lab: Lab) -> list[Load]:
    """Return the loads, in the order of the description."""
    found = []
    for one in lab.workloads:
        if one.job_file is not None:
            found.append(Load(one.name, one, None, None, None, None))
            continue
        if one.trace is not None:
            found += [
                Load(f"{one.name}/iodepth={depth}", one, None, depth, None, None)
                for depth in one.iodepth
            ]
            continue
        mixes = one.rwmixread or (None,)
        for bs, mix, jobs, depth in product(one.bs, mixes, one.numjobs, one.iodepth):
            key = f"{one.name}/bs={bs}/iodepth={depth}/numjobs={jobs}"
            if mix is not None:
                key += f"/rwmixread={mix}"
            found.append(Load(key, one, bs, depth, jobs, mix))
    return found


def seconds(lab: Lab, rounds: int | None = None) -> float:
    """Return the time that the measurements take, without set-up and preconditioning."""
    one = lab.method.runtime + lab.method.ramp + 0.7  # fio's start and end
    return one * len(loads(lab)) * len(lab.systems) * (rounds or lab.method.rounds)
