# SPDX-License-Identifier: BSD-3-Clause
"""Python imports this at its start: the process observes its event loops (support/slow.py)."""

import sys
from importlib import util
from pathlib import Path

_spec = util.spec_from_file_location("slow", Path(__file__).resolve().parents[1] / "slow.py")
assert _spec is not None
assert _spec.loader is not None
_slow = sys.modules["slow"] = util.module_from_spec(_spec)
_spec.loader.exec_module(_slow)
_slow.watch_to_file()
