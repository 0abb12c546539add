"""An ended episode is forked at a step: both arms go on in its restored world, and nothing of the parent changes."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from awmclient.choosing.chat import EndpointConfig
from awmclient.policies import Turn
from episodes.models import Episode, Fork, Knowledge, OutcomeHold, Step, VerifierOutcome
from episodes.visible import visibility
from episodes.visible.trajectory import steps_of
from experts.models import Advice, Ask, AskEvent
from people.access import system
from people.errors import AppError, Invalid
from people.record.members import issue_token
from reviews.record import assigning, correcting
from reviews.record.correcting import Better
from runs.errors import NoServer, NotForkable
from runs.plan import spending
from runs.play import forking, playing
from runs.show import forks, lanes
from tests.browsing import as_person, html
from tests.runs.faulty import WORKER, Faults, Plan, plan

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)


def call(word):
    return forking.change_of({"call": {"name": "add_row", "arguments": {"word": word}}})


@pytest.fixture
def parent(desk):
    """Writes a and b in one turn, counts, asks, writes c, and is complete."""
    episode, _ = desk.played(plan(), Faults())
    assert episode.outcomes.get().reward_type == "complete"
    return episode


def step_of(episode, kind="tool_call", **said):
    """Return the number of the first step of this kind whose arguments hold these."""
    found = [one for one in steps_of(episode) if one["kind"] == kind]
    return next(one["seq"] for one in found if said.items() <= (one.get("arguments") or {}).items())


def ended(fork, answer=lambda branch: None):
    """Play the branches to their end, answering their asks; return the reward types by arm."""
    found = {"treated": [], "control": []}
    for branch in Episode.every.filter(fork=fork).order_by("key"):
        playing.play(branch.pk, WORKER)
        answer(branch)
        playing.play(branch.pk, WORKER)
        branch.refresh_from_db()
        assert (branch.state, branch.fault) == ("finished", ""), branch.fault_detail
        found[branch.branch_arm].append(branch.outcomes.get().reward_type)
    return found


def rows_of(episode):
    """A digest of every row of an episode, and of its asks."""
    asks = Ask.objects.filter(episode=episode)
    rows = [
        Episode.every.filter(pk=episode.pk),
        Step.objects.filter(episode=episode).order_by("pk"),
        episode.outcomes.order_by("pk"),
        episode.events.order_by("pk"),
        asks.order_by("pk"),
        Advice.objects.filter(ask__in=asks).order_by("pk"),
        AskEvent.objects.filter(ask__in=asks).order_by("pk"),
    ]
    return hashlib.sha256(repr([list(one.values()) for one in rows]).encode()).hexdigest()


def test_fork_plays_both_arms_and_leaves_its_parent(parent, ada):
    before, seq = rows_of(parent), step_of(parent, word="c")
    made = forking.fork(ada, parent.pk, seq, call("x"), tries=2)
    assert (made.fork.grade, len(made.branches)) == ("exact", 4)
    assert ended(made.fork) == {"treated": ["others"] * 2, "control": ["complete"] * 2}
    assert rows_of(parent) == before
    first = steps_of(parent)[: seq - 1]
    for branch in Episode.every.filter(fork=made.fork):
        assert steps_of(branch)[: seq - 1] == first
        assert (branch.grade, branch.run_id, branch.branch_seq) == ("exact", None, seq)
        again = [one for one in steps_of(branch) if one["kind"] == "tool_call"][-1]
        assert again["arguments"] == {"word": "x" if branch.branch_arm == "treated" else "c"}


def test_every_change_is_asked_against_its_own_control(parent, desk, ada):
    """Advice against the recorded advice, words against a choice without them, nothing against the recorded choice."""
    ask, count = step_of(parent, "ask"), step_of(parent, "tool_call")
    advised = forking.fork(ada, parent.pk, ask, forking.change_of({"advice": "Write z."}), tries=1)
    ended(advised.fork)
    given = {one.branch_arm: [s for s in steps_of(one) if s["kind"] == "ask"][-1] for one in branches(advised)}
    assert given["treated"]["advice"]["text"] == "Write z." and given["treated"]["advice"]["author"] == ada.name
    assert given["control"]["advice"] == next(s for s in steps_of(parent) if s["kind"] == "ask")["advice"]
    assert Ask.objects.count() == 1, "no one is asked again, and the recorded ask stays"
    told = forking.fork(ada, parent.pk, count, forking.change_of({"words": "Mind the order."}), tries=1)
    ended(told.fork, desk._answer)
    said = {one.branch_arm: [s.get("content") for s in steps_of(one)] for one in branches(told)}
    assert "Mind the order." in said["treated"] and "Mind the order." not in said["control"]
    redrawn = forking.fork(ada, parent.pk, parent.last_seq, forking.change_of({}), tries=1)
    assert ended(redrawn.fork) == {"treated": ["complete"], "control": ["complete"]}


def branches(made):
    return Episode.every.filter(fork=made.fork)


def test_question_is_asked_in_place_of_the_recorded_choice(parent, desk, ada):
    seq = step_of(parent, "tool_call", word="c")
    asked = forking.fork(ada, parent.pk, seq, forking.change_of({"ask": {"question": "Is it c?"}}), tries=1)
    treated, control = (branches(asked).get(branch_arm=arm) for arm in ("treated", "control"))
    for branch in (treated, control):
        while branch.is_live:
            playing.play(branch.pk, WORKER)
            desk._answer(branch)
            branch.refresh_from_db()
    own = [one for one in steps_of(treated) if one["seq"] >= seq]
    assert [one["kind"] for one in own[:2]] == ["message", "ask"] and own[1]["question"] == "Is it c?"
    assert own[1]["advice"]["source"] == "human", "an expert was asked"
    assert treated.outcomes.get().reward_type == "others", "c was never written"
    assert control.outcomes.get().reward_type == "complete"
    assert forks.finding_of(ada, asked.fork, [treated, control]).sentence.startswith("Asked here: 0 of 1 complete;")


def test_question_is_refused_where_no_expert_can_be_asked(parent, ada):
    seq, change = step_of(parent, word="c"), forking.change_of({"ask": {"question": "Is it c?"}})
    for changed in ({"expert": "off"}, {"policy": parent.policy | {"ask": {"key": "k", "seen": False}}}):
        kept = {name: getattr(parent, name) for name in changed}
        Episode.every.filter(pk=parent.pk).update(**changed)
        with pytest.raises(NotForkable, match="could not ask an expert here"):
            forking.fork(ada, parent.pk, seq, change)
        Episode.every.filter(pk=parent.pk).update(**kept)
    with pytest.raises(Invalid, match="question"):
        forking.change_of({"ask": {"question": "  "}})
    with pytest.raises(Invalid, match="one thing"):
        forking.change_of({"ask": {"question": "Is it?"}, "policy": "model"})


def test_another_model_goes_on_with_the_limits_of_its_parent(parent, ada, settings):
    settings.AGENT_ENDPOINTS = {"tuned": EndpointConfig("http://127.0.0.1:9", "big")}
    seq = step_of(parent, word="c")
    # options are the parent's own model's, and no limit of the episode
    Episode.objects.filter(pk=parent.pk).update(policy={**parent.policy, "options": {"max_tokens": 64}})
    parent.refresh_from_db()
    made = forking.fork(ada, parent.pk, seq, forking.change_of({"policy": "model:tuned"}), tries=1)
    told = {one.branch_arm: one for one in branches(made)}
    limits = {"ask_deadline_s": parent.policy["ask_deadline_s"]}
    assert told["treated"].policy == {"awmweb": "model", "model": "big", "endpoint": "tuned"} | limits
    assert (told["treated"].policy_kind, told["control"].policy) == ("model", parent.policy)
    assert {one.last_seq for one in told.values()} == {seq - 1}, "both choose afresh"
    ended(made.fork)
    said = forks.finding_of(ada, made.fork, branches(made)).sentence
    assert "Other model: 1 of 1 complete; own model: 1 of 1." in said
    for name, why in (("model:gone", "no agent model"), ("script:gone", "no script"), ("big", "A policy is")):
        with pytest.raises(AppError, match=why):
            forking.fork(ada, parent.pk, seq, forking.change_of({"policy": name}))


def test_branches_cost_what_their_episode_took_from_there(parent, ada, client, capsys):
    seq = step_of(parent, word="c")
    row = Step.objects.get(episode=parent, seq=seq)
    said = json.loads(row.body) | {"usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}}
    Step.objects.filter(pk=row.pk).update(body=json.dumps(said, separators=(",", ":")))
    likely = forking.estimated(ada, parent.pk, seq)
    assert (likely.turns, likely.tokens, likely.asks) == (2, 77, 0)
    secret = issue_token(system(parent.project), "launch", "launch")[1]
    headers = {"authorization": f"Bearer {secret}"}
    read = client.get(f"/api/v1/episodes/{parent.pk}/fork?step={seq}", headers=headers).json()
    assert (read["turns"], read["tokens"], read["asks"]) == (2, 77, 0)
    call_command("fork", episode=parent.pk, step=seq, tries=3, estimate=True)
    assert "6 branches: about 12 turns, 462 tokens and" in capsys.readouterr().out
    assert not Fork.objects.exists()
    page = html(as_person(ada).get(f"/episodes/{parent.pk}/fork?step={seq}"))
    assert 'data-each="77">154</b>' in page, "of two branches: a script makes the same choices"
    assert 'data-unit="s"' in page and "seconds of work" not in page, page[page.index("In all") :][:600]


def test_a_branch_is_forked_again_and_stays_informed(parent, ada, rita):
    seq = step_of(parent, word="c")
    first = forking.fork(ada, parent.pk, seq, call("x"), tries=1)
    ended(first.fork)
    levels = {one.branch_arm: one.knowledge for one in branches(first)}
    assert levels == {"treated": "hindsight", "control": "blind"}, "who changed the call knew the outcome"
    treated = branches(first).get(branch_arm="treated")
    second = forking.fork(ada, treated.pk, treated.last_seq, forking.change_of({}), tries=1)
    assert {one.knowledge for one in branches(second)} == {"hindsight"}
    root, rows, _ = forks.tree(ada, treated.pk)
    assert root == parent and len(rows) == 5
    assert [one.get("parent") for one in rows] == [None, parent.pk, parent.pk, treated.pk, treated.pk]


def test_acts_of_a_person_at_an_informed_wheel_raise_privilege(parent, ada):
    """A person who can read the verifier acts before the fork, and no advice says so."""
    seq = step_of(parent, word="c")
    steps, point = forking.place_of(parent, seq)
    acted = [{**one, "acted_by": "p"} if one["seq"] == 2 else one for one in steps if one["kind"] != "ask"]
    later = [{**one, "acted_by": "p"} if one["seq"] > seq else one for one in steps if one["kind"] != "ask"]
    for expert, told, level in (
        ("informed", acted, "sees_verifier"),
        ("informed", later, "blind"),
        ("plain", acted, "blind"),
    ):
        parent.expert = expert
        levels = forking.knowledge(ada, parent, told, point)
        assert (levels["before"], levels["kept"]) == (level, level), expert


@given(
    st.sampled_from(list(Knowledge)),
    st.sampled_from(list(Knowledge)),
    st.sampled_from(list(Knowledge)),
    st.sampled_from([{}, {"call": {"name": "add_row", "arguments": {}}}, {"advice": "a"}, {"words": "w"}]),
)
def test_knowledge_only_rises(before, kept, author, change):
    levels = {"before": before, "kept": Knowledge(Knowledge.most([before, kept])), "author": author}
    asked = {"kind": "ask", "seq": 5, "turn": 2, "question": "q", "ask": "a"}
    point = forking.point_of([{"kind": "message", "role": "user", "content": "t", "seq": 4}, asked], 5)
    order = list(Knowledge)
    treated, control = forking.arms_of(point, forking.change_of(change), "ada", levels)
    for arm in (treated, control):
        assert order.index(arm.knowledge) >= order.index(before)
    if change:
        assert order.index(treated.knowledge) >= order.index(author)
    for step in treated.steps:
        if step.get("advice"):
            assert step["advice"]["privilege"] == ("blind" if treated.knowledge == "blind" else "sees_verifier")


STEPS = [
    {"seq": 1, "kind": "message", "role": "user", "content": "task"},
    {"seq": 2, "kind": "message", "role": "assistant", "content": "hm", "turn": 1, "calls": []},
    {"seq": 3, "kind": "tool_call", "name": "a", "turn": 1},
    {"seq": 4, "kind": "tool_call", "name": "b", "turn": 1},
    {"seq": 5, "kind": "nudge", "content": "ask", "turn": 1},
    {"seq": 6, "kind": "message", "role": "assistant", "content": "?", "turn": 2},
    {"seq": 7, "kind": "tool_call", "name": "c", "turn": 3, "approval": {"verdict": "approve", "by": "person"}},
    {"seq": 8, "kind": "tool_call", "name": "d", "turn": 4, "done": True},
    {"seq": 9, "kind": "tool_call", "name": "e", "turn": 5},
]


@pytest.mark.parametrize(
    ("seq", "why"),
    [(1, "no choice"), (5, "no choice"), (6, "no choice"), (7, "approval"), (9, "had ended"), (10, "no step 10")],
)
def test_steps_that_cannot_be_forked_say_why(seq, why):
    with pytest.raises(NotForkable, match=why):
        forking.point_of(STEPS, seq)


def test_a_message_stands_for_the_first_call_of_its_turn():
    point = forking.point_of(STEPS, 2)
    assert (point.cut, point.step["seq"], point.first, point.said) == (2, 3, True, "hm")
    later = forking.point_of(STEPS, 4)
    assert (later.cut, later.first) == (4, False)
    levels = {"before": Knowledge.BLIND, "kept": Knowledge.BLIND, "author": Knowledge.BLIND}
    with pytest.raises(NotForkable, match="together with the call before"):
        forking.arms_of(later, forking.change_of({"words": "w"}), "ada", levels)


def test_nothing_is_made_where_the_world_cannot_be_restored(parent, ada, settings, monkeypatch):
    seq = step_of(parent, word="c")
    refusals = [
        ({"state": "running"}, "has not ended"),
        ({"origin": "external"}, "did not run"),
        ({"world": {}}, "not recorded"),
        ({"scenario_digest": "d" * 64}, "was replaced"),
    ]
    kept = {name: getattr(parent, name) for name in ("state", "origin", "world", "scenario_digest")}
    for changed, why in refusals:
        Episode.every.filter(pk=parent.pk).update(**changed)
        with pytest.raises(AppError, match=why):
            forking.fork(ada, parent.pk, seq, call("x"))
        Episode.every.filter(pk=parent.pk).update(**kept)
    row = Step.objects.get(episode=parent, seq=step_of(parent, word="a"))
    Step.objects.filter(pk=row.pk).update(
        body=row.body.replace('"calls":1', '"calls":7').replace('"rows":1', '"rows":7')
    )
    mark = json.loads(row.body)["meta"]["world"]
    Step.objects.filter(pk=row.pk).update(body=row.body.replace(mark["answer"], "0" * len(mark["answer"])))
    with pytest.raises(NotForkable, match="cannot be restored"):
        forking.fork(ada, parent.pk, seq, call("x"))
    Step.objects.filter(pk=row.pk).update(body=row.body)
    with pytest.raises(Invalid, match="no tool"):
        forking.fork(ada, parent.pk, seq, forking.change_of({"call": {"name": "drop", "arguments": {}}}))
    with pytest.raises(Invalid, match="word"):
        forking.fork(ada, parent.pk, seq, forking.change_of({"call": {"name": "add_row", "arguments": {"word": 3}}}))
    settings.AWMENV_URL = "http://127.0.0.1:9"
    with pytest.raises(NoServer):
        forking.fork(ada, parent.pk, seq, call("x"))
    assert not Fork.objects.exists() and not Episode.every.filter(origin="branch").exists()


def test_branches_are_limited_in_number_and_in_tokens(parent, ada, monkeypatch):
    seq = step_of(parent, word="c")
    with pytest.raises(Invalid, match="tries"):
        forking.fork(ada, parent.pk, seq, call("x"), tries=33)
    monkeypatch.setattr(forking, "BRANCHES_MAX", 4)
    made = forking.fork(ada, parent.pk, seq, call("x"), tries=2, tokens=100)
    with pytest.raises(NotForkable, match="4 branches; this one has 4"):
        forking.fork(ada, parent.pk, seq, call("x"), tries=1)
    monkeypatch.setattr(playing, "policy_of", lambda episode: Paid())
    first, second, *_ = branches(made).order_by("key")
    playing.play(first.pk, WORKER)
    playing.play(second.pk, WORKER)
    second.refresh_from_db()
    assert (second.state, second.attempt) == ("cancelled", 0)
    assert second.events.get(verb="cancelled").reason == "the token budget of its fork is used up"


class Paid:
    async def act(self, view):
        return Turn(answer="a b", usage={"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100})


def test_agents_learn_no_outcome_by_branching(parent, ada, client, monkeypatch):
    """The outcome of the parent, and its verifier, are in no view, step, frame or answer of a branch."""
    canary = "CANARY-of-the-verifier"
    VerifierOutcome.objects.filter(episode=parent).update(reward_type=canary, details={"mode": canary})
    verdict = Step.objects.filter(episode=parent, kind="verification")
    verdict.update(body=verdict.get().body.replace('"complete"', f'"{canary}"'))
    views = []

    class Watched(Plan):
        async def act(self, view):
            views.append(repr(view))
            return await super().act(view)

    monkeypatch.setattr(playing, "policy_of", lambda episode: Watched(plan()))
    agent, launch = (issue_token(system(parent.project), scope, scope)[1] for scope in ("agent", "launch"))
    seq = step_of(parent, word="c")
    body = json.dumps({"step": seq, "change": {"call": {"name": "add_row", "arguments": {"word": "x"}}}, "tries": 1})
    assert post(client, f"/api/v1/episodes/{parent.pk}/fork", agent, body).status_code == 403
    assert not Fork.objects.exists()
    answer = post(client, f"/api/v1/episodes/{parent.pk}/fork", launch, body)
    assert answer.status_code == 202 and canary not in answer.content.decode()
    ended(answer.json()["id"])
    # one turn each after the changed call and after the recorded one
    assert len(views) == 2 and not any(canary in one for one in views)
    for branch in Episode.every.filter(origin="branch"):
        assert not Step.objects.filter(episode=branch, body__contains=canary).exists()
        read = client.get(f"/api/v1/episodes/{branch.pk}/steps", headers={"authorization": f"Bearer {agent}"})
        assert read.status_code == 200 and canary not in read.content.decode()
        assert "verification" not in read.content.decode()
        assert (
            client.get(f"/api/v1/episodes/{branch.pk}/tree", headers={"authorization": f"Bearer {agent}"}).status_code
            == 403
        )
    listed = client.get("/api/v1/episodes?origin=branch", headers={"authorization": f"Bearer {agent}"}).content.decode()
    assert canary not in listed and "others" not in listed
    told = client.get(f"/api/v1/episodes/{parent.pk}/tree", headers={"authorization": f"Bearer {launch}"}).json()
    assert {one["arm"]: one["outcome"] for one in told["episodes"] if one["arm"]} == {
        "treated": "others", "control": "complete",
    }  # fmt: skip


def post(client, address, secret, body):
    headers = {"authorization": f"Bearer {secret}"}
    return client.post(address, body, content_type="application/json", headers=headers)


def test_usage_of_copied_steps_counts_once(parent, ada):
    row = Step.objects.get(episode=parent, seq=step_of(parent, "message") + 2)
    said = json.loads(row.body) | {"usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}}
    Step.objects.filter(pk=row.pk).update(body=json.dumps(said, separators=(",", ":")))
    made = forking.fork(ada, parent.pk, step_of(parent, word="c"), call("x"), tries=1)
    assert spending.spent(Episode.every.filter(pk=parent.pk)).tokens == 77
    assert spending.spent(branches(made)).tokens == 0


def test_fork_command_prints_its_branches(parent, ada, tmp_path, capsys):
    file = tmp_path / "change.yaml"
    file.write_text("call:\n  name: add_row\n  arguments:\n    word: x\n")
    step = step_of(parent, word="c")
    call_command("fork", episode=parent.pk, step=step, change=file, tries=1)
    said = capsys.readouterr().out
    assert all(f"{one.pk} {one.branch_arm}" in said for one in Episode.every.filter(origin="branch"))
    assert "World restored: exact" in said
    for text, why in (("call: [", "YAML|line|expected"), ("words: a\nadvice: b\n", "changes one thing")):
        file.write_text(text)
        with pytest.raises(CommandError, match=why):
            call_command("fork", episode=parent.pk, step=step, change=file)


def test_pages_of_a_fork_show_form_refusal_and_branches(parent, ada, edo):
    seq, browser = step_of(parent, word="c"), as_person(ada)
    assert f'/episodes/{parent.pk}/fork?step=1"' in html(browser.get(f"/episodes/{parent.pk}/replay/"))
    form = html(browser.get(f"/episodes/{parent.pk}/fork?step={seq}"))
    assert "4 of 4 against 0 of 4" not in form, "a script needs one branch"
    assert re.search(r'name="tries"\s+inputmode="numeric"\s+value="1"', form)
    assert re.search(r'/episodes/"\s+aria-current="page"', form), "the tab is marked"
    assert "no choice of the agent" in html(browser.get(f"/episodes/{parent.pk}/fork?step=1"))
    recorded = Step.objects.filter(episode=parent, seq=seq)
    body = recorded.get().body
    recorded.update(body=body.replace('"add_row"', '"ask_expert"'))
    unoffered = html(browser.get(f"/episodes/{parent.pk}/fork?step={seq}"))
    recorded.update(body=body)
    assert re.search(r'value="words"\s+checked', unoffered) and ">{}</textarea>" in unoffered, (
        "no tool takes its values"
    )
    given = {"seq": str(seq), "kind": "call", "name": "add_row", "arguments": "{", "tries": "1"}
    refused = browser.post(f"/episodes/{parent.pk}/fork", given)
    assert refused.status_code == 422 and "The arguments are not valid JSON" in html(refused)
    made = browser.post(f"/episodes/{parent.pk}/fork", given | {"arguments": '{"word": "x"}'})
    fork = Fork.objects.get()
    assert made.status_code == 302 and f"/forks/{fork.pk}/" in made["location"]
    page = html(browser.get(f"/forks/{fork.pk}/"))
    assert "0 of 2 branches have ended." in page and " ." not in page.split("forked step")[1][:400]
    ended(fork)
    page = html(browser.get(f"/forks/{fork.pk}/"))
    assert "Changed call: 0 of 1 complete; recorded call: 1 of 1." in page and "nothing is shown" in page
    assert "different arguments" in page
    assert as_person(edo).get(f"/episodes/{parent.pk}/fork?step={seq}").status_code == 403
    OutcomeHold.objects.create(episode=parent, actor_key=edo.key, by="r")
    assert "withheld until your verdict" in html(as_person(edo).get(f"/forks/{fork.pk}/"))


def part(person, address):
    return html(as_person(person).get(address, headers={"hx-request": "true"}))


def test_correction_is_proven_by_a_fork(parent, ada, edo, rita):
    seq = step_of(parent, word="c")
    fix = correcting.correct(ada, parent, seq, Better("call", "add_row", {"word": "x"}))
    address = f"/episodes/{parent.pk}/proof?correction={fix.pk}"
    assert "unverified" in part(ada, address) and "Prove it" in part(ada, address)
    assert "Prove it" not in part(edo, address), "an expert launches nothing"
    assert "Your role can't launch" in part(edo, address) and "Your role" not in part(ada, address)
    Episode.every.filter(pk=parent.pk).update(policy_kind="model")
    browser = as_person(ada)
    assert "Correction by" in html(browser.get(f"/episodes/{parent.pk}/fork?step={seq}&correction={fix.pk}"))
    given = {"seq": str(seq), "correction": fix.pk, "tries": "4"}
    assert browser.post(f"/episodes/{parent.pk}/fork", given).status_code == 302
    made = Fork.objects.get()
    assert (made.correction, made.knowledge) == (fix.pk, "hindsight")
    assert made.change == {"call": {"name": "add_row", "arguments": {"word": "x"}}}
    assert "8 branches" in part(ada, address) and "every 3s" in part(ada, address)
    ended(made)
    Episode.every.filter(fork=made).update(policy_kind="model")
    assert "not shown" in part(ada, address), "a model that repeats itself"
    for branch in Episode.every.filter(fork=made):
        own = {"seq": 99, "kind": "message", "role": "assistant", "content": f"In words of {branch.pk}.", "turn": 9}
        branch.steps.create(seq=99, kind="message", body=json.dumps(own), at=branch.created_at)
    assert "proven worse" in part(ada, address)
    assert "corrected 0 of 4, recorded 4 of 4, -100 points [" in part(ada, address)
    OutcomeHold.objects.create(episode=parent, actor_key=edo.key, by="r")
    assert as_person(edo).get(address, headers={"hx-request": "true"}).status_code == 404, "of somebody else"
    OutcomeHold.objects.create(episode=parent, actor_key=ada.key, by="r")
    assert "withheld until your verdict" in part(ada, address) and "0 of 4" not in part(ada, address)


def test_only_actions_that_count_are_proven(parent, ada, rita, client):
    seq = step_of(parent, word="c")
    fix = correcting.correct(rita, parent, seq, Better("call", "add_row", {"word": "x"}))
    secret = issue_token(system(parent.project), "launch", "launch")[1]

    def sent(**body):
        return post(client, f"/api/v1/episodes/{parent.pk}/fork", secret, json.dumps({"tries": 1, **body}))

    other = {"call": {"name": "add_row", "arguments": {"word": "y"}}}
    assert sent(step=seq, correction=fix.pk, change=other).status_code == 422
    assert sent(step=step_of(parent, word="a"), correction=fix.pk).status_code == 422
    assert sent(step=seq, correction="none").status_code == 404
    assert sent(step=seq, correction=fix.pk).status_code == 202
    assert Fork.objects.get().knowledge == "hindsight", "of somebody else it is not known what they saw"
    asks = correcting.correct(rita, parent, seq, Better("ask", text="Which?"))
    assert sent(step=seq, correction=fix.pk).status_code == 409, "replaced"
    assert sent(step=seq, correction=asks.pk).json()["branches"][0]["change"] == {"ask": {"question": "Which?"}}
    assert sent(step=seq, correction=correcting.withdraw(rita, asks.pk).pk).status_code == 409
    said = correcting.correct(rita, parent, seq, Better("message", text="Done."))
    assert sent(step=seq, correction=said.pk).status_code == 409


def test_tree_has_a_lane_for_each_arm(parent, ada, edo):
    empty = html(as_person(ada).get(f"/episodes/{parent.pk}/tree"))
    assert "No branches yet" in empty and "every 3s" not in empty
    seq = step_of(parent, word="c")
    first = forking.fork(ada, parent.pk, seq, call("x"), tries=2)
    assert "every 3s" in html(as_person(ada).get(f"/episodes/{parent.pk}/tree"))
    ended(first.fork)
    below = branches(first).filter(branch_arm="treated").first()
    forking.fork(ada, below.pk, below.last_seq, forking.change_of({}), tries=1)
    tree = lanes.lanes_of(ada, below.pk)
    assert tree.root == parent and [(one.words, one.parent) for one in tree.lanes] == [
        ("The episode itself", None), ("Recorded call", 0), ("Changed call", 0), ("Recorded choice", 2),
        ("Chosen again", 2),
    ]  # fmt: skip
    assert [len(one.rows) for one in tree.lanes] == [1, 2, 2, 1, 1] and (tree.branches, tree.live) == (6, 2)
    assert tree.since == seq - lanes.BEFORE and tree.lanes[1].place == lanes.BEFORE
    assert tree.lanes[1].wires == [lanes.BEFORE], "the line of the next lane goes past it"
    page = html(as_person(ada).get(f"/episodes/{below.pk}/tree"))
    assert "6 branches of 2 forks, 2 live" in page and page.count('class="limb"') == 5
    assert all(f"/episodes/{one.pk}/" in page for one in Episode.every.filter(origin="branch"))
    assert "verified complete" in page
    for limb in re.findall(r'<svg class="limb".*?</svg></svg>', page, re.DOTALL):
        marks = [float(x) for x in re.findall(r'<use [^>]*x="([\d.]+)"', limb)]
        lines = [float(x) for x in re.findall(r'class="wire" x1="([\d.]+)"', limb)]
        assert not [at for at in lines if any(x < at < x + 12 for x in marks)], "lines are between marks"
    OutcomeHold.objects.create(episode=parent, actor_key=edo.key, by="r")
    hidden = html(as_person(edo).get(f"/episodes/{parent.pk}/tree"))
    assert "Withheld" in hidden and "verified" not in hidden.replace("not verified", "")
    fork = html(as_person(edo).get(f"/forks/{first.fork.pk}/"))
    assert "verified complete" not in fork and "verified not complete" not in fork


def test_outcomes_of_branches_are_withheld_with_their_parent(parent, ada, edo):
    seq = step_of(parent, word="c")
    first = forking.fork(ada, parent.pk, seq, call("x"), tries=1)
    ended(first.fork)
    queue = assigning.create_queue(ada, "Blind")
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=parent.pk))
    later = forking.fork(ada, parent.pk, seq, call("y"), tries=1)
    ended(later.fork)
    made = [*branches(first), *branches(later)]
    assert not any(visibility.sees_outcome(edo, one) for one in (parent, *made))
    assert all(visibility.sees_outcome(ada, one) for one in made)
    assert visibility.withheld_here(edo) == 1, "branches are not counted"
    page = html(as_person(edo).get(f"/episodes/{made[0].pk}/"))
    assert "Not complete" not in page and "verified" not in page.replace("not verified", "")
    assigning.close_queue(ada, queue.pk)
    assert all(visibility.sees_outcome(edo, one) for one in (parent, *made))


def test_a_form_that_is_sent_twice_forks_once(parent, ada, edo, monkeypatch):
    seq = step_of(parent, word="c")
    page, path = as_person(ada), f"/episodes/{parent.pk}/fork"
    sent = re.search(r'name="form" value="(\w{20})"', html(page.get(f"{path}?step={seq}")))[1]
    form = {"seq": seq, "kind": "nothing", "tries": 1, "form": sent}
    first = page.post(path, form)
    assert first.status_code == 302 and page.post(path, form).url == first.url
    assert Fork.objects.get().pk == sent and Episode.every.filter(origin="branch").count() == 2
    # the same request while the first restores its world
    restored = forking._restored

    def meanwhile(*args):
        monkeypatch.setattr(forking, "_restored", restored)
        forking.fork(ada, parent.pk, seq, forking.ForkChange(), 1, pk="0" * 20)
        return restored(*args)

    monkeypatch.setattr(forking, "_restored", meanwhile)
    made = forking.fork(ada, parent.pk, seq, forking.ForkChange(), 1, pk="0" * 20)
    assert (Fork.objects.count(), len(made.branches)) == (2, 2)
    # the ID of a fork of another episode names nothing
    branch = made.branches[0]
    ended(made.fork)
    branch.refresh_from_db()
    with pytest.raises(Invalid, match="Open the form again"):
        forking.fork(ada, branch.pk, branch.last_seq, forking.ForkChange(), 1, pk=sent)


def test_a_tree_deeper_than_calls_is_drawn(ada):
    """A chain of 999 branches of branches: what is read grows with the tree, not with its square."""
    about = {"project": ada.project, "body_digest": "", "task": "t", "state": "finished", "policy_kind": "script"}
    top = Episode.objects.create(key="top", origin="builtin", **about)
    made, branches, above = [], [], top
    for place in range(999):
        fork = Fork(project=ada.project, parent=above, seq=1, tries=1, knowledge="blind", grade="exact")
        mine = {"origin": "branch", "fork": fork, "branch_arm": "treated", "branch_seq": 1, "knowledge": "blind"}
        above = Episode(key=f"b{place}", **about, **mine)
        made.append(fork)
        branches.append(above)
    for fork, branch in zip(made, branches, strict=True):
        fork.save(force_insert=True)
        branch.save(force_insert=True)
    found = lanes.lanes_of(ada, top.pk)
    assert len(found.lanes) == 1000 and found.branches == 999
    assert [one.parent for one in found.lanes] == [None, *range(999)]
    assert max(len(one.wires) for one in found.lanes) <= 1
