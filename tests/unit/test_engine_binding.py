# SPDX-License-Identifier: BSD-3-Clause
"""The binding: values, error messages, and references between handles."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvmf import engine
from support.enginerig import drop, wait


@pytest.fixture
def device() -> engine.HostDevice:
    return engine.HostDevice("iwarp")


@pytest.fixture
def target() -> Iterator[engine.Target]:
    found = engine.Target()
    yield found
    found.close()


# ---- devices and options ----


def test_devices() -> None:
    assert engine.verbs_available("iwarp") is None
    (found,) = engine.list_devices("iwarp")
    assert found["transport"] == "iWARP"
    assert found["max_qp"] > 1000
    (port,) = found["ports"]
    assert (port["port"], port["state"]) == (1, "ACTIVE")
    with pytest.raises(ValueError, match='"iwarp", "roce" or "system"'):
        engine.verbs_available("tcp")  # type: ignore[arg-type]


def test_system_says_why_not() -> None:
    why = engine.verbs_available("system")
    if why is None:
        assert isinstance(engine.list_devices("system"), list)
    else:
        assert "lib" in why
        with pytest.raises(engine.EngineError, match="lib"):
            engine.HostDevice("system")


def test_iwarp_options() -> None:
    engine.set_iwarp_options(congestion="reno", handshake_timeout_ms=60_000, mpa_revision=2)
    engine.set_iwarp_options(congestion="")
    with pytest.raises(ValueError, match="revisions 1 and 2"):
        engine.set_iwarp_options(mpa_revision=3)


# ---- stores ----


def test_store(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.write_bytes(bytes(8192))
    store = engine.Store("file", path=str(path), block_size=512)
    assert (store.kind, store.path, store.size, store.block_size) == ("file", str(path), 8192, 512)
    assert store.guarantee
    path.write_bytes(bytes(16384))
    assert store.resize() == 16384
    store.close()
    store.close()
    with pytest.raises(engine.EngineError, match="store is closed"):
        _ = store.size


def test_store_errors(tmp_path: Path) -> None:
    with pytest.raises(engine.EngineError, match="there is no such device now"):
        engine.Store("file", path="/dev/no-such-device")
    with pytest.raises(engine.EngineError, match="does not exist") as raised:
        engine.Store("file", path=str(tmp_path / "none"))
    assert raised.value.errno == errno.ENOENT
    with pytest.raises(ValueError, match="ram, file, pmem, null"):
        engine.Store("tape", size=512)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not contain NUL"):
        engine.Store("file", path="a\0b")


def test_unclosed_handles_warn() -> None:
    handles: list[object] = [engine.Store("ram", size=4096)]
    with pytest.warns(ResourceWarning, match=r"Store made at .*test_engine_binding.py:\d+ was"):
        drop(handles)
    handles.append(engine.Target())
    with pytest.warns(ResourceWarning, match="Target made at"):
        drop(handles)


# ---- registered memory ----


def test_memory(device: engine.HostDevice) -> None:
    memory = device.alloc(8192)
    assert len(memory) == 8192
    view = memoryview(memory)
    assert not view.readonly
    assert view.obj is memory
    assert memory.offset_of(view[4096:]) == 4096
    assert memory.offset_of(bytes(4)) == -1
    with pytest.raises(BufferError):
        memory.offset_of(view[::2])
    with pytest.raises(BufferError, match="1 buffers of the memory are in use"):
        memory.close()
    view.release()
    memory.close()
    assert len(memory) == 0
    with pytest.raises(BufferError, match="closed"):
        memoryview(memory)
    with pytest.raises(ValueError, match="at least one byte"):
        device.alloc(0)


def test_remote_keys() -> None:
    assert engine.HostDevice().remote_keys == "command"
    assert engine.HostDevice("iwarp", remote_keys="buffer").remote_keys == "buffer"
    with pytest.raises(ValueError, match="not 'all'"):
        engine.HostDevice("iwarp", remote_keys="all")  # type: ignore[arg-type]


def test_register(device: engine.HostDevice) -> None:
    own = bytearray(100)
    with device.register(own) as memory:
        memoryview(memory)[0] = 7
        with pytest.raises(BufferError):
            own.extend(b"x")
    assert own[0] == 7
    own.extend(b"x")
    with pytest.raises(BufferError):
        device.register(b"read-only")


# ---- namespaces ----


def test_namespace_life(target: engine.Target) -> None:
    store = engine.Store("ram", size=1 << 20)
    namespace = engine.Namespace(target, 1, store)
    table = engine.NamespaceTable(target, 4)
    assert (namespace.nsid, namespace.store) == (1, store)
    assert namespace.stats["reads"] == namespace.stats["throttled"] == 0
    assert namespace.stats["flushes"] == 0
    assert namespace.latency() == {
        "read": [0] * 24,
        "write": [0] * 24,
        "read_ns": 0,
        "write_ns": 0,
    }
    namespace.limit(iops=1, write_bandwidth=1 << 40)
    namespace.limit()
    with pytest.raises(engine.EngineError, match="in use by a namespace"):
        store.close()
    with pytest.raises(engine.EngineError):
        table.set(5, namespace)
    table.set(1, namespace)
    other = engine.NamespaceTable(target, 4)
    other.set(1, namespace)
    other.set(1, None)
    assert target.upcalls() == []
    with pytest.raises(engine.EngineError, match="wait for its Retired"):
        namespace.close()
    table.set(1, None)
    (event,) = wait(target, target.upcalls)
    assert isinstance(event, engine.Retired)
    assert event.namespace is namespace
    other.set(1, namespace)
    table.set(1, namespace)
    other.close()
    table.close()
    (event,) = wait(target, target.upcalls)
    namespace.close()
    namespace.close()
    store.close()


def test_target_takes_its_namespaces_along() -> None:
    target = engine.Target(reactors=2)
    store = engine.Store("ram", size=1 << 20)
    namespace = engine.Namespace(target, 1, store)
    engine.NamespaceTable(target, 1).set(1, namespace)
    target.close()
    with pytest.raises(engine.EngineError, match="namespace is closed"):
        namespace.resized()
    store.close()


def test_target_arguments() -> None:
    with pytest.raises(ValueError, match="1 to 64 reactors"):
        engine.Target(reactors=0)
    with pytest.raises(ValueError, match="need 2 CPUs"):
        engine.Target(reactors=2, cpus=[0])
    with pytest.raises(engine.EngineError, match="power of two"):
        engine.Target(buffer_size=5000)


def test_bench_arguments() -> None:
    with pytest.raises(ValueError, match="randread"):
        engine.bench(
            traddr="127.0.0.1",
            trsvcid="1",
            subnqn="nqn.2026-01.example:x",
            rw="sideways",
            block_size=4096,
            queue_depth=1,
            seconds=0.1,
        )
    with pytest.raises(engine.ConnectError, match="refused"):
        engine.bench(
            traddr="127.0.0.1",
            trsvcid="1",
            subnqn="nqn.2026-01.example:x",
            rw="read",
            block_size=4096,
            queue_depth=1,
            seconds=0.1,
        )
