"""Where no world can be restored, a prompt to continue is offered, and never a fork."""

from __future__ import annotations

import json

import pytest

from awmclient.schema import EpisodeStart, Finish, Outcome, StepBatch, ToolSpec
from episodes.models import Continuation, Episode, Fork, OutcomeHold
from episodes.record import ending, recording
from exports.select.measured import measured
from people.access import system
from runs.errors import NotForkable, StillLive
from runs.play import prompting
from runs.show import lanes
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
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(system(ada.project), one.pk, Outcome(reward_type="others", details={"why": CANARY}))
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
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
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


def start(client, secret, **said):
    body = json.dumps({"key": "further", "task": "Merge the tickets.", **said})
    headers = {"authorization": f"Bearer {secret}"}
    return client.post("/api/v1/episodes", body, content_type="application/json", headers=headers)


@pytest.fixture
def further(ada, outside, client):
    """An episode that an agent's token continued from the prompt before step 6, complete by its own loop's world."""
    secret = token(ada.project, "agent")[1]
    made = start(client, secret, parent=outside.pk, branch_seq=6)
    assert made.status_code == 201 and set(made.json()) == {"id", "url"}
    again = start(client, secret, parent=outside.pk, branch_seq=6)
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])
    one = Episode.objects.get(pk=made.json()["id"])
    ending.finish(ada, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(system(ada.project), one.pk, Outcome(reward_type="complete", details={"why": CANARY}))
    one.refresh_from_db()
    return one


def test_continued_episode_is_in_the_tree_and_no_branch(ada, rita, outside, further, client):
    assert (further.origin, further.run_id, further.fork_id, further.knowledge) == ("external", None, None, "blind")
    assert not further.is_branch and not Fork.objects.exists()
    headers = {"authorization": f"Bearer {token(ada.project, 'launch')[1]}"}
    tree = client.get(f"/api/v1/episodes/{outside.pk}/tree", headers=headers).json()
    assert [one["id"] for one in tree["episodes"]] == [outside.pk], "it is in no arm"
    (shown,) = tree["continued"]
    assert (shown["id"], shown["parent"], shown["step"]) == (further.pk, outside.pk, 6)
    assert (shown["state"], shown["privilege"], shown["outcome"]) == ("finished", "blind", "complete")
    assert "continued from a prompt, counts in no rate" in html(as_person(ada).get(f"/episodes/{further.pk}/"))
    page = html(as_person(ada).get(f"/episodes/{outside.pk}/tree"))
    assert "Continued from a prompt" in page and further.pk in page and "No branches yet" in page
    assert lanes.lanes_of(ada, outside.pk).branches == 0 and measured(Episode.objects.all()) == {}
    OutcomeHold.objects.create(episode=outside, actor_key=rita.key, by="r")
    held = html(as_person(rita).get(f"/episodes/{outside.pk}/tree"))
    assert (
        "outcome withheld" in held and "complete" not in held.split("Continued from a prompt")[1].split("</section>")[0]
    )


def test_agents_name_parents_and_learn_nothing(ada, outside, further, client, elsewhere):
    secret = token(ada.project, "agent")[1]
    headers = {"authorization": f"Bearer {secret}"}
    assert client.get(f"/api/v1/episodes/{outside.pk}/tree", headers=headers).status_code == 403
    for one in (outside, further):
        for path in ("", "/steps"):
            seen = client.get(f"/api/v1/episodes/{one.pk}{path}", headers=headers).content.decode()
            assert CANARY not in seen and "reward" not in seen
    foreign = token(elsewhere, "agent")[1]
    assert start(client, foreign, parent=outside.pk, branch_seq=6).status_code == 404


def test_parent_of_a_continued_episode_is_checked(ada, outside, client):
    secret = token(ada.project, "agent")[1]
    running = live(ada, key="still live")
    for said, why in (
        ({"parent": outside.pk}, "given together"),
        ({"branch_seq": 6}, "given together"),
        ({"parent": outside.pk, "branch_seq": 99}, "the parent has"),
        ({"parent": running.pk, "branch_seq": 6}, "has not ended"),
        ({"parent": outside.pk, "branch_seq": 6, "group_key": "g"}, "no run and no group"),
        ({"parent": outside.pk, "branch_seq": 0}, ""),
    ):
        refused = start(client, secret, **said)
        assert refused.status_code == 422 and why in refused.content.decode(), said
    assert start(client, secret, parent="none", branch_seq=6).status_code == 404
    assert start(client, secret, parent=outside.pk, branch_seq=6).status_code == 201
    other = start(client, secret, parent=outside.pk, branch_seq=3)
    assert other.status_code == 409 and "branch_seq" in other.content.decode(), "the key has another place"
    assert start(client, secret).status_code == 409, "the key has a parent"
    assert Continuation.objects.count() == 1


def test_whole_episode_continues_and_privilege_rises(ada, client):
    parent = live(ada, key="informed parent")
    Episode.objects.filter(pk=parent.pk).update(expert="informed")
    ending.finish(ada, parent.pk, Finish(stop_reason="done"))
    said = {"key": "whole", "task": "t", "parent": parent.pk, "branch_seq": 6}
    body = json.dumps({"episodes": [{"episode": said, "steps": STEPS[:1], "finish": {"stop_reason": "done"}}]})
    headers = {"authorization": f"Bearer {token(ada.project, 'agent')[1]}"}
    found = client.post("/api/v1/episodes/whole", body, content_type="application/json", headers=headers).json()
    one = Episode.objects.get(pk=found["results"][0]["id"])
    assert (one.knowledge, one.continuation.parent_id, one.continuation.seq) == ("sees_verifier", parent.pk, 6)
    Episode.objects.get(pk=parent.pk).delete()
    assert not Continuation.objects.exists()
