"""One story that the agent of every framework lives, in the running product: two calls in one turn, of which the first
fails, a question to an expert, and an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from awmclient.client import HttpDashboard, SyncEpisode, SyncHttpDashboard
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.running import Product, until

TASK = "Order what is running out"
INSTRUCTIONS = "Be brief."
ANSWER = "I order 12 coffees."
PATIENCE_S = 90
NOBODY_S = 5
"""How long a question waits that no one answers. A busy machine opens it within this time, so that it is recorded."""
T = TypeVar("T")
_keys = itertools.count()


def look_up(item: str) -> dict[str, Any]:
    """Tell how many are left.

    Args:
        item: what to look for
    """
    if item != "coffee":
        raise ValueError(f"no shelf of {item}")
    return {"item": item, "left": 0}


def turn(content: str, *calls: tuple[str, str]) -> dict[str, Any]:
    """What a model says in one turn; of each call the name and the JSON of its arguments."""
    functions = [{"type": "function", "function": {"name": name, "arguments": text}} for name, text in calls]
    return {"role": "assistant", "content": content, **({"tool_calls": functions} if calls else {})}


LOOKS = turn("Let me look.", ("look_up", '{"item": "tea"}'), ("look_up", '{"item": "coffee"}'))
ASKS = turn("I cannot know.", ("ask_expert", '{"question": "How many coffees?", "context": "none are left"}'))
SAYS = turn(ANSWER)


@contextmanager
def model(*turns: dict[str, Any]) -> Iterator[OpenAIServer]:
    """A model that says these turns, one a request, and the last one from then on; its calls are c1, c2, ..."""
    left, ids = list(turns), itertools.count(1)

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        said = left.pop(0) if len(left) > 1 else left[0]
        made = [{**one, "id": f"c{next(ids)}"} for one in said.get("tool_calls", ())]
        return {**said, "tool_calls": made} if made else said

    server = OpenAIServer(reply)
    with answering(server):
        yield server


@contextmanager
def started(house: Product, token: str, **fields: Any) -> Iterator[SyncEpisode]:
    """An episode of a program that is not async."""
    with SyncHttpDashboard(house.url, token) as dash:
        yield dash.start_episode(TASK, expert="plain", key=f"framework-{next(_keys)}", **fields)


async def start(dash: HttpDashboard) -> Any:
    return await dash.start_episode(TASK, expert="plain", key=f"framework-{next(_keys)}")


@contextmanager
def an_expert(house: Product, token: str, episode: str, text: str = "Twelve.") -> Iterator[None]:
    """Someone at the desk, who answers the next question of this episode."""
    with house.http(token) as desk:
        thread = threading.Thread(target=_answer_next, args=(desk, episode, text))
        thread.start()
        yield
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def _answer_next(desk: Any, episode: str, text: str) -> None:
    def asked() -> list[dict[str, Any]]:
        return desk.get("/asks", params={"status": "open", "episode": episode}).json()["asks"]

    ask = until(asked, PATIENCE_S, every=0.2)[0]
    claim = desk.post(f"/asks/{ask['id']}/claim", json={}).raise_for_status().json()
    body = {"lease_token": claim["lease_token"], "text": text, "nonce": text}
    desk.post(f"/assignments/{claim['assignment']}/answer", json=body).raise_for_status()


def recorded(house: Product, token: str, episode: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How the dashboard shows the episode, and its steps once all questions have what became of them: a receipt that
    took too long is sent again."""

    def settled() -> list[dict[str, Any]] | None:
        steps: list[dict[str, Any]] = http.get(f"/episodes/{episode}/steps").raise_for_status().json()["steps"]
        return steps if all("advice" in step for step in steps if step["kind"] == "ask") else None

    with house.http(token) as http:
        steps = until(settled, PATIENCE_S, every=0.2)
        return http.get(f"/episodes/{episode}").raise_for_status().json(), steps


def outline(steps: list[dict[str, Any]]) -> list[str]:
    """The steps in few words."""
    return [_line(step) for step in steps]


def _line(step: dict[str, Any]) -> str:
    turn = f"{step['turn']} " if "turn" in step else ""
    match step["kind"]:
        case "message":
            return f"{turn}{step['role']}: {step['content']}"
        case "tool_call":
            came = "error" if step.get("error") else _read(step["result"])
            return f"{turn}{step['name']} {step['arguments']} -> {came}"
        case "ask":
            return f"{turn}ask {step['question']} ({step['context']}) -> {step['advice']['text'] or 'no advice'}"
    return f"{turn}{step['kind']}"


def _read(result: Any) -> Any:
    """Some frameworks hand on results as JSON texts."""
    return json.loads(result) if isinstance(result, str) and result.startswith("{") else result


STORY = [
    f"user: {TASK}",
    "1 assistant: Let me look.",
    "1 look_up {'item': 'tea'} -> error",
    "1 look_up {'item': 'coffee'} -> {'item': 'coffee', 'left': 0}",
    "2 assistant: I cannot know.",
    "2 ask How many coffees? (none are left) -> Twelve.",
    f"3 assistant: {ANSWER}",
]


def of_kinds(steps: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [step for step in steps if step["kind"] in kinds]


def told(server: OpenAIServer) -> list[str]:
    """What the model last read as results of its calls."""
    return [str(one["content"]) for one in server.bodies[-1]["messages"] if one["role"] == "tool"]


def heard_advice(server: OpenAIServer) -> str:
    """What the model read last."""
    return str(server.bodies[-1]["messages"][-1]["content"])


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
