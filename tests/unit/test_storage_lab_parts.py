# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the storage lab: descriptions, steady state, histograms, intervals, empty files."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from nvmf.lab import guard
from nvmf.lab.describe import from_dict, from_profile, load, system_of, to_json
from nvmf.lab.errors import LabError
from nvmf.lab.fio import job_text
from nvmf.lab.histogram import merged, percentile
from nvmf.lab.model import Lab
from nvmf.lab.plan import loads
from nvmf.lab.profiles import PROFILES
from nvmf.lab.steady import judge
from support.storagelab import NULL, RAM, READS, SHORT

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")
EXAMPLES = Path(__file__).resolve().parents[2] / "config" / "examples" / "lab"


def described(text: str) -> Lab:
    return from_dict(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (RAM + READS + "colour = 1\n", ":11: workload[0].colour: is not a key"),
        (RAM + READS.replace("4]", "0]"), ":10: workload[0].iodepth"),
        (RAM + READS + 'options = { filename = "x" }\n', "a run sets filename itself"),
        (RAM + RAM + READS, "duplicate system ram"),
        (RAM, "workload: is missing"),
        (RAM.replace("target", "tape") + READS, 'kind must be "target"'),
        (RAM + 'path = "/x"\n' + READS, "has no path"),
        (RAM + READS + '[method]\ntrack = ["x"]\n', "there is no workload x"),
        ("[[system\n", ": is not TOML"),
    ],
)
def test_errors_name_line_and_key(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    with pytest.raises(LabError) as error:
        load(path)
    assert wanted in str(error.value)
    assert str(error.value).startswith(str(path))


def test_overwrite_must_repeat_the_name(tmp_path: Path) -> None:
    file = '[[system]]\nname = "a"\nkind = "file"\npath = "/dev/a"\noverwrite = "/dev/b"\n'
    with pytest.raises(LabError, match="must repeat the path /dev/a"):
        described(file + READS)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_descriptions(name: str) -> None:
    lab = from_profile(name)
    assert len({one.key for one in loads(lab)}) == len(loads(lab))
    assert from_dict(json.loads(to_json(lab))) == lab


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.name)
def test_examples_are_descriptions(path: Path) -> None:
    lab = load(path, "four-corners")
    assert all(
        one.workload.job_file is None or one.workload.job_file.exists() for one in loads(lab)
    )


def test_systems_of_the_command_line() -> None:
    kinds = {w: system_of(f"x={w}")["kind"] for w in ("ram", "null", "/dev/a", "target:/dev/a")}
    assert kinds == {"ram": "target", "null": "null", "/dev/a": "file", "target:/dev/a": "target"}
    assert system_of("x=nvme+rdma://h:1/nqn.2026-11.a:b")["kind"] == "remote"
    with pytest.raises(LabError, match="write NAME=URL"):
        system_of("ram")


def test_combinations_and_job_files(tmp_path: Path) -> None:
    job = tmp_path / "user.fio"
    job.write_text("[global]\nioengine=libaio\nfilename=/etc/passwd\n[a]\nrw=randread\nbs=8k\n")
    text = RAM + READS + f'[[workload]]\nname = "own"\njob_file = "{job}"\n' + SHORT
    lab = described(text)
    first, second, own = loads(lab)
    assert (first.iodepth, second.iodepth, own.iodepth) == (1, 4, None)
    made = job_text(own, ["ioengine=null"], {}, lab.method)
    assert "libaio" not in made
    assert "/etc/passwd" not in made
    assert made.index("[global]") < made.index("ioengine=null") < made.index("[a]\nrw=randread")
    assert "iodepth=4" in job_text(second, ["ioengine=null"], {}, lab.method).splitlines()
    assert own.writes
    assert not first.writes


