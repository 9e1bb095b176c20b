# SPDX-License-Identifier: BSD-3-Clause
"""Runs `nvmeof` commands in the guest, one after the other in one process.

    python -m lab.command_server ASK ANSWER      two FIFOs

Starting Python takes the emulated guest seconds; so the command line is imported once.  ASK takes
a JSON list of arguments, ANSWER then gives {"status", "out", "err"}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from nvmf.cli.app import run


def call(args: list[str]) -> dict[str, object]:
    """Run one command, with its output in files."""
    saved = [os.dup(number) for number in (1, 2)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            status = run(args)
        except SystemExit as end:
            status = int(str(end.code or 0))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, file in zip((1, 2), saved, strict=True):
                os.dup2(file, number)
                os.close(file)
        texts = []
        for written in (out, err):
            written.seek(0)
            texts.append(written.read().decode())
    return {"status": status, "out": texts[0], "err": texts[1]}


def main(ask: Path, answer: Path) -> None:
    """Serve until null is received."""
    print("ready", flush=True)
    while (args := json.loads(ask.read_text())) is not None:
        answer.write_text(json.dumps(call(args)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
