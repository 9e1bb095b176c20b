# SPDX-License-Identifier: BSD-3-Clause
"""Counters: their names, the contents of a scrape, and the dashboard's queries."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text
from prometheus_client.registry import Collector

from nvmf.config import loads
from nvmf.initiator import NvmeError, connect
from nvmf.rpc.results import Latency
from nvmf.spec.cm import CmStatus
from nvmf.target import Target
from nvmf.target.io.memorytally import MemorySample
from nvmf.target.metrics.exposition import Families, plain, render
from nvmf.target.metrics.families import FAMILIES, HISTOGRAM, Facts, Source
from nvmf.target.metrics.sample import HostSample, NamespaceSample, ReactorSample, Sample, take
from nvmf.target.model.latency import LatencyKeeper
from nvmf.target.model.tally import OTHER, Events, Hosts, Totals
from nvmf.target.service.server import Server
from nvmf.target.service.starting import serve
from support import memorylab
from support.clientlab import NQN, OPTIONS, RAM, config

DASHBOARD = Path(__file__).parents[2] / "systemd" / "grafana" / "nvmeof-target.json"
A, B, C = (f"nqn.2026-11.io.example:{name}" for name in "abc")
LATENCY: Latency = {
    "read": [0, 2, 1] + [0] * 20 + [1], "write": [0] * 24,
    "read_ns": 9_000_004_000, "write_ns": 0,
}  # fmt: skip
STATS = {"commands": 5, "errors": 1, "read_bytes": 4096, "outstanding": 3}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: bytes) -> Samples:
    """Every sample of an exposition."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in plain_text(text.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


MEMORY = ("persists", "persisted_bytes", "errors", "written_bytes", "read_bytes")


def make_source() -> Source:
    """Make a source with a value for everything."""
    rare = ("errors", "media_errors", "throttled", "reservation_conflicts", "flushes")
    stats = dict.fromkeys(("reads", "writes", "read_bytes", "write_bytes", *rare), 7)
    events = Events()
    events.refused["No Resources"] = 2
    events.connects_refused["Connect Invalid Host"] = 3
    totals = Totals(commands=11)
    sample = Sample(
        seconds=0,
        reactors=[ReactorSample(totals)],
        hosts={A: HostSample(totals, queues=2), 'odd "\\\n': HostSample(totals)},
        namespaces=[NamespaceSample(NQN, 1, 1 << 20, stats, LATENCY)],
        queues=[],
        events=events,
        latencies=LatencyKeeper().totals([(NQN, LATENCY)]),
        controllers={NQN: 1},
        faults={"delay": 1},
        fault_hits={"delay": 7},
        memory=[MemorySample(NQN, 1, 2, dict.fromkeys(MEMORY, 5))],
        memory_refused={"conflict": 1},
        memory_revoked={"right": 1},
        mirrors=[
            {
                "nqn": NQN,
                "nsid": 2,
                "state": "clean",
                "quorum": 2,
                "epoch": 3,
                "legs": [],
                "losses": 0,
                "resyncs": 0,
            }
        ],
    )
    return Source(sample, Facts("1.2", 1 << 24, {"qp": 3}))


# ---- label values for hosts ----


def test_hosts_have_names_as_long_as_there_is_room() -> None:
    hosts = Hosts(2)
    assert [hosts.joined(nqn) for nqn in (A, B, C, A)] == [A, B, OTHER, A]
    hosts.ended(OTHER, STATS)
    hosts.ended(A, STATS)
    # C has no label yet: A and B are connected.
    assert hosts.joined(C) == OTHER
    hosts.ended(A, STATS)
    # A has disconnected completely: C gets its label, and its counts go to "others".
    assert hosts.joined(C) == C
    found = hosts.totals()
    assert set(found) == {B, C, OTHER}
    assert found[OTHER]["commands"] == 15
    assert found[C] == {}


def test_no_names_at_all() -> None:
    hosts = Hosts(0)
    assert hosts.joined(A) == OTHER
    assert hosts.totals() == {OTHER: {}}
    hosts.ended(OTHER, STATS)
    assert hosts.totals()[OTHER]["read_bytes"] == 4096


def test_a_host_with_the_name_of_all_others() -> None:
    """A host may have any name: no counter decreases."""
    hosts = Hosts(2)
    assert hosts.joined(OTHER) == OTHER
    hosts.ended(OTHER, STATS)
    before = hosts.totals()[OTHER]["commands"]
    assert before == STATS["commands"]
    assert hosts.joined(OTHER) == OTHER
    assert hosts.totals()[OTHER]["commands"] == before
    hosts.ended(OTHER, STATS)
    assert hosts.totals()[OTHER]["commands"] == 2 * before


