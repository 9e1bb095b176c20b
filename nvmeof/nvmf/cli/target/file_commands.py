# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target reload` and `target save`: apply or write the configuration file."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError
from nvmf.cli.output import print_json
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.cli.target.done import done


def add_commands(subparsers: Subparsers) -> None:
    """Add target reload and save."""
    add_rpc_command(
        subparsers,
        "reload",
        reload,
        "make a target read its configuration file again",
        "Unchanged parts are not disturbed. If the file is invalid, nothing changes.",
        examples=("nvmeof target reload",),
    )
    parser = add_rpc_command(
        subparsers,
        "save",
        save,
        "write the current configuration back to its file",
        "Comments, order and unchanged keys are preserved.",
        examples=("nvmeof target save", "nvmeof target save --output other.toml"),
    )
    parser.add_argument("--output", metavar="FILE", help="write to a different file")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write even if the file was changed after the target read it",
    )


def reload(args: argparse.Namespace) -> int:
    """Apply the file to the target."""
    with target(args) as rpc:
        found = rpc.reload()
    if args.output_format == "json":
        print_json(found)
        return EXIT_OK
    for sentence in (*found["ignored"], *found["warnings"]):
        print(f"warning: {sentence}", file=sys.stderr)
    print(found["changed"])
    return EXIT_OK


def save(args: argparse.Namespace) -> int:
    """Write the target's configuration to the file."""
    from nvmf.config import Config, ConfigError
    from nvmf.config.save import merge, write

    with target(args) as rpc:
        found = rpc.config(secrets=True)
    named: str | None = args.output or found["path"]
    if named is None:
        raise UsageError("the target has no configuration file: specify one with --output")
    path = Path(named)
    own = found["path"] is not None and path.resolve() == Path(found["path"]).resolve()
    try:
        raw = path.read_bytes() if path.exists() else b""
        changed = hashlib.sha256(raw).hexdigest() != found["sha256"]
        if own and changed and not args.force:
            raise CliError(
                f"{path} was changed after the target read it: apply it with target reload, or "
                "replace its content with target save --force"
            )
        wanted = Config.model_validate(found["config"])
        write(path, merge(raw.decode(), wanted, base=path.parent))
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: not UTF-8 text: {error}") from None
    except ConfigError as error:
        raise CliError(
            f"cannot change {path}: {error}; specify a different file with --output"
        ) from None
    if own:
        with target(args) as rpc:
            rpc.reload()  # the saved file is the target's own
    done(args, f"{path} was written", path=str(path))
    return EXIT_OK
