"""What a plan will take: from earlier episodes of the same arms, and nothing where nothing is known."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from awmclient.schema import STEP, AskOpen
from episodes.models import Episode
from episodes.record import recording
from experts.models import Advice, Ask
from experts.record import advising, opening, queue
from people.access import system
from runs.launch import estimating, launching
from runs.plan.plans import to_yaml
from runs.show import comparison
from tests.browsing import as_person, html
from tests.runs.planned import document, end, launched

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)


def played(plan, seconds):
    """End all episodes of a plan, each after so many seconds."""
    for pk in plan.tries.values_list("episode_id", flat=True):
        end(pk)
        now = timezone.now()
        Episode.objects.filter(pk=pk).update(started_at=now - timedelta(seconds=seconds), ended_at=now)


def test_nothing_is_estimated_from_nothing(ada):
    found = estimating.estimate(ada, document(), 6)
    assert (found.episodes, found.earlier, found.unknown) == (12, 0, ("baseline", "expert"))
    assert found.words == "No earlier episodes of these arms: time and cost are unknown."


def test_time_is_that_of_earlier_episodes_over_slots(ada, max_):
    played(launched(ada, tasks={"limit": 2}), 40)
    found = estimating.estimate(ada, document(parallel=4), 6)
    assert (found.earlier, found.unknown, found.seconds) == (4, (), pytest.approx(2 * 40 * 6 / 4, abs=1))
    assert found.words.startswith("From 4 earlier episodes: about 2:0")
    assert estimating.estimate(ada, document(parallel=8), 1).seconds == pytest.approx(40, abs=1), "no less than one"
    other = estimating.estimate(ada, document(policy="script:demo"), 6)
    assert other.earlier == 0, "another policy takes another time"
    assert estimating.estimate(max_, document(), 6).earlier == 0, "another project's episodes are not seen"


def test_tokens_and_peoples_time_are_counted(ada, edo):
    plan = launched(ada, tasks={"limit": 1})
    pk = plan.tries.get(arm__name="expert").episode_id
    actor = system(ada.project)
    usage = {"prompt_tokens": 900, "completion_tokens": 100}
    words = {"seq": 1, "kind": "message", "role": "assistant", "content": "Hm.", "usage": usage}
    recording.append_steps(actor, pk, [STEP.validate_python(words)])
    opening.open_ask(actor, AskOpen(key="q", episode=pk, seq=2, question="Which?"))
    lease = queue.claim(edo, Ask.objects.get().pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "The first.", "n", [])
    Advice.objects.update(took_s=30.0)
    for text in ("The second.", "The third."):
        advising.edit(edo, Ask.objects.get().pk, text, [])
    assert Advice.objects.count() == 3 and comparison._asks_of(plan) == {pk: 30.0}, "an edit adds no time again"
    Episode.objects.filter(pk=pk).update(state="finished", started_at=timezone.now(), ended_at=timezone.now())
    found = estimating.estimate(ada, document(), 6)
    assert (found.tokens, found.human_s, found.unknown) == (6000, pytest.approx(180.0), ("baseline",))
    assert found.words == (
        "From 1 earlier episode: <1 s, 6,000 tokens, money unknown, 3:00 of people's time. "
        "Nothing is known of baseline. Money: agent has no price."
    )


def test_page_and_command_say_what_a_plan_takes(ada, tmp_path, capsys):
    form = {"name": "Does it help?", "arm": ["baseline"], "policy": "script:oracle", "tasks": "helpdesk_1/0"}
    assert "1 episode. No earlier episodes" in html(as_person(ada).get("/runs/preview", form))
    file = tmp_path / "plan.yaml"
    file.write_text(to_yaml(document()))
    call_command("run", str(file), estimate=True, project="lab")
    said = capsys.readouterr().out
    assert "12 episodes. No earlier episodes of these arms" in said and "Probes: 0 of 6 tasks clean" in said
    file.write_text(to_yaml(document(environment="nowhere")))
    with pytest.raises(CommandError, match="names no server 'nowhere'"):
        call_command("run", str(file), estimate=True, project="lab")
    with pytest.raises(CommandError, match="There is no file"):
        call_command("run", str(tmp_path), estimate=True, project="lab")
    assert not Episode.objects.exists()
