# SPDX-License-Identifier: BSD-3-Clause
"""The methods of the administration socket: subsystems, hosts, namespaces, ports, counters."""

from __future__ import annotations

import dataclasses
import os

import pytest

from nvmf.target.rpc.registry import METHODS
from support.rpclab import HOST, NQN, Client, Lab


@pytest.mark.feature("rpc")
async def test_subsystem_and_hosts(client: Client) -> None:
    assert await client.result("nvmf_create_subsystem", nqn=f"{NQN}2", serial_number="S1")
    found = await client.result("nvmf_get_subsystems", nqn=f"{NQN}2", tgt_name="any")
    assert (found[0]["serial_number"], found[0]["subtype"]) == ("S1", "NVMe")
    assert await client.refused("nvmf_create_subsystem", nqn=NQN) == (
        -32603, f"subsystem {NQN} already exists"
    )  # fmt: skip
    assert (await client.refused("nvmf_get_subsystems", nqn="nqn.2026-11.io.example:x"))[0] == -19
    assert await client.result("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    code, said = await client.refused("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    assert (code, said) == (-32603, f"{HOST} is already allowed to connect to {NQN}")
    assert await client.result("nvmf_subsystem_remove_host", nqn=NQN, host=HOST)
    assert await client.result("nvmf_subsystem_allow_any_host", nqn=NQN, allow_any_host=True)
    assert await client.result("nvmf_delete_subsystem", nqn=f"{NQN}2")
    assert (await client.refused("nvmf_delete_subsystem", nqn=f"{NQN}2"))[0] == -32602


@pytest.mark.feature("rpc", "live")
async def test_namespaces(client: Client, lab: Lab) -> None:
    space = {"store": "ram", "size": "1MiB", "uuid": "11111111-2222-3333-4444-555555555555"}
    assert await client.result("nvmf_subsystem_add_ns", nqn=NQN, namespace=space) == 2
    for wrong, said in (
        (space, "duplicate uuid 11111111-2222-3333-4444-555555555555"),
        ({"store": "ram", "size": 4096, "nsid": 2}, "namespace 2 already exists"),
        ({"store": "ram", "size": 4096, "nsid": 99}, "above max_namespaces = 32"),
        ({"store": "ram"}, "needs size"),
        ({"store": "rom"}, 'expected "ram"'),
        ({"bdev_name": "Malloc0"}, "there is no bdev Malloc0"),
    ):
        before = lab.server.config
        code, answer = await client.refused("nvmf_subsystem_add_ns", nqn=NQN, namespace=wrong)
        assert code == -32602
        assert said in answer
        assert lab.server.config is before
    assert await client.result("target_resize_ns", nqn=NQN, nsid=2, size="512KiB") == 512 << 10
    assert "no file" in (await client.refused("target_resize_ns", nqn=NQN, nsid=2))[1]
    lab.engine.resize_error = OSError(95, "it cannot grow")
    code, answer = await client.refused("target_resize_ns", nqn=NQN, nsid=2, size="2MiB")
    assert (code, f"cannot resize namespace 2 of {NQN}: it cannot grow" in answer) == (-32603, True)
    assert await client.result("target_mask_ns", nqn=NQN, nsid=2, hosts=[])
    assert await client.result("nvmf_ns_add_host", nqn=NQN, nsid=2, host=HOST)
    tree = await client.result("target_get_tree")
    assert tree["subsystems"][1]["namespaces"][1]["hosts"] == [HOST]
    assert await client.result("nvmf_ns_remove_host", nqn=NQN, nsid=2, host=HOST)
    assert await client.result("nvmf_subsystem_remove_ns", nqn=NQN, nsid=2)


@pytest.mark.feature("rpc", "live", "identifiers")
async def test_replaced_store_keeps_its_identifiers(client: Client, lab: Lab) -> None:
    before = lab.server.core.subsystems[NQN].namespaces[1]
    await client.result(
        "target_replace_ns", nqn=NQN, nsid=1, namespace={"store": "null", "size": "2MiB"}
    )
    after = lab.server.core.subsystems[NQN].namespaces[1]
    assert after is not before
    assert after.identity == before.identity
    assert after.store.size == 2 << 20


@pytest.mark.feature("rpc")
async def test_ports(client: Client) -> None:
    opened = await client.result(
        "target_add_port", port={"traddr": "127.0.0.1", "trsvcid": 4421, "device": "iwarp"}
    )
    assert opened == {"trtype": "RDMA", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "4421"}
    place = {"trtype": "RDMA", "traddr": "127.0.0.1", "trsvcid": "4421", "adrfam": "IPv4"}
    assert await client.result("nvmf_subsystem_add_listener", nqn=NQN, listen_address=place)
    listeners = await client.result("nvmf_subsystem_get_listeners", nqn=NQN)
    assert [one["address"]["trsvcid"] for one in listeners] == ["4420", "4421"]
    assert await client.result("nvmf_subsystem_remove_listener", nqn=NQN, listen_address=place)
    await client.result("target_remove_port", traddr="127.0.0.1", trsvcid=4420)
    assert await client.result("nvmf_subsystem_get_listeners", nqn=NQN) == []
    code, said = await client.refused("target_remove_port", traddr="127.0.0.1", trsvcid=4420)
    assert (code, "there is no port" in said) == (-32602, True)
    await client.result(
        "target_add_port", port={"traddr": "127.0.0.1", "trsvcid": 4420, "device": "iwarp"}
    )


async def test_what_is_asked_without_a_change(client: Client) -> None:
    stats = await client.result("nvmf_get_stats")
    assert stats["poll_groups"][0]["current_io_qpairs"] == 0
    (transport,) = await client.result("nvmf_get_transports")
    assert transport["trtype"] == "RDMA"
    assert await client.result("nvmf_subsystem_get_controllers", nqn=NQN) == []
    assert await client.result("nvmf_subsystem_get_qpairs", nqn=NQN) == []
    version = await client.result("spdk_get_version")
    assert version["version"].startswith("nvmeof-rdma")
    assert {"major", "minor", "patch", "suffix"} <= version["fields"].keys()
    config = await client.result("target_get_config")
    assert config["config"]["subsystem"][0]["nqn"] == NQN
    assert "without a configuration file" in (await client.refused("target_reload"))[1]


async def test_an_answer_that_cannot_be_written(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal error is reported, and the connection continues."""

    async def call(*_: object) -> object:
        return {(1, 2): 3}

    odd = dataclasses.replace(METHODS["spdk_get_version"], call=call)
    monkeypatch.setitem(METHODS, "spdk_get_version", odd)
    code, said = await client.refused("spdk_get_version")
    assert (code, said) == (-32603, "cannot encode the response")
    assert "cannot encode a response" in caplog.text
    assert await client.result("rpc_get_methods")


async def test_counters_after_refusals(client: Client, lab: Lab) -> None:
    events = lab.server.core.tally.events
    events.refused["No more queue pairs"] += 2
    events.connects_refused["Connect Invalid Host"] += 1
    found = (await client.result("target_get_counters"))["events"]
    assert found["refused"] == {"No more queue pairs": 2}
    assert found["connects_refused"] == {"Connect Invalid Host": 1}
    assert found["accepted"] == 0


async def test_who_changed_what_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await client.ask("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    await client.ask("nvmf_subsystem_add_host", nqn=NQN, host=HOST, dhchap_key="DHHC-1:00:x")
    who = f"user {os.geteuid()}, process {os.getpid()}"
    assert f"{who}: nvmf_subsystem_add_host" in caplog.text
    assert "refused" in caplog.text
    assert "DHHC" not in caplog.text


@pytest.mark.feature("rpc")
async def test_revoking_memory_of_what_does_not_exist(client: Client) -> None:
    """It is an error; a host without connections is not."""
    assert await client.refused("target_revoke_memory", nqn="nqn.2026-11.io.example:x") == (
        -32602, "there is no subsystem nqn.2026-11.io.example:x"
    )  # fmt: skip
    code, said = await client.refused("target_revoke_memory", nqn=NQN, nsid=99)
    assert (code, said) == (-32602, f"there is no namespace 99 in {NQN}")
    assert await client.result("target_revoke_memory", nqn=NQN, nsid=1, host=HOST) == 0
