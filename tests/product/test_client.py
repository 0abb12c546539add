"""The client against the running product: the contract suite of all dashboards, and the two examples of the docs."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest

from awmclient.client import HttpDashboard
from awmclient.errors import Scope
from awmclient.loop.rollout import rollout
from awmclient.policies import Turn
from awmclient.testing import FakeEnv
from awmclient.words.toolcalls import Call
from tests.awmclient.contract import DashboardContract

ROOT = Path(__file__).resolve().parents[2]
EARLIER = Path(__file__).parent / "earlier"
"""A client of an earlier commit, as a zip file that Python imports, and a loop on it."""


class LiveWorld:
    """The running product, and an expert who answers over HTTP."""

    def __init__(self, house, dash, agent: httpx.AsyncClient, expert: httpx.AsyncClient) -> None:
        self.house, self.dash, self.agent, self.expert = house, dash, agent, expert

    async def steps(self, episode):
        answer = await self.agent.get(f"/episodes/{episode}/steps?since=0&limit=1000")
        return json.loads(answer.content)["steps"]

    async def answer(self, episode, text, tool_calls=None):
        found = []
        while not found:
            listed = (await self.expert.get("/asks?status=open&limit=200")).json()["asks"]
            found = [ask for ask in listed if ask["episode"] == episode]
        claim = await self.expert.post(f"/asks/{found[0]['id']}/claim", json={})
        claimed = claim.raise_for_status().json()
        body = {"lease_token": claimed["lease_token"], "text": text, "nonce": uuid.uuid4().hex}
        body |= {"tool_calls": tool_calls} if tool_calls else {}
        (await self.expert.post(f"/assignments/{claimed['assignment']}/answer", json=body)).raise_for_status()

    async def stop(self, episode):
        code = (
            "from episodes.models import Episode; from episodes.record import ending; "
            "from people.access import system; "
            f"e = Episode.objects.get(pk={episode!r}); ending.cancel(system(e.project), e.pk, 'a person said so')"
        )
        await asyncio.to_thread(self.house.manage, "shell", "-c", code)

    async def ended(self, episode):
        view = (await self.agent.get(f"/episodes/{episode}")).json()
        return view["state"], view.get("stop_reason")


@pytest.fixture(scope="module")
def tokens(house):
    return {scope: house.token(scope) for scope in ("agent", "expert")}


class TestLiveDashboard(DashboardContract):
    @pytest.fixture
    async def world(self, house, tokens):
        def http(scope):
            headers = {"Authorization": f"Bearer {tokens[scope]}"}
            return httpx.AsyncClient(base_url=house.url + "/api/v1", headers=headers, timeout=40)

        async with HttpDashboard(house.url, tokens["agent"]) as dash, http("agent") as agent, http("expert") as expert:
            yield LiveWorld(house, dash, agent, expert)

    async def test_person_drives_a_loop_outside(self, world):
        class Choosing:
            """Chooses without end, and answers when it is asked again."""

            def __init__(self):
                self.chooses, self.views = asyncio.Event(), []

            async def act(self, view):
                self.views.append(view)
                self.chooses.set()
                if len(self.views) == 1:
                    await asyncio.Event().wait()
                return Turn(answer="Done.")

        policy, shop = Choosing(), FakeEnv()
        driven = asyncio.create_task(rollout(policy, shop, world.dash, task="Price the mug", heartbeat_s=0.1))
        await policy.chooses.wait()
        episode = (await world.agent.get("/episodes?limit=1")).json()["items"][0]["id"]
        wheel = f"/episodes/{episode}/wheel"
        lease = (await world.expert.post(f"{wheel}/take", json={})).raise_for_status().json()["lease_token"]
        price = {"name": "set_price", "arguments": {"item": "mug", "price": 9}}
        for nonce, order in (("1", {"call": price}), ("2", {"words": "It is priced."})):
            body = {"lease_token": lease, "nonce": nonce, **order}
            (await world.expert.post(f"{wheel}/call", json=body)).raise_for_status()
        while len([one for one in await world.steps(episode) if "acted_by" in one]) < 2:
            await asyncio.sleep(0.05)
        (await world.expert.post(f"{wheel}/hand-back", json={"lease_token": lease})).raise_for_status()
        assert (await driven).stop_reason == "done" and shop.prices["mug"] == 9.0
        assert [one.get("content") for one in policy.views[1].steps][-2] == "It is priced."

    async def test_rollout_parks_and_goes_on_with_its_answer(self, world, tokens):
        class Asking:
            async def act(self, view):
                if view.turn == 1:
                    return Turn(calls=[Call("ask_expert", {"question": "Which discount?"})])
                return Turn(answer=str(view.steps[-1]["advice"]["advice"]))

        plan = {"task": "Price the mug", "expert": "plain", "key": f"own-{uuid.uuid4().hex}"}
        async with HttpDashboard(world.house.url, tokens["agent"], park_after_s=1) as dash:
            first = await rollout(Asking(), FakeEnv(), dash, **plan)
            assert (first.parked, first.fault) == (True, None)
            assert await world.ended(first.episode) == ("parked", None)
            await world.answer(first.episode, "Nine percent.")
            assert await world.ended(first.episode) == ("queued", None)
            again = await rollout(Asking(), FakeEnv(), dash, **plan)
        assert (again.episode, again.stop_reason, again.final_answer) == (first.episode, "done", "Nine percent.")

    async def test_the_own_agent_of_the_docs_is_answered(self, world, tokens):
        environment = {
            **os.environ,
            "AWMWEB_URL": world.house.url,
            "AWMWEB_TOKEN": tokens["agent"],
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(ROOT / "examples" / "own_agent.py"), env=environment, stdout=subprocess.PIPE
        )
        first = (await process.stdout.readline()).decode()
        episode = first.strip().rstrip("/").rpartition("/")[2]
        await world.answer(episode, "Twelve.")
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, out.decode().strip()) == (0, "I was told: Twelve.")
        assert [step["kind"] for step in await world.steps(episode)] == ["tool_call", "tool_call", "ask", "message"]
        assert await world.ended(episode) == ("finished", "done")

    async def test_fault_of_an_own_loop_is_in_its_episode(self, world):
        episode = await world.dash.start_episode("Look at the mug")
        await episode.fail("environment", "the session is lost")
        view = await episode.view()
        assert (view.state, view.stop_reason, view.fault) == ("failed", "error", "environment")

    async def test_the_own_environment_of_the_docs_is_recorded(self, world, tokens):
        environment = {
            **os.environ,
            "AWMWEB_URL": world.house.url,
            "AWMWEB_TOKEN": tokens["agent"],
            "PYTHONPATH": str(ROOT),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(ROOT / "examples" / "own_openenv.py"), env=environment, stdout=subprocess.PIPE
        )
        out, _ = await asyncio.wait_for(process.communicate(), 120)
        episode = out.decode().strip().rstrip("/").rpartition("/")[2]
        assert process.returncode == 0, out
        kinds = [step["kind"] for step in await world.steps(episode)]
        assert kinds.count("action") == 2
        assert await world.ended(episode) == ("finished", "done")

    async def test_informed_experts_want_a_run_of_a_launch_token(self, world, house):
        """The trainer holds both tokens; the process in which the agent runs gets only the first."""
        launch = await asyncio.to_thread(house.token, "launch")
        for refused in (world.dash.start_run("x", expert="informed"), world.dash.start_episode("t", expert="informed")):
            with pytest.raises(Scope):
                await refused
        async with HttpDashboard(house.url, launch) as launcher:
            run = await launcher.start_run("nightly", expert="informed")
            with pytest.raises(Scope):
                await launcher.start_episode("t", run=run)
        episode = await world.dash.start_episode("t", run=run, expert="informed")
        assert (await episode.view()).state == "running"
        await episode.finish("done")

    async def test_an_earlier_client_runs_against_this_product(self, world, tokens):
        """The package of the commit in its name, when answers began to ignore what they do not know."""
        (package,) = EARLIER.glob("awmclient-*.zip")
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        loop = await asyncio.create_subprocess_exec(
            sys.executable, EARLIER / "loop.py", world.house.url, tokens["agent"],
            env=own | {"PYTHONPATH": str(package)}, cwd="/", stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        episode = ""
        while not episode and loop.returncode is None:
            listed = (await world.expert.get("/asks?status=open&limit=200")).json()["asks"]
            episode = next((ask["episode"] for ask in listed if ask["question"] == "Which price?"), "")
        await world.answer(episode, "9")
        out, errors = await loop.communicate()
        assert loop.returncode == 0, errors.decode()
        told = json.loads(out)
        assert told.pop("package").startswith(str(package))
        assert told == {
            "stop_reason": "done", "fault": None, "price": 9.0, "state": "running", "steps": 1,
            "kept": ["id", "known", "url"], "reported": 1,
        }  # fmt: skip
