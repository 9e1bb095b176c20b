# SPDX-License-Identifier: BSD-3-Clause
"""Each place that makes data persistent has a proof that fails without it.

A new instruction, system call or command of this kind, and a step of a mirror or a log with a new
name, must be listed here, with the test that misses it if it is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from nvmf.replication.machine import Effect, Kind, Machine
from support.logproof import STEPS as LOG_STEPS
from support.logproof import LogProof
from support.mirrorproof import STEPS as MIRROR_STEPS
from support.mirrorproof import MirrorProof
from support.powermodel import Rack

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "nvmeof" / "nvmf" / "engine" / "c"
REPLICATION = ROOT / "nvmeof" / "nvmf" / "replication"
PMEM = ROOT / "nvmeof" / "nvmf" / "pmem"

LINES = "tests/c/lines_power_test.c"
MEMORY = "tests/c/memory_power_test.c"
OPENING = "tests/c/store_opening_power_test.c"
REDO = "tests/c/store_power_test.c"
SYNC = "tests/c/store_sync_test.c"
PERSISTS = "tests/unit/test_replication_persists.py"
PROOF = "tests/unit/test_replication_proof.py"

CALLS = {
    "iwarp/mr.c": {"lines_write_back": (1, MEMORY)},
    "memory/client.c": {"verbs_set_flush": (2, MEMORY)},
    "memory/persist.c": {"lines_write_back": (1, MEMORY), "store_memory_flush": (1, MEMORY)},
    "memory/serve.c": {"memory_persist": (1, MEMORY)},
    "roce/respond_memory.c": {"lines_write_back": (1, MEMORY)},
    "store/call.c": {"RWF_DSYNC": (1, SYNC), "STORE_CALL_SYNC": (1, SYNC)},
    "store/memory.c": {
        "store_persist_copy": (1, REDO),
        "store_memory_flush": (1, SYNC),
        "store_flush": (1, SYNC),
        "fdatasync": (1, SYNC),
    },
    "store/persist.c": {"_mm_clflush": (1, LINES), "_mm_sfence": (2, LINES)},
    "store/redo.c": {
        "store_persist_copy": (4, f"{REDO}, {OPENING}"),
        "store_persist_word": (5, f"{REDO}, {OPENING}"),
    },
    "store/uring.c": {"io_uring_prep_fsync": (1, SYNC), "STORE_CALL_SYNC": (1, SYNC)},
    "store/worker.c": {"fdatasync": (1, SYNC), "STORE_CALL_SYNC": (1, SYNC)},
    "util/lines.c": {
        "_mm_clwb": (1, LINES),
        "_mm_clflushopt": (1, LINES),
        "_mm_clflush": (1, LINES),
        "_mm_sfence": (1, LINES),
    },
}
"""By file of the engine: how often it is used, and the proof."""

COMMANDS = {
    "block.py": {"fua=True": (1, PERSISTS), ".flush()": (1, PERSISTS)},
    "filereplica.py": {"os.fsync": (1, PERSISTS), "os.fdatasync": (1, PERSISTS)},
    "legs.py": {"Kind.FLUSH": (2, PROOF)},
    "replica.py": {
        "fua=True": (2, PERSISTS),
        ", True, then)": (1, PERSISTS),
        ".flush()": (1, PERSISTS),
    },
    "shell.py": {"Kind.FLUSH": (1, PERSISTS), ".flush()": (1, PERSISTS)},
}

CREATION = {"create", "header"}
"""Steps of the creation of a mirror and of a log: nothing is acknowledged before it has ended."""

_COMMENT = re.compile(r'/\*.*?\*/|^\s*#[^\n]*|"(?:\\.|[^"\\])*"', re.S | re.M)
_DECLARED = re.compile(r"^[a-z].*\w\([^;]*$", re.M)
_CALL = re.compile(
    r"(?<!\w)(?:_mm_clwb|_mm_clflushopt|_mm_clflush|_mm_[slm]fence|__builtin_ia32_\w*(?:fence|flush|wb)"
    r"|msync|fsync|fdatasync|sync_file_range|io_uring_prep_fsync|RWF_DSYNC|RWF_SYNC|O_DSYNC|O_SYNC"
    r"|lines_write_back|store_persist_copy|store_persist_word|memory_persist|store_memory_flush"
    r"|store_flush|verbs_set_flush|ibv_wr_flush|STORE_CALL_SYNC)(?!\w)"
)
_COMMAND = re.compile(
    r"os\.fdatasync|os\.fsync|fua=True|, True, then\)|replica\.flush\(\)|_open\(\)\.flush\(\)"
    r"|namespace\.flush\(\)|Kind\.FLUSH(?! if| else)"
)


def used(text: str) -> Counter[str]:
    """Return what a file of the engine uses, without its definitions."""
    return Counter(_CALL.findall(_DECLARED.sub("", _COMMENT.sub("", text))))


def test_the_engine() -> None:
    found = {}
    for path in sorted(ENGINE.rglob("*.c")):
        if counts := used(path.read_text()):
            found[str(path.relative_to(ENGINE))] = dict(counts)
    listed = {
        path: {name: count for name, (count, _) in uses.items()} for path, uses in CALLS.items()
    }
    assert found == listed


def test_replicas_and_methods() -> None:
    found: dict[str, dict[str, int]] = {}
    for path in sorted([*REPLICATION.glob("*.py"), *PMEM.glob("*.py")]):
        counts = Counter(_COMMAND.findall(path.read_text()))
        names = Counter[str]()
        for name, count in counts.items():
            names[".flush()" if name.endswith(".flush()") else name] += count
        if names:
            found[path.name] = dict(names)
    listed = {
        path: {name: count for name, (count, _) in uses.items()} for path, uses in COMMANDS.items()
    }
    assert found == listed


@pytest.mark.parametrize(("proof", "steps"), [(MirrorProof, MIRROR_STEPS), (LogProof, LOG_STEPS)])
def test_steps_of_the_cores(
    proof: type[MirrorProof | LogProof],
    steps: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proof leaves out the persistence of each step of a core that it has seen."""
    seen = set()
    enter = Rack.enter

    def noted(rack: Rack, writer: int, core: Machine, effect: Effect) -> None:
        if effect.kind in (Kind.WRITE, Kind.FLUSH):
            seen.add(effect.why)
        enter(rack, writer, core, effect)

    monkeypatch.setattr(Rack, "enter", noted)
    for seed in range(40):
        proof(seed).run()
    assert seen - CREATION == {unpersisted for unpersisted, _ in steps if unpersisted}


def test_the_proofs_exist() -> None:
    for uses in [*CALLS.values(), *COMMANDS.values()]:
        for _, proofs in uses.values():
            for proof in proofs.split(", "):
                assert (ROOT / proof).is_file(), proof
