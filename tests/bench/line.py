#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure a mirror of three over a line with a limited rate: ./dev bench --line.

The targets are in a network namespace, and one line leads there, limited by tc in both directions:
so the line is the limit, not the processors.  It needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.harness import NQN, HarnessError, Target, machine
from nvmf.initiator.base.identity import host_identity

REPLICAS = 3
STORE = "64MiB"
_FIRST = ipaddress.ip_address("198.18.0.0")
"""The first address of a network that is set aside for benchmarks (RFC 2544)."""
NEAR, FAR = (str(_FIRST + os.getpid() % (1 << 15) * 4 + end) for end in (1, 2))
"""The addresses of the line's ends; those of other runs are different."""
BURST = "256k"
"""More than one segment as TCP hands it to the line."""


def configuration() -> str:
    """Return the configuration of a target whose namespace is also exported as memory."""
    return (
        "[target]\nspin_us = 0\n[rpc]\nenabled = false\n"
        f'[[port]]\ntraddr = "{FAR}"\ntrsvcid = 0\ndevice = "iwarp"\n'
        f'[[subsystem]]\nnqn = "{NQN}"\nallow_any_host = true\n'
        f'[[subsystem.namespace]]\nnsid = 1\nstore = "ram"\nsize = "{STORE}"\n'
        f"memory = [{json.dumps(host_identity().nqn)}]\n"
    )


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        hint = "" if os.geteuid() == 0 else "; run it as root"
        raise HarnessError(f"'{' '.join(words)}' failed: {done.stderr.strip()}{hint}")


@contextlib.contextmanager
def line(mbit: int) -> Iterator[tuple[str, ...]]:
    """Make the line; yield the words before a command that runs at its far end."""
    name = f"nvmf-line-{os.getpid()}"
    near, far = f"nvl{os.getpid()}a", f"nvl{os.getpid()}b"
    inside = ("ip", "netns", "exec", name)
    limit = ("root", "tbf", "rate", f"{mbit}mbit", "burst", BURST, "latency", "100ms")
    _do("ip", "netns", "add", name)
    try:
        _do("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        _do("ip", "address", "add", f"{NEAR}/30", "dev", near)
        _do("ip", "link", "set", near, "up")
        _do(*inside, "ip", "address", "add", f"{FAR}/30", "dev", far)
        _do(*inside, "ip", "link", "set", far, "up")
        _do("tc", "qdisc", "add", "dev", near, *limit)
        _do(*inside, "tc", "qdisc", "add", "dev", far, *limit)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)  # with both ends of the line


def measure(mbit: int, arguments: list[str]) -> int:
    """Start the targets behind the line, and run nvmeof pmem bench-replicas on them."""
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(line(mbit))
        urls = []
        for _ in range(REPLICAS):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nvmeof-line-")))
            target = stack.enter_context(Target(folder, configuration(), before=inside))
            urls.append(f"nvme+rdma://{FAR}:{target.port}/{NQN}?device=iwarp")
        words = ["-m", "nvmf.cli.main", "pmem", "bench-replicas", *urls, "--force", *arguments]
        return subprocess.run([sys.executable, *words], check=False).returncode


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="./dev bench --line",
        description=__doc__.split("\n", 1)[0],
        epilog="Further options are those of nvmeof pmem bench-replicas, as --bs 128k --iodepth 8.",
    )
    parser.add_argument("--mbit", type=int, default=1000, help="Mbit/s of the line (default: 1000)")
    args, further = parser.parse_known_args()
    if args.mbit < 1:
        parser.error("--mbit is at least 1")
    print(f"Machine: {machine()}", file=sys.stderr)
    print(f"A line of {args.mbit / 8:g} MB/s in each direction.", file=sys.stderr)
    try:
        return measure(args.mbit, further)
    except HarnessError as error:
        print(f"./dev bench --line: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
