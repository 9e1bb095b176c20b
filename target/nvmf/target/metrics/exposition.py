# SPDX-License-Identifier: BSD-3-Clause
"""The content of a scrape: the metrics in Prometheus' text format (0.0.4), or in OpenMetrics.

OpenMetrics is produced by the library.  The text format is written here: a thousand namespaces
have ten thousand lines, for which the library takes four times as long (a test compares the bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from nvmf.target.metrics.families import (
    FAMILIES,
    HISTOGRAM,
    HISTOGRAM_HELP,
    Family,
    Labels,
    Source,
)
from nvmf.target.model.latency import BOUNDS

_BOUNDS = tuple(str(bound) for bound in BOUNDS)
_OPEN_METRICS = "application/openmetrics-text"
_number: Callable[[float], str] = floatToGoString


class _Histograms(Collector):
    """The latencies of one scrape."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Return the histograms; nothing if there is no namespace."""
        histogram = HistogramMetricFamily(HISTOGRAM, HISTOGRAM_HELP, labels=("subsystem", "op"))
        for (nqn, operation), latency in self._source.sample.latencies.items():
            upto = list(accumulate(latency.counts))
            buckets = list(zip((*_BOUNDS, "+Inf"), upto, strict=True))
            histogram.add_metric((nqn, operation), buckets, latency.nanoseconds / 1e9)
        if histogram.samples:
            yield histogram


class Families(Collector):
    """All other metrics."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Return the metrics that have a value."""
        for family in FAMILIES:
            metric = Metric(family.name, family.help, family.kind)
            for labels, value in family.points(self._source):
                metric.add_sample(_sample_name(family), labels, value)
            if metric.samples:
                yield metric


def render(source: Source, accept: str = "") -> tuple[bytes, str]:
    """Return the text and its content type, chosen by the Accept header.  For any thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Histograms(source))
    open_metrics = _wants_open_metrics(accept)
    encoder, kind = choose_encoder(_OPEN_METRICS if open_metrics else "")
    if open_metrics:
        registry.register(Families(source))
    ProcessCollector(registry=registry)
    text = encoder(registry)
    return text if open_metrics else text + plain(source), kind


def plain(source: Source) -> bytes:
    """Return the metrics in Prometheus' text format."""
    lines: list[str] = []
    for family in FAMILIES:
        name = _sample_name(family)
        found = [
            f"{name}{_labels(labels)} {_number(value) if value else '0.0'}"
            for labels, value in family.points(source)
        ]
        if found:
            help_ = family.help.replace("\\", r"\\").replace("\n", r"\n")
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {family.kind}", *found]
    return "".join(f"{line}\n" for line in lines).encode()


def _sample_name(family: Family) -> str:
    return f"{family.name}_total" if family.kind == "counter" else family.name


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)]
    return "{" + ",".join(pairs) + "}"


@lru_cache(maxsize=16384)
def _escaped(value: str) -> str:
    """Escape a value for use in double quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _wants_open_metrics(accept: str) -> bool:
    """Return whether only OpenMetrics is accepted: it has the same content at twice the cost."""
    kinds = {part.split(";")[0].strip().lower() for part in accept.split(",")}
    return _OPEN_METRICS in kinds and not kinds & {"text/plain", "text/*", "*/*"}
