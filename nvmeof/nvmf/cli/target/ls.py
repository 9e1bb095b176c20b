# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target ls`: shows all objects of a target as a tree."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

from nvmf.cli.base import EXIT_OK, Subparsers
from nvmf.cli.output import counted, print_json, size_text
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.cli.target.limits import limits_text
from nvmf.cli.target.mirror import leg_text, mirror_text

if TYPE_CHECKING:
    from nvmf.rpc import results


def add_commands(subparsers: Subparsers) -> None:
    """Add target ls."""
    add_rpc_command(
        subparsers,
        "ls",
        ls,
        "show ports, subsystems, namespaces, hosts and connections",
        examples=("nvmeof target ls", "nvmeof target ls -o json"),
    )


def ls(args: argparse.Namespace) -> int:
    """Print the tree."""
    with target(args) as rpc:
        tree = rpc.tree()
    if args.output_format == "json":
        print_json(tree)
        return EXIT_OK
    roots: list[Node] = [_port(port) for port in tree["ports"]]
    roots += [_subsystem(one) for one in tree["subsystems"] if _shown(one)]
    roots += [(f"fault {one['id']} on purpose: {one['summary']}", []) for one in tree["faults"]]
    print("\n".join(lines(roots)))
    return EXIT_OK


Node: TypeAlias = "tuple[str, list[Node]]"
"""A line, and its child nodes."""


def lines(nodes: list[Node], indent: str = "", *, root: bool = True) -> list[str]:
    """Return a tree as lines of text."""
    found: list[str] = []
    for number, (text, under) in enumerate(nodes, 1):
        last = number == len(nodes)
        mark, below = ("", "") if root else ("└─ ", "   ") if last else ("├─ ", "│  ")
        found.append(f"{indent}{mark}{text}")
        found += lines(under, indent + below, root=False)
    return found


def _port(one: results.Port) -> Node:
    groups: list[Node] = [
        (f"ANA group {group}: {state}", []) for group, state in one["ana_states"].items()
    ]
    absent = f", absent: {one['absent']}" if "absent" in one else ""
    return f"port {_place(one)} ({one['device']}){absent}", groups


def _shown(subsystem: results.TreeSubsystem) -> bool:
    return subsystem["subtype"] != "Discovery" or bool(subsystem["controllers"])


def _place(address: results.Address) -> str:
    host = f"[{address['traddr']}]" if ":" in address["traddr"] else address["traddr"]
    return f"{host}:{address['trsvcid']}"


def _subsystem(one: results.TreeSubsystem) -> Node:
    mirrors = {mirror["nsid"]: mirror for mirror in one["mirrors"]}
    under: list[Node] = [
        _namespace(namespace, mirrors.get(namespace["nsid"]))
        for namespace in one.get("namespaces", ())
    ]
    for absent in one["absent_namespaces"]:
        what = f"namespace {absent['nsid']}: {absent['store']}"
        under.append((f"{what}, absent: waiting for {absent['path']}: {absent['absent']}", []))
    if one["allow_any_host"]:
        under.append(("any host", []))
    else:
        under += [_host(host) for host in one["hosts"]] or [("no host", [])]
    under += [_controller(controller) for controller in one["controllers"]]
    under += [
        (f"memory of namespace {m['nsid']}: {m['hostnqn']} from {m['peer']}, {m['access']}", [])
        for m in one["memory"]
    ]
    return f"subsystem {one['nqn']}", under


_PROTECTED = {"until-power-cycle": " until the target ends", "permanent": " permanently"}


def _host(one: results.Host) -> Node:
    both = " both ways" if "dhchap_ctrlr_key" in one else ""
    proof = f" (authenticates{both})" if "dhchap_key" in one else ""
    return f"host {one['nqn']}{proof}", []


def _namespace(one: results.Namespace, mirror: results.Mirror | None) -> Node:
    what = one["path"] or ""
    parts = [f"namespace {one['nsid']}:", one["store"], what, size_text(one["size"])]
    parts.append(f"in blocks of {one['block_size']}")
    if one["anagrpid"] != 1:
        parts.append(f"(ANA group {one['anagrpid']})")
    if one["read_only"]:
        parts.append("(read only)")
    if "limits" in one:
        parts.append(f"({limits_text(one['limits'])})")
    if one["write_protection"] != "none":
        parts.append(f"(write protected{_PROTECTED.get(one['write_protection'], '')})")
    if one["invalid_blocks"]:
        blocks = counted(one["invalid_blocks"], "block")
        parts.append(f"({blocks} invalid, by Write Uncorrectable)")
    masked: list[Node] = [(f"for {host}", []) for host in one.get("hosts", ())]
    if mirror is not None:
        parts.append(f"({mirror_text(mirror)})")
        masked = [*((leg_text(leg), []) for leg in mirror["legs"]), *masked]
    if "hosts" in one and not one["hosts"]:
        parts.append("(no host sees it)")
    return " ".join(part for part in parts if part), masked


def _controller(one: results.Controller) -> Node:
    queues = counted(one["num_io_qpairs"], "I/O queue")
    where = _place(one["peer_address"])
    return f"controller {one['cntlid']}: {one['hostnqn']} from {where}, {queues}", []
