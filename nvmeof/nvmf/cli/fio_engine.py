# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof fio-engine`: build the ioengine for the installed fio, and print where it is."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nvmf.cli.base import EXIT_OK, CliError, Subparsers, add_command
from nvmf.cli.output import print_json
from nvmf.paths import fio_engine_path

_FLAGS = ("-std=gnu17", "-O2", "-g", "-fPIC", "-D_GNU_SOURCE=")
_LIBRARIES = ("liburing", "libibverbs", "librdmacm")
_PACKAGES = "liburing-dev, libibverbs-dev and librdmacm-dev"
_NVMF = Path(__file__).resolve().parents[1]


def add_commands(subparsers: Subparsers) -> None:
    """Add fio-engine build and fio-engine path."""
    parser = subparsers.add_parser(
        "fio-engine",
        help="build the fio engine for the installed fio, or print its path",
        description="Build the fio engine for the installed fio, or print its path.\n\nfio loads "
        "an engine only if it was compiled with the headers of the same version of fio.",
        examples=("fio --ioengine=external:$(nvmeof fio-engine path) job.fio",),
    )
    group = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = add_command(
        group,
        "build",
        build,
        "compile the fio engine",
        "Needs a C compiler, the headers of liburing, libibverbs and librdmacm (Debian:\n"
        f"{_PACKAGES}) and fio's source, which has its headers (Debian: apt-get source fio).\n"
        "Nothing is written to the source; if it is not configured, a copy of it is.\n"
        "$CC is the compiler (cc), and $CFLAGS are added to its options.",
        examples=("nvmeof fio-engine build --fio-source fio-3.33",),
    )
    one.add_argument(
        "--fio-source",
        metavar="DIR",
        type=Path,
        required=True,
        help="source of fio, of the version that will load the engine",
    )
    one.add_argument(
        "--to", metavar="FILE", type=Path, help="the engine's file (default: see fio-engine path)"
    )
    one.add_argument(
        "--fio", metavar="PROGRAM", help="fio (default: $NVMF_FIO, or the one in PATH)"
    )
    one = add_command(
        group,
        "path",
        path,
        "print the path of the engine that was built for the installed fio",
        examples=("nvmeof fio-engine path",),
    )
    one.add_argument(
        "--fio", metavar="PROGRAM", help="fio (default: $NVMF_FIO, or the one in PATH)"
    )


def _add_fio(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fio", metavar="PROGRAM", help="fio (default: $NVMF_FIO, or the one in PATH)"
    )


def path(args: argparse.Namespace) -> int:
    """Print where the engine is."""
    version = _version(args.fio)
    found = fio_engine_path(version)
    if not found.exists():
        raise CliError(
            f"no engine was built for {version}: run nvmeof fio-engine build, which makes {found}"
        )
    _print(args, version, found)
    return EXIT_OK


def build(args: argparse.Namespace) -> int:
    """Compile the engine."""
    version = _version(args.fio)
    _same(version, args.fio_source)
    to: Path = args.to or fio_engine_path(version)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="nvmeof-fio-") as name:
            folder = Path(name)
            made = _compile(_configured(args.fio_source, folder), folder)
            beside = to.with_name(f".{to.name}.new")  # fio may have the old one loaded
            shutil.copyfile(made, beside)
            beside.chmod(0o755)
            beside.replace(to)
    except shutil.Error as error:
        raise CliError(f"cannot copy {args.fio_source}: {error.args[0][0][2]}") from None
    _print(args, version, to)
    return EXIT_OK


def _print(args: argparse.Namespace, version: str, found: Path) -> None:
    if args.output_format == "json":
        print_json({"fio": version, "engine": str(found)})
    else:
        print(found)


def _version(program: str | None) -> str:
    """Return the installed fio's version, such as fio-3.33."""
    name = program or os.environ.get("NVMF_FIO") or shutil.which("fio")
    if name is None:
        raise CliError("fio is not installed: apt-get install fio, or name it with --fio")
    said = _run([name, "--version"]).strip()
    if not re.fullmatch(r"fio-\d+\.\d+\S*", said):
        raise CliError(f"{name} is not fio: to --version it answers {said[:80]!r}")
    return said


def _same(version: str, source: Path) -> None:
    """Raise CliError if the source is not that of this version of fio."""
    try:
        text = (source / "FIO-VERSION-GEN").read_text()
    except OSError as error:
        raise CliError(f"{source} is not the source of fio: {error.strerror}") from None
    found = re.search(r"^DEF_VER=(\S+)", text, re.M)
    theirs = found[1] if found else "an unknown version"
    if _numbers(theirs) != _numbers(version):
        raise CliError(
            f"{source} is the source of {theirs}, but the installed fio is {version}, which would "
            "not load the engine: get the source of that version"
        )


def _numbers(version: str) -> list[str]:
    return re.findall(r"\d+", version)[:2]


def _configured(source: Path, folder: Path) -> Path:
    """Return the source if it is configured, else a configured copy."""
    if (source / "config-host.h").exists():
        return source.absolute()
    copy = folder / "fio"
    shutil.copytree(source, copy, symlinks=True)
    _run(["sh", "./configure", "--disable-native"], copy)
    return copy


def _compile(fio: Path, folder: Path) -> Path:
    """Return the engine, compiled in a folder."""
    engine, ours = _NVMF / "engine" / "c", _ours()
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = [*_FLAGS, f"-I{engine}", f"-I{engine / 'verbs'}", f"-I{engine / 'iwarp'}"]
    flags += _packaged("--cflags") + shlex.split(os.environ.get("CFLAGS", ""))
    hidden = [*compiler, *flags, "-fvisibility=hidden"]
    shown = [*compiler, *flags, "-isystem", str(fio), "-include", str(fio / "config-host.h")]
    jobs = [(hidden, one) for one in sorted(engine.rglob("*.c"))]
    jobs += [(shown, one) for one in sorted(ours.glob("*.c"))]
    objects = [str(folder / f"{number}.o") for number in range(len(jobs))]

    def compile_one(job: tuple[list[str], Path], to: str) -> None:
        _run([*job[0], "-c", str(job[1]), "-o", to])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(compile_one, jobs, objects):
            pass
    made = folder / "nvmeof-fio.so"
    # fio unloads it while a thread of the embedded device ends: the code has to stay.
    link = ["-shared", "-Wl,-z,nodelete", "-o", str(made), *objects]
    _run([*compiler, *link, *_packaged("--libs", "liburing"), "-lpthread", "-ldl", "-lm"])
    return made


def _ours() -> Path:
    """Return the folder of the engine's source: of the wheel, or of the source tree."""
    places = (_NVMF / "fio", _NVMF.parents[1] / "initiator" / "fio")
    for place in places:
        if (place / "nvmeof.c").exists():
            return place
    raise CliError(f"this installation has no source of the fio engine: {places[0]} is missing")


def _packaged(what: str, *names: str) -> list[str]:
    """Return compiler flags of the libraries."""
    return shlex.split(_run(["pkg-config", what, *(names or _LIBRARIES)]))


def _run(words: Sequence[str], folder: Path | None = None) -> str:
    """Run a program; return its output, or raise CliError with the end of it."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CliError(f"cannot run {words[0]}: {error.strerror}; install it") from None
    if done.returncode:
        end = "\n".join((done.stderr or done.stdout).strip().splitlines()[:12])
        raise CliError(
            f"{words[0]} failed with status {done.returncode}; are the headers installed "
            f"({_PACKAGES})?\n{end}"
        )
    return done.stdout
