"""How the arms of a run asked: on its page, in its tables, report and API, and for no one who may not see it."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client

from awmclient.schema import AskOpen, Finish, Outcome
from awmenv.blockers import read_blockers
from episodes.record import ending, recording
from experts.models import Ask
from experts.record import opening
from people.access import system
from runs.show import asking, report
from runs.show.comparison import compare_run
from runs.show.tables import in_csv
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import rows_of_run

pytestmark = pytest.mark.django_db
ROW = {"id": "phone", "missing": "The number.", "holder": "Hanna", "terms": [["phone"]], "answer": "canary 04711"}
REGISTRY = read_blockers([ROW, {**ROW, "id": "weeks", "terms": [["weeks"]]}], "")
ASKED = {"baseline": ["What colour?"], "expert": ["Which phone?", "And the phone again?", "How many weeks?"]}


@pytest.fixture
def run(ada, monkeypatch):
    """Two tasks with a registry and one without, each played under both arms."""
    for place in (opening, asking):
        known = lambda scenario, idx, version="": REGISTRY if idx in (0, 1) else []  # noqa: E731
        monkeypatch.setattr(place, "blockers_of", known)
    arms = [{"name": "baseline", "expert": "plain"}, {"name": "expert", "expert": "plain"}]
    actor = system(ada.project)
    plan = rows_of_run(actor, tasks=3, arms=arms)
    for one in plan.tries.select_related("arm"):
        assert recording.begin(one.episode_id, "w")
        for seq, question in enumerate(ASKED[one.arm.name], 1):
            said = AskOpen(key=f"q{seq}", episode=one.episode_id, seq=seq, question=question)
            opening.open_ask(actor, said)
        ending.finish(actor, one.episode_id, Finish(stop_reason="done"))
        ending.record_outcome(actor, one.episode_id, Outcome(reward_type="complete", reward=1.0))
    return plan.run


def of_token(ada, scope, run):
    secret = token(ada.project, scope)[1]
    return Client().get(f"/api/v1/runs/{run.pk}/asking", headers={"authorization": f"Bearer {secret}"})


def test_ask_keeps_the_blocker_that_it_matched(run):
    found = Ask.objects.filter(episode__scenario="planted_0").values_list("question", "blocker")
    assert dict(found) == {"What colour?": "", **dict(zip(ASKED["expert"], ["phone", "phone", "weeks"], strict=True))}
    assert not Ask.objects.filter(episode__scenario="planted_2").exclude(blocker="").exists()


def test_arms_are_measured_on_tasks_with_a_registry(run, ada):
    baseline, expert = asking.asking_of(compare_run(ada, run.pk)).arms
    assert (expert.episodes, expert.asks, expert.matched, expert.found, expert.blockers) == (2, 6, 6, 4, 4)
    assert (expert.precision, expert.recall, expert.f1, expert.per_task) == (4 / 6, 1, 0.8, 3)
    assert (baseline.asks, baseline.precision, baseline.recall, baseline.f1) == (2, 0, 0, 0)


def test_asking_is_in_page_table_report_and_api(run, ada, tmp_path):
    compared = compare_run(ada, run.pk)
    page = html(as_person(ada).get(f"/runs/{run.pk}/"))
    assert 'id="asking"' in page and "Ask-F1, expert less baseline: +0.80" in page and "canary" not in page
    rows = list(csv.DictReader(io.StringIO(in_csv("asking", compared))))
    numbers = [(row["arm"], float(row["f1"]), float(row["asks_per_task"])) for row in rows]
    assert numbers == [("baseline", 0.0, 1.0), ("expert", 0.8, 3.0)]
    report.write(compared, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "| expert | 2 | 6 | 3.0 | 0.6667 | 1.0 | 0.8 |" in text and (tmp_path / "asking.csv").exists()
    assert "## When to ask" in text and "![Complete, with asks per task: baseline" in text and 'id="curve"' in page
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert [row["rule"] for row in csv.DictReader(io.StringIO(in_csv("curve", compared)))] == ["reminders"] * 2
    said = of_token(ada, "launch", run).json()
    assert (said["tasks"], said["control"], said["arms"][1]["f1"]) == (2, "baseline", 0.8)
    assert said["controls"] == {"tasks": 2, "copied": 0.0, "fixed": pytest.approx(2 / 3)}
    assert {one["metric"]: one["delta"] for one in said["differences"]}["asks"] == 2.0


def test_page_says_which_arm_found_which_blocker(run, ada, edo):
    page = html(as_person(ada).get(f"/runs/{run.pk}/"))
    table = page.partition('id="blockers"')[2].partition("</details>")[0]
    cells = re.findall(r'<td class="n">\s*(\d of \d)\s*</td>', table)
    assert cells == ["0 of 1", "1 of 1"] * 4 and "/briefings/planted_0/0/" in table and "Hanna" in table
    said = of_token(ada, "launch", run).json()["blockers"]
    assert [one["found"] for one in said] == [{"baseline": 0, "expert": 1}] * 4
    assert 'id="blockers"' not in html(as_person(edo).get(f"/runs/{run.pk}/")), "an expert may answer blind"


def test_asking_is_for_those_who_launch_only(run, ada):
    for scope in ("agent", "expert", "export", "review"):
        assert of_token(ada, scope, run).status_code == 403, scope


def test_run_without_a_registry_says_nothing_of_asking(ada):
    plan = rows_of_run(system(ada.project), tasks=1)
    assert asking.asking_of(compare_run(ada, plan.run_id)) is None
    page = html(as_person(ada).get(f"/runs/{plan.run_id}/"))
    assert 'id="asking"' not in page and "asking.csv" not in page and ">asking<" not in page
    assert 'id="curve"' not in page and "curve.csv" not in page
