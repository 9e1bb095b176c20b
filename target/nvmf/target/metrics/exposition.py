# SPDX-License-Identifier: BSD-3-Clause
"""What a scrape gets: the metrics as text, Prometheus' own (0.0.4) or OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from nvmf.target.metrics.families import FAMILIES, HISTOGRAM, HISTOGRAM_HELP, Source
from nvmf.target.metrics.latency import BOUNDS

_BOUNDS = tuple(str(bound) for bound in BOUNDS)
_OPEN_METRICS = "application/openmetrics-text"


class _Metrics(Collector):
    """A collector of one scrape."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Those that have a value."""
        histogram = HistogramMetricFamily(HISTOGRAM, HISTOGRAM_HELP, labels=("subsystem", "op"))
        for (nqn, operation), latency in self._source.sample.latencies.items():
            upto = list(accumulate(latency.counts))
            buckets = list(zip((*_BOUNDS, "+Inf"), upto, strict=True))
            histogram.add_metric((nqn, operation), buckets, latency.nanoseconds / 1e9)
        if histogram.samples:
            yield histogram
        for family in FAMILIES:
            metric = Metric(family.name, family.help, family.kind)
            name = f"{family.name}_total" if family.kind == "counter" else family.name
            for labels, value in family.points(self._source):
                metric.add_sample(name, labels, value)
            if metric.samples:
                yield metric


def render(source: Source, accept: str = "") -> tuple[bytes, str]:
    """The text and its content type, which the Accept header chooses.  For any thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(source))
    ProcessCollector(registry=registry)
    encoder, kind = choose_encoder(_OPEN_METRICS if _wants_open_metrics(accept) else "")
    return encoder(registry), kind


def _wants_open_metrics(accept: str) -> bool:
    """Only from whoever takes nothing else: it has nothing more to say here, at twice the cost."""
    kinds = {part.split(";")[0].strip().lower() for part in accept.split(",")}
    return _OPEN_METRICS in kinds and not kinds & {"text/plain", "text/*", "*/*"}
