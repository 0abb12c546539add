"""Why episodes of a run failed or wait is said once for each cause: on its page, in the API and in the report."""

from __future__ import annotations

import pytest

from episodes.models import Episode, EpisodeState, Run
from episodes.record import ending, noting
from people.access import system
from runs.launch import planning
from runs.show import causes, overview
from runs.show.comparison import compare_run
from runs.show.report import markdown
from tests.browsing import as_person, html
from tests.runs.planned import ARMS, ended_rows, rows_of_run

pytestmark = pytest.mark.django_db(transaction=True)
AWAY = "Cannot reach the model at http://model:8000: connection refused (request req_{:020x}, after {}.5 s)"


@pytest.fixture
def troubled(ada):
    """A run of 30 episodes: 19 could not reach the model, 2 got a 401, 1 a 429, 3 wait for a full server, 1 has no
    outcome, and 4 are complete."""
    plan = rows_of_run(ada, 30, arms=ARMS[:1])
    ids = list(plan.tries.order_by("position").values_list("episode_id", flat=True))
    details = [AWAY.format(n, n) for n in range(19)] + ["The model answered 401."] * 2 + ["The model answered 429."]
    for pk, detail in zip(ids, details, strict=False):
        ending.fail(system(ada.project), pk, "model", detail)
    for pk in ids[22:25]:
        noting.note_no_server(pk, "Server at capacity: 1/1 sessions active.")
    ended_rows(dict.fromkeys(ids[25:29], True))
    Episode.objects.filter(pk=ids[29]).update(state=EpisodeState.FINISHED, stop_reason="done")
    noting.note_unverified(system(ada.project), ids[29], "The environment was lost before the verifier ran.")
    return plan


def test_causes_of_a_run_are_grouped_everywhere(ada, rita, troubled):
    found = causes.causes_of(ada, troubled.run)
    assert [(one.episodes, one.line) for one in found.shown] == [
        (19, "19 episodes failed, fault model"),
        (3, "3 episodes queued"),
        (2, "2 episodes failed, fault model"),
        (1, "1 episode finished without an outcome"),
        (1, "1 episode failed, fault model"),
    ]
    assert "Cannot reach the model" in found.shown[0].words and found.more == 0
    page = html(as_person(rita).get(f"/runs/{troubled.pk}/"))
    assert "19 episodes failed, fault model" in page and page.count("Cannot reach the model") == 1
    said = as_person(rita).get(f"/api/v1/runs/{troubled.pk}").json()
    assert [one["episodes"] for one in said["causes"]] == [19, 3, 2, 1, 1] and said["more_causes"] == 0
    report = markdown(compare_run(ada, troubled.run_id), [], {})
    assert report.count("19 episodes failed, fault model: Cannot reach the model") == 1


def test_turns_that_are_no_answer_are_a_cause(ada, rita):
    plan = rows_of_run(ada, 4, arms=ARMS[:1])
    ids = list(plan.tries.order_by("position").values_list("episode_id", flat=True))
    ended_rows({ids[0]: False, ids[1]: False, ids[2]: False, ids[3]: True})
    Episode.objects.filter(pk__in=ids[:2]).update(stop_reason="cut_off")
    Episode.objects.filter(pk=ids[2]).update(stop_reason="empty")
    shown = causes.causes_of(ada, plan.run).shown
    assert [(one.stop, one.line) for one in shown] == [
        ("cut_off", "2 episodes ended without an answer"),
        ("empty", "1 episode ended without an answer"),
    ]
    assert "cut off at a limit of their length" in html(as_person(rita).get(f"/runs/{plan.pk}/"))
    listed = as_person(rita).get(f"/api/v1/runs/{plan.pk}").json()["causes"]
    assert [(one["stop_reason"], one["episodes"]) for one in listed] == [("cut_off", 2), ("empty", 1)]
    # the failures count
    assert sum(arm.others for arm in overview.card_of(compare_run(ada, plan.run_id)).arms) == 3


def test_a_cause_goes_once_its_episodes_are_retried(ada, troubled, monkeypatch):
    assert planning.retry(ada, troubled.pk) > 0
    assert {one.state for one in causes.causes_of(ada, troubled.run).shown} == {"queued"}


def test_many_causes_are_counted_and_hostile_words_stay_text(ada, rita):
    plan = rows_of_run(ada, 14, arms=ARMS[:1])
    ids = list(plan.tries.values_list("episode_id", flat=True))
    for n, pk in enumerate(ids):
        ending.fail(system(ada.project), pk, "environment", f"<b>\u202e fault {chr(97 + n)}</b>" + "x" * 9000)
    page = html(as_person(rita).get(f"/runs/{plan.pk}/"))
    assert "4 more episodes have other causes." in page and "<b>\u202e" not in page and "x" * 401 not in page


def test_reviewer_who_judges_blind_learns_no_end_of_an_episode(ada, rita, troubled):
    said = [one.state for one in causes.causes_of(ada, troubled.run).shown]
    lost = Episode.objects.get(pk=troubled.tries.order_by("position").last().episode_id)
    lost.holds.create(actor_key=rita.key, by="review")
    assert said.count("finished") == 1
    assert "finished" not in [one.state for one in causes.causes_of(rita, troubled.run).shown]
    assert Run.objects.count() == 1
