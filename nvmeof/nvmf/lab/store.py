# SPDX-License-Identifier: BSD-3-Clause
"""A results directory: one run, with everything that is needed to draw and compare it again.

description.json   the description, all paths absolute
machine.json       facts of the machine, versions
results.sqlite     tables round, series, latency, sample, event (faults on purpose), doubt, meta
fio/               job files and fio's own JSON, untouched
system-NAME.log    messages of a system
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nvmf.lab.errors import DamagedError, LabError
from nvmf.lab.histogram import Bins
from nvmf.lab.tables import Table, View
from nvmf.lab.timeline import Event

FORMAT = 3
"""Version of the directory's layout and of the tables."""
TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE round (
    id INTEGER PRIMARY KEY,
    system TEXT NOT NULL, load TEXT NOT NULL, round INTEGER NOT NULL,
    workload TEXT NOT NULL, title TEXT NOT NULL,
    rw TEXT, bs INTEGER, iodepth INTEGER, numjobs INTEGER, rwmixread INTEGER,
    started REAL NOT NULL, seconds REAL NOT NULL,
    error TEXT,
    iops REAL, bytes_per_second REAL, mean_ns REAL,
    p50_ns REAL, p90_ns REAL, p99_ns REAL, p99_9_ns REAL, p99_99_ns REAL, p99_999_ns REAL,
    read_iops REAL, write_iops REAL, ios INTEGER,
    host_cpu_us_per_io REAL, target_cpu_us_per_io REAL, context_switches_per_io REAL,
    target_context_switches_per_io REAL, target_counters TEXT,
    machine_busy REAL, stolen REAL,
    bins TEXT, fio TEXT,
    UNIQUE (system, load, round));
CREATE TABLE series (
    round_id INTEGER NOT NULL REFERENCES round (id) ON DELETE CASCADE,
    ms INTEGER NOT NULL, iops REAL, mean_ns REAL);
CREATE INDEX series_round ON series (round_id);
CREATE TABLE latency (
    round_id INTEGER NOT NULL REFERENCES round (id) ON DELETE CASCADE,
    ms INTEGER NOT NULL, bins TEXT NOT NULL);
CREATE INDEX latency_round ON latency (round_id);
CREATE TABLE sample (
    round_id INTEGER NOT NULL REFERENCES round (id) ON DELETE CASCADE,
    ms INTEGER NOT NULL, machine_busy REAL, target_cpus REAL,
    target_context_switches REAL);
CREATE INDEX sample_round ON sample (round_id);
CREATE TABLE event (
    round_id INTEGER NOT NULL REFERENCES round (id) ON DELETE CASCADE,
    begin_ms INTEGER NOT NULL, end_ms INTEGER, said TEXT NOT NULL, hits INTEGER NOT NULL);
