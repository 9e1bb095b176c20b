# SPDX-License-Identifier: BSD-3-Clause
"""The results of one run of the storage lab: reports, comparisons, repairs.

All of these tests share the run, and so run in one process (support/sharing.py).
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import socket
import sqlite3
import subprocess
from pathlib import Path

import pytest

from support.storagelab import NULL, RAM, READS, SHORT, lab, rounds, write

pytestmark = pytest.mark.usefixtures("fio", "fio_engine")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, fio: Path, fio_engine: Path) -> Path:
    """A complete run of two systems in three rounds."""
    folder = tmp_path_factory.mktemp("lab")
    job = '[[workload]]\nname = "own"\njob_file = "own.fio"\n'
    (folder / "own.fio").write_text("[a]\nrw=randread\nbs=4k\n[b]\nrw=write\nbs=64k\n")
    path = write(folder, RAM, NULL, READS, job, SHORT.replace("2", "3", 1))
    done = lab("run", path, "-d", folder / "out", "--rounds", "3")
    assert done.returncode == 0, done.stderr
    assert "round 3: alone: own" in done.stderr
    return folder / "out"


def test_measurements_are_in_turns_and_complete(results: Path) -> None:
    rows = rounds(results)
    assert [row["system"] for row in rows] == ["ram", "alone"] * 9
    assert [row["round"] for row in rows] == [1] * 6 + [2] * 6 + [3] * 6
    for row in rows:
        assert row["error"] is None
        text = (results / row["fio"]).read_text()
        found = json.loads(text[text.index("{") :])  # fio's notes may come before it
        sides = [job[side] for job in found["jobs"] for side in ("read", "write")]
        assert row["ios"] == sum(side["total_ios"] for side in sides) > 0
        assert row["iops"] == pytest.approx(sum(side["iops"] for side in sides))
        assert sum(json.loads(row["bins"]).values()) == row["ios"]
        marks = [row[name] for name in ("p50_ns", "p90_ns") if row[name] is not None]
        assert marks == sorted(marks)  # p90 is left out if a loaded machine did fewer than 10 I/Os
        assert row["host_cpu_us_per_io"] >= 0
        assert (row["target_cpu_us_per_io"] is None) == (row["system"] == "alone")
    assert {row["write_iops"] > 0 for row in rows if row["workload"] == "own"} == {True}


def test_nothing_is_left_to_do(results: Path) -> None:
    before = rounds(results)
    done = lab("run", "--resume", results)
    assert done.returncode == 0, done.stderr
    assert rounds(results) == before


def test_csv(results: Path) -> None:
    done = lab("export", "csv", results)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [float(row["iops"]) for row in rows] == [row["iops"] for row in rounds(results)]


def test_report_is_one_file_without_network(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = lab("report", results, "--to", tmp_path, "--pictures")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert 'id="heat-ram-reads' in page
    assert len(page) < 10_000_000
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:|//)|@import|url\((?!#)", page)
    for picture in re.findall(r'<figure id="([^"]+)"', page):
        assert (tmp_path / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{picture}.svg").read_text().startswith("<svg")
    assert page.count("<svg") == page.count("<figure") == len(list(tmp_path.glob("*.svg"))) > 5
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert "not reached: too few rounds" in page
    assert identifiers
    assert "| ram | reads, 4 KiB, depth 4 |" in (tmp_path / "report.md").read_text()


LOOK = """
const colour = (element, name) => getComputedStyle(element)[name].match(/[0-9.]+/g).slice(0, 3);
const label = document.querySelector('svg text');
document.title = JSON.stringify({
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  wide: document.documentElement.scrollWidth, window: innerWidth,
  pictures: [...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().height),
  paper: colour(document.body, 'backgroundColor'), ink: colour(document.body, 'color'),
  label: colour(label, 'fill'),
});
"""


def brightness(colour: list[str]) -> float:
    red, green, blue = map(float, colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, with a script that puts the page's text as a browser shows it in its title."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("page")
    assert lab("report", results, "--to", folder).returncode == 0
    page = folder / "report.html"
    page.write_text(page.read_text().replace("</body>", f"<script>{LOOK}</script></body>"))
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [520, 1200])
def test_report_fits_a_browser(page: Path, tmp_path: Path, width: int, dark: bool) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
            *(f"--window-size={width},900", f"--user-data-dir={tmp_path}/profile"),
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *("--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title, done.stderr
    seen = json.loads(html.unescape(title[1]))
    assert seen["dark"] == dark
    assert seen["wide"] <= seen["window"]  # no part is wider than the window
    assert len(seen["pictures"]) > 5
    assert all(height > 50 for height in seen["pictures"])
    assert (brightness(seen["paper"]) < 60) == dark
    for ink in ("ink", "label"):  # the text of the page, and that of the pictures
        assert abs(brightness(seen[ink]) - brightness(seen["paper"])) > 120


def test_a_run_does_not_differ_from_itself(results: Path) -> None:
    pytest.importorskip("scipy")
    done = lab("compare", results, results, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (ratios,) = found["runs"].values()
    assert {one["verdict"] for one in ratios if one["metric"] == "iops"} == {"no difference shown"}
    assert {one["verdict"] for one in ratios} <= {"no difference shown", "too few rounds"}
    assert {round(one["ratio"], 9) for one in ratios} == {1.0}
    assert len(ratios) == 6  # three loads of the target; fio alone is not compared


def test_a_slower_run_is_worse(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    for name, change in (("a", "10000 + round"), ("b", "9000 + round")):
        shutil.copytree(results, tmp_path / name)
        with sqlite3.connect(tmp_path / name / "results.sqlite") as database:
            database.execute(f"UPDATE round SET iops = {change}")
        database.close()
    done = lab("compare", "--baseline", tmp_path / "a", tmp_path / "b", "--metric", "iops")
    assert done.returncode == 3, done.stderr
    assert "worse: 3 of 3 rows" in done.stdout
    assert lab("compare", tmp_path / "b", tmp_path / "a", "--metric", "iops").returncode == 0


def test_systems_of_a_run_are_compared_with_its_first(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    assert "has no second system" in lab("compare", results).stderr
    folder = tmp_path / "two"
    shutil.copytree(results, folder)
    text = (folder / "description.json").read_text()
    (folder / "description.json").write_text(text.replace('"null"', '"file"'))
    with sqlite3.connect(folder / "results.sqlite") as database:
        database.execute("UPDATE round SET iops = CASE system WHEN 'ram' THEN 10 ELSE 9 END")
    database.close()
    done = lab("compare", folder, "--metric", "iops")
    assert done.returncode == 3, done.stderr
    assert "A: ram\nB: alone\n" in done.stdout
    assert "worse: 3 of 3 rows" in done.stdout


def test_fio_alone_is_not_compared(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    folder = tmp_path / "alone"
    shutil.copytree(results, folder)
    with sqlite3.connect(folder / "results.sqlite") as database:
        database.execute("DELETE FROM round WHERE system != 'alone'")
    database.close()
    done = lab("compare", folder, folder)
    assert done.returncode == 1
    assert "(fio alone, a system of kind null, is not compared)" in done.stderr


def test_a_run_that_measured_nothing_leaves_no_directory(tmp_path: Path) -> None:
    """So that the corrected command may use it; the reason is printed once."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"nvme+rdma://127.0.0.1:{closed.getsockname()[1]}/nqn.2026-01.example:none"
        folder = tmp_path / "run"
        done = lab("run", "--profile", "quick", "--system", f"a={url}", "-d", folder)
    assert done.returncode == 1
    assert done.stderr.count("system a was not measured further") == 1
    assert not folder.exists()


