# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target host`: who may connect, and what a host has to prove that with."""

from __future__ import annotations

import argparse
from pathlib import Path

from nvmf.cli.base import EXIT_OK, Subparsers, UsageError
from nvmf.cli.target.client import add_group, add_rpc_command, call
from nvmf.cli.target.done import done

_KEYS = {
    "dhchap_key": "the host's key: it has to authenticate",
    "dhchap_ctrl_key": "the subsystem's key: the host may ask it to authenticate too",
}


def add_commands(subparsers: Subparsers) -> None:
    """target host allow, remove, set-keys."""
    place = "nqn.2026-01.example:disk nqn.2014-08.org.example:laptop"
    group = add_group(
        subparsers,
        "host",
        "say who may connect to a subsystem",
        examples=(f"nvmeof target host allow {place}", f"nvmeof target host remove {place}"),
    )
    parser = add_rpc_command(
        group,
        "allow",
        allow,
        "let a host connect",
        "With a key it has to authenticate (DH-HMAC-CHAP): gen-dhchap-key makes one, and the\n"
        "target reads it from its file or from a systemd credential (LoadCredential= of its unit).",
        examples=(
            f"nvmeof target host allow {place}",
            f"nvmeof target host allow {place} --dhchap-key host.key",
            "nvmeof target host allow nqn.2026-01.example:disk --any",
        ),
    )
    _arguments(parser, "every host")
    _key_arguments(parser)
    parser = add_rpc_command(
        group,
        "set-keys",
        set_keys,
        "give a host other keys",
        "Connections that are authenticated stay. What connects or authenticates from now on\n"
        "needs the new keys, which are read now, from the same files too.",
        examples=(
            f"nvmeof target host set-keys {place} --dhchap-key new.key",
            f"nvmeof target host set-keys {place} --none",
        ),
    )
    parser.add_argument("nqn", metavar="NQN", help="the subsystem")
    parser.add_argument("host", metavar="HOSTNQN", help="the host")
    _key_arguments(parser)
    parser.add_argument(
        "--none", action="store_true", help="no key: the host may connect without authentication"
    )
    parser = add_rpc_command(
        group,
        "remove",
        remove,
        "let a host connect no more, and disconnect it",
        examples=(f"nvmeof target host remove {place}",),
    )
    _arguments(parser, "every host that is not named from then on")


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
        where.add_argument(f"{flag}-credential", metavar="NAME", help="the same, as a credential")


def _places(args: argparse.Namespace) -> dict[str, str]:
    """Where keys are, in the words of the configuration."""
    found = {}
    for name in _KEYS:
        path, credential = getattr(args, name), getattr(args, f"{name}_credential")
        if path is not None:
            # The target may have another working directory.
            found[f"{name}_file"] = str(Path(path).absolute())
        if credential is not None:
            found[f"{name}_credential"] = credential
    return found


def allow(args: argparse.Namespace) -> int:
    """One more."""
    places = _places(args)
    if args.any:
        if places:
            raise UsageError("a key is one host's: name it instead of --any")
        call(args, "nvmf_subsystem_allow_any_host", nqn=args.nqn, allow_any_host=True)
        done(args, f"every host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=True)
    elif places:
        call(args, "target_add_host", nqn=args.nqn, host={"nqn": args.host, **places})
        words = f"{args.host} may connect to {args.nqn} when it has authenticated"
        done(args, words, nqn=args.nqn, host=args.host, **places)
    else:
        call(args, "nvmf_subsystem_add_host", nqn=args.nqn, host=args.host)
        done(args, f"{args.host} may connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK


def set_keys(args: argparse.Namespace) -> int:
    """Others, or none."""
    places = _places(args)
    if bool(places) == args.none:
        raise UsageError(
            "--none takes the keys away: it goes with no other"
            if places
            else "say where the keys are (--dhchap-key FILE), or --none"
        )
    call(args, "target_set_host_keys", nqn=args.nqn, host={"nqn": args.host, **places})
    words = (
        f"{args.host} needs its new key for {args.nqn} from now on"
        if places
        else f"{args.host} may connect to {args.nqn} without authentication"
    )
    done(args, words, nqn=args.nqn, host=args.host, **places)
    return EXIT_OK


def remove(args: argparse.Namespace) -> int:
    """One less."""
    if args.any:
        call(args, "nvmf_subsystem_allow_any_host", nqn=args.nqn, allow_any_host=False)
        done(args, f"no host may connect to {args.nqn}", nqn=args.nqn, allow_any_host=False)
    else:
        call(args, "nvmf_subsystem_remove_host", nqn=args.nqn, host=args.host)
        done(args, f"{args.host} may not connect to {args.nqn}", nqn=args.nqn, host=args.host)
    return EXIT_OK
