# SPDX-License-Identifier: BSD-3-Clause
"""Ready profiles: workloads and a method; systems come from the description or the command."""

from __future__ import annotations

from typing import NamedTuple

from nvmf.lab.tables import Table

_SWEEP = [1, 2, 4, 8, 16, 32, 64, 128]
_MIX = [100, 95, 65, 50, 35, 5, 0]
_SNIA = {"runtime": 60, "until_steady": True, "max_rounds": 25, "purge": True, "fill": 2}
_CORNERS = [
    {"name": "rand-read", "rw": "randread", "bs": "4k", "iodepth": 32},
    {"name": "rand-write", "rw": "randwrite", "bs": "4k", "iodepth": 32},
    {"name": "seq-read", "rw": "read", "bs": "128k", "iodepth": 8},
    {"name": "seq-write", "rw": "write", "bs": "128k", "iodepth": 8},
]


class Profile(NamedTuple):
    """A profile, with the keys of a description."""

    summary: str
    workloads: list[Table]
    method: Table


PROFILES: dict[str, Profile] = {
    "quick": Profile(
        "two minutes: random reads and writes by depth, sequential ones by block size",
        [
            {"name": "rand-read", "rw": "randread", "bs": "4k", "iodepth": [1, 8, 32]},
            {"name": "rand-write", "rw": "randwrite", "bs": "4k", "iodepth": [1, 32]},
            {"name": "seq-read", "rw": "read", "bs": ["16k", "128k"], "iodepth": 8},
            {"name": "seq-write", "rw": "write", "bs": "128k", "iodepth": 8},
        ],
        {"runtime": 1, "rounds": 5, "size": "256MiB"},
    ),
    "four-corners": Profile(
        "random and sequential, read and write",
        _CORNERS,
        {"runtime": 30, "ramp": 5, "rounds": 5},
    ),
    "snia-iops": Profile(
        "block sizes and mixes of random I/O until steady state, after SNIA's IOPS test",
        [
            {
                "name": "iops",
                "rw": "randrw",
                "bs": ["4k", "8k", "16k", "32k", "64k", "128k", "1024k"],
                "iodepth": 32,
                "rwmixread": _MIX[:-1],
            },
            {
                "name": "iops-write",
                "rw": "randwrite",
                "bs": ["8k", "16k", "32k", "64k", "128k", "1024k"],
                "iodepth": 32,
            },
            {"name": "iops-write-4k", "rw": "randwrite", "bs": "4k", "iodepth": 32},
        ],
        {**_SNIA, "steady": "iops", "track": ["iops-write-4k"]},
    ),
    "snia-throughput": Profile(
        "sequential reads and writes until steady state, after SNIA's throughput test",
        [
            {"name": "read", "rw": "read", "bs": ["128k", "1024k"], "iodepth": 32},
            {"name": "write", "rw": "write", "bs": ["128k", "1024k"], "iodepth": 32},
        ],
        {**_SNIA, "steady": "throughput", "track": ["write"]},
    ),
    "snia-latency": Profile(
        "one I/O at a time until steady state, after SNIA's latency test",
        [
            {"name": "read", "rw": "randread", "bs": ["4k", "8k"]},
            {"name": "mixed", "rw": "randrw", "bs": ["4k", "8k"], "rwmixread": 65},
            {"name": "write-8k", "rw": "randwrite", "bs": "8k"},
            {"name": "write-4k", "rw": "randwrite", "bs": "4k"},
        ],
        {**_SNIA, "steady": "latency", "track": ["write-4k"]},
    ),
    "mixed": Profile(
        "70 % reads, 30 % writes, by block size and depth",
        [
            {
                "name": "mixed",
                "rw": "randrw",
                "bs": ["4k", "16k", "64k"],
                "iodepth": [1, 8, 32],
                "rwmixread": 70,
            }
        ],
        {"runtime": 30, "ramp": 5, "rounds": 5},
    ),
    "latency-under-load": Profile(
        "latency of 4 KiB I/O while the depth grows",
        [
            {"name": "read", "rw": "randread", "bs": "4k", "iodepth": _SWEEP},
            {"name": "mixed", "rw": "randrw", "bs": "4k", "iodepth": _SWEEP, "rwmixread": 70},
        ],
        {"runtime": 20, "ramp": 2, "rounds": 5},
    ),
    "scaling": Profile(
        "1 to 16 hosts, each with a queue, at two depths",
        [
            {
                "name": "read",
                "rw": "randread",
                "bs": "4k",
                "iodepth": [8, 32],
                "numjobs": [1, 2, 4, 8, 16],
            }
        ],
        {"runtime": 15, "ramp": 2, "rounds": 5},
    ),
    "endurance": Profile(
        "two hours of mixed I/O, to find drift and outliers",
        [{"name": "mixed", "rw": "randrw", "bs": "4k", "iodepth": 32, "rwmixread": 70}],
        {"runtime": 60, "rounds": 120, "series_ms": 1000},
    ),
}

DEFAULT_SYSTEMS: list[Table] = [
    {"name": "ours-ram", "kind": "target", "store": "ram", "size": "256MiB"},
    {"name": "fio-alone", "kind": "null"},
]
"""Systems if a profile is run without a description."""