# ---- the exposition ----


def by_library(collector: Collector) -> bytes:
    """Return a collector's metrics as prometheus_client writes them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


@pytest.mark.feature("prometheus")
def test_every_family_is_rendered_in_both_formats() -> None:
    source = make_source()
    text, kind = render(source)
    assert kind.startswith("text/plain; version=0.0.4")
    found = {family.name: family.type for family in plain_text(text.decode())}
    assert found.pop(HISTOGRAM) == "histogram"
    for family in FAMILIES:
        assert found[family.name] == family.kind, family.name
    assert value(parsed(text), "nvmeof_host_commands_total", host='odd "\\\n') == 11
    assert plain(source) == by_library(Families(source))
    again, kind = render(source, "application/openmetrics-text;version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    families = open_metrics(again.decode())  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {f.name for f in FAMILIES}


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        # Prometheus 2 and 3.
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
        "application/openmetrics-text; version=abc, text/plain",
        "\x00;;,=,",
    ],
)
def test_plain_text_unless_nothing_else_will_do(accept: str) -> None:
    assert render(make_source(), accept)[1].startswith("text/plain")


def test_names_follow_the_rules() -> None:
    for family in FAMILIES:
        assert re.fullmatch(r"nvmeof_[a-z_]+", family.name)
        assert not family.name.endswith("_total")
        assert family.help.endswith((".", "1."))
        assert family.kind in ("counter", "gauge", "histogram")
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_counters_that_the_engine_does_not_have_are_left_out() -> None:
    source = make_source()
    source.sample.namespaces[0] = NamespaceSample(NQN, 1, 512, {"reads": 1}, LATENCY)
    names = {name for name, _ in parsed(render(source)[0])}
    assert "nvmeof_namespace_commands_total" in names
    assert "nvmeof_namespace_throttled_total" not in names


def test_counters_exist_before_their_first_event() -> None:
    source = make_source()
    names = (
        "reads",
        "writes",
        "flushes",
        "compares",
        "verifies",
        "write_zeroes",
        "deallocates",
        "copies",
    )
    stats = dict.fromkeys((*names, "throttled", "reservation_conflicts"), 0)
    source.sample.namespaces[0] = NamespaceSample(NQN, 1, 512, stats, LATENCY)
    found = parsed(render(source)[0])
    for kind in ("write", "flush", "compare", "verify", "write_zeroes", "deallocate", "copy"):
        name = "nvmeof_namespace_commands_total"
        assert value(found, name, subsystem=NQN, nsid="1", op=kind) == 0
    for name in ("throttled", "reservation_conflicts"):
        assert value(found, f"nvmeof_namespace_{name}_total", subsystem=NQN, nsid="1") == 0
    refused = "nvmeof_connections_refused_total"
    assert {status.title: value(found, refused, status=status.title) for status in CmStatus} == {
        status.title: 2 if status == CmStatus.NO_RESOURCES else 0 for status in CmStatus
    }


def test_latency_is_a_histogram_in_seconds() -> None:
    found = parsed(render(make_source())[0])

    def bucket(le: str) -> float:
        return value(found, f"{HISTOGRAM}_bucket", subsystem=NQN, op="read", le=le)

    assert [bucket(le) for le in ("1e-06", "2e-06", "4e-06", "4.194304", "+Inf")] == [0, 2, 3, 3, 4]
    assert value(found, f"{HISTOGRAM}_count", subsystem=NQN, op="read") == 4
    assert value(found, f"{HISTOGRAM}_sum", subsystem=NQN, op="read") == 9.000004


def test_a_namespace_that_has_gone_stays_in_the_histogram() -> None:
    keeper = LatencyKeeper()
    assert keeper.totals([(A, LATENCY), (A, LATENCY)])[A, "read"].counts[1] == 4
    keeper.gone(A, LATENCY)
    assert keeper.totals([(A, LATENCY)])[A, "read"].counts[1] == 4
    many = keeper.totals((f"{B}{n}", LATENCY) for n in range(500))
    assert len(many) < 200
    assert many[OTHER, "read"].counts[1] > 2 * 400


def queries(node: Any) -> set[str]:
    """Yield every expression of a dashboard."""
    if isinstance(node, list):
        return {query for one in node for query in queries(one)}
    if not isinstance(node, dict):
        return set()
    own = {node[key] for key in ("expr", "definition") if key in node}
    return own | {query for one in node.values() for query in queries(one)}


def test_the_dashboard_asks_for_what_there_is() -> None:
    names = {name for name, _ in parsed(render(make_source())[0])}
    every = queries(json.loads(DASHBOARD.read_text()))
    asked = {name for query in every for name in re.findall(r"\b(?:nvmeof|process)_\w+", query)}
    assert len(asked) > 20
    assert asked <= names
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


# ---- a server and its hosts ----


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serve(loads(config(RAM))) as made:
        yield made


def url(server: Server, nqn: str = NQN) -> str:
    return f"nvme+rdma://127.0.0.1:{server.ports[0].address[1]}/{nqn}"


def scrape(server: Server) -> Samples:
    return parsed(render(Source(take(server), Facts("", 0, {})))[0])


@pytest.mark.feature("prometheus")
async def test_what_a_host_does_is_counted_and_stays(server: Server) -> None:
    async with connect(url(server), hostnqn=A, **OPTIONS) as controller:
        disk = controller.namespace(1)
        await disk.write(0, bytes(4096))
        await disk.read(0, 8)
        seen = scrape(server)
        assert value(seen, "nvmeof_host_queues", host=A) == 2
        assert value(seen, "nvmeof_host_controllers", host=A) == 1
        assert value(seen, "nvmeof_connections") == 2
        assert value(seen, "nvmeof_controllers", subsystem=NQN) == 1
        assert (
            value(seen, "nvmeof_namespace_bytes_total", op="read", subsystem=NQN, nsid="1") >= 4096
        )
    await server._connections.quiet.wait()
    after = scrape(server)
    assert value(after, "nvmeof_host_queues", host=A) == 0
    assert value(after, "nvmeof_connections") == 0
    assert value(after, "nvmeof_connections_accepted_total") == 2
    assert value(after, "nvmeof_controllers_created_total") == 1
    assert value(after, "nvmeof_reconnects_total") == 0
    assert value(seen, f"{HISTOGRAM}_count", subsystem=NQN, op="write") == 1
    for (name, labels), count in seen.items():
        if name.endswith("_total") and name.startswith("nvmeof_"):
            assert after[name, labels] >= count, name


@pytest.mark.feature("prometheus")
async def test_refusals_have_their_status(server: Server) -> None:
    before = scrape(server)
    for status in ("Connect Invalid Parameters", "Connect Invalid Host"):
        assert value(before, "nvmeof_connects_refused_total", status=status) == 0
    assert value(before, "nvmeof_connections_refused_total", status="No Resources") == 0
    for op in ("flush", "compare", "verify", "write_zeroes", "deallocate", "copy"):
        labels = {"subsystem": NQN, "nsid": "1", "op": op}
        assert value(before, "nvmeof_namespace_commands_total", **labels) == 0
    for _ in range(2):
        with pytest.raises(NvmeError):
            await connect(url(server, f"{NQN}x"), **OPTIONS)
    found = scrape(server)
    status = "Connect Invalid Parameters"
    assert value(found, "nvmeof_connects_refused_total", status=status) == 2


@pytest.mark.feature("prometheus")
async def test_memory_is_counted() -> None:
    """Hosts, bytes, requests, refusals and revocations; nothing is lost with a connection."""
    labels = {"subsystem": memorylab.NQN, "nsid": "1"}

    def read(target: Target, name: str, **more: str) -> float:
        return value(scrape(target._server), f"nvmeof_memory_{name}", **more)

    async with memorylab.running() as target:
        assert read(target, "refused_total", reason="conflict") == 0
        assert read(target, "revoked_total", cause="administrator") == 0
        async with await memorylab.opened(target) as memory:
            await memory.write(0, bytes(5000))
            assert len(await memory.read(0, 3000)) == 3000
            assert read(target, "connections", **labels) == 1
            assert read(target, "persists_total", **labels) == 1
            assert read(target, "persisted_bytes_total", **labels) == 5000
            assert read(target, "bytes_total", op="write", **labels) == 5000
            assert read(target, "bytes_total", op="read", **labels) == 3000
            with pytest.raises(OSError, match="is not exported"):
                await memorylab.opened(target, memorylab.OTHER)
            service = target._server.memory
            await service.revoke(lambda one: True, "revoked")
            assert read(target, "refused_total", reason="not_allowed") == 1
            assert read(target, "revoked_total", cause="administrator") == 1
        async with await memorylab.opened(target) as memory:
            await memory.write(0, bytes(10))
            changed = memorylab.CONFIG.replace("2026-01.example:host", "2026-01.example:new")
            await target._server.apply(loads(changed))
            assert read(target, "revoked_total", cause="right") == 1
        assert read(target, "connections", **labels) == 0
        assert read(target, "bytes_total", op="write", **labels) == 5010
        assert read(target, "persist_errors_total", **labels) == 0
