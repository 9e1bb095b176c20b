# SPDX-License-Identifier: BSD-3-Clause
"""The Python packages that the Debian package contains: their versions and their licences.

``vendored.py requirements run|build`` prints NAME==VERSION of each, as installed in the environment
that runs it: what nvmeof-rdma needs to run, or what builds it.  ``vendored.py needed`` prints what
to install in an environment before that.  ``vendored.py copyright FOLDER``
completes debian/copyright on its standard output with the licences of the packages in FOLDER.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

OURS = "nvmeof-rdma"
LICENCE = re.compile(r"(?i)(^|/)(licen[cs]e|copying|notice)[^/]*$")
HOLDER = re.compile(r"(?i)^\W*(copyright\b.*\d{4}.*|copyright \(c\) .+|©.*)$")
"""A line of a licence that names who has the copyright."""

COMMON = {
    ("Apache License", "Version 2.0, January 2004", "END OF TERMS"): (
        "/usr/share/common-licenses/Apache-2.0"
    ),
    ("GNU LESSER GENERAL PUBLIC LICENSE", "Version 2.1, February 1999"): (
        "/usr/share/common-licenses/LGPL-2.1"
    ),
}
"""Path of the licence in Debian that contains these words."""


def closure(requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions of these packages and of all that they need here, by name."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, str] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        one = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(one.name)
        if name not in found:
            distribution = importlib.metadata.distribution(name)
            found[name] = distribution.version
            waiting += [Requirement(text) for text in distribution.requires or []]
    return found


def needs() -> dict[str, list[str]]:
    """Return the requirements of pyproject.toml, by kind: run and build."""
    tables = tomllib.loads(Path("pyproject.toml").read_text())
    return {
        "run": tables["project"]["dependencies"],
        "build": tables["build-system"]["requires"],
    }


def requirements(kind: str) -> str:
    """Return the lines of a requirements file; kind is run or build."""
    return "".join(
        f"{name}=={version}\n" for name, version in sorted(closure(needs()[kind]).items())
    )


def indented(text: str) -> str:
    """Return text as the continuation of a field: indented, and a dot for each empty line."""
    return "".join(f" {line.rstrip() or '.'}\n" for line in text.strip().splitlines())


def shortened(text: str) -> str:
    """Return a licence, or where Debian keeps it, if it is one that Debian keeps."""
    for words, place in COMMON.items():
        if all(word in text for word in words):
            return f"On Debian systems the full text is in {place}."
    return text


def stanza(distribution: importlib.metadata.Distribution) -> str:
    """Return the stanza of one package.  Exit if it has no licence."""
    name = distribution.metadata["Name"]
    files = [path for path in distribution.files or [] if LICENCE.search(str(path))]
    files = [path for path in files if ".dist-info" in str(path)]
    texts = [
        Path(str(distribution.locate_file(path))).read_text(errors="replace") for path in files
    ]
    if not any(text.strip() for text in texts):
        sys.exit(f"debian/copyright: the wheel of {name} contains no licence: add it by hand.")
    holders = [line.strip() for text in texts for line in text.splitlines() if HOLDER.match(line)]
    holders = list(dict.fromkeys(holders)) or [f"The authors of {name}"]
    top = {
        path.parts[0]
        for path in distribution.files or []
        if path.parts[0] not in ("..", "share", "bin")
    }
    places = "".join(f" lib/python3*/site-packages/{part}*\n" for part in sorted(top))
    return (
        f"\nFiles:\n{places}Copyright:\n{indented(chr(10).join(holders))}"
        f"License: {name}\n{indented(chr(10).join(map(shortened, texts)))}"
        f"Comment: {name} {distribution.version}\n"
    )


def copyright_of(folder: str, head: str) -> str:
    """Return the whole of debian/copyright for the packages in a folder."""
    ours = f"License: BSD-3-Clause\n{indented(Path('LICENSE').read_text())}"
    others = sorted(
        (one for one in importlib.metadata.distributions(path=[folder])),
        key=lambda one: one.metadata["Name"].lower(),
    )
    return head + ours + "".join(stanza(one) for one in others if one.metadata["Name"] != OURS)


def main(argv: list[str]) -> int:
    match argv:
        case ["requirements", ("run" | "build") as kind]:
            print(requirements(kind), end="")
        case ["needed"]:
            print("packaging", *needs()["run"], *needs()["build"], sep="\n")
        case ["copyright", folder]:
            print(copyright_of(folder, sys.stdin.read()), end="")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
