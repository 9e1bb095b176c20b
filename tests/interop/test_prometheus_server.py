# SPDX-License-Identifier: BSD-3-Clause
"""A real Prometheus scrapes a target, and runs every query of the dashboard and of the rules."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from nvmf.initiator.sync import connect
from support.clientlab import free_port, url
from support.served import SUBNQN, Served, config
from wire.host import Queue

SYSTEMD = Path(__file__).parents[2] / "systemd"
DASHBOARD = SYSTEMD / "grafana" / "nvmeof-target.json"
RULES = SYSTEMD / "prometheus" / "rules.yml"
SCRAPE = SYSTEMD / "prometheus" / "scrape.yml"
HANG = 120.0
"""Seconds after which a wait counts as a hang."""
SCRAPES = 4
"""Scrapes before the queries: rate() needs two of them in its interval."""
NO_DATA = {
    # The quotient has no value for an operation that no host uses.
    "Slowest namespaces, mean": "NaN",
    "Latency": "NaN",
}
"""Panels that may have series without a value, and how Prometheus shows these."""

pytestmark = pytest.mark.usefixtures("need_product", "need_client")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server, asked over its HTTP API."""

    port: int

    def get(self, path: str, **query: str) -> Any:
        """Return the data of a response; raise URLError, ConnectionError or AssertionError."""
        address = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=HANG) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                    raise ConnectionError("Prometheus is not ready yet") from None
                raise AssertionError(f"{query}: {error.read().decode()}") from None
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found


def until(holds: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + HANG
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if holds():
                return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


MIRROR = """
[[subsystem]]
nqn = "nqn.2026-11.io.example:mirror"
allow_any_host = true
[[subsystem.namespace]]
store = "mirror"
[[subsystem.namespace.leg]]
ram = "4MiB"
[[subsystem.namespace.leg]]
path = "leg.img"
"""
"""For the rules about mirrors."""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[tuple[Served, int]]:
    """Return a target with metrics, and their port."""
    port = free_port()
    folder = tmp_path / "target"
    folder.mkdir()
    with (folder / "leg.img").open("wb") as leg:
        leg.truncate(4 << 20)
    text = config() + MIRROR + f"\n[metrics]\nenabled = true\nport = {port}\n"
    with Served(folder, text) as served:
        yield served.wait_ready(), port


@pytest.fixture
def prometheus(tmp_path: Path, target: tuple[Served, int]) -> Iterator[Prometheus]:
    """Run Prometheus with the scrape example, at the address of the target, and the rules."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    example = SCRAPE.read_text()
    assert "127.0.0.1:9421" in example
    assert "scrape_interval: 15s" in example
    example = example.replace("127.0.0.1:9421", f"127.0.0.1:{target[1]}")
    file = tmp_path / "prometheus.yml"
    file.write_text(
        example.replace("scrape_interval: 15s", "scrape_interval: 250ms\n    scrape_timeout: 250ms")
        + f"rule_files: [{json.dumps(str(RULES))}]\nglobal: {{evaluation_interval: 500ms}}\n"
    )
    made = Prometheus(free_port())
    log = tmp_path / "prometheus.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={file}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{made.port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        up = 'count_over_time(up{job="nvmeof"}[5m])'
        until(lambda: scrapes(made.query(up)) >= SCRAPES, process, log)
        yield made
    finally:
        process.terminate()
        process.wait(HANG)


def scrapes(series: list[dict[str, Any]]) -> int:
    return int(series[0]["value"][1]) if series else 0


def load(served: Served, prometheus: Prometheus, seen: Callable[[], bool]) -> None:
    """Let a host read and write until seen()."""
    deadline = time.monotonic() + HANG
    with connect(url(served.port, SUBNQN)) as controller:
        disk = controller.namespace(1)
        while not seen():
            assert time.monotonic() < deadline
            disk.write(0, bytes(4096))
            disk.read(0, 8)


def for_prometheus(query: str) -> str:
    """Return a query of the dashboard with the values that Grafana gives its variables."""
    query = query.replace("$__rate_interval", "1m")
    return re.sub(r"\$(instance|subsystem)", ".*", query)


def queries() -> list[tuple[str, str]]:
    """Return title and expression of each query of the dashboard, variables included."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [
        (str(panel["title"]), str(target["expr"]))
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    assert len(found) == DASHBOARD.read_text().count('"expr":')  # also of panels within panels
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            inner = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert inner is not None
            found.append((variable["name"], f"count by ({inner[2]}) ({inner[1]})"))
    return found


@pytest.mark.feature("prometheus")
def test_every_query_has_data(target: tuple[Served, int], prometheus: Prometheus) -> None:
    """After a host has read and written, each query of each panel returns a series."""

    def counted() -> bool:
        # The counters of a host start when it connects, and rate() needs two scrapes of them.
        names = ("nvmeof_namespace_commands_total", "nvmeof_host_commands_total")
        found = [prometheus.query(f"sum(rate({name}[1m]))") for name in names]
        return all(series and float(series[0]["value"][1]) > 0 for series in found)

    load(target[0], prometheus, counted)
    assert queries()
    for title, expression in queries():
        series = prometheus.query(for_prometheus(expression))
        assert series, f"{title}: no data for {expression}"
        values = [float(one["value"][1]) for one in series]
        assert not all(map(math.isnan, values)), f"{title}: no value for {expression}"
        if title not in NO_DATA:
            assert not any(map(math.isnan, values)), f"{title}: NaN in {series}"


@pytest.mark.feature("prometheus")
def test_every_rule_is_evaluated(target: tuple[Served, int], prometheus: Prometheus) -> None:
    """Each rule's expression has data on its left side, and no rule fires on a sound target.

    A malformed capsule makes one fire; the end of the target makes a second one pending.
    """
    served, _ = target
    # A mirror is degraded until its legs have been made equal.
    rules = wait_rules(
        prometheus,
        lambda rules: all(rule["health"] == "ok" and rule["state"] == "inactive" for rule in rules),
    )
    for rule in rules:
        left, _, _ = re.split(r" (==|>) ", rule["query"], maxsplit=1)
        assert prometheus.query(left), f"{rule['name']}: no data for {left}"
    # From a peer that has not sent a Connect, whose counters no host has.
    with contextlib.closing(Queue.open(served.address, 0, 32)) as queue:
        queue.submit(b"not a capsule")
        wait_rules(prometheus, lambda rules: states(rules, "NvmeofMalformedCapsules") == {"firing"})
    served.process.terminate()
    wait_rules(prometheus, lambda rules: "inactive" not in states(rules, "NvmeofTargetDown"))


def states(rules: list[dict[str, Any]], name: str) -> set[str]:
    return {rule["state"] for rule in rules if rule["name"] == name}


def wait_rules(
    prometheus: Prometheus, holds: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Wait until the rules hold; return them."""
    deadline = time.monotonic() + HANG
    while True:
        (group,) = prometheus.get("/api/v1/rules")["groups"]
        rules: list[dict[str, Any]] = group["rules"]
        if holds(rules):
            return rules
        assert time.monotonic() < deadline, rules
        time.sleep(0.1)
