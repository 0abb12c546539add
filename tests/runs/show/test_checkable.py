"""A report is recomputed from its raw counts: honest ones agree, whatever was lost or repaired; wrong ones do not."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest

from awmclient.check import differences, main
from awmclient.checking import numbers
from runs.show.checkable import FORMAT, contrast_row, corrected_row, try_row
from runs.statistics import corrected, rereading
from runs.statistics.compare import CANCELLED, contrasts
from runs.statistics.deciding import statements
from runs.statistics.paired import tango
from tests.runs.statistics.test_compare import many, tries

ARMS = ["baseline", "expert", "other"]


def report_of(mine, arms=ARMS[:2], first=None, accepted=None):
    found = contrasts(mine, statements(arms, "baseline"))
    if first is not None:
        found = [
            rereading.contrast(*both)
            for both in zip(found, contrasts(first, statements(arms, "baseline")), strict=True)
        ]
    names: dict[str, int] = {}
    if accepted is not None:
        read = first or mine
        found = [replace(each, corrected=corrected.difference(read, each, accepted)) for each in found]
    counts = [
        {"arm": arm, "planned": len(own), "complete": own.count(True), "others": own.count(False)}
        for arm in arms
        for own in [[each.complete for each in mine if each.arm == arm]]
    ]
    before = first or [None] * len(mine)
    for row in counts if accepted is not None else ():
        row["corrected"] = corrected_row(corrected.rate(first or mine, row["arm"], accepted))
    rows = [try_row(each, other, names, accepted) for each, other in zip(mine, before, strict=True)]
    whole = {"format": FORMAT, "arms": counts, "contrasts": list(map(contrast_row, found)), "tries": rows}
    whole["sentence"] = f"{found[0].arm} against {found[0].control}: {found[0].sentence}"
    return json.loads(json.dumps(whole))


def drawn(dice, tasks=40, seeds=1, arms=ARMS[:2], effect=0.3):
    rows = tries([(False, False)] * tasks)
    shape = [each for each in rows if each.arm == "baseline"]
    mine = []
    for each in shape:
        ease = dice.random()
        for arm in arms:
            rate = min(1.0, ease + effect * (arm == "expert"))
            mine += [
                replace(each, arm=arm, seed=seed, complete=dice.random() < rate, episode=f"{each.task}/{arm}/{seed}")
                for seed in range(seeds)
            ]
    return mine


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("arms", [ARMS[:2], ARMS])
def test_honest_reports_agree(seeds, arms):
    for number in range(6):
        assert differences(report_of(drawn(random.Random(f"{number}"), seeds=seeds, arms=arms), arms)) == []


def test_reports_with_unknown_and_shared_tries_agree():
    for number in range(6):
        dice = random.Random(f"lost {number}")
        mine = [
            replace(each, complete=None, excluded=CANCELLED if dice.random() < 0.3 else "infrastructure")
            if dice.random() < 0.04
            else replace(each, shared=frozenset({f"a{dice.randrange(6)}"}) if dice.random() < 0.2 else frozenset())
            for each in drawn(dice, effect=0.5, seeds=1 + number % 2)
        ]
        assert differences(report_of(mine)) == []


def test_reports_after_a_repair_agree():
    dice = random.Random("repair")
    mine = drawn(dice, effect=0.4)
    first = [replace(each, complete=each.complete and dice.random() < 0.7) for each in mine]
    assert differences(report_of(mine, first=first)) == []


def sampled(dice, mine, unread=0.0):
    """What blind people said of half of these tries: the verifier is too strict with one arm."""
    drawn = dice.sample(mine, len(mine) // 2)
    return {
        each.episode: None
        if dice.random() < unread
        else bool(each.complete) or each.arm != "baseline" and dice.random() < 0.2
        for each in drawn
        if each.complete is not None
    }


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("case", ["judged", "unread", "lost", "repaired", "few", "shared"])
def test_lines_without_the_errors_of_the_verifier_agree(seeds, case):
    dice = random.Random(f"{seeds} {case}")
    mine = drawn(dice, tasks=30 if case == "few" else 80, seeds=seeds, arms=ARMS, effect=0.2)
    accepted = sampled(dice, mine, 0.1 if case == "unread" else 0.0)
    if case == "lost":
        ends = (CANCELLED, "infrastructure")
        mine = [replace(e, complete=None, excluded=dice.choice(ends)) if dice.random() < 0.02 else e for e in mine]
    if case == "shared":
        answer = {task: frozenset({f"a{place // 2}"}) for place, task in enumerate(dict.fromkeys(e.task for e in mine))}
        mine = [replace(e, shared=answer[e.task]) if e.arm == "expert" else e for e in mine]
        assert corrected.rate(mine, "expert", accepted) != corrected.rate(
            [replace(e, shared=frozenset()) for e in mine], "expert", accepted
        )
    first = [replace(e, complete=e.complete and dice.random() < 0.8) for e in mine] if case == "repaired" else None
    report = report_of(mine, ARMS, first, accepted)
    assert differences(report) == []
    lines = [each["corrected"] for each in (*report["arms"], *report["contrasts"])]
    assert any(lines) is (seeds == 3 or case != "few")


def test_every_changed_number_of_such_a_line_is_named():
    dice = random.Random("line")
    mine = drawn(dice, tasks=80)
    report = report_of(mine, accepted=sampled(dice, mine))
    assert differences(report) == [] and report["contrasts"][0]["corrected"]["wrong"]["expert"] > 1
    changes = {"value": 0.4, "interval": [-0.9, 0.9], "drawn": 1, "judged": {"expert": 1, "baseline": 1}}
    changes |= {"wrong": {"expert": 0, "baseline": 0}, "sentence": "Corrected: +40 points [+30, +50]."}
    for part in ("arms", "contrasts"):
        for place, value in changes.items():
            wrong = copy.deepcopy(report)
            wrong[part][0]["corrected"][place] = value
            assert any("corrected" in line for line in differences(wrong)), (part, place)
        wrong = copy.deepcopy(report)
        wrong[part][0]["corrected"] = None
        assert any("corrected value is None" in line for line in differences(wrong)), part
    changed = copy.deepcopy(report)
    drawn_one = next(each for each in changed["tries"] if each.get("accepted") is True)
    drawn_one["accepted"] = False
    assert any("corrected, wrong is" in line for line in differences(changed))
    without = copy.deepcopy(report)
    for each in without["tries"]:
        each.pop("accepted", None)
    assert any("corrected value is" in line for line in differences(without))


def test_every_changed_number_is_named():
    report = report_of(tries(many(won=14, neither=20, lost=1)))
    assert report["contrasts"][0]["on_tasks"]["verdict"] == "better" and differences(report) == []
    for place, value in {"won": 15, "delta": 0.5, "treated_rate": 0.9}.items():
        wrong = copy.deepcopy(report)
        wrong["contrasts"][0][place] = value
        assert any(f": {place} is" in line for line in differences(wrong)), place
    for place, value in {"p": 0.0001, "interval": [0.2, 0.6], "verdict": "none", "units": 3}.items():
        wrong = copy.deepcopy(report)
        wrong["contrasts"][0]["on_tasks"][place] = value
        assert differences(wrong), place
    wrong = copy.deepcopy(report)
    wrong["contrasts"][0]["on_tasks"]["sentence"] = "Worse on these 35 tasks."
    assert "the sentence says worse" in differences(wrong)[0]
    lost = next(each for each in report["tries"] if each["complete"])
    lost["complete"] = False
    assert any("arm" in line for line in differences(report))


def test_headline_and_level_are_compared_with_the_tasks():
    report = report_of(tries(many(won=9, neither=20, lost=7)))
    assert report["contrasts"][0]["on_tasks"]["verdict"] == "none" and differences(report) == []
    better = "Better on these 36 tasks: +40 points."
    changes = {"sentence": better, "verdict": "better"}
    for place, value in changes.items():
        wrong = copy.deepcopy(report)
        wrong["contrasts"][0][place] = value
        assert differences(wrong), place
    assert differences({**report, "sentence": better}) == [f"the sentence of the report is of no contrast: {better}"]
    wrong = copy.deepcopy(report)
    wrong["contrasts"][0]["on_tasks"]["level"] = 0.9
    assert any(": level is 0.9" in line for line in differences(wrong))
    untested = {**report["contrasts"][0], **changes, "on_tasks": None}
    assert len(differences({**report, "contrasts": [untested], "sentence": better})) == 2


def test_test_that_takes_too_long_is_named_and_not_compared(tmp_path, capsys, monkeypatch):
    report = report_of(drawn(random.Random("long"), seeds=2, arms=ARMS), ARMS)
    (file := tmp_path / "report.json").write_text(json.dumps(report))
    assert main([str(file)]) == 0 and "too long" not in capsys.readouterr().out
    monkeypatch.setattr(numbers, "MOST_BITS", 0)
    assert main([str(file)]) == 0 and "sentence of 2 findings" in capsys.readouterr().out
    report["contrasts"][0]["on_tasks"]["units"] = 3
    assert [line.split(" is")[0] for line in differences(report)] == ["expert against baseline: units"]


def test_report_of_no_task_and_other_ends_of_lines_are_read(tmp_path):
    assert numbers.tango(0, 0, 0) == tango(0, 0, 0)
    (report := tmp_path / "report.json").write_text(json.dumps(report_of(tries(many(won=9)))))
    (rows := tmp_path / "rows.jsonl").write_text('{"text": "a\u2028b\u0085c"}\n{"text": "d"}\n', encoding="utf-8")
    assert main([str(report), str(rows)]) == 0


def test_rows_are_compared_with_the_report_and_themselves():
    report = report_of([replace(one, episode=f"e{n}") for n, one in enumerate(tries(many(won=9)))])
    pair = {
        **{"chosen_wins": 7, "chosen_tries": 8, "rejected_wins": 1, "rejected_tries": 8},
        **{"worth": 0.3, "worth_low": 0.0, "worth_high": 0.6, "content_sha256": "a"},
    }
    ends = {each["episode"]: each["complete"] for each in report["tries"]}
    row = {"episode_id": "e0", "reward_type": "complete" if ends["e0"] else "others"}
    assert differences(report, [row, pair]) == []
    opposite = {**row, "reward_type": "others" if ends["e0"] else "complete"}
    more = [opposite, pair, pair, {**pair, "content_sha256": "b", "chosen_wins": 9}]
    more += [{**pair, "content_sha256": "c", "worth": 0.8, "worth_high": 0.9}]
    assert [line.split(":")[0] for line in differences(report, more)] == ["row 1", "row 3", "row 4", "row 5"]


def test_command_needs_python_alone_and_says_what_differs(tmp_path, capsys):
    report = report_of(drawn(random.Random("x"), tasks=300, seeds=3))
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    code = "import sys; sys.modules.update(dict.fromkeys(['httpx', 'pydantic', 'django', 'runs'])); "
    code += f"from awmclient.check import main; sys.exit(main([{str(file)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "1 findings on tasks, 0 rows: 0 differ." in done.stdout
    report["contrasts"][0]["won"] += 1
    file.write_text(json.dumps(report))
    assert main([str(file)]) == 1 and ": won is" in capsys.readouterr().out
    file.write_text("{}")
    assert main([str(file)]) == 2 and main([]) == 2
