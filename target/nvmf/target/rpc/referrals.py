# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: referrals to other discovery services, and the announcement by mDNS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from nvmf.config.models import ReferralConfig
from nvmf.rpc.errors import Code
from nvmf.rpc.results import Referral
from nvmf.spec.nqn import DISCOVERY_NQN
from nvmf.target.change import edit
from nvmf.target.change.edit import EditError
from nvmf.target.rpc.errors import spdk_says
from nvmf.target.rpc.ports import ListenAddress
from nvmf.target.rpc.registry import Params, method

if TYPE_CHECKING:
    from nvmf.target.service.administration import Administration


class OneReferral(Params):
    address: ListenAddress
    subnqn: str | None = None
    """Its NQN; if left out, the well-known one of discovery services."""


class AddReferral(OneReferral):
    secure_channel: Literal[False] = False


def _made(params: OneReferral) -> ReferralConfig:
    where = params.address
    if not where.trsvcid.isdecimal():
        raise EditError(f"trsvcid {where.trsvcid[:32]}: expected a number")
    values = {
        "trtype": where.trtype.lower(),
        "traddr": where.traddr,
        "trsvcid": int(where.trsvcid),
        "nqn": params.subnqn or DISCOVERY_NQN,
    }
    return edit.model(ReferralConfig, values)


@method("nvmf_discovery_add_referral", AddReferral, "add_referral", changes=True)
async def add(administration: Administration, params: AddReferral) -> bool:
    """Add a referral to a different discovery service."""
    made = _made(params)
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(lambda config: edit.add_referral(config, made))
    return True


@method("nvmf_discovery_remove_referral", OneReferral, "remove_referral", changes=True)
async def remove(administration: Administration, params: OneReferral) -> bool:
    """Remove a referral to a different discovery service."""
    gone = _made(params)
    with spdk_says(Code.INTERNAL_ERROR):
        await administration.change(
            lambda config: edit.remove_referral(config, gone.traddr, gone.trsvcid, gone.trtype)
        )
    return True


@method("nvmf_discovery_get_referrals", Params, "referrals")
def get(administration: Administration, params: Params) -> list[Referral]:
    """Return the other discovery services that are reported to hosts."""
    return [
        {
            "address": {
                "trtype": one.trtype.upper(),
                "adrfam": "IPv6" if ":" in one.traddr else "IPv4",
                "traddr": one.traddr,
                "trsvcid": str(one.trsvcid),
            },
            "subnqn": one.nqn,
            "secure_channel": False,
        }
        for one in administration.server.config.referrals
    ]


@method("nvmf_publish_mdns_prr", Params, "announce", changes=True)
async def publish(administration: Administration, params: Params) -> bool:
    """Announce the discovery service on the local network by mDNS; see [mdns]."""
    await administration.change(lambda config: edit.announce(config, enabled=True))
    return True


@method("nvmf_stop_mdns_prr", Params, "stop_announcing", changes=True)
async def stop(administration: Administration, params: Params) -> bool:
    """Stop the announcement of the discovery service."""
    await administration.change(lambda config: edit.announce(config, enabled=False))
    return True
