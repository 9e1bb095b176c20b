# SPDX-License-Identifier: BSD-3-Clause
"""The alert rules and the scrape example for Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nvmf.target.metrics.families import FAMILIES

SYSTEMD = Path(__file__).parents[2] / "systemd"
FOLDER = SYSTEMD / "prometheus"


@pytest.fixture
def promtool() -> str:
    """Return the path of Prometheus' promtool."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    return found


def promtool_accepts(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_use_existing_counters() -> None:
    known = {one.name + ("_total" if one.kind == "counter" else "") for one in FAMILIES}
    text = (FOLDER / "rules.yml").read_text()
    expressions = re.findall(r"^ *expr: (.*)", text, re.MULTILINE)
    used = set(re.findall(r"\bnvmeof_\w+", "\n".join(expressions)))
    assert used
    assert used <= known


def test_promtool_accepts_the_rules(promtool: str) -> None:
    promtool_accepts(promtool, "check", "rules", str(FOLDER / "rules.yml"))


def test_promtool_accepts_the_scrape_example(promtool: str) -> None:
    promtool_accepts(promtool, "check", "config", str(FOLDER / "scrape.yml"))


def test_promtool_accepts_the_dashboard(promtool: str, tmp_path: Path) -> None:
    """Each query of the dashboard is a valid rule, after replacing Grafana's variables."""
    dashboard = json.loads((SYSTEMD / "grafana" / "nvmeof-target.json").read_text())
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])
    ]
    assert queries
    rules = []
    for number, query in enumerate(queries):
        query = query.replace("$__rate_interval", "1m")
        query = re.sub(r"\$(instance|subsystem)", ".*", query)
        rules.append({"record": f"panel:query:{number}", "expr": query})
    # JSON is YAML as well.
    file = tmp_path / "dashboard.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool_accepts(promtool, "check", "rules", str(file))
