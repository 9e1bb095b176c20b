# SPDX-License-Identifier: BSD-3-Clause
"""A pytest plugin: a target for each test that asks for one, and a namespace of it.

``nvme_target`` is a running target in the test's process (nvmf.target.sync.Target), with 64 MiB of
memory unless the marker ``@pytest.mark.nvme_target(...)`` has other arguments for
nvmf.target.serve, such as ``store=MyStore()``. ``nvme_namespace`` is its first namespace, connected
(nvmf.initiator.sync). Tests of asyncio use ``nvme_target.url``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nvmf.initiator.sync import Namespace
    from nvmf.target.sync import Target


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "nvme_target(...): arguments of nvmf.target.serve for the fixture nvme_target"
    )


@pytest.fixture
def nvme_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """An NVMe-oF target on a free port of loopback, with a namespace of 64 MiB of memory."""
    from nvmf.target.sync import serve  # here, since pytest loads this file in every project

    marker = request.node.get_closest_marker("nvme_target")
    args, options = (marker.args, marker.kwargs) if marker is not None else ((), {"ram": "64MiB"})
    with serve(*args, **options) as target:
        yield target


@pytest.fixture
def nvme_namespace(nvme_target: Target) -> Iterator[Namespace]:
    """The first namespace of nvme_target, connected by the Python client."""
    from nvmf.initiator.sync import connect

    with connect(nvme_target.url) as controller:
        yield controller.namespaces[0]
