# SPDX-License-Identifier: BSD-3-Clause
"""Run one module of nvme-cli's tests in the guest: ``nvme_cli_run.py FOLDER MODULE``.

The modules read ``tests/config.json`` of the present folder.  The last line of the output is JSON:
the outcome of each test, with the reason if it was skipped.
"""

from __future__ import annotations

import json
import os
import sys
import unittest


def main(folder: str, module: str) -> int:
    """Return 0 if no test failed."""
    out = sys.stdout  # the tests replace it
    os.chdir(folder)
    sys.path.insert(0, os.path.join(folder, "tests"))
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    result = unittest.TextTestRunner(out, verbosity=2).run(suite)
    skipped = {test.id(): reason for test, reason in result.skipped}
    counts = {"run": result.testsRun, "skipped": skipped}
    print(json.dumps(counts), file=out)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
