# SPDX-License-Identifier: BSD-3-Clause
"""Changes of a configuration that concern bdevs: storage with a name, as SPDK has it.

A bdev is in a configuration once: as a [[bdev]], or as the storage of a namespace that has its
name.  A bdev that becomes a namespace, and back, moves in one change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nvmf.config.models import BdevConfig, Config, NamespaceConfig
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError

Storage = BdevConfig | NamespaceConfig


class NoSuchBdev(EditError):
    """The bdev does not exist."""


class BdevExists(EditError):
    """The name of a new bdev is in use."""


def named(config: Config) -> Iterator[tuple[str, Storage, tuple[str, int] | None]]:
    """Yield (name, storage, NQN and NSID) of each bdev; None: it is not a namespace."""
    for bdev in config.bdevs:
        yield bdev.name, bdev, None
    for subsystem in config.subsystems:
        for nsid, namespace in subsystem.numbered():
            if namespace.bdev is not None:
                yield namespace.bdev, namespace, (subsystem.nqn, nsid)


def find(config: Config, name: str) -> tuple[Storage, tuple[str, int] | None]:
    """Return a bdev, with the NQN and the NSID of its namespace."""
    for each, storage, place in named(config):
        if each == name:
            return storage, place
    raise NoSuchBdev(f"there is no bdev {name[:128]}: bdev_get_bdevs lists all")


def free_name(config: Config, start: str) -> str:
    """Return the first unused name of start0, start1, ..."""
    taken = {name for name, _, _ in named(config)}
    return next(name for n in range(len(taken) + 1) if (name := f"{start}{n}") not in taken)


def add(config: Config, bdev: BdevConfig) -> Config:
    """Add a bdev."""
    if any(name == bdev.name for name, _, _ in named(config)):
        raise BdevExists(f"bdev {bdev.name} already exists")
    if bdev.path is not None:
        _check_path(config, bdev, bdev.path)
    return _put(config, (*config.bdevs, bdev))


def _check_path(config: Config, bdev: BdevConfig, path: Path) -> None:
    users: list[tuple[Storage, str]] = [(b, f"bdev {b.name}") for b in config.bdevs]
    users += [
        (namespace, f"namespace {nsid} of {subsystem.nqn}")
        for subsystem in config.subsystems
        for nsid, namespace in subsystem.numbered()
        if namespace.enabled
    ]
    for other, said in users:
        if other.path == path and not (other.read_only and bdev.read_only):
            raise EditError(f"{path} is already used by {said}")


def remove(config: Config, name: str, stores: tuple[str, ...]) -> Config:
    """Remove a bdev with one of these kinds of stores, and its namespace."""
    storage, place = find(config, name)
    if storage.store not in stores:
        raise NoSuchBdev(
            f"bdev {name} has a different driver (store = {storage.store}): use its method"
        )
    if place is not None:
        config = edit.remove_namespace(config, *place)
    return _put(config, tuple(b for b in config.bdevs if b.name != name))


def change(config: Config, name: str, **values: object) -> Config:
    """Change values of a bdev."""
    storage, place = find(config, name)
    if place is not None:
        return edit.change_namespace(config, place[0], place[1], **values)
    assert isinstance(storage, BdevConfig)
    known = {key: getattr(storage, key) for key in BdevConfig.model_fields}
    made = edit.model(BdevConfig, known | values)
    return _put(config, tuple(made if b is storage else b for b in config.bdevs))


def attach(config: Config, nqn: str, name: str, values: Mapping[str, object]) -> tuple[Config, int]:
    """Make a bdev a namespace of a subsystem; return its NSID too.

    values: keys of the namespace that are not the bdev's.
    """
    storage, place = find(config, name)
    if place is not None:
        raise EditError(f"bdev {name} is already namespace {place[1]} of {place[0]}")
    own = {
        key: getattr(storage, key) for key in BdevConfig.model_fields if key not in ("name", "uuid")
    }
    for key in own:
        if key in values:
            raise EditError(f"{key} belongs to the bdev, and cannot be set for its namespace")
    identity = {"uuid": storage.uuid} if storage.uuid is not None else {}
    made = edit.model(NamespaceConfig, {**own, **identity, **values, "bdev": name})
    rest = _put(config, tuple(b for b in config.bdevs if b is not storage))
    return edit.add_namespace(rest, nqn, made)


def _put(config: Config, bdevs: tuple[BdevConfig, ...]) -> Config:
    values = {key: getattr(config, key) for key in Config.model_fields}
    return edit.model(Config, values | {"bdevs": bdevs})
