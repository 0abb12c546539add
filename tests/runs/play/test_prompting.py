"""Where no world can be restored, a prompt to continue is offered, and never a fork."""

from __future__ import annotations

import json

import pytest

from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch, ToolSpec
from episodes.models import Episode, Fork, OutcomeHold
from episodes.record import recording
from people.access import system
from runs.errors import NotForkable, StillLive
from runs.play import prompting
from tests.browsing import as_person, html
from tests.people_by_name import token

pytestmark = pytest.mark.django_db
CANARY = "canary-of-the-verifier"
STEPS = [
    {"seq": 1, "kind": "message", "role": "user", "content": "Merge the tickets."},
    {"seq": 2, "kind": "message", "role": "assistant", "content": "I look first."},
    {"seq": 3, "kind": "tool_call", "name": "look", "arguments": {"id": 7}, "result": "open"},
    {"seq": 4, "kind": "note", "content": "A note of the loop."},
    {"seq": 5, "kind": "message", "role": "assistant", "content": "Now I merge."},
    {"seq": 6, "kind": "tool_call", "name": "merge", "arguments": {"id": 7}, "result": "ok"},
    {"seq": 7, "kind": "message", "role": "assistant", "content": "Done."},
]


def live(actor, steps=STEPS, key="outside"):
    tools = [ToolSpec(name="merge", input_schema={"type": "object"})]
    one, _ = recording.start_episode(actor, EpisodeStart(key=key, task="Merge the tickets.", tools=tools))
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    return one


@pytest.fixture
def outside(ada):
    """An ended episode of a loop outside, with an outcome that names a canary."""
    one = live(ada)
    recording.finish(ada, one.pk, Finish(stop_reason="done"))
    recording.record_outcome(system(ada.project), one.pk, Outcome(reward_type="others", details={"why": CANARY}))
    return Episode.objects.get(pk=one.pk)


def test_prompt_has_what_the_agent_read_before_its_choice(ada, outside):
    found = prompting.prompt_at(ada, outside.pk, 6)
    assert [(one["role"], one.get("content")) for one in found.messages][:2] == [
        ("user", "Merge the tickets."),
        ("assistant", "I look first."),
    ]
    said = json.dumps(found.messages)
    assert '"look"' in said and "open" in said, "the call before, with its result"
    assert "Now I merge." not in said and "note of the loop" not in said and "Done." not in said
    assert found.why == "awmweb did not run this episode, so it cannot go on with its agent."
    assert (found.privilege, found.tools[0]["name"]) == ("blind", "merge")
    assert not Fork.objects.exists() and not Episode.every.filter(origin="branch").exists()
    for seq in (1, 4, 9):
        with pytest.raises(NotForkable):
            prompting.prompt_at(ada, outside.pk, seq)


def test_task_is_the_first_message_where_the_loop_recorded_none(ada):
    one = live(ada, [{**step, "seq": step["seq"] - 1} for step in STEPS[1:]], "no task")
    with pytest.raises(StillLive):
        prompting.prompt_at(ada, one.pk, 5)
    recording.finish(ada, one.pk, Finish(stop_reason="done"))
    assert prompting.prompt_at(ada, one.pk, 5).messages[0] == {"role": "user", "content": "Merge the tickets."}


def test_prompt_is_not_for_agents_and_tells_no_outcome(ada, rita, outside, client):
    where, secret = f"/api/v1/episodes/{outside.pk}/prompt?step=6", {}
    for scope in ("agent", "launch"):
        secret[scope] = {"authorization": f"Bearer {token(ada.project, scope)[1]}"}
    assert client.get(where, headers=secret["agent"]).status_code == 403
    found = client.get(where, headers=secret["launch"])
    assert found.status_code == 200 and found.json()["step"] == 6 and len(found.json()["messages"]) == 4
    assert CANARY not in found.content.decode() and "others" not in found.content.decode()
    OutcomeHold.objects.create(episode=outside, actor_key=ada.key, by="r")
    assert as_person(ada).get(f"/episodes/{outside.pk}/fork?step=6&prompt=1").status_code == 409


def test_form_offers_the_prompt_where_it_refuses_a_fork(ada, outside):
    browser, where = as_person(ada), f"/episodes/{outside.pk}/fork?step=6"
    page = html(browser.get(where))
    assert "awmweb did not run this episode" in page and "Download" in page and "prompt=1" in page
    file = browser.get(f"{where}&prompt=1")
    assert file["Content-Disposition"] == 'attachment; filename="prompt-6.json"'
    assert file.json() == json.loads(json.dumps(vars(prompting.prompt_at(ada, outside.pk, 6))))
    assert "prompt=1" not in html(browser.get(f"/episodes/{outside.pk}/fork?step=4")), "no choice of the agent"
