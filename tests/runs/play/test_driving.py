"""A person at the wheel of a live episode: one at a time, at once in its world, marked, and counted apart."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pydantic import ValidationError

from awmclient.choosing.scripted import ScriptedPolicy
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.record.progress import LoopProgress
from awmclient.schema import EpisodeStart, Finish, LimitsBody, Note, Outcome, ToolSpec, WheelCallBody, WheelUndoBody
from awmclient.testing import FakeEnv
from awmclient.words.toolcalls import Call
from episodes.errors import AlreadySent, BlindReview, EpisodeEnded, NotSteerable, WheelLost, WheelTaken
from episodes.models import Episode, OutcomeHold, Wheel, WheelOrder
from episodes.record import ending, recording, steering
from episodes.stored import outcomes
from episodes.visible.trajectory import steps_of
from people import access
from people.errors import Forbidden, Invalid, KeyConflict, WrongScope
from people.models import AuditEntry
from runs.launch import launching, planning
from runs.plan import replaceable
from runs.play.database import in_database
from runs.play.local import LocalDashboard
from runs.show.comparison import ASSISTED, compare_run
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import end, launched

pytestmark = pytest.mark.django_db(transaction=True)
WORKER = "rollouts@here"
PRICE = {"name": "set_price", "arguments": {"item": "mug", "price": 9}}


class Killed(BaseException):
    """The worker ends here."""


@pytest.fixture
def queued(ada, monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    start = launching.LaunchRequest("helpdesk_1", 0, "Price the mug", policy={"awmweb": "script"}, arm="a")
    return launching.launch(ada, "nightly", [start]).episodes.get()


@pytest.fixture
def live(ada):
    """A running episode of a loop outside, with one tool."""
    tool = ToolSpec(name="get", input_schema={"type": "object", "properties": {"id": {"type": "integer"}}})
    return recording.start_episode(ada, EpisodeStart(key="live", task="t", tools=[tool]))[0]


def said(lease, nonce="1", **order):
    return WheelCallBody(lease_token=lease.lease_token, nonce=nonce, **order)


class Interrupted(FakeEnv):
    """A shop in which something happens during the call of a tool."""

    def __init__(self, during, tool="get_item"):
        super().__init__()
        self.during, self.tool = during, tool

    async def call_tool(self, name, arguments):
        if name == self.tool and self.during is not None:
            during, self.during = self.during, None
            await in_database(during)()
        return await super().call_tool(name, arguments)


class Agent:
    """Decides two calls at once, then answers; keeps what it saw."""

    def __init__(self):
        self.views = []

    async def act(self, view):
        self.views.append(view)
        if len(self.views) > 1:
            return Turn(answer="Done.")
        return Turn(calls=[Call("get_item", {"item": "mug"}), Call("set_price", {"item": "mug", "price": 1})])


def attempt(queued, policy, environment, **limits):
    """Play the episode until it ends, is lost, or its worker is killed."""
    assert recording.begin(queued.pk, WORKER)
    episode = Episode.objects.select_related("project").get(pk=queued.pk)
    dash = LocalDashboard(access.system(episode.project), queued=episode)
    result = async_to_sync(rollout)(policy, environment, dash, task=episode.task, **limits)
    queued.refresh_from_db()
    return result


def test_person_acts_and_hands_back_to_the_agent(queued, edo):
    def drive():
        lease = steering.take(edo, queued.pk)
        first = steering.order(edo, queued.pk, said(lease, call=PRICE))
        assert steering.order(edo, queued.pk, said(lease, call=PRICE)) == first, "the same nonce is one order"
        with pytest.raises(KeyConflict):
            steering.order(edo, queued.pk, said(lease, words="Ask for the price."))
        steering.order(edo, queued.pk, said(lease, "2", words="The mug is priced."))
        steering.hand_back(edo, queued.pk, lease.lease_token)

    agent, shop = Agent(), Interrupted(drive)
    result = attempt(queued, agent, shop, max_steps=2)
    assert (result.stop_reason, shop.prices["mug"]) == ("done", 9.0), "the agent's other call was dropped"
    assert queued.assisted and not queued.steered
    steps = steps_of(queued)
    acted = [one for one in steps if one.get("acted_by")]
    assert [one["kind"] for one in acted] == ["tool_call", "message"]
    assert {one["acted_by"] for one in acted} == {access.opaque(queued.project_id, "edo")}
    notes = [one["content"] for one in steps if one["kind"] == "note"]
    assert notes == ["A person has the wheel. Not made: set_price.", "The agent chooses again."]
    seen = [(one.get("name"), one.get("content")) for one in agent.views[1].steps][-4:]
    assert ("set_price", None) in seen and (None, "The mug is priced.") in seen
    assert not any("acted_by" in one for one in agent.views[1].steps)
    assert agent.views[1].turns_left == 1, "a person's calls are none of the agent's"
    assert [(one.verb, one.actor) for one in queued.events.filter(verb__contains="wheel").order_by("pk")] == [
        ("wheel taken", "edo"),
        ("wheel handed back", "edo"),
    ]


def test_killed_worker_leaves_the_wheel_to_the_next(queued, edo):
    """The script goes on behind the turn that was dropped; the order runs once in the world that survives."""
    script = [{"call": {"name": "get_item", "arguments": {"item": "mug"}}}, {"call": PRICE}, {"answer": "Done."}]
    leases = []

    def take():
        leases.append(steering.take(edo, queued.pk))
        steering.order(edo, queued.pk, said(leases[0], call={"name": "get_item", "arguments": {"item": "pen"}}))
        steering.order(edo, queued.pk, said(leases[0], "2", call={"name": "list_items", "arguments": {}}))

    class Dying(Interrupted):
        async def call_tool(self, name, arguments):
            if name == "list_items":
                raise Killed
            return await super().call_tool(name, arguments)

    with pytest.raises(Killed):
        attempt(queued, ScriptedPolicy(script), Dying(take))
    assert ending.lose_of_worker(WORKER) == 1
    shop = Interrupted(lambda: steering.hand_back(edo, queued.pk, leases[0].lease_token), "list_items")
    assert attempt(queued, ScriptedPolicy(script), shop).stop_reason == "done"
    assert shop.calls.count("list_items") == 1 and shop.prices["mug"] == 9.0
    steps = steps_of(queued)
    assert [one["arguments"] for one in steps if one.get("acted_by")] == [{"item": "pen"}, {}]
    assert len([one for one in steps if one["kind"] == "note"]) == 2
    assert LoopProgress.after(steps).acted == WheelOrder.objects.latest("pk").pk


def test_agent_proposes_a_call_that_a_person_edits(queued, edo):
    """A script counts the turn as its own, also in the attempt that goes on after a crash."""
    script = [{"call": {"name": "get_item", "arguments": {"item": "mug"}}}, {"say": "Now.", "call": PRICE}]
    script += [{"call": {"name": "list_items", "arguments": {}}}, {"answer": "Done."}]
    leases = []

    def ask():
        leases.append(steering.take(edo, queued.pk))
        steering.order(edo, queued.pk, said(leases[0], propose=True))
        steering.order(edo, queued.pk, said(leases[0], "2", call={"name": "get_item", "arguments": {"item": "pen"}}))

    class Dying(Interrupted):
        async def call_tool(self, name, arguments):
            if arguments.get("item") == "pen":
                raise Killed
            return await super().call_tool(name, arguments)

    with pytest.raises(Killed):
        attempt(queued, ScriptedPolicy(script), Dying(ask))
    assert ending.lose_of_worker(WORKER) == 1
    steering.hand_back(edo, queued.pk, leases[0].lease_token)
    shop = FakeEnv()
    assert attempt(queued, ScriptedPolicy(script), shop).stop_reason == "done"
    assert "set_price" not in shop.calls and shop.calls.count("list_items") == 1
    notes = [one for one in steps_of(queued) if one["kind"] == "note"]
    assert notes[1]["content"] == "The agent would call set_price.\n\nNow." and notes[1]["meta"]["dropped"] == [PRICE]
    page = html(as_person(edo).get(f"/episodes/{queued.pk}/wheel?step={notes[1]['seq']}"))
    assert "The episode has ended." in page


def test_lease_that_ends_hands_the_wheel_back(queued, edo):
    def take_and_leave():
        steering.take(edo, queued.pk)
        Wheel.objects.update(lease_until=timezone.now() + timedelta(milliseconds=300))

    assert attempt(queued, Agent(), Interrupted(take_and_leave)).stop_reason == "done"
    assert queued.events.get(verb="wheel handed back").reason == "its page was closed or lost"
    assert queued.assisted, "the agent's turn was dropped"


def test_person_interrupts_an_agent_that_chooses(queued, edo, monkeypatch):
    monkeypatch.setattr("awmclient.loop.choice.LOOK_S", 0.02)

    class Thinking(Agent):
        async def act(self, view):
            if not self.views:
                self.views.append(view)
                await in_database(take)()
                await asyncio.Event().wait()
            return Turn(answer="Done.")

    def take():
        leases.append(steering.take(edo, queued.pk))
        steering.order(edo, queued.pk, said(leases[0], call=PRICE))

    leases = []
    shop = Interrupted(lambda: steering.hand_back(edo, queued.pk, leases[0].lease_token), "set_price")
    assert attempt(queued, Thinking(), shop).stop_reason == "done"
    assert shop.prices["mug"] == 9.0


def test_one_person_has_the_wheel_at_a_time(live, ada, edo):
    mine = steering.take(edo, live.pk)
    with pytest.raises(WheelTaken, match="edo has the wheel"):
        steering.take(ada, live.pk)
    for act in (
        lambda lease: steering.renew(ada, live.pk, lease),
        lambda lease: steering.hand_back(ada, live.pk, lease),
        lambda lease: steering.order(ada, live.pk, WheelCallBody(lease_token=lease or "-", nonce="n", words="x")),
    ):
        for lease in ("", "another"):
            with pytest.raises(WheelLost):
                act(lease)
    again = steering.take(edo, live.pk)
    with pytest.raises(WheelLost):
        steering.renew(edo, live.pk, mine.lease_token)
    Wheel.objects.update(lease_until=timezone.now())
    with pytest.raises(WheelLost):
        steering.renew(edo, live.pk, again.lease_token)
    assert steering.take(ada, live.pk).lease_token != again.lease_token


def test_repeated_hand_back_takes_the_wheel_from_no_one(live, ada, edo):
    first = steering.take(edo, live.pk)
    for _ in range(2):
        steering.hand_back(edo, live.pk, first.lease_token)
    assert live.events.filter(verb=steering.HANDED_BACK).count() == 1
    second = steering.take(ada, live.pk)
    steering.hand_back(edo, live.pk, first.lease_token)
    assert steering.renew(ada, live.pk, second.lease_token), "it is still held"
    for never in ("", "another"):
        with pytest.raises(WheelLost):
            steering.hand_back(ada, live.pk, never)


def test_wheel_goes_back_after_idle_and_after_an_hour(live, edo):
    lease, now = steering.take(edo, live.pk), timezone.now()
    Wheel.objects.update(used_at=now - timedelta(seconds=steering.IDLE_S - 30))
    assert steering.renew(edo, live.pk, lease.lease_token).lease_until < now + timedelta(seconds=40)
    Wheel.objects.update(used_at=now, taken_at=now - timedelta(seconds=steering.LONGEST_S + 1))
    assert steering.renew(edo, live.pk, lease.lease_token).lease_until < now
    assert not steering.read(access.system(live.project), live.pk, 0).held
    assert live.events.get(verb="wheel handed back").reason == "after an hour"


def test_who_cannot_take_the_wheel_is_refused(live, ada, edo, rita, queued):
    agent, _ = token(live.project, "agent")
    for stranger, error in ((rita, Forbidden), (agent, WrongScope)):
        with pytest.raises(error):
            steering.take(stranger, live.pk)
    OutcomeHold.objects.create(episode=live, actor_key=edo.key, by="r1")
    with pytest.raises(BlindReview):
        steering.take(edo, live.pk)
    with pytest.raises(NotSteerable, match="no tools"):
        steering.take(ada, queued.pk)
    Episode.objects.filter(pk=live.pk).update(state="waiting")
    with pytest.raises(NotSteerable, match="waits for an answer"):
        steering.take(ada, live.pk)
    Episode.objects.filter(pk=live.pk).update(state="running")
    lease = steering.take(ada, live.pk)
    ending.finish(ada, live.pk, Finish(stop_reason="done"))
    for late in (lambda: steering.take(ada, live.pk), lambda: steering.order(ada, live.pk, said(lease, words="x"))):
        with pytest.raises(EpisodeEnded):
            late()


def test_order_fits_a_tool_and_not_too_many_wait(live, edo):
    lease = steering.take(edo, live.pk)
    for wrong in ({"name": "rm", "arguments": {}}, {"name": "get", "arguments": {"id": "x"}}):
        with pytest.raises(Invalid):
            steering.order(edo, live.pk, said(lease, call=wrong))
    for body in (
        {},
        {"call": PRICE, "words": "x"},
        {"propose": True, "words": "x"},
        {"propose": False},
        {"words": ""},
        {"words": "x" * 20_001},
    ):
        with pytest.raises(ValidationError):
            said(lease, **body)
    for number in range(steering.OPEN_MAX):
        steering.order(edo, live.pk, said(lease, str(number), call={"name": "get", "arguments": {"id": number}}))
    first = WheelOrder.objects.earliest("pk")
    with pytest.raises(Invalid, match="wait for the loop"):
        steering.order(edo, live.pk, said(lease, "last", words="x" * 20_000))
    steering.read(access.system(live.project), live.pk, first.pk)
    assert steering.order(edo, live.pk, said(lease, "last", words="x" * 20_000)).said == {"words": "x" * 20_000}


def test_changed_limits_hold_with_an_audit_entry(queued, ada, edo):
    script = [{"call": {"name": "get_item", "arguments": {"item": "mug"}}}, {"call": PRICE}, {"answer": "Done."}]
    body = LimitsBody(max_steps=3, max_asks=0, reason="it is nearly there")
    shop = Interrupted(lambda: steering.change_limits(ada, queued.pk, body))
    assert attempt(queued, ScriptedPolicy(script), shop, max_steps=1).stop_reason == "done"
    assert (queued.max_steps, queued.limits, queued.assisted) == (3, {"max_steps": 3, "max_asks": 0}, True)
    entry = AuditEntry.objects.get(verb="episode.limits")
    assert entry.reason == "max_steps 3, max_asks 0: it is nearly there" and entry.target == queued.pk
    assert not any(one["kind"] == "note" for one in steps_of(queued)), "nobody had the wheel"
    with pytest.raises(EpisodeEnded):
        steering.change_limits(ada, queued.pk, body)
    with pytest.raises(Forbidden):
        steering.change_limits(edo, queued.pk, body)


@pytest.mark.parametrize(
    "given",
    [{"max_steps": 0}, {"max_steps": 1001}, {"max_asks": -1}, {"max_asks": 101}, {"timeout_s": 0},
     {"timeout_s": 2_592_001}, {"reason": ""}, {"reason": "x" * 501}],
)  # fmt: skip
def test_limit_out_of_bounds_is_refused(given):
    LimitsBody(max_steps=1000, max_asks=100, timeout_s=2_592_000, reason="x" * 500)
    with pytest.raises(ValidationError):
        LimitsBody(**{"reason": "why", **given})


def test_assisted_try_is_lost_and_counts_in_no_rate(ada, monkeypatch):
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    plan = launched(ada, tasks=["helpdesk_1/0", "helpdesk_1/1"])
    tries = list(plan.tries.order_by("position", "arm__place"))
    for one in tries:
        end(one.episode_id)
    Episode.objects.filter(pk=tries[0].episode_id).update(assisted=True)
    found = compare_run(ada, plan.pk)
    [counted] = [arm for arm in found.arms if arm.name == tries[0].arm.name]
    assert (counted.complete, counted.excluded) == (1, {ASSISTED: 1})
    assert list(replaceable.tries_of([plan.pk])) == [tries[0]]
    assert outcomes.verdicts_of(ada.project).count() == outcomes.proved_of(ada.project).count() == 3
    page = html(as_person(ada).get(f"/runs/{plan.pk}/"))
    assert ASSISTED in page
    planning.retry(ada, plan.pk)
    assert plan.tries.get(pk=tries[0].pk).episode_id != tries[0].episode_id


def test_wheel_page_takes_calls_and_hands_back(live, edo, ada, rita):
    browser, where = as_person(edo), f"/episodes/{live.pk}/wheel"
    assert 'form="take-wheel"' in html(browser.get(f"/episodes/{live.pk}/"))
    assert 'form="take-wheel"' not in html(as_person(rita).get(f"/episodes/{live.pk}/"))
    assert browser.post(where, {"act": "take"}).status_code == 302
    page = html(browser.get(where))
    lease = Wheel.objects.get().lease_token
    assert "You act in place of the agent." in page and lease in page and "Call get" in page
    until = steering.goes_back_at(Wheel.objects.get(episode=live)).isoformat()
    assert f'data-deadline="{until}"' in page and "until it goes back" in page
    other = html(as_person(ada).get(where))
    assert "edo acts in place of the agent." in other and lease not in other and "data-deadline" not in other
    assert as_person(ada).post(where, {"act": "take"}).status_code == 409
    call = {"act": "call", "tool": "get", "lease_token": lease, "nonce": "1"}
    wrong = browser.post(where, {**call, "field:0": "1.5"})
    assert wrong.status_code == 422 and "id must be a whole number." in html(wrong) and "1.5" in html(wrong)
    assert browser.post(where, {**call, "field:0": "7"}).status_code == 302
    said = {"act": "say", "lease_token": lease, "nonce": "2"}
    blank = browser.post(where, {**said, "words": "  "})
    assert (blank.status_code, "Enter the words first." in html(blank)) == (422, True)
    assert browser.post(where, {**said, "words": "Hm."}).status_code == 302
    assert [one.said for one in WheelOrder.objects.order_by("pk")] == [
        {"call": {"name": "get", "arguments": {"id": 7}}},
        {"words": "Hm."},
    ]
    part = html(browser.get(where, headers={"HX-Request": "true"}))
    assert "Your words" in part and "are sent in" in part and "<h1" not in part
    WheelOrder.objects.update(held_until=timezone.now())
    steering.read(access.system(ada.project), live.pk, 0)
    part = html(browser.get(where, headers={"HX-Request": "true"}))
    assert "working on your call" in part and "sent in" not in part
    dropped = {"wheel": "taken", "dropped": [{"name": "get", "arguments": {"id": 41}}]}
    recording.append_steps(ada, live.pk, [Note(seq=1, kind="note", content="The agent would call get.", meta=dropped)])
    assert f"{where}?step=1" in html(browser.get(where)) and "41" in html(browser.get(f"{where}?step=1"))
    assert browser.post(where, {"act": "propose", "lease_token": lease, "nonce": "3"}).status_code == 302
    assert WheelOrder.objects.latest("pk").said == {"propose": True}
    Wheel.objects.update(acted=WheelOrder.objects.order_by("-pk")[1].pk)
    part = html(browser.get(where, headers={"HX-Request": "true"}))
    assert "The agent chooses a call to propose." in part and "working on your call" not in part
    assert browser.post(where, {"act": "renew", "lease_token": lease}).status_code == 204
    assert browser.post(where, {"act": "dance"}).status_code == 422
    assert browser.post(where, {"act": "hand_back", "lease_token": lease}).url.endswith(f"/episodes/{live.pk}/")
    assert "Handed back. The agent chooses again." in html(browser.get(f"/episodes/{live.pk}/")), "not on a later page"
    assert "No one has the wheel." in html(browser.get(where))
    limits = as_person(ada).post(where, {"act": "limits", "max_steps": "many", "reason": "x"})
    assert limits.status_code == 422 and "use a whole number" in html(limits)
    assert as_person(ada).post(where, {"act": "limits", "max_steps": "40", "reason": "x"}).status_code == 302
    live.refresh_from_db()
    assert live.limits == {"max_steps": 40}
    assert "assisted, counts in no rate" in html(browser.get(f"/episodes/{live.pk}/"))


def test_wheel_leaves_values_of_a_proposed_call(live, edo, ada):
    types = {"id": ["integer"], "note": ["string", "null"], "flag": ["boolean", "null"]}
    schema = {"properties": {name: {"type": kinds} for name, kinds in types.items()}}
    Episode.every.filter(pk=live.pk).update(tools=[{"name": "get", "input_schema": schema}])
    browser, where = as_person(edo), f"/episodes/{live.pk}/wheel"
    browser.post(where, {"act": "take"})
    proposed = {"id": 1, "note": None, "flag": None, "beside": {"rate": 1.0}}
    dropped = {"wheel": "taken", "dropped": [{"name": "get", "arguments": proposed}]}
    recording.append_steps(ada, live.pk, [Note(seq=1, kind="note", content="x", meta=dropped)])
    page = html(browser.get(f"{where}?step=1"))
    assert '<input type="hidden" name="step" value="1">' in " ".join(page.split())
    sent = {"step": "1", "field:0": "2", "field:1": "null", "field:2": "2", "field:3": '{"rate": 1.0}'}
    call = {"act": "call", "tool": "get", "lease_token": Wheel.objects.get().lease_token, "nonce": "1"}
    refused = html(browser.post(where, {**call, **sent, "field:0": "x"}))
    assert '<input type="hidden" name="step" value="1">' in " ".join(refused.split())
    assert browser.post(where, {**call, **sent}).status_code == 302
    assert WheelOrder.objects.get().said["call"]["arguments"] == {**proposed, "id": 2}


def test_wheel_over_http_gives_orders_to_the_loop(client, live, edo, ada):
    _, secret = token(live.project, "expert")
    agent = {"Authorization": f"Bearer {token(live.project, 'agent')[1]}"}
    post = {"content_type": "application/json"}
    where, as_expert = f"/api/v1/episodes/{live.pk}/wheel", {"Authorization": f"Bearer {secret}"}
    assert client.post(f"{where}/take", headers=agent, **post).status_code == 403
    lease = client.post(f"{where}/take", headers=as_expert, **post).json()
    other = {"Authorization": f"Bearer {token(live.project, 'expert')[1]}"}
    refused = client.post(f"{where}/take", headers=other, **post)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "wheel_taken")
    body = {"lease_token": lease["lease_token"]}
    order = {**body, "nonce": "1", "call": {"name": "get", "arguments": {"id": 7}}}
    number = client.post(f"{where}/call", order, headers=as_expert, **post).json()["number"]
    assert client.post(f"{where}/renew", body, headers=as_expert, **post).status_code == 200
    beat = client.post(f"/api/v1/episodes/{live.pk}/heartbeat", {}, headers=agent, **post).json()
    assert beat["steered"] is True
    found = client.get(f"{where}?acted=0", headers=agent).json()
    assert found["held"] and [one["call"]["arguments"] for one in found["orders"]] == [{"id": 7}]
    assert client.get(f"{where}?acted={number}", headers=agent).json()["orders"] == []
    for _ in range(2):
        assert client.post(f"{where}/hand-back", body, headers=as_expert, **post).json() == {"ok": True}
    assert client.get(f"{where}?acted={number}", headers=agent).json() == {"held": False, "orders": [], "limits": {}}
    assert client.get("/api/v1/episodes", headers=agent).json()["items"][0]["assisted"] is True
    limits = f"/api/v1/episodes/{live.pk}/limits"
    assert client.post(limits, {"max_asks": 9, "reason": "x"}, headers=as_expert, **post).status_code == 403


def test_outcome_of_an_assisted_episode_stays_visible(live, ada, edo):
    steering.take(edo, live.pk)
    ending.finish(ada, live.pk, Finish(stop_reason="done"))
    ending.record_outcome(access.system(live.project), live.pk, Outcome(reward_type="complete", reward=1.0))
    assert outcomes.of_episode(live).reward_type == "complete" and not outcomes.verdicts_of(ada.project).exists()


def test_a_held_order_is_undone_or_sent_and_never_both(live, edo, ada, client):
    lease = steering.take(edo, live.pk)
    get = {"name": "get", "arguments": {"id": 7}}
    steering.order(edo, live.pk, said(lease, "held", call=get, hold_s=5))
    steering.order(edo, live.pk, said(lease, "after", words="Mind the order."))
    found = steering.read(access.system(ada.project), live.pk, 0)
    assert (found.held, found.orders) == (True, []), "what follows waits, too"
    undo = WheelUndoBody(lease_token=lease.lease_token, nonce="held")
    for _ in range(2):
        steering.undo(edo, live.pk, undo)
    [words] = steering.read(access.system(ada.project), live.pk, 0).orders
    assert words.words == "Mind the order."
    assert live.events.filter(verb="order undone").get().reason == "call of get"
    with pytest.raises(AlreadySent):
        steering.undo(edo, live.pk, WheelUndoBody(lease_token=lease.lease_token, nonce="after"))
    # the nonce of an undone order makes no other one
    again = steering.order(edo, live.pk, said(lease, "held", call=get))
    assert again.undone and [one.number for one in steering.read(ada, live.pk, 0).orders] == [words.number]
    with pytest.raises(Invalid):
        steering.undo(edo, live.pk, WheelUndoBody(lease_token=lease.lease_token, nonce="none"))
    steering.order(edo, live.pk, said(lease, "due", call=get, hold_s=5))
    steering.hand_back(edo, live.pk, lease.lease_token)
    later = steering.read(ada, live.pk, words.number)
    assert (later.held, later.orders) == (True, []), "the agent does not choose before what was ordered"
    with pytest.raises(WheelLost):
        steering.undo(edo, live.pk, WheelUndoBody(lease_token=lease.lease_token, nonce="due"))
    WheelOrder.objects.filter(nonce="due").update(held_until=timezone.now())
    [due] = steering.read(ada, live.pk, words.number).orders
    assert due.call and not steering.read(ada, live.pk, due.number).held


def test_undone_call_over_http_and_on_the_page(client, live, edo, ada):
    browser = as_person(edo)
    where = f"/episodes/{live.pk}/wheel"
    browser.post(where, {"act": "take"})
    lease = Wheel.objects.get().lease_token
    form = {"act": "call", "tool": "get", "lease_token": lease, "nonce": "n1", "field:0": "41"}
    assert browser.post(where, form).status_code == 302
    page = html(browser.get(where))
    assert "is sent in" in page and 'data-act="undo-order"' in page
    undone = browser.post(where, {"act": "undo", "lease_token": lease, "nonce": "n1"})
    page = html(browser.get(undone.url))
    assert "Undone. Nothing was sent." in page and "is sent in" not in page and "41" in page, "to send it otherwise"
    headers = {"authorization": f"Bearer {token(ada.project, 'expert')[1]}"}
    body = {"lease_token": lease, "nonce": "n1"}
    said = client.post(f"/api/v1{where}/undo", body, content_type="application/json", headers=headers)
    assert (said.status_code, said.json()["error"]["code"]) == (422, "invalid"), "another person's order"
    agent = {"authorization": f"Bearer {token(ada.project, 'agent')[1]}"}
    assert client.post(f"/api/v1{where}/undo", body, content_type="application/json", headers=agent).status_code == 403