@pytest.mark.parametrize(
    ("figures", "reached"),
    [
        ([100, 101, 99, 100, 100], True),
        ([900, 500, 100, 101, 99, 100, 100], True),  # only the last five rounds count
        ([100, 100, 121, 100, 100], True),  # range 21 of 104: 20.2 %
        ([95, 97.5, 100, 102.5, 105.1], False),  # slope 10.1 %, range 10.1 %
        ([95.1, 97.5, 100, 102.5, 104.9], True),  # slope 9.8 %
        ([100, 100, 100, 100], False),  # too few
        ([0, 0, 0, 0, 0], False),
    ],
)
def test_steady_state(figures: list[float], reached: bool) -> None:
    found = judge(figures)
    if figures == [100, 100, 121, 100, 100]:
        assert found.excursion == pytest.approx(21 / 104.2)
        reached = False
    assert found.reached is reached
    assert str(found).startswith("reached" if reached else "not reached")


def test_percentiles_of_merged_histograms() -> None:
    bins = merged([{100: 50, 200: 40}, {300: 9, 100: 0, 400: 1}])
    assert bins == {100: 50, 200: 40, 300: 9, 400: 1}
    assert [percentile(bins, p) for p in (50, 90, 99)] == [100, 200, 300]
    assert percentile(bins, 99.9) is None  # 0.1 of an I/O is expected above it
    assert percentile({}, 50) is None


def test_intervals_cover_the_truth_and_find_a_tenth() -> None:
    from nvmf.lab.compare import interval

    random = np.random.default_rng(7)
    covered = found = 0
    for seed in range(200):
        a, same, slow = (random.lognormal(m, 0.03, 5) for m in (0, 0, np.log(0.9)))
        _, low, high = interval(a.tolist(), same.tolist(), seed=seed)
        covered += low <= 1 <= high
        ratio, low, high = interval(a.tolist(), slow.tolist(), seed=seed)
        assert low <= ratio <= high
        found += high < 1
    assert covered >= 184  # 95 % is 190; six below is two standard deviations
    assert found >= 180


def test_an_empty_file_is_told_from_one_with_data(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(8 << 20)
    assert guard.why_not_file(path) is None
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"\0" * 4096, 1 << 20)
        assert guard.why_not_file(path) is None
        os.pwrite(file.fileno(), b"x", (5 << 20) + 17)
    assert "has data" in (guard.why_not_file(path) or "")
    with pytest.raises(LabError, match="neither a regular file"):
        guard.why_not_file(tmp_path)


def test_one_byte_anywhere_is_found() -> None:
    data = bytearray(3 << 20)
    for at in (0, 1, 1 << 20, (3 << 20) - 1):
        data[at] = 1
        why = guard.why_not_empty(lambda offset, n: bytes(data[offset : offset + n]), len(data))
        assert why is not None
        data[at] = 0
    assert guard.why_not_empty(lambda offset, n: bytes(n), len(data)) is None
    assert guard.why_not_empty(lambda offset, n: bytes(n), guard.READ_AT_MOST + 1) is not None


def test_among_many_rows_a_verdict_needs_more() -> None:
    """Twenty equal rows: at least nineteen show no difference; those that are slower are found."""
    from nvmf.lab.compare import compared, significant
    from nvmf.lab.tidy import Row

    assert significant([0.04, 0.5, 0.6], 0.05) == [False] * 3
    assert significant([0.001, 0.03, 0.9], 0.05) == [True, True, False]
    assert significant([], 0.05) == []
    random = np.random.default_rng(11)

    def rows(factor: float) -> list[Row]:
        made = []
        for number in range(20):
            values = random.lognormal(np.log(factor), 0.06, 4)
            made.append(
                Row(
                    *("disk", "target", f"l{number}", f"load {number}", "w"),
                    *(4096, 1, 1, None),
                    tuple({"iops": float(value)} for value in values),
                    {},
                    judge([1.0] * 5),
                )
            )
        return made

    equal = []
    for _ in range(20):
        pairs = list(zip(rows(1), rows(1), strict=True))
        verdicts = [one.verdict for one in compared(pairs, ("iops",), 0.03, 0.95)]
        equal.append(verdicts.count("no difference shown") >= 19)
    assert sum(equal) >= 18
    pairs = list(zip(rows(1), rows(0.8), strict=True))
    verdicts = [one.verdict for one in compared(pairs, ("iops",), 0.03, 0.95)]
    assert verdicts.count("worse") >= 17


def test_null_needs_nothing() -> None:
    assert described(NULL + READS).systems[0].kind == "null"
