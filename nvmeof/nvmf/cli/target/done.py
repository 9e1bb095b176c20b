# SPDX-License-Identifier: BSD-3-Clause
"""Output of a command that makes a change."""

from __future__ import annotations

import argparse

from nvmf.cli.output import print_json


def done(args: argparse.Namespace, sentence: str, **facts: object) -> None:
    """Print a message, or with -o json its facts."""
    if args.output_format == "json":
        print_json(facts)
    else:
        print(sentence)
