# SPDX-License-Identifier: BSD-3-Clause
"""Facts of this machine, and reasons to doubt figures that were measured on it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from nvmf.lab.tables import Table

_CPU = Path("/sys/devices/system/cpu")


def facts() -> Table:
    """Return the machine's identity and present state; JSON types."""
    cpuinfo = _text(Path("/proc/cpuinfo"))
    model = re.search(r"^(?:model name|CPU part)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    governors = sorted({_text(p) for p in _CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    return {
        "host": platform.node(),
        "cpu": model[1] if model else "unknown",
        "cpus": sorted(os.sched_getaffinity(0)),
        "siblings": sorted(
            {_text(p) for p in _CPU.glob("cpu[0-9]*/topology/thread_siblings_list")}
        ),
        "nodes": {
            p.parent.name: _text(p)
            for p in sorted(Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"))
        },
        "virtual": bool(re.search(r"^flags\b.*\bhypervisor\b", cpuinfo, re.MULTILINE)),
        "governors": governors,
        "turbo_off": _text(_CPU / "intel_pstate" / "no_turbo") or None,
        "throttled": throttle_count(),
        "temperatures": {
            _text(p.parent / "type") or p.parent.name: _text(p)
            for p in sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
        },
        "memory_kib": _number(_text(Path("/proc/meminfo")), r"^MemTotal:\s*(\d+)"),
        "huge_pages": _number(_text(Path("/proc/meminfo")), r"^HugePages_Total:\s*(\d+)"),
        "kernel": platform.release(),
        "command_line": _text(Path("/proc/cmdline")),
        "system": _system(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def device_facts(path: Path) -> Table:
    """Return facts of a block device, or of the file system that a file is on; JSON types."""
    try:
        status = path.stat()
    except OSError:
        return {}
    number = status.st_rdev or status.st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    found: Table = {"device": block.name} if block.exists() else {}
    for base in (block, block.parent):  # a partition's queue is its disk's
        for name in (
            "scheduler",
            "rotational",
            "write_cache",
            "nr_requests",
            "physical_block_size",
        ):
            if text := _text(base / "queue" / name):
                found.setdefault(name, text)
        if text := _text(base / "device" / "model"):
            found.setdefault("model", text)
    return found


def sentence(found: Table) -> str:
    """Return one line about the machine."""
    count = len(found["cpus"])
    kind = "virtual processor" if found["virtual"] else "processor"
    return (
        f"{found['cpu']}, {count} {kind}{'' if count == 1 else 's'}, "
        f"{found['memory_kib'] // 1024} MiB, {found['system']}, Linux {found['kernel']}"
    )


def doubts(before: Table) -> list[str]:
    """Return reasons to doubt figures of this machine, as sentences."""
    found = []
    if before["virtual"]:
        found.append(
            "The machine is virtual: other machines on the same hardware may have slowed it down."
        )
    if before["load"] > 0.5:
        found.append(
            f"Other programs were running before the start: the load average was "
            f"{before['load']:.1f}."
        )
    slow = [name for name in before["governors"] if name not in ("", "performance")]
    if slow:
        found.append(
            f"The frequency governor is {', '.join(slow)}, not performance: the processor's "
            "frequency changes with the load."
        )
    if len(before["cpus"]) < 2:
        found.append("There is one processor: fio and a served target share it.")
    return found


def throttle_count() -> int:
    """Return how many times a processor has been slowed down because of its temperature."""
    paths = _CPU.glob("cpu[0-9]*/thermal_throttle/*_throttle_count")
    return sum(int(text) for path in paths if (text := _text(path)).isdigit())


def busy() -> dict[str, float]:
    """Return seconds of all processors since boot: busy, stolen (by a hypervisor), total."""
    words = _text(Path("/proc/stat")).split("\n", 1)[0].split()[1:9]
    ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in words]
    total = sum(ticks)
    return {"busy": total - ticks[3] - ticks[4], "stolen": ticks[7], "total": total}


def _system() -> str:
    try:
        return str(platform.freedesktop_os_release()["PRETTY_NAME"])
    except (OSError, KeyError):
        return platform.system()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(text: str, pattern: str) -> int:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1]) if match else 0
