"""One command runs arms on the starter pack, and finds the uplift that its notes give."""

import csv
import json

import pytest

from tests.commands import ROOT


def test_benchmark_finds_the_uplift_of_the_notes(house, tmp_path):
    places = [["helpdesk_1", 0], ["helpdesk_1", 1], ["library_1", 1], ["trucking_1", 1]]
    split = tmp_path / "split.json"
    split.write_text(json.dumps({"meta": {}, "train": [["library_1", 0]], "val": places}))
    said = house.manage("benchmark", "--arms", "off,plain", "--split", str(split), "--report", str(tmp_path / "report"))
    assert "8 episodes" in said and "3 won, 0 lost" in said
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| plain | script:demo | expert | 4 | 4 | 4 | 0 | none |" in text
    paid = list(csv.DictReader((tmp_path / "report" / "rewards.csv").open()))
    patterns = {(row["arm"], row["task"]): row["pattern"] for row in paid if row["profile"] == "pr428"}
    assert patterns["off", "helpdesk_1/0"] == patterns["plain", "helpdesk_1/0"] == "solo"
    assert patterns["off", "library_1/1"] == "incomplete" and patterns["plain", "library_1/1"] in (
        "voluntary",
        "recovery",
    )
    assert (tmp_path / "report" / "completions.png").stat().st_size > 1000


@pytest.mark.long
def test_benchmark_reports_asking_where_facts_are_missing(house, tmp_path):
    house.manage("loadpack", str(ROOT / "packs" / "optional" / "starter_blocked"), "--unchecked")
    try:
        given = ["--arms", "off,plain", "--policy", "script:oracle", "--scenario", "helpdesk_1_*"]
        said = house.manage("benchmark", *given, "--report", str(tmp_path))
    finally:
        house.manage("unloadpack", "starter_blocked")
    [row] = [one for one in csv.DictReader((tmp_path / "asking.csv").open()) if one["arm"] == "plain"]
    assert (row["precision"], row["recall"], row["f1"], row["asks_per_task"]) == ("1.0", "0.5", "0.6667", "1.0"), said
    text = (tmp_path / "report.md").read_text()
    assert "## Asking" in text and "## When to ask" in text and "(curve.png)" in text
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_preflight_plays_ten_rollouts_and_fails_where_none_earns(house, tmp_path):
    file = tmp_path / "plan.yaml"
    plan = {"name": "march", "tasks": ["helpdesk_1/0", "library_1/1"], "arms": [{"name": "baseline"}], "parallel": 16}
    file.write_text(json.dumps({**plan, "policy": "script:oracle"}))
    said = house.manage("run", str(file), "--preflight")
    assert "10 rollouts" in said and said.strip().endswith("10 of 10 rollouts earned a reward.")
    file.write_text(json.dumps({**plan, "tasks": ["library_1/1"], "policy": "script:demo"}))
    with pytest.raises(AssertionError, match=r"0 of 10 rollouts earned a reward; not complete 10\. A comparison"):
        house.manage("run", str(file), "--preflight")
