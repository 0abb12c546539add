"""A model server that says how many requests it answers at a time, and refuses more: no setting is needed."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route

from awmclient.choosing.chat import ChatClient, EndpointConfig
from awmclient.errors import EndpointError
from episodes.models import Episode
from runs.launch import launching, outages, slots
from runs.models import ModelSlots
from runs.plan import limits
from tests.awmclient.openai_server import OpenAIServer, answering, error
from tests.browsing import as_person, html
from tests.runs.planned import end, launched

pytestmark = pytest.mark.django_db(transaction=True)
BOTH = [{"name": "before", "policy": "model"}, {"name": "after", "policy": "model:after"}]


class Slots(OpenAIServer):
    """Answers as many requests at a time as it has slots, and refuses any further one. Each waits until all that were
    sent together are there, so that no speed decides who meets whom. `says` is what it answers when asked for them."""

    def __init__(self, slots: int, says: object = None) -> None:
        super().__init__(lambda body: "ready")
        self.slots, self.busy, self.arrived, self.expected, self.refused = slots, 0, 0, 0, 0
        self.says = {"total_slots": slots} if says is None else says
        self.all_here = asyncio.Event()
        self.app.router.routes.insert(0, Route("/v1/chat/completions", self.take, methods=["POST"]))
        self.app.router.routes.insert(0, Route("/props", self.props))

    async def props(self, request):
        return self.says if isinstance(self.says, JSONResponse) else JSONResponse(self.says)

    async def take(self, request):
        is_free = self.busy < self.slots
        self.busy += is_free
        self.refused += not is_free
        self.arrived += 1
        if self.arrived == self.expected:
            self.all_here.set()
        await self.all_here.wait()
        if not is_free:
            return error(429, "Too many requests")
        self.busy -= 1
        return await self._complete(request)

    def asked_by(self, count: int) -> None:
        """Send this many requests at the same time, as episodes at work do, each with one try."""
        self.arrived, self.expected, self.all_here = 0, count, asyncio.Event()

        async def ask():
            await ChatClient(EndpointConfig(self.base_url, "toy"), tries=1).complete([])

        async def together():
            answers = await asyncio.gather(*(ask() for _ in range(count)), return_exceptions=True)
            assert {type(one) for one in answers} <= {type(None), EndpointError}

        asyncio.run(together())


@pytest.fixture
def calls(monkeypatch):
    called = []
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: called.append(pk))
    return called


def use(settings, **addresses):
    settings.AGENT_LIMITS = {}
    settings.AGENT_ENDPOINTS = {name: EndpointConfig(at, name) for name, at in addresses.items()}


def at_work():
    return Episode.objects.filter(state="queued", planned__called_at__isnull=False)


def test_run_asks_no_more_than_the_slots(ada, calls, settings):
    server = Slots(2)
    with answering(server):
        use(settings, agent=server.base_url)
        plan = launched(ada, arms=[{"name": "model", "policy": "model"}], parallel=8)
        assert limits.waits(plan) == ["Model agent: 2 of 2 episodes ask it, as many as its server has slots for them."]
        assert limits.waits(plan)[0] in html(as_person(ada).get(f"/runs/{plan.pk}/"))
        rounds = 0
        while asking := list(at_work()):
            server.asked_by(len(asking))
            for episode in asking:
                end(episode.pk)
            rounds += 1
    plan.refresh_from_db()
    assert (plan.state, rounds, server.refused) == ("finished", 3, 0)


def test_models_at_one_server_share_its_slots(ada, calls, settings):
    server = Slots(3)
    with answering(server):
        use(settings, agent=server.base_url, after=server.base_url)
        plan = launched(ada, arms=BOTH, parallel=8)
        assert at_work().count() == 3
        assert limits.waits(plan)[0].startswith("Model agent, after: 3 of 3 episodes ask it")
        page = html(as_person(ada).get("/models/"))
        assert page.count("3, by the slots of its server, with the other models at it") == 2


def test_models_get_the_slots_that_a_setting_leaves(ada, calls, settings):
    server = Slots(3)
    with answering(server):
        use(settings, agent=server.base_url, after=server.base_url)
        settings.AGENT_LIMITS = {"after": 2}
        launched(ada, arms=BOTH, parallel=8)
        assert limits.model_limits().most == {"after": 2, "agent": 1}
        server.asked_by(at_work().count())
        settings.AGENT_LIMITS = {"after": 5}
        assert limits.model_limits().most["agent"] == 1, "a model without a slot would never begin"
    assert server.refused == 0


def test_a_limit_of_the_settings_is_the_limit(ada, calls, settings):
    server = Slots(1)
    with answering(server):
        use(settings, agent=server.base_url)
        settings.AGENT_LIMITS = {"agent": 5}
        launched(ada, arms=[{"name": "model", "policy": "model"}], parallel=8)
        assert at_work().count() == 5 and not ModelSlots.objects.exists()
        server.asked_by(5)
        assert server.refused == 4, "this server refuses what it has no slot for"


@pytest.mark.parametrize("says", [{}, [], {"total_slots": True}, {"total_slots": 0}, {"total_slots": 10**9}])
def test_server_that_does_not_say_has_no_limit(ada, calls, settings, says):
    server = Slots(1, says)
    with answering(server):
        use(settings, agent=server.base_url)
        launched(ada, arms=[{"name": "model", "policy": "model"}], parallel=6)
    assert at_work().count() == 6 and not limits.model_limits().places


def test_server_with_other_slots_is_looked_at_again(ada, calls, settings):
    server = Slots(2)
    with answering(server):
        use(settings, agent=server.base_url)
        launched(ada, arms=[{"name": "model", "policy": "model"}], parallel=6)
        server.says = {"total_slots": 4}
        slots.look_again()
        assert at_work().count() == 2, "its word is fresh"
        outages.begin("agent", "503")
        outages.end("agent")
        server.says = JSONResponse({"error": "Loading model"}, 503)
        slots.look_again()
        assert limits.model_limits().most == {"agent": 2}, "a server that loads has its last word"
        slots.look_soon("agent")
        server.says = {"total_slots": 4}
        slots.look_again()
        assert at_work().count() == 4
        use(settings, agent="http://127.0.0.1:9/v1")
        slots.look_again()
    assert {*ModelSlots.objects.values_list("slots", flat=True)} == {0}, "the address before is forgotten"


def test_endpoint_test_notes_the_slots(ada, settings):
    server = Slots(3)
    call = {"id": "a", "type": "function", "function": {"name": "ready", "arguments": json.dumps({"word": "yes"})}}
    server.reply = lambda body: {"role": "assistant", "content": None, "tool_calls": [call]}
    server.expected = 1
    with answering(server):
        use(settings, agent=server.base_url)
        page = html(as_person(ada).post("/models/agent/test"))
        assert "The server has 3 slots" in page and limits.model_limits().most == {"agent": 3}
