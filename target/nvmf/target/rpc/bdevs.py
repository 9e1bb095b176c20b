# SPDX-License-Identifier: BSD-3-Clause
"""Bdevs: storage with a name, which becomes a namespace by nvmf_subsystem_add_ns.

A bdev is part of the configuration: target_get_config and target save include it.  Its file is
opened, and its memory allocated, while it is a namespace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID, uuid4

from nvmf.config.advice import machine_memory
from nvmf.config.models import BdevConfig, Config
from nvmf.config.units import format_size
from nvmf.rpc.errors import Code, RpcError
from nvmf.target.change import bdevs, edit
from nvmf.target.change.bdevs import BdevExists, NoSuchBdev
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

MEBIBYTE = 1 << 20


class CreateMalloc(Params):
    """SPDK's parameters; metadata and protection information are not supported."""

    name: str | None = None
    """If left out: Malloc and the first free number."""
    block_size: int
    """512 or 4096."""
    num_blocks: int
    uuid: str | None = None
    """If left out: random."""
    physical_block_size: int | None = None
    """No effect."""
    optimal_io_boundary: int | None = None
    """No effect."""
    numa_id: int | None = None
    """No effect."""
    md_size: Literal[0] = 0
    md_interleave: bool = False
    """No effect."""
    dif_type: Literal[0] = 0
    dif_is_head_of_md: bool = False
    """No effect."""
    dif_pi_format: Literal[0] = 0


class CreateNull(Params):
    """SPDK's parameters; metadata and protection information are not supported."""

    name: str
    block_size: int
    """512 or 4096."""
    num_blocks: int
    uuid: str | None = None
    """If left out: random."""
    physical_block_size: int | None = None
    """No effect."""
    preferred_write_granularity: int | None = None
    """No effect."""
    preferred_write_alignment: int | None = None
    """No effect."""
    optimal_write_size: int | None = None
    """No effect."""
    preferred_unmap_granularity: int | None = None
    """No effect."""
    preferred_unmap_alignment: int | None = None
    """No effect."""
    md_size: Literal[0] = 0
    dif_type: Literal[0] = 0
    dif_is_head_of_md: bool = False
    """No effect."""
    dif_pi_format: Literal[0] = 0


class CreateUring(Params):
    name: str
    filename: str
    """Absolute path of a file or block device."""
    block_size: int | None = None
    """512 or 4096; default: 512, or that of the block device."""
    uuid: str | None = None
    """If left out: derived from the subsystem, the NSID and the path."""


class CreateAio(CreateUring):
    readonly: bool = False
    fallocate: bool = False
    """No effect: hosts can always deallocate."""
    nowait: bool = False
    """No effect: files are used with io_uring."""


class OneBdev(Params):
    name: str


class ResizeNull(OneBdev):
    new_size: int
    """Mebibytes."""


@contextlib.contextmanager
def bdev_says(code: int = -errno.EINVAL) -> Iterator[None]:
    """Give the errors in this block the code that SPDK's bdev methods use."""
    try:
        yield
    except NoSuchBdev as error:
        raise RpcError(Code.NO_SUCH_DEVICE, str(error)) from None
    except BdevExists as error:
        raise RpcError(-errno.EEXIST, str(error)) from None
    except EditError as error:
        raise RpcError(code, str(error)) from None


def _blocks(block_size: int, num_blocks: int) -> dict[str, object]:
    if block_size not in (512, 4096):
        raise EditError(f"block_size {block_size}: only 512 and 4096 are supported")
    if num_blocks < 1:
        raise EditError(f"num_blocks {num_blocks}: a bdev has at least one block")
    return {"block_size": block_size, "size": block_size * num_blocks}


def _uuid(text: str | None) -> dict[str, object]:
    try:
        return {"uuid": UUID(text)} if text is not None else {}
    except ValueError:
        raise EditError(f"{text[:64] if text else text!r} is not a UUID") from None


async def _create(administration: Administration, *, name: str | None, **values: object) -> str:
    """Add a bdev; name: None selects Malloc and the first free number."""
    given = name

    def change(config: Config) -> Config:
        nonlocal given
        given = bdevs.free_name(config, "Malloc") if name is None else name
        return bdevs.add(config, edit.model(BdevConfig, {"name": given, **values}))

    await administration.change(change)
    assert given is not None
    return given


@method("bdev_malloc_create", CreateMalloc, "create_malloc_bdev", changes=True)
async def create_malloc(administration: Administration, params: CreateMalloc) -> str:
    """Add a bdev in memory, which is allocated for its namespace; return its name."""
    with bdev_says():
        sizes = _blocks(params.block_size, params.num_blocks)
        size = params.block_size * params.num_blocks
        if size > machine_memory():
            raise RpcError(
                -errno.ENOMEM,
                f"a bdev of {format_size(size)} does not fit into this machine's memory of "
                f"{machine_memory() / (1 << 30):.1f} GiB",
            )
        identity: dict[str, object] = {"uuid": uuid4()} | _uuid(params.uuid)
        return await _create(administration, name=params.name, store="ram", **sizes, **identity)


