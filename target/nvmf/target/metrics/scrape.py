# SPDX-License-Identifier: BSD-3-Clause
"""The metrics of a server over HTTP."""

from __future__ import annotations

from functools import partial
from importlib.metadata import PackageNotFoundError, version

from nvmf.target.io.engine import Engine
from nvmf.target.metrics.exposition import render
from nvmf.target.metrics.families import Facts, Source
from nvmf.target.metrics.http import MetricsServer, Render
from nvmf.target.metrics.sample import Measured, take


def _version() -> str:
    try:
        return version("nvmeof-rdma")
    except PackageNotFoundError:
        return "unknown"


def make_metrics(server: Measured, engine: Engine) -> MetricsServer:
    """Return the HTTP server for [metrics] of the server's configuration, not started yet."""
    name, target = _version(), server.config.target
    pool = target.buffers * target.buffer_size * server.reactors

    def prepare() -> Render:
        return partial(render, Source(take(server), Facts(name, pool, engine.resources())))

    return MetricsServer(server.config.metrics, prepare)
