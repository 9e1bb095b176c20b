# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof`, before anything of it is loaded: an interrupt meanwhile has no traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    try:
        from nvmf.cli.app import run

        return run(argv)
    except KeyboardInterrupt:
        print("nvmeof: interrupted", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
