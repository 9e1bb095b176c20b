# SPDX-License-Identifier: BSD-3-Clause
"""What a change says when it is made."""

from __future__ import annotations

import argparse
from typing import Any

from nvmf.cli.output import print_json


def done(args: argparse.Namespace, sentence: str, **facts: Any) -> None:
    """A sentence, or with -o json what it says."""
    if args.output_format == "json":
        print_json(facts)
    else:
        print(sentence)
