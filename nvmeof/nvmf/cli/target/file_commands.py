# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof target reload`, `save`, `restore` and `clear`: the whole configuration."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, UsageError, read_or_stdin
from nvmf.cli.output import print_json
from nvmf.cli.target.client import add_rpc_command, target
from nvmf.cli.target.done import done

if TYPE_CHECKING:
    from nvmf.config import Config

NVMETCLI = "/etc/nvmet/config.json"
"""nvmetcli's default file."""
Run: TypeAlias = Callable[[argparse.Namespace], int]
"""A command."""


def add_commands(subparsers: Subparsers) -> None:
    """Add target reload, save, restore and clear."""
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
        "Comments, order and unchanged keys are preserved. A FILE that ends with .json gets the\n"
        "format of nvmetcli; settings that the kernel's target lacks are listed on stderr. With -\n"
        "the configuration is printed, with its keys.",
        examples=(
            "nvmeof target save",
            "nvmeof target save other.toml",
            "nvmeof target save config.json",
        ),
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "file", metavar="FILE", nargs="?", help="write to a different file; - is stdout"
    )
    where.add_argument("--output", metavar="FILE", help="the same as FILE")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write even if the file was changed after the target read it",
    )
    parser = add_rpc_command(
        subparsers,
        "restore",
        restore,
        "replace the configuration of a target by that in a file",
        "FILE is a configuration (TOML), or a file of nvmetcli (JSON), whose settings without a\n"
        "counterpart are listed on stderr. Unchanged parts are not disturbed; if the file is\n"
        "invalid, nothing changes. Tables that are read only at start, such as [target], stay as\n"
        "they are. The target keeps its own configuration file, which target reload applies again.",
        examples=("nvmeof target restore /etc/nvmet/config.json", "nvmeof target restore -"),
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"the file, or - for stdin (default: {NVMETCLI}, if it exists)",
    )
    add_rpc_command(
        subparsers,
        "clear",
        clear,
        "remove all ports, subsystems and bdevs of a target",
        "Hosts are disconnected. The content of namespaces in memory is lost; files stay. The\n"
        "target runs on, and its configuration file is unchanged: target reload applies it again.",
        examples=("nvmeof target clear",),
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

    named: str | None = args.file or args.output
    if named == "-" and args.output_format == "json":
        raise UsageError("the configuration goes to stdout: -o json needs a FILE")
    with target(args) as rpc:
        found = rpc.config(secrets=True)
    named = named or found["path"]
    if named is None:
        raise UsageError("the target has no configuration file: specify a FILE")
    if named == "-":
        print(merge("", Config.model_validate(found["config"])).lstrip("\n"), end="")
        return EXIT_OK
    path = Path(named)
    if path.exists() and not path.is_file():  # it cannot be read to keep its comments, or replaced
        raise CliError(f"cannot write {path}: it is not a regular file (for stdout, specify -)")
    if path.suffix == ".json":
        return _save_json(args, path, Config.model_validate(found["config"]))
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
        raise CliError(f"cannot change {path}: {error}; specify a different FILE") from None
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from None
    if own:
        with target(args) as rpc:
            # The target's own file; a change since it was read is not to be undone.
            rpc.reload(revision=found["revision"])
    done(args, f"{path} was written", path=str(path))
    return EXIT_OK


def _save_json(args: argparse.Namespace, path: Path, config: Config) -> int:
    """Write nvmetcli's format."""
    from nvmf.config import nvmetcli
    from nvmf.config.save import write

    made, lost = nvmetcli.dump(config)
    for sentence in lost:
        print(f"warning: {sentence}", file=sys.stderr)
    try:
        write(path, json.dumps(made, indent=2) + "\n")
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from None
    done(args, f"{path} was written", path=str(path), warnings=lost)
    return EXIT_OK


def restore(args: argparse.Namespace) -> int:
    """Serve the configuration in a file."""
    from nvmf.config import advice
    from nvmf.config.plain import plain

    name: str = args.file or NVMETCLI
    if args.file is None and not Path(name).exists():  # as nvmetcli: its unit starts without it
        done(args, f"there is no {name}: nothing was changed", changed=None, warnings=[])
        return EXIT_OK
    config, lost = _read(name)
    warnings = lost + advice(config, None if name == "-" else name)
    for sentence in warnings:
        print(f"{name}: warning: {sentence}", file=sys.stderr)
    with target(args) as rpc:
        changed = rpc.set_config(plain(config))
    done(args, changed, changed=changed, warnings=warnings)
    return EXIT_OK


def _read(name: str) -> tuple[Config, list[str]]:
    """Return the configuration in a file, and a sentence for each setting that is lost."""
    from nvmf.config import ConfigError, loads, nvmetcli

    folder = Path.cwd() if name == "-" else Path(name).absolute().parent
    try:
        text = read_or_stdin(name)
        if text.lstrip().startswith("{"):
            return nvmetcli.load(text, name)
        return loads(text, name, base=folder), []
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CliError(f"{name}: not UTF-8 text: {error}") from None
    except ConfigError as error:
        raise CliError(str(error)) from None


def clear(args: argparse.Namespace) -> int:
    """Remove all ports, subsystems and bdevs."""
    with target(args) as rpc:
        changed = rpc.set_config({"port": []})
    done(args, changed, changed=changed)
    return EXIT_OK
