# SPDX-License-Identifier: BSD-3-Clause
"""Entry point of `nvmeof`, before its imports: an interrupt during these shows no traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    try:
        from nvmf.cli.app import run

        return run(argv)
    except KeyboardInterrupt:
        print("nvmeof: interrupted", file=sys.stderr)
        return 130
    except ImportError as error:
        # The message of dlopen(3): the engine is linked to a library that is not installed.
        library, _, words = str(error).partition(": ")
        if not words.startswith("cannot open shared object file"):
            raise
        print(
            f"nvmeof: cannot load the engine: the library {library} is missing; install its"
            " package (Debian: apt-get install liburing2)",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
