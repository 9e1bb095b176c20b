# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target host`: hosts that may connect, and their authentication keys."""

from __future__ import annotations

import argparse
from pathlib import Path

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError, warn_of_names
from nvmf.cli.target.client import add_group, add_rpc_command, target
from nvmf.cli.target.done import done

_KEYS = {
    "dhchap_key": "the host's key: the host must authenticate",
    "dhchap_ctrl_key": "the subsystem's key: the host can request mutual authentication",
}


def add_commands(subparsers: Subparsers) -> None:
    """Add target host allow, remove and set-keys."""
    place = "nqn.2026-01.example:disk nqn.2014-08.org.example:laptop"
    group = add_group(
        subparsers,
        "host",
        "manage the hosts that may connect to a subsystem",
        examples=(f"nvmeof target host allow {place}", f"nvmeof target host remove {place}"),
    )
    parser = add_rpc_command(
        group,
        "allow",
        allow,
        "allow a host to connect",
        "With a key the host must authenticate (DH-HMAC-CHAP). gen-dhchap-key generates a key,\n"
        "which the target reads from its file or from a systemd credential (LoadCredential=).",
        examples=(
            f"nvmeof target host allow {place}",
            f"nvmeof target host allow {place} --dhchap-key host.key",
            "nvmeof target host allow nqn.2026-01.example:disk --any",
        ),
    )
    _arguments(parser, "every host; the list of hosts is emptied")
    _key_arguments(parser)
    parser = add_rpc_command(
        group,
        "set-keys",
        set_keys,
        "set the keys of a host",
        "Authenticated connections stay. New connections and authentications need the new keys.\n"
        "Keys are read now, even if the files are the same as before.",
        examples=(
            f"nvmeof target host set-keys {place} --dhchap-key new.key",
            f"nvmeof target host set-keys {place} --none",
        ),
    )
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument("host", metavar="HOSTNQN", help="the host")
    _key_arguments(parser)
    parser.add_argument(
        "--none", action="store_true", help="no keys: the host may connect without authentication"
    )
    parser = add_rpc_command(
        group,
        "remove",
        remove,
        "remove a host from the allowed hosts, and disconnect it",
        examples=(f"nvmeof target host remove {place}",),
    )
    _arguments(parser, "all hosts, if every host is allowed: none may connect then")


def _arguments(parser: argparse.ArgumentParser, any_help: str) -> None:
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("host", metavar="HOSTNQN", nargs="?", help="the host")
    who.add_argument("--any", action="store_true", help=any_help)


def _key_arguments(parser: argparse.ArgumentParser) -> None:
    for name, what in _KEYS.items():
        flag = "--" + name.replace("_", "-")
        where = parser.add_mutually_exclusive_group()
        where.add_argument(flag, metavar="FILE", help=f"file with {what}")
        where.add_argument(
            f"{flag}-credential", metavar="NAME", help="systemd credential with the key"
        )


def _places(args: argparse.Namespace) -> dict[str, str]:
    """Return the locations of keys, as keys of the configuration."""
    found = {}
    for name in _KEYS:
        path, credential = getattr(args, name), getattr(args, f"{name}_credential")
        if path is not None:
            # The target may have a different working directory.
            found[f"{name}_file"] = str(Path(path).absolute())
        if credential is not None:
            found[f"{name}_credential"] = credential
    return found


def allow(args: argparse.Namespace) -> int:
    """Allow a host."""
    places = _places(args)
    warn_of_names(args.host)
    if args.any:
        if places:
            raise UsageError("a key belongs to one host: specify a host instead of --any")
        with target(args) as rpc:
            rpc.allow_any_host(args.nqn, True)
        done(args, f"every host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=True)
    elif places:
        with target(args) as rpc:
            rpc.add_host_table(args.nqn, {"nqn": args.host, **places})
        words = f"{args.host} may connect to {args.nqn} after authentication"
        done(args, words, nqn=args.nqn, host=args.host, **places)
    else:
        with target(args) as rpc:
            rpc.add_host(args.nqn, args.host)
        done(args, f"{args.host} may connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK


def set_keys(args: argparse.Namespace) -> int:
    """Set or remove keys."""
    places = _places(args)
    if bool(places) == args.none:
        raise UsageError(
            "--none removes the keys: it cannot be combined with other options"
            if places
            else "specify the location of the keys (--dhchap-key FILE), or --none"
        )
    with target(args) as rpc:
        rpc.set_host_keys(args.nqn, {"nqn": args.host, **places})
    words = (
        f"{args.host} must use its new key for {args.nqn} from now on"
        if places
        else f"{args.host} may connect to {args.nqn} without authentication"
    )
    done(args, words, nqn=args.nqn, host=args.host, **places)
    return EXIT_OK


def remove(args: argparse.Namespace) -> int:
    """Remove a host."""
    if args.any:
        with target(args) as rpc:
            rpc.allow_any_host(args.nqn, False)
        done(args, f"no host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=False)
    else:
        with target(args) as rpc:
            rpc.remove_host(args.nqn, args.host)
        done(args, f"{args.host} may no longer connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK
