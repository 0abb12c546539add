"""Rulings and corrections follow an episode into exports, comparisons and splits; the outcomes stay as they are."""

from __future__ import annotations

import json

import pytest
from django.core.management import call_command

from awmclient.schema import EpisodeStart, Finish, Outcome
from episodes.models import Episode, VerifierOutcome
from episodes.record import ending, recording
from episodes.stored.splits import task_key
from exports.assembly import datasets
from exports.recipe import Recipe
from people.access import system
from reviews.models import Correction
from reviews.record import assigning, correcting, court, deciding
from reviews.record.correcting import Better
from reviews.record.deciding import Wanted
from reviews.visible import rulings
from runs.show.comparison import compare_run
from tests.browsing import as_person, html
from tests.checked import checked, reports  # noqa: F401
from tests.reviews.conftest import ended
from tests.runs.planned import end, rows_of_run

pytestmark = pytest.mark.django_db


def ruled(actor, episode, word):
    return court.rule(actor, court.doubt(episode).pk, word, "Seen by hand.")


def ended_without_scenario(actor, key, task):
    episode, _ = recording.start_episode(actor, EpisodeStart(key=key, task=task))
    ending.finish(actor, episode.pk, Finish(stop_reason="done"))
    ending.record_outcome(
        system(actor.project), episode.pk, Outcome(reward_type="complete", reward=1, source="verifier")
    )
    return Episode.objects.get(pk=episode.pk)


def test_newest_ruling_counts_and_sound_clears(ada, max_, episode):
    assert rulings.at_fault(ada.project) == {}
    first = ruled(ada, episode, "too_strict")
    assert rulings.at_fault(ada.project) == {"desk_1/3": "too_strict"}
    second = ruled(ada, episode, "broken")
    assert rulings.at_fault(ada.project) == {"desk_1/3": "broken"} and rulings.at_fault(max_.project) == {}
    assert rulings.rulings(ada.project, before=second.created_at) == {"desk_1/3": "too_strict"}
    assert rulings.rulings(ada.project, before=first.created_at) == {}
    ruled(ada, episode, "sound")
    assert rulings.at_fault(ada.project) == {}
    assert VerifierOutcome.objects.get().reward_type == "others"


def test_report_counts_doubts_of_all_rulings_at_once(ada, rita, edo, django_assert_max_num_queries):
    words = "Shut ticket 9"
    rows = [ended(ada, key, "complete", 1.0, number) for number, key in enumerate("abcd")]
    rows += [ended_without_scenario(ada, "e", words), ended_without_scenario(ada, "f", words)]
    Episode.objects.filter(key="a").update(task=words)
    queue = assigning.create_queue(ada, "Doubts", reviews_required=2)
    assigning.fill(ada, queue.pk, Episode.objects.all())
    for actor, wrong in ((rita, "abef"), (edo, "a")):
        for review in queue.reviews.select_related("episode"):
            lease, said = assigning.claim(actor, review.pk), "reject" if review.episode.key in wrong else "accept"
            verdict = deciding.decide(actor, review.pk, lease.lease_token, Wanted(said))
            if said == "reject":
                deciding.explain(actor, verdict.pk, "verifier_wrong")
    for one in rows:
        ruled(ada, Episode.objects.get(pk=one.pk), "sound")
    with django_assert_max_num_queries(4):
        told = {one["task"]: one["doubts"] for one in rulings.report(ada)}
    text = task_key("", None, words)
    assert told == {"desk_1/0": 2, "desk_1/1": 1, "desk_1/2": 0, "desk_1/3": 0, text: 2}
    assert told == {case.task_key: rulings.doubts_of(case).count() for case in rulings.cases_of(ada)}


def test_export_leaves_out_tasks_at_fault_as_of_its_snapshot(ada, tmp_path):
    one, other = (ended(ada, key, "complete", 1.0, task) for key, task in (("a", 1), ("b", 2)))
    texts = [ended_without_scenario(ada, key, task) for key, task in (("c", "Shut ticket 9"), ("d", "Shut ticket 8"))]
    before = {entry.episode: entry.ruling for entry in snapshot_of(ada, tmp_path / "before")}
    assert set(before.values()) == {""}
    ruled(ada, one, "too_lenient")
    ruled(ada, texts[0], "ambiguous")
    ruled(ada, other, "sound")
    after = {entry.episode: entry.ruling for entry in snapshot_of(ada, tmp_path / "after")}
    assert after == {one.pk: "too_lenient", other.pk: "", texts[0].pk: "ambiguous", texts[1].pk: ""}
    kept = {entry.episode: entry.ruling for entry in datasets.entries(tmp_path / "before")}
    assert kept == before


