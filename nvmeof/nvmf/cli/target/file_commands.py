# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target reload` and `target save`: from the file to the target, and back."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError
from nvmf.cli.output import print_json
from nvmf.cli.target.client import add_rpc_command, call
from nvmf.cli.target.done import done


def add_commands(subparsers: Subparsers) -> None:
    """target reload, save."""
    add_rpc_command(
        subparsers,
        "reload",
        reload,
        "let a target read its configuration file again",
        "What is the same goes on undisturbed. Where the file is wrong, nothing changes.",
        examples=("nvmeof target reload",),
    )
    parser = add_rpc_command(
        subparsers,
        "save",
        save,
        "write the configuration in force back to its file",
        "Comments and order stay, and so does what is the same.",
        examples=("nvmeof target save", "nvmeof target save --output other.toml"),
    )
    parser.add_argument("--output", metavar="FILE", help="another file")
    parser.add_argument(
        "--force", action="store_true", help="though the file was changed after the target read it"
    )


def reload(args: argparse.Namespace) -> int:
    """From the file to the target."""
    found = call(args, "target_reload")
    if args.output_format == "json":
        print_json(found)
        return EXIT_OK
    for sentence in (*found["ignored"], *found["warnings"]):
        print(f"warning: {sentence}", file=sys.stderr)
    print(found["changed"])
    return EXIT_OK


def save(args: argparse.Namespace) -> int:
    """From the target to the file."""
    from nvmf.config import Config, ConfigError
    from nvmf.config.save import merge, write

    found = call(args, "target_get_config", secrets=True)
    if args.output is None and found["path"] is None:
        raise UsageError("the target has no configuration file: give one with --output")
    path = Path(args.output or found["path"])
    own = found["path"] is not None and path.resolve() == Path(found["path"]).resolve()
    try:
        raw = path.read_bytes() if path.exists() else b""
        changed = hashlib.sha256(raw).hexdigest() != found["sha256"]
        if own and changed and not args.force:
            raise CliError(
                f"{path} was changed after the target read it: target reload takes what it says, "
                "target save --force puts what is in force into it"
            )
        wanted = Config.model_validate(found["config"])
        write(path, merge(raw.decode(), wanted, base=path.parent))
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: is not UTF-8 text: {error}") from None
    except ConfigError as error:
        raise CliError(f"{path} cannot be changed: {error}; give another with --output") from None
    if own:
        call(args, "target_reload")  # it is the file that the target knows
    done(args, f"{path} is written", path=str(path))
    return EXIT_OK