CREATE INDEX event_round ON event (round_id);
CREATE TABLE doubt (said TEXT PRIMARY KEY);
"""


class Results:
    """An open results directory; a context manager.

    Raises:
        LabError: The directory is not one of results, damaged, of a different version, or full.
    """

    def __init__(self, folder: Path, database: sqlite3.Connection, lock: int | None) -> None:
        self.folder = folder
        self._database = database
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, description: str, machine: View) -> Results:
        """Make a directory, which must not exist or be empty."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise LabError(
                    f"{folder} is not empty: choose a different directory, or continue an "
                    f"interrupted run with --resume {folder}"
                )
            (folder / "fio").mkdir()
            (folder / "description.json").write_text(description + "\n")
            (folder / "machine.json").write_text(json.dumps(machine, indent=2) + "\n")
            lock = _locked(folder)
        except OSError as error:
            raise LabError(f"cannot make {folder}: {error.strerror}") from None
        return cls._made(folder, lock)

    @classmethod
    def _made(cls, folder: Path, lock: int) -> Results:
        """Make the database."""
        results = cls(folder, _connected(folder, write=True), lock)
        with results._changing() as database:
            database.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
        return results

    @classmethod
    def replace(cls, folder: Path) -> Results:
        """Put an empty database in the place of a damaged one, which is kept."""
        lock = _locked(folder)
        number = 1
        while (kept := folder / f"results.sqlite.damaged-{number}").exists():
            number += 1
        (folder / "results.sqlite").rename(kept)
        (folder / "results.sqlite-journal").unlink(missing_ok=True)
        return cls._made(folder, lock)

    @classmethod
    def open(cls, folder: Path, *, write: bool = False) -> Results:
        """Open an existing directory."""
        if not (folder / "results.sqlite").is_file():
            raise LabError(f"{folder} is not a results directory: it has no results.sqlite")
        lock = _locked(folder) if write else None
        try:
            return cls(folder, _checked(folder, write=write), lock)
        except BaseException:
            if lock is not None:
                os.close(lock)
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        if self._lock is not None:
            os.close(self._lock)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with _reported(self.folder), self._database:
            yield self._database

    def description(self) -> Table:
        """Return the description of the run."""
        return self._json("description.json")

    def machine(self) -> Table:
        """Return the facts of the machine."""
        return self._json("machine.json")

    def _json(self, name: str) -> Table:
        path = self.folder / name
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise LabError(f"{path} is damaged or missing: {error}") from None
        if not isinstance(found, dict):
            raise LabError(f"{path} is damaged: it is not a JSON object")
        return found

    def rows(self, query: str, *values: object) -> list[Table]:
        """Return the rows of a query."""
        with _reported(self.folder):
            found = self._database.execute(query, values)
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def meta(self, key: str) -> str | None:
        """Return a value that set_meta() stored."""
        found = self.rows("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0]["value"]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Store a value; it survives a crash afterwards."""
        with self._changing() as database:
            database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def discard_unused(self) -> None:
        """Remove what create() made, if nothing was measured and no program has left a message."""
        if self.rows("SELECT id FROM round LIMIT 1"):
            return
        made = [self.folder / name for name in ("description.json", "machine.json")]
        made += self.folder.glob("results.sqlite*")
        empty = [one for one in self.folder.glob("system-*.log") if not one.stat().st_size]
        if {*self.folder.iterdir()} - {*made, *empty, self.folder / "fio"}:
            return
        with suppress(OSError):  # fio has left something
            (self.folder / "fio").rmdir()
            for one in (*made, *empty):
                one.unlink()
            self.folder.rmdir()

    def add_doubts(self, said: Iterable[str]) -> None:
        """Add sentences about what makes the figures doubtful."""
        with self._changing() as database:
            database.executemany("INSERT OR IGNORE INTO doubt VALUES (?)", [(s,) for s in said])

    def doubts(self) -> list[str]:
        """Return these sentences."""
        return [str(row["said"]) for row in self.rows("SELECT said FROM doubt ORDER BY rowid")]

    def add_round(
        self,
        row: View,
        series: Iterable[tuple[int, float, float | None]] = (),
        samples: Iterable[tuple[int, float, float | None, float | None]] = (),
        events: Iterable[Event] = (),
        latencies: Iterable[tuple[int, Bins]] = (),
    ) -> None:
        """Add a measurement, or replace a failed one; all or nothing, also after a crash."""
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        with self._changing() as database:
            database.execute(
                "DELETE FROM round WHERE system = ? AND load = ? AND round = ?",
                (row["system"], row["load"], row["round"]),
            )
            made = database.execute(
                f"INSERT INTO round ({names}) VALUES ({marks})", tuple(row.values())
            )
            database.executemany(
                "INSERT INTO series VALUES (?, ?, ?, ?)", ((made.lastrowid, *s) for s in series)
            )
            database.executemany(
                "INSERT INTO latency VALUES (?, ?, ?)",
                ((made.lastrowid, ms, json.dumps(bins)) for ms, bins in latencies),
            )
            database.executemany(
                "INSERT INTO sample VALUES (?, ?, ?, ?, ?)", ((made.lastrowid, *s) for s in samples)
            )
            database.executemany(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?)",
                ((made.lastrowid, e.begin_ms, e.end_ms, e.said, e.hits) for e in events),
            )


def _connected(folder: Path, *, write: bool) -> sqlite3.Connection:
    with _reported(folder):
        mode = "rwc" if write else "ro"
        uri = f"{(folder / 'results.sqlite').absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=30)
        database.execute("PRAGMA foreign_keys = ON")
        return database
    raise AssertionError


def _checked(folder: Path, *, write: bool) -> sqlite3.Connection:
    """Return the database of a directory, after a look at its version and its state."""
    database = _connected(folder, write=write)
    try:
        with _reported(folder):
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version == FORMAT:
                for table in ("round", "meta", "doubt", "series", "latency", "sample", "event"):
                    database.execute(f"SELECT 1 FROM {table} LIMIT 1")
                if write:
                    said = database.execute("PRAGMA quick_check(1)").fetchone()[0]
                    if said != "ok":
                        raise sqlite3.DatabaseError(said)
        if version != FORMAT:
            raise DamagedError(
                f"{folder} has format {version}, and this version of nvmeof reads format {FORMAT}. "
                f"nvmeof lab run --resume {folder} reads fio's own results again and continues"
            )
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Raise LabError instead of an error of the database."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise LabError(
                f"cannot write to {folder}: {error}. What was measured before is kept: make room, "
                f"then continue with nvmeof lab run --resume {folder}"
            ) from None
        raise DamagedError(
            f"{folder / 'results.sqlite'} is damaged: {error}. nvmeof lab run --resume {folder} "
            "reads fio's own results again and continues"
        ) from None


def _locked(folder: Path) -> int:
    """Return a descriptor that holds the lock of a directory."""
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LabError(f"a different nvmeof lab run is using {folder}: wait for its end") from None
    return lock