def snapshot_of(actor, folder):
    folder.mkdir()
    datasets.take_snapshot(actor.project, Recipe.read({"format": "sft"}), folder)
    return list(datasets.entries(folder))


def test_comparison_excludes_only_rulings_before_launch(ada):
    early = ended(ada, "early", task_idx=0)
    Episode.objects.filter(pk=early.pk).update(scenario="planted_0")
    ruled(ada, Episode.objects.get(pk=early.pk), "too_strict")
    plan = rows_of_run(system(ada.project), tasks=4)
    for one in plan.tries.all():
        end(one.episode_id)
    late = plan.tries.get(arm__name="expert", scenario="planted_1").episode
    ruled(ada, late, "broken")
    found = compare_run(ada, plan.pk)
    assert [arm.excluded for arm in found.arms] == [{"ruled too strict": 1}] * 2
    assert {one.task for one in found.tries if one.excluded} == {"planted_0/0"}
    assert found.ruled_later == ["planted_1/1"]
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert "after the launch, and still counted" in page and "planted_1/1" in page


@pytest.mark.usefixtures("checked")
def test_split_leaves_out_tasks_at_fault(ada, tmp_path):
    call_command("build_split", output=tmp_path / "one.json", unit="task", project="lab")
    scenario, number = json.loads((tmp_path / "one.json").read_text())["train"][0]
    doubted = ended(ada, "doubted", task_idx=number)
    Episode.objects.filter(pk=doubted.pk).update(scenario=scenario)
    ruled(ada, Episode.objects.get(pk=doubted.pk), "impossible")
    call_command("build_split", output=tmp_path / "two.json", unit="task", project="lab")
    told = json.loads((tmp_path / "two.json").read_text())
    assert [scenario, number] not in told["train"] + told["val"]
    assert told["meta"]["unusable"]["ruled impossible"] == 1


def test_case_shows_verifier_and_changes_to_those_who_rule(ada, rita):
    start = EpisodeStart(key="k", task="Shut ticket 7", scenario="helpdesk_1", task_idx=1)
    episode, _ = recording.start_episode(ada, start)
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    diff = {"tickets": {"added": [{"id": 1077, "subject": "Zebra grinder"}]}}
    outcome = Outcome(reward_type="others", reward=0, state_diff=diff, source="verifier")
    ending.record_outcome(system(ada.project), episode.pk, outcome)
    case = court.doubt(Episode.objects.get(pk=episode.pk))
    page = html(as_person(ada).get(f"/reviews/court/{case.pk}/"))
    assert "Shut ticket 7" in page and "Zebra grinder" in page and "def verify" in page
    assert "def verify" not in html(as_person(rita).get(f"/reviews/court/{case.pk}/"))


def test_corrections_are_exported_where_asked_for_and_blind(ada, rita, tmp_path):
    one, other = ended(ada, "a", task_idx=1), ended(ada, "b", task_idx=2)
    correcting.correct(rita, one, 2, Better("call", "update", {"id": 8}))
    newest = correcting.correct(rita, one, 2, Better("call", "update", {"id": 9, "status": "shut"}))
    correcting.correct(rita, other, 2, Better("call", "update", {"id": 77}))
    Correction.objects.filter(episode=other).update(privilege="sees_verifier")
    for name, include, found in (("without", [], 0), ("with", ["corrections"], 1)):
        folder = tmp_path / name
        folder.mkdir()
        plan = datasets.take_snapshot(ada.project, Recipe.read({"format": "dpo", "include": include}), folder)
        manifest = datasets.build(ada.project, plan, folder, lambda _episodes, _rows: True)
        assert manifest["rows"] == found
    [row] = [json.loads(line) for line in (tmp_path / "with" / "data" / "train.jsonl").read_text().splitlines()]
    assert row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"id": 9, "status": "shut"}
    [kept] = [entry.corrections for entry in datasets.entries(tmp_path / "with") if entry.corrections]
    assert kept == (newest.pk,)