@method("bdev_null_create", CreateNull, "create_null_bdev", changes=True)
async def create_null(administration: Administration, params: CreateNull) -> str:
    """Add a bdev that discards writes and reads zeros; return its name."""
    with bdev_says():
        sizes = _blocks(params.block_size, params.num_blocks)
        identity: dict[str, object] = {"uuid": uuid4()} | _uuid(params.uuid)
        return await _create(administration, name=params.name, store="null", **sizes, **identity)


@method("bdev_aio_create", CreateAio, "create_aio_bdev", changes=True)
async def create_aio(administration: Administration, params: CreateAio) -> str:
    """Add a bdev on a file or block device; return its name."""
    with bdev_says():
        return await _create_file(administration, params, read_only=params.readonly)


@method("bdev_uring_create", CreateUring, "create_uring_bdev", changes=True)
async def create_uring(administration: Administration, params: CreateUring) -> str:
    """Add a bdev on a file or block device; the same as bdev_aio_create."""
    with bdev_says():
        return await _create_file(administration, params, read_only=False)


async def _create_file(
    administration: Administration, params: CreateUring, *, read_only: bool
) -> str:
    path = Path(params.filename)
    if not path.is_absolute():
        raise EditError(f"filename {params.filename[:200]}: the path must be absolute")
    if "\0" in params.filename:
        raise EditError("filename: a path must not contain NUL")
    try:
        found = await administration.server.files.read(
            partial(_examine, path, read_only=read_only), str(path)
        )
    except OSError as error:
        said = f"cannot open {path}: {error.strerror}"
        raise RpcError(-(error.errno or errno.EIO), said) from None
    block_size = params.block_size or found
    _blocks(block_size, 1)
    return await _create(
        administration,
        name=params.name,
        store="file",
        path=path,
        block_size=block_size,
        read_only=read_only,
        **_uuid(params.uuid),
    )


def _examine(path: Path, *, read_only: bool) -> int:
    """Return the block size of a file or device that can be opened; may block."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise OSError(errno.EINVAL, "neither a regular file nor a block device")
    handle = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC)
    try:
        if not os.lseek(handle, 0, os.SEEK_END):
            raise OSError(errno.EINVAL, "it is empty (truncate -s sets a size)")
        return _logical_block(handle) if stat.S_ISBLK(mode) else 512
    finally:
        os.close(handle)


def _logical_block(handle: int) -> int:
    """Return the size of a logical block of a block device, by sysfs; 512 if it is unknown."""
    device = os.fstat(handle).st_rdev
    folder = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    for place in (folder, folder.parent):  # a partition has no queue of its own
        with contextlib.suppress(OSError, ValueError):
            return int((place / "queue" / "logical_block_size").read_text())
    return 512


@method("bdev_malloc_delete", OneBdev, "delete_malloc_bdev", changes=True)
async def delete_malloc(administration: Administration, params: OneBdev) -> bool:
    """Remove a bdev in memory, and its namespace."""
    return await _delete(administration, params.name, "ram")


@method("bdev_null_delete", OneBdev, "delete_null_bdev", changes=True)
async def delete_null(administration: Administration, params: OneBdev) -> bool:
    """Remove a null bdev, and its namespace."""
    return await _delete(administration, params.name, "null")


@method("bdev_aio_delete", OneBdev, "delete_aio_bdev", changes=True)
async def delete_aio(administration: Administration, params: OneBdev) -> bool:
    """Remove a bdev on a file, and its namespace; the file stays."""
    return await _delete(administration, params.name, "file")


@method("bdev_uring_delete", OneBdev, "delete_uring_bdev", changes=True)
async def delete_uring(administration: Administration, params: OneBdev) -> bool:
    """Remove a bdev on a file, and its namespace; the file stays."""
    return await _delete(administration, params.name, "file")


async def _delete(administration: Administration, name: str, store: str) -> bool:
    with bdev_says():
        await administration.change(lambda config: bdevs.remove(config, name, (store,)))
    return True


@method("bdev_null_resize", ResizeNull, "resize_null_bdev", changes=True)
async def resize_null(administration: Administration, params: ResizeNull) -> bool:
    """Resize a null bdev, and notify the hosts of its namespace."""

    def change(config: Config) -> Config:
        if bdevs.find(config, params.name)[0].store != "null":
            raise NoSuchBdev(f"bdev {params.name} is not a null bdev")
        return bdevs.change(config, params.name, size=params.new_size * MEBIBYTE)

    with bdev_says():
        await administration.change(change)
    return True


@method("bdev_aio_rescan", OneBdev, "rescan_aio_bdev", changes=True)
async def rescan_aio(administration: Administration, params: OneBdev) -> bool:
    """Use the current size of the file, and notify the hosts of its namespace."""
    return await _rescan(administration, params.name)


@method("bdev_uring_rescan", OneBdev, "rescan_uring_bdev", changes=True)
async def rescan_uring(administration: Administration, params: OneBdev) -> bool:
    """Use the current size of the file, and notify the hosts of its namespace."""
    return await _rescan(administration, params.name)


async def _rescan(administration: Administration, name: str) -> bool:
    follow: list[tuple[str, int]] = []

    def change(config: Config) -> Config:
        storage, place = bdevs.find(config, name)
        if storage.store != "file":
            raise NoSuchBdev(f"bdev {name} has no file")
        follow.extend([place] if place is not None else [])
        return bdevs.change(config, name, size=None)

    with bdev_says():
        await administration.change(change, follow)
    return True
