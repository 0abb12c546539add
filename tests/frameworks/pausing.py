"""An agent that pauses, a desk that decides, and a process that is cut off at any of its commits."""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from awmclient.client import HttpDashboard
from awmclient.client.wire import Wire
from tests.frameworks.story import PATIENCE_S
from tests.running import Product, until

_names = itertools.count(1)
SESSION = uuid.uuid4().hex[:8]
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def a_name(what: str) -> str:
    return f"{what}-{SESSION}-{next(_names)}"


class Desk:
    """A person at the desk, who decides by a rule for as long as the block lasts."""

    def __init__(self, http: Any, rule: Answer, seen: list[dict[str, Any]]) -> None:
        self._http, self._rule, self.seen = http, rule, seen
        self.over = threading.Event()
        self.wrong: list[Exception] = []

    def work(self) -> None:
        try:
            while not self.over.wait(0.1):
                # a person whose page says that the dashboard restarts tries again
                with suppress(httpx.TransportError):
                    for ask in self._http.get("/asks", params={"status": "open", "limit": 200}).json()["asks"]:
                        self._decide(ask)
        except Exception as error:  # shown when the block ends
            self.wrong.append(error)

    def _decide(self, ask: dict[str, Any]) -> None:
        if SESSION not in ask["task"]:
            return
        claim = self._http.post(f"/asks/{ask['id']}/claim", json={})
        if claim.status_code != 200:
            return
        self.seen.append(ask)
        lease = claim.json()
        body = {"lease_token": lease["lease_token"], "text": "", "nonce": ask["id"], **self._rule(ask)}
        self._http.post(f"/assignments/{lease['assignment']}/answer", json=body).raise_for_status()


@contextmanager
def deciding(house: Product, token: str, rule: Answer) -> Iterator[list[dict[str, Any]]]:
    """Decide every open ask by a rule; the asks that were seen come back."""
    seen: list[dict[str, Any]] = []
    with house.http(token) as http:
        desk = Desk(http, rule, seen)
        thread = threading.Thread(target=desk.work)
        thread.start()
        try:
            yield seen
        finally:
            desk.over.set()
            thread.join(PATIENCE_S)
    assert not desk.wrong, desk.wrong


def approve(ask: dict[str, Any]) -> dict[str, Any]:
    return verdicts(ask, "approve")


def verdicts(ask: dict[str, Any], verdict: str, **more: Any) -> dict[str, Any]:
    calls = ask["typed"]["calls"]
    return {"decision": {"calls": [{"id": one["id"], "verdict": verdict, **more} for one in calls]}}


def reject(ask: dict[str, Any]) -> dict[str, Any]:
    return verdicts(ask, "reject", reason="Not today.")


def edit(ask: dict[str, Any]) -> dict[str, Any]:
    return verdicts(ask, "edit", arguments={"item": "milk"})


def in_words(ask: dict[str, Any]) -> dict[str, Any]:
    return {"text": f"To: {ask['question']}"}


def asks_of(house: Product, token: str, run: str) -> list[dict[str, Any]]:
    """All asks of a run by its name, each as its asker sees it."""
    with house.http(token) as http:
        found = [one for one in http.get("/runs").json()["items"] if one["name"] == run]
        steps = []
        for one in found:
            for episode in http.get("/episodes", params={"run": one["id"]}).json()["items"]:
                steps += http.get(f"/episodes/{episode['id']}/steps").json()["steps"]
        asks = [http.get(f"/asks/{step['ask']}").json() for step in steps if step["kind"] == "ask"]
        return [{"consumed_at": None, **one} for one in asks]


class Killed(BaseException):
    """An end as by kill -9: no handler of a framework or of the client may catch it."""


class Cuts:
    """Counts the commits of a process and ends it before or after one of them."""

    def __init__(self) -> None:
        self.count, self.at, self.after = 0, 0, False

    async def around(self, commit: Callable[[], Awaitable[Any]]) -> Any:
        self.count += 1
        number = self.count
        if number == self.at and not self.after:
            raise Killed
        came = await commit()
        if number == self.at:
            raise Killed
        return came

    def start(self, at: int, after: bool) -> None:
        self.count, self.at, self.after = 0, at, after


class CutWire(Wire):
    """A wire whose writes to the dashboard are commits."""

    cuts: Cuts

    async def send(self, method: str, path: str, *given: Any, **named: Any) -> Any:
        if method == "GET":
            return await super().send(method, path, *given, **named)
        return await self.cuts.around(lambda: super(CutWire, self).send(method, path, *given, **named))


def cut_dashboard(house: Product, token: str, cuts: Cuts) -> HttpDashboard:
    dash = HttpDashboard(house.url, token)
    dash._wire = CutWire(house.url, token, retry_s=60)
    dash._wire.cuts = cuts
    return dash


def every_cut(once: Callable[[str, Cuts], Awaitable[None]], check: Callable[[str], None], most: int = 60) -> int:
    """Run a story once for each of its commits, ended before it and after it, and then started again.

    Each time is a thread of its own. Returns how many commits the story has.
    """
    commits = 0
    for at in range(1, most):
        for after in (False, True):
            name, cuts = a_name("cut"), Cuts()
            cuts.start(at, after)
            was_cut = _is_cut(once, name, cuts)
            if was_cut:
                cuts.start(0, False)
                asyncio.run(_once(once, name, cuts))
            check(name)
            if not was_cut:
                return commits
        commits = at
    raise AssertionError(f"more than {most} commits")


def _is_cut(once: Callable[[str, Cuts], Awaitable[None]], name: str, cuts: Cuts) -> bool:
    try:
        asyncio.run(_once(once, name, cuts))
    except Killed:
        return True
    return False


async def _once(once: Callable[[str, Cuts], Awaitable[None]], name: str, cuts: Cuts) -> None:
    await once(name, cuts)


def in_order(found: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [one[name] for one in found]


def waits(house: Product, token: str) -> Any:
    """Wait until an ask is open; returns it."""
    with house.http(token) as http:
        return until(lambda: http.get("/asks", params={"status": "open", "limit": 200}).json()["asks"], PATIENCE_S)[0]
