# SPDX-License-Identifier: BSD-3-Clause
"""The RDMA transport, which always exists, and the limits of subsystems that are added later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ConfigDict

from nvmf.config.models import SubsystemConfig
from nvmf.rpc.errors import Code, RpcError
from nvmf.rpc.results import TransportLimits
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.commands.cm import ADMIN_QUEUE_DEPTH
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration

KEYS = {
    "max_queue_depth": "queue_size",
    "max_io_qpairs_per_ctrlr": "max_io_queues",
    "in_capsule_data_size": "in_capsule",
    "max_io_size": "mdts",
}
"""Parameters with an effect, and the keys of [[subsystem]] that they set."""


class OneTransport(Params):
    trtype: str | None = None


class CreateTransport(Params):
    """SPDK's parameters.  As in SPDK, unknown ones, such as those of old scripts, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    trtype: str
    max_queue_depth: int | None = None
    """queue_size of subsystems that nvmf_create_subsystem adds later."""
    max_io_qpairs_per_ctrlr: int | None = None
    """Their max_io_queues."""
    in_capsule_data_size: int | None = None
    """Their in_capsule."""
    max_io_size: int | None = None
    """Their mdts."""
    io_unit_size: int | None = None
    """No effect."""
    max_aq_depth: int | None = None
    """No effect."""
    num_shared_buffers: int | None = None
    """No effect."""
    buf_cache_size: int | None = None
    """No effect."""
    iobuf_small_cache_size: int | None = None
    """No effect."""
    iobuf_large_cache_size: int | None = None
    """No effect."""
    zcopy: bool | None = None
    """No effect."""
    num_cqe: int | None = None
    """No effect."""
    max_srq_depth: int | None = None
    """No effect."""
    no_srq: bool | None = None
    """No effect."""
    c2h_success: bool | None = None
    """No effect."""
    dif_insert_or_strip: bool | None = None
    """No effect."""
    sock_priority: int | None = None
    """No effect."""
    acceptor_backlog: int | None = None
    """No effect."""
    abort_timeout_sec: int | None = None
    """No effect."""
    no_wr_batching: bool | None = None
    """No effect."""
    control_msg_num: int | None = None
    """No effect."""
    disable_mappable_bar0: bool | None = None
    """No effect."""
    disable_adaptive_irq: bool | None = None
    """No effect."""
    disable_shadow_doorbells: bool | None = None
    """No effect."""
    acceptor_poll_rate: int | None = None
    """No effect."""
    ack_timeout: int | None = None
    """No effect."""
    data_wr_pool_size: int | None = None
    """No effect."""
    disable_command_passthru: bool | None = None
    """No effect."""
    kas: int | None = None
    """No effect."""
    min_kato: int | None = None
    """No effect."""
    masked_oncs: list[str] | None = None
    """No effect."""
    masked_fuses: list[str] | None = None
    """No effect."""


@method("nvmf_create_transport", CreateTransport, "create_transport", changes=True)
def create(administration: Administration, params: CreateTransport) -> bool:
    """Set the limits of subsystems that nvmf_create_subsystem adds later.

    The transport exists without it. As in SPDK, a second call is refused.
    """
    if params.trtype.upper() != "RDMA":
        raise EditError(f"trtype {params.trtype[:32]}: only RDMA is supported")
    values: dict[str, object] = {}
    for name, key in KEYS.items():
        value = getattr(params, name)
        if value is None:
            continue
        try:
            edit.model(SubsystemConfig, {"nqn": "nqn.2026-01.example:limits", key: value})
        except EditError as error:
            raise EditError(str(error).replace(f"{key}:", f"{name}:", 1)) from None
        values[key] = value
    if administration.transport is not None:
        raise RpcError(Code.INTERNAL_ERROR, "transport RDMA already exists")
    administration.transport = values
    return True


@method("nvmf_get_transports", OneTransport, "transports")
def get_transports(administration: Administration, params: OneTransport) -> list[TransportLimits]:
    """Return the only transport, with the largest limits of all subsystems."""
    if params.trtype is not None and params.trtype.upper() != "RDMA":
        raise RpcError(
            Code.NO_SUCH_DEVICE, f"no transport {params.trtype[:32]}: only RDMA is supported"
        )
    server = administration.server
    target, limits = server.config.target, server.core.limits
    return [
        {
            "trtype": "RDMA",
            "max_queue_depth": limits.queue_size,
            "max_io_qpairs_per_ctrlr": limits.max_io_queues,
            "in_capsule_data_size": limits.in_capsule,
            "max_io_size": limits.mdts,
            "io_unit_size": target.buffer_size,
            "max_aq_depth": ADMIN_QUEUE_DEPTH,
            "num_shared_buffers": target.buffers * target.reactors,
        }
    ]
