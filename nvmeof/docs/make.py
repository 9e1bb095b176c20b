# SPDX-License-Identifier: BSD-3-Clause
"""./dev manual: write manual pages and completion scripts from the parser and the models."""

from __future__ import annotations

from manual.tree import ROOT, write

if __name__ == "__main__":
    changed = write()
    for path in changed:
        print(path.relative_to(ROOT))
    print(
        f"{len(changed)} files were written or removed." if changed else "Everything is as it was."
    )
