# SPDX-License-Identifier: BSD-3-Clause
"""Every exception class of the project derives from nvmf.errors.Error, or is private."""

from __future__ import annotations

import errno
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import nvmf
from nvmf.engine import ConnectError, EngineError, Store
from nvmf.errors import Error
from nvmf.initiator import ConnectionLost, KernelError, OutcomeUnknown
from nvmf.initiator.base.errors import QueueLost

PRIVATE = {
    "nvmf.initiator.base.repeated.Doubtful",
    "nvmf.target.metrics.http._RefusedError",
}
"""Control flow inside the project; no caller sees them."""
BUILTIN = {
    EngineError: OSError,
    ConnectError: OSError,
    ConnectionLost: ConnectionError,
    OutcomeUnknown: ConnectionError,
    QueueLost: ConnectionError,
    KernelError: ConnectionError,
}


def modules() -> Iterator[str]:
    """Yield the name of each module except those that run a program when they are imported.

    libnvmf-verbs.so is not a module, although its file has the ending of one.
    """
    for found in pkgutil.walk_packages(nvmf.__path__, "nvmf."):
        name = found.name.rpartition(".")[2]
        if name.isidentifier() and name != "__main__":
            yield found.name


def exceptions() -> dict[str, type[Exception]]:
    """Return the exception classes that the modules define, by their full names."""
    found = {}
    for name in modules():
        for item in vars(importlib.import_module(name)).values():
            if isinstance(item, type) and issubclass(item, Exception):
                found[f"{item.__module__}.{item.__qualname__}"] = item
    return {name: kind for name, kind in found.items() if name.startswith("nvmf.")}


def test_one_root() -> None:
    found = exceptions()
    assert len(found) > 25
    outside = {
        name
        for name, kind in found.items()
        if not issubclass(kind, Error) and not issubclass(kind, Warning)
    }
    assert outside == PRIVATE


@pytest.mark.parametrize(("kind", "builtin"), BUILTIN.items())
def test_also_builtin(kind: type[Error], builtin: type[Exception]) -> None:
    assert issubclass(kind, builtin)


def test_error_of_the_engine_has_an_errno() -> None:
    with pytest.raises(Error, match="/nonexistent") as caught:
        Store("file", path="/nonexistent/file")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == errno.ENOENT
    assert str(EngineError(errno.EBUSY, "a sentence")) == "a sentence"
