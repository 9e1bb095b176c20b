#!/usr/lib/nvmeof/bin/python3 -s
"""The command nvmeof: see nvmeof(1)."""

import sys

from nvmf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