def test_damaged_directories(results: Path, tmp_path: Path) -> None:
    assert "is not a results directory" in lab("report", tmp_path).stderr
    folder = tmp_path / "damaged"
    shutil.copytree(results, folder)
    (folder / "results.sqlite").write_bytes(b"x" * 8192)
    for command in (("report", folder), ("export", "csv", folder)):
        done = lab(*command)
        assert done.returncode == 1
        assert "is damaged" in done.stderr
        assert "Traceback" not in done.stderr
    newer = tmp_path / "newer"
    shutil.copytree(results, newer)
    with sqlite3.connect(newer / "results.sqlite") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert "has format 99" in lab("report", newer).stderr
    assert "is not empty" in lab("run", "--profile", "quick", "-d", newer).stderr


def test_a_damaged_run_continues_from_the_results_of_fio(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(results, folder)
    before = rounds(folder)
    database = folder / "results.sqlite"
    database.write_bytes(database.read_bytes()[:8192] + b"x" * 8192)
    lost = folder / before[1]["fio"]
    lost.write_text(lost.read_text()[:100])
    done = lab("run", "--resume", folder)
    assert done.returncode == 0, done.stderr
    assert "is damaged" in done.stderr
    assert "17 measurements were read from fio's own results" in done.stderr
    assert (folder / "results.sqlite.damaged-1").read_bytes().endswith(b"x" * 8192)
    after = {row["fio"]: row for row in rounds(folder)}
    assert len(after) == 18
    for row in (row for row in before if row is not before[1]):
        for column in ("system", "load", "round", "title", "iops", "mean_ns", "p50_ns", "bins"):
            assert after[row["fio"]][column] == row[column]
    assert after[before[1]["fio"]]["error"] is None
    assert "was made again from fio's own results" in lab("report", folder, "-o", "json").stdout
