"""The rules, the configuration and the dashboard of `deploy/`, read by Prometheus' own tools where they are installed,
and compared with the figures that `/metrics` has.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
import yaml

from awmweb.metrics.processes import COUNTED
from people.measures import LEVELS, MEASURES
from tests.commands import ROOT

PROMETHEUS, DASHBOARD = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana" / "awmweb.json"
NAME = re.compile(r"\bawmweb_[a-z_]+[a-z]\b")
PARTS = re.compile(r"_(bucket|sum|count)$")


def promtool(*arguments):
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed here (Debian: prometheus)")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, cwd=PROMETHEUS)
    assert done.returncode == 0, done.stdout + done.stderr


def figures():
    """Every figure of the page, from the tables and the modules that make them."""
    modules = (ROOT / "awmweb" / "metrics").glob("*.py")
    written = {name for module in modules for name in re.findall(r'"(awmweb_[a-z_]+)"', module.read_text())}
    return written | set(MEASURES) | set(LEVELS) | {f"awmweb_environment_{name}_total" for name in COUNTED}


def panels():
    drawn = json.loads(DASHBOARD.read_text())["panels"]
    return [one["expr"] for panel in drawn for one in panel.get("targets", [])]


def alerts():
    (group,) = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return [rule["expr"] for rule in group["rules"]]


def named_in(*texts):
    return {PARTS.sub("", name) for text in texts for name in NAME.findall(text)}


def test_dashboard_draws_every_figure_and_alerts_know_theirs():
    assert len(figures()) > 25
    assert named_in(*panels()) == figures()
    assert named_in(*alerts()) <= figures()


def test_documents_name_every_figure():
    page = (ROOT / "docs" / "production.md").read_text()
    assert figures() - set(re.findall(r"`(awmweb_[a-z_]+)`", page)) == set()


def test_alerts_are_rules_that_fire_as_said():
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


def test_expressions_of_the_dashboard_are_read_by_prometheus(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(panels())]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_configuration_is_read_by_prometheus():
    promtool("check", "config", "--syntax-only", "prometheus.yml")
