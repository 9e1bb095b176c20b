# SPDX-License-Identifier: BSD-3-Clause
"""The program that blktests calls in the guest to set up our target, which also runs there.

blktests names it in NVME_TARGET_CONTROL.  A command rewrites the target's configuration and makes
the target read it again.  It uses nothing outside the standard library, because it starts often.

Without a subsystem the target does not listen on the port of the tests either: a host that is
refused by a listening target gives up, but one that finds no target connects again.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
from pathlib import Path

ADDRESS = "10.77.0.2"
SERVICE = 4420
IDLE_SERVICE = 4421
"""The port that the target always has."""
HOSTID = "0f01fb42-9f7f-4856-b0b3-51e60b8de349"
HOSTNQN = f"nqn.2014-08.org.nvmexpress:uuid:{HOSTID}"
SUBSYS_UUID = "91fdba0d-f87b-4c25-b80f-db7be1418b9e"
SUBSYSNQN = f"nqn.2014-08.org.nvmexpress:uuid:{SUBSYS_UUID}"
SIZE = "64M"
FOLDER = Path("/run/lab/blktests-target")
CONFIG = FOLDER / "target.toml"
SOCKET = FOLDER / "target.sock"
DISK = FOLDER / "disk.img"
SHOWN = {
    "blkdev_type": "device",
    "trtype": "rdma",
    "hostnqn": HOSTNQN,
    "hostid": HOSTID,
    "host_traddr": ADDRESS,
    "traddr": ADDRESS,
    "trsvid": str(SERVICE),
    "subsys_uuid": SUBSYS_UUID,
    "subsysnqn": SUBSYSNQN,
}
"""Return the output of `config --show-NAME`."""


def configuration(subsystem: str = "") -> str:
    """Return a configuration with the idle port; a subsystem is added on the port of the tests."""
    services = (IDLE_SERVICE, SERVICE) if subsystem else (IDLE_SERVICE,)
    ports = "".join(
        f'[[port]]\ntraddr = "{ADDRESS}"\ntrsvcid = {service}\ndevice = "system"\n'
        for service in services
    )
    return f'[rpc]\nsocket = "{SOCKET}"\n{ports}{subsystem}'


def subsystem(args: argparse.Namespace) -> str:
    """Return the subsystem that a test requests."""
    lines = ["[[subsystem]]", f'nqn = "{args.subsysnqn}"', "[[subsystem.host]]"]
    lines.append(f'nqn = "{args.hostnqn}"')
    lines += [f'dhchap_key = "{args.hostkey}"'] if args.hostkey else []
    lines += [f'dhchap_ctrl_key = "{args.ctrlkey}"'] if args.ctrlkey else []
    lines += ["[[subsystem.namespace]]", 'store = "file"', f'path = "{DISK}"']
    return "\n".join([*lines, f'uuid = "{args.subsys_uuid}"', "block_size = 512", ""])


def reload(text: str) -> None:
    """Make the target read this configuration; SystemExit with its message on failure."""
    CONFIG.write_text(text)
    request = {"jsonrpc": "2.0", "id": 1, "method": "target_reload", "params": {}}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(SOCKET))
        sock.sendall(json.dumps(request).encode())
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as answers:
            answer = json.load(answers)
    if "error" in answer:
        message = f"the target did not reload: {answer['error']}\n{text}"
        with (FOLDER / "errors.txt").open("a") as errors:  # blktests does not show it
            errors.write(message)
        sys.exit(message)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("config")
    for name in SHOWN:
        option = f"--show-{name.replace('_', '-')}"
        shown.add_argument(option, dest="shown", action="store_const", const=name)
    for command in ("setup", "cleanup"):
        one = commands.add_parser(command)
        one.add_argument("--subsysnqn", required=True)
        one.add_argument("--subsys-uuid", default=SUBSYS_UUID)
        one.add_argument("--hostnqn", default=HOSTNQN)
        one.add_argument("--hostkey", default="")
        one.add_argument("--ctrlkey", "--ctrkey", default="")  # blktests uses both spellings
    args = parser.parse_args()
    if args.command == "config":
        print(SHOWN[args.shown])
    else:
        reload(configuration(subsystem(args) if args.command == "setup" else ""))


if __name__ == "__main__":
    main()
