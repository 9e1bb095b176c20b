# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof gen-dhchap-key`, `check-dhchap-key`: authentication keys, compatible with nvme-cli."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nvmf.auth import Key
from nvmf.auth.key import read_key
from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, add_command, warn_of_names
from nvmf.cli.output import print_json
from nvmf.initiator.base.identity import host_identity
from nvmf.spec.auth import Hash
from nvmf.spec.nqn import validate_nqn


def add_commands(subparsers: Subparsers) -> None:
    """Add gen-dhchap-key and check-dhchap-key."""
    parser = add_command(
        subparsers,
        "gen-dhchap-key",
        generate,
        "generate a key for in-band authentication (DH-HMAC-CHAP)",
        "Configure the printed key on both ends. Keep it in a file with restricted permissions.",
        examples=(
            "(umask 077; nvmeof gen-dhchap-key > host.key)",
            "nvmeof gen-dhchap-key --hmac 2 --nqn nqn.2014-08.org.example:laptop",
        ),
    )
    parser.add_argument(
        "-m",
        "--hmac",
        metavar="HASH",
        choices=("0", "1", "2", "3"),
        default="0",
        help="hash that transforms the key before it is used: 0 none, 1 SHA-256, 2 SHA-384, "
        "3 SHA-512 (default: 0)",
    )
    parser.add_argument(
        "-l",
        "--key-length",
        metavar="BYTES",
        choices=("32", "48", "64"),
        help="length of the secret: 32, 48 or 64 (default: length of the hash, or 32)",
    )
    parser.add_argument(
        "-s",
        "--secret",
        metavar="HEX",
        help="use this secret instead of a random one",
    )
    parser.add_argument(
        "-n",
        "--nqn",
        metavar="NQN",
        help="NQN for the transformation of --secret by a hash (default: this host's)",
    )
    parser = add_command(
        subparsers,
        "check-dhchap-key",
        check,
        "check a key for in-band authentication",
        "Describes the key without showing it. Exit status 1 if it is invalid.",
        examples=("nvmeof check-dhchap-key -f host.key",),
    )
    parser.add_argument("-k", "--key", metavar="KEY", help="DHHC-1:HH:BASE64:")
    parser.add_argument("-f", "--key-file", metavar="FILE", help="file with the key")


def generate(args: argparse.Namespace) -> int:
    """Generate a key and print it."""
    hashed = Hash(int(args.hmac)) if args.hmac != "0" else None
    try:
        seed = bytes.fromhex(args.secret or "")
    except ValueError:
        raise UsageError("--secret must be hexadecimal, two digits per byte") from None
    try:
        nqn = validate_nqn(args.nqn) if args.nqn else host_identity().nqn
        size = int(args.key_length) if args.key_length else None
        key = Key.generate(hashed, size, nqn=nqn, seed=seed)
    except ValueError as error:
        raise UsageError(str(error)) from None
    warn_of_names(args.nqn or None)
    if args.output_format == "json":
        print_json({"key": key.text(), **_about(key)})
    else:
        print(key.text())
    return EXIT_OK


def check(args: argparse.Namespace) -> int:
    """Check a key and describe it."""
    if (args.key is None) == (args.key_file is None):
        raise UsageError("specify the key with -k, or its file with -f")
    exposed = False
    try:
        if args.key is not None:
            key = Key.parse(args.key)
        else:
            key, exposed = read_key(Path(args.key_file))
    except ValueError as error:
        raise CliError(str(error)) from None
    if exposed:
        print(f"warning: {args.key_file} is world-readable: chmod 0600 it", file=sys.stderr)
    if args.output_format == "json":
        print_json({"valid": True, **_about(key)})
    else:
        transformed = f"transformed by {key.hash.title}" if key.hash else "not transformed"
        print(f"Key is valid (HMAC {int(key.hash or 0)}, length {key.size}): {transformed}")
    return EXIT_OK


def _about(key: Key) -> dict[str, object]:
    return {"hmac": int(key.hash or 0), "length": key.size}
