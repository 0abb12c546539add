"""The expert desk under a flood, under eight claimers, with a thousand open asks, and from one ask to the next.

*flood*: 200 asks a minute for 30 simulated minutes, five people, two runs, decided by the functions of
`experts/rules/routing.py` on a simulated clock; the limit is an optimum that knows the future and never idles.
*claims*: 10,000 asks in PostgreSQL, claimed and answered by eight processes; the limit is the syncs of the same disk.
*crowd*: 1,000 open asks and 500 waiting loops at the running product; the limit is one committing call of the same API.
*swap*: from Ctrl+Enter to the focused field of the next ask in Chromium; the limit is a bare commit and a bare page,
one after the other. Run as `python bench/desk.py [flood] [claims] [crowd] [swap]`.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import multiprocessing
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.asks import commit_once, p95
from bench.streaming import syncs_per_second
from experts.rules.routing import (
    DeskLoad,
    Route,
    RoutingRules,
    draw,
    in_time,
    in_turn,
    route,
)
from tests.running import ROOT, Product, product

ZERO = datetime(2026, 11, 21, tzinfo=UTC)
MINUTES, PER_MINUTE, PEOPLE, MEDIAN_S, SIGMA = 30, 200, 5, 60.0, 0.6
DEADLINE_S, MODEL_S, UNSURE = 300.0, 5.0, 0.1
SMALL_RUN_SHARE = 0.2
CLAIMED, CLAIMERS = 10_000, 8
OPEN, WAITING = 1_000, 500
WAIT_S = 25
DUE_S, PAGES = 40, 60


def line(name: str, value: float, unit: str, limit: float | None, **conditions: object) -> None:
    ratio = round(value / limit, 3) if limit else None
    figures = {"name": name, "value": round(value, 3), "unit": unit, "limit": limit and round(limit, 3), "ratio": ratio}
    print(json.dumps({**figures, "conditions": conditions}), flush=True)


# --- the flood -------------------------------------------------------------------------------------------------------


@dataclass
class Simulated:
    """An ask of the simulated desk, with the fields that `routing.in_turn` reads."""

    pk: str
    run_key: str
    created_at: datetime
    deadline_at: datetime
    priority: int = 0
    settled_by: str = ""
    settled_at: datetime | None = None


@dataclass
class Flood:
    """A simulation: asks arrive, a model answers most, people answer the rest; time jumps from event to event."""

    seed: int = 1
    policy: RoutingRules = field(
        default_factory=lambda: RoutingRules(model_first=True, people_while_free=True, has_models=True)
    )
    asks: list[Simulated] = field(default_factory=list)
    before_people: list[Simulated] = field(default_factory=list)
    held: dict[int, Simulated] = field(default_factory=dict)
    busy_s: float = 0.0
    slowest_route_s: float = 0.0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311
        self.took = [random.Random(f"{self.seed}/{n}") for n in range(PEOPLE)]  # noqa: S311
        self.events: list[tuple[float, int, Any]] = []
        self.order = 0

    def at(self, second: float, act: Any) -> None:
        self.order += 1
        heapq.heappush(self.events, (second, self.order, act))

    def run(self) -> None:
        second = 0.0
        while (second := second + self.dice.expovariate(PER_MINUTE / 60)) < MINUTES * 60:
            self.at(second, lambda now=second: self.arrive(now))
        while self.events:
            now, _, act = heapq.heappop(self.events)
            act()
            self.hand_out(now)

    def load(self, ask: Simulated, left_s: float = DEADLINE_S) -> DeskLoad:
        standing = [one for one in [*self.before_people, *self.held.values()] if not one.settled_by]
        of_run = sum(one.run_key == ask.run_key for one in standing)
        runs = len({one.run_key for one in standing} | {ask.run_key})
        ahead = len(standing)
        return DeskLoad(PEOPLE, ahead, of_run, runs, usual_s=MEDIAN_S, left_s=left_s)

    def arrive(self, now: float) -> None:
        run = "small" if self.dice.random() < SMALL_RUN_SHARE else "large"
        moment = ZERO + timedelta(seconds=now)
        ask = Simulated(f"ask{len(self.asks)}", run, moment, moment + timedelta(seconds=DEADLINE_S))
        self.asks.append(ask)
        began = time.perf_counter()
        way: Route = route(self.policy, self.load(ask), draw(self.policy.seed, ask.pk))
        self.slowest_route_s = max(self.slowest_route_s, time.perf_counter() - began)
        self.at(now + DEADLINE_S, lambda: self.settle(ask, "deadline", now + DEADLINE_S))
        if way.tiers[0] == "people":
            self.before_people.append(ask)
        else:
            self.at(now + MODEL_S, lambda: self.model(ask, now + MODEL_S))

    def model(self, ask: Simulated, now: float) -> None:
        if self.dice.random() < UNSURE and in_time(self.load(ask, DEADLINE_S - MODEL_S)):
            self.before_people.append(ask)
        else:
            self.settle(ask, "model", now)

    def settle(self, ask: Simulated, by: str, now: float) -> None:
        if not ask.settled_by:
            ask.settled_by, ask.settled_at = by, ZERO + timedelta(seconds=now)

    def hand_out(self, now: float) -> None:
        if now >= MINUTES * 60:
            return
        self.before_people = [one for one in self.before_people if not one.settled_by]
        for person in set(range(PEOPLE)) - set(self.held):
            served = Counter(one.run_key for one in self.held.values())
            turn = in_turn(self.before_people, ZERO + timedelta(seconds=now), served, MEDIAN_S)
            if turn:
                self.take(person, turn[0], now)

    def take(self, person: int, ask: Simulated, now: float) -> None:
        self.before_people.remove(ask)
        self.held[person] = ask
        took = answer_time(self.took[person])
        self.busy_s += min(took, MINUTES * 60 - now)
        self.at(now + took, lambda: self.answer(person, ask, now + took))

    def answer(self, person: int, ask: Simulated, now: float) -> None:
        del self.held[person]
        self.settle(ask, "people", now)


def answer_time(dice: random.Random) -> float:
    return dice.lognormvariate(math.log(MEDIAN_S), SIGMA)


def optimum(seed: int) -> int:
    """Count the answers of people who are never idle or late, with the same answer times as the simulation."""
    total = 0
    for person in range(PEOPLE):
        dice, clock = random.Random(f"{seed}/{person}"), 0.0  # noqa: S311
        while (clock := clock + answer_time(dice)) <= MINUTES * 60:
            total += 1
    return total


def flood() -> None:
    desk = Flood()
    desk.run()
    within = [one for one in desk.asks if one.settled_by == "people"]
    late = [one for one in desk.asks if one.settled_at is None or one.settled_at > one.deadline_at]
    at_deadline = sum(one.settled_by == "deadline" for one in desk.asks)
    small = sum(one.run_key == "small" for one in within)
    figures = {
        "asks": len(desk.asks), "people": PEOPLE, "minutes": MINUTES, "by_people": len(within),
        "by_model": sum(one.settled_by == "model" for one in desk.asks), "prepared_draft_at_deadline": at_deadline,
    }  # fmt: skip
    line("flood_past_deadline", len(late), "asks", None, aim=0, **figures)
    line("flood_people_busy", desk.busy_s / (PEOPLE * MINUTES * 60), "share", 1.0, aim=0.85)
    line("flood_answers_of_people", len(within), "answers in time", optimum(desk.seed), limit_is="knows the future")
    line("flood_share_of_small_run", small / len(within), "share of people's answers", 0.5, asked_share=SMALL_RUN_SHARE)
    line("flood_routing", desk.slowest_route_s * 1000, "ms slowest decision", 1000.0, aim_ms=1000)


# --- ten thousand claims ---------------------------------------------------------------------------------------------


def claims(web: Product) -> None:
    """Write asks as rows, then have processes claim and answer them, each as a person of its own."""
    context = multiprocessing.get_context("spawn")
    os.environ.update({name: value for name, value in web.environment.items() if name.startswith("AWM")})
    with context.Pool(CLAIMERS) as pool:
        pool.apply(prepare)
        syncs = syncs_per_second(web.var)
        began = time.perf_counter()
        counts = pool.map(claim_until_empty, range(CLAIMERS), chunksize=1)
        took = time.perf_counter() - began
        doubled, answered = pool.apply(check)
    line(
        "claims_cycles", answered / took, "claims and answers/s", syncs, claimers=CLAIMERS, asks=CLAIMED,
        double_claims=doubled, refused=sum(refused for _, refused in counts), by_claimer=[n for n, _ in counts],
        limit_is="fdatasync/s", peers={"MLflow": "53-63", "Label Studio": 5.9},
    )  # fmt: skip


def _django() -> None:
    os.chdir(ROOT)
    os.environ["DJANGO_SETTINGS_MODULE"] = "awmweb.settings"
    import django

    django.setup()


def prepare() -> None:
    _django()
    from episodes.models import Episode, Step
    from experts.models import Ask, Assignment
    from people.record import members

    project = members.ensure_project("claims", "Claims")
    for number in range(CLAIMERS):
        members.ensure_member(project, f"claimer{number}", "expert")
    now = datetime.now(UTC)
    live = {"expert": "plain", "state": "waiting", "last_seq": 1, "strip": "a", "started_at": now, "heartbeat_at": now}
    episodes = [Episode(project=project, key=f"c{n}", task="bench", **live) for n in range(CLAIMED)]
    Episode.objects.bulk_create(episodes, 1000)
    said = {"seq": 1, "kind": "ask", "body": '{"seq": 1, "kind": "ask", "question": "?"}', "at": now}
    Step.objects.bulk_create([Step(episode=one, **said) for one in episodes], 1000)
    wants = {"key": "q", "body_digest": "-", "seq": 1, "question": "?", "tiers": ["people"]}
    until = now + timedelta(hours=1)
    asks = [Ask(project=project, episode=one, deadline_at=until, **wants) for one in episodes]
    for ask in asks:
        ask.group = ask.pk
    Ask.objects.bulk_create(asks, 1000)
    Assignment.objects.bulk_create([Assignment(ask=ask) for ask in asks], 1000)


def claim_until_empty(number: int) -> tuple[int, int]:
    _django()
    from experts.models import Ask, Assignment
    from experts.record import advising, queue
    from people.access import person
    from people.errors import AppError
    from people.models import Membership

    actor = person(Membership.objects.select_related("project", "user").get(user__username=f"claimer{number}"))
    done = refused = 0
    while True:
        free = Assignment.objects.filter(state="queued", ask__project=actor.project, ask__status="open")
        found = list(free.order_by("ask__deadline_at").values_list("ask", flat=True)[:40])
        if not found:
            return done, refused
        for pk in random.sample(found, min(len(found), 10)):  # as people do: not all of them claim the first row
            try:
                lease = queue.claim(actor, pk)
                advising.answer(actor, lease.assignment_id, lease.lease_token, "that one", f"{number}")
                done += 1
            except AppError:
                refused += 1
    raise AssertionError(Ask)


def check() -> tuple[int, int]:
    _django()
    from django.db.models import Count

    from experts.models import Ask, AskEvent

    asks = Ask.objects.filter(project__slug="claims")
    twice = AskEvent.objects.filter(ask__in=asks, verb="claimed").values("ask").annotate(n=Count("pk")).filter(n__gt=1)
    return twice.count(), asks.filter(status="answered").count()


# --- a thousand open asks --------------------------------------------------------------------------------------------


def crowd(web: Product) -> None:
    from bench import asks as single

    token = web.token("agent")
    with web.http(token) as agent, web.http(web.token("expert")) as expert:
        limit = p95(commit_once(agent, single.start(agent, "limit")))
        opened = [open_one(agent, f"crowd-{n}", 3600) for n in range(OPEN)]
        stop = multiprocessing.get_context("spawn").Event()
        waiters = multiprocessing.get_context("spawn").Process(
            target=wait_all, args=(web.url, token, opened[:WAITING], stop)
        )
        waiters.start()
        time.sleep(WAIT_S)  # each loop begins at a moment of its own within this time
        figures = {"open_asks": OPEN, "waiting_loops": WAITING}
        page = page_times(web)
        line("crowd_queue_page", p95(page), "ms p95 server time", limit, aim_ms=100, **figures)
        seen = single.visible(web, agent)
        line("crowd_posted_to_visible", p95(seen), "ms p95", limit, aim_ms=150, **figures)
        got = single.delivered(agent, expert)
        line("crowd_advice_to_delivered", p95(got), "ms p95", limit, aim_ms=100, **figures)
        stop.set()
        waiters.join(40)
        lateness = asyncio.run(deadlines(web.url, token, agent))
        line("crowd_deadlines_met", max(lateness), "s after the deadline, worst", 1.0, aim_s=1.0, asks=WAITING)


def open_one(agent: httpx.Client, name: str, deadline_s: int) -> str:
    body = {"key": name, "task": f"task {name}", "expert": "plain"}
    episode = agent.post("/episodes", json=body).raise_for_status().json()["id"]
    ask = {"key": "q", "episode": episode, "seq": 1, "question": f"What now, {name}?", "deadline_s": deadline_s}
    return str(agent.post("/asks", json=ask).raise_for_status().json()["id"])


def page_times(web: Product) -> list[float]:
    """Return time to the first byte of the queue page for a signed-in expert, on one kept connection."""
    with httpx.Client(base_url=web.url, follow_redirects=True, timeout=30) as browser:
        browser.get(web.link("edo", "expert"))
        _page(browser)  # the first reads the templates
        return [_page(browser) for _ in range(PAGES)]


def _page(browser: httpx.Client, path: str = "/queue/") -> float:
    began = time.perf_counter()
    with browser.stream("GET", path) as answer:
        answer.raise_for_status()
        return (time.perf_counter() - began) * 1000


def wait_all(url: str, token: str, asks: list[str], stop: Any) -> None:
    asyncio.run(_wait_all(url, token, asks, stop))


async def _wait_all(url: str, token: str, asks: list[str], stop: Any) -> None:
    polls = [asyncio.create_task(_poll_on(url, token, ask)) for ask in asks]
    while not stop.is_set():
        await asyncio.sleep(0.2)
    for poll in polls:
        poll.cancel()
    ended = await asyncio.gather(*polls, return_exceptions=True)
    if broken := [one for one in ended if isinstance(one, Exception)]:  # those that were cancelled are none
        raise broken[0]


async def _poll_on(url: str, token: str, ask: str) -> None:
    await asyncio.sleep(random.random() * WAIT_S)  # noqa: S311  loops do not poll in step
    async with _loop(url, token) as http:
        while True:
            (await http.get(f"/asks/{ask}?wait={WAIT_S}")).raise_for_status()


def _loop(url: str, token: str) -> httpx.AsyncClient:
    """Return a separate client for each loop.

    A shared pool searches all its connections at each request, and would be what is measured.
    """
    head = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=f"{url}/api/v1", headers=head, timeout=60, verify=False, trust_env=False)  # noqa: S501  no TLS here


async def deadlines(url: str, token: str, agent: httpx.Client) -> list[float]:
    """Return seconds between each ask's deadline and the moment in which its waiting loop knew.

    Every loop waits from the start of its ask, and all deadlines are within ten seconds.
    """
    end = time.monotonic() + DUE_S
    loops = []
    for n in range(WAITING):
        due = round(end - time.monotonic() + n % 10)
        ask = await asyncio.to_thread(open_one, agent, f"due-{n}", due)
        loops.append(asyncio.create_task(_late(url, token, ask)))
    return await asyncio.gather(*loops)


async def _late(url: str, token: str, ask: str) -> float:
    async with _loop(url, token) as http:
        while True:
            view = (await http.get(f"/asks/{ask}?wait={WAIT_S}")).raise_for_status().json()
            if view["status"] != "open":
                return time.time() - datetime.fromisoformat(view["deadline_at"]).timestamp()


# --- send and next ---------------------------------------------------------------------------------------------------

TIMES = """() => {
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) sessionStorage.setItem("sent", Date.now());
  }, true);
  addEventListener("focusin", (event) => {
    if (event.target.id === "advice" && sessionStorage.getItem("sent")) sessionStorage.setItem("focused", Date.now());
  }, true);
}"""
POSTS = """() => performance.getEntriesByType("resource").filter((one) => one.name.endsWith("/answer"))
  .map((one) => one.duration)"""
SWAPS = 40


def swap(web: Product) -> None:
    """Measure from send to the next ask. Each ask follows six steps, as in mid-episode."""
    from playwright.sync_api import sync_playwright

    from bench import asks as single

    with web.http(web.token("agent")) as agent, sync_playwright() as playwright:
        first = [open_after_steps(agent, n) for n in range(SWAPS + 2)][0]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(f"({TIMES})()")
        page.goto(web.link("edo", "expert"))
        page.goto(f"{web.url}/asks/{first}/")
        page.keyboard.press("c")
        took = [send_and_wait(page) for _ in range(SWAPS)]
        posts = page.evaluate(POSTS)
        figures = {
            "asks": SWAPS,
            "p95_ms": round(p95(took)),
            "post_ms": round(median(posts)),
        }
        with httpx.Client(base_url=web.url, follow_redirects=True, timeout=30) as http:
            http.get(web.link("nora", "expert"))
            pages = [_page(http, f"/asks/{first}/") for _ in range(SWAPS)]
        limit = median(commit_once(agent, single.start(agent, "bare"))) + median(pages)
        line(
            "send_to_next_focused", median(took), "ms median", limit, aim_ms=120,
            limit_is="one commit of the API and one page of an ask", **figures,
        )  # fmt: skip
        browser.close()


def open_after_steps(agent: httpx.Client, n: int) -> str:
    body = {"key": f"swap-{n}", "task": f"task {n}", "expert": "plain"}
    episode = agent.post("/episodes", json=body).raise_for_status().json()["id"]
    calls = [{"seq": i, "kind": "tool_call", "name": "look", "arguments": {"i": i}} for i in range(1, 7)]
    agent.post(f"/episodes/{episode}/steps", json={"steps": calls}).raise_for_status()
    question = f"What now, {' '.join(str(n * 7 + i) for i in range(6))}?"
    ask = {"key": "q", "episode": episode, "seq": 7, "question": question, "deadline_s": 3000 + n}
    return str(agent.post("/asks", json=ask).raise_for_status().json()["id"])


def send_and_wait(page: Any) -> float:
    """Return milliseconds by the page's clock. A person types for a second and pauses before the key."""
    page.wait_for_selector("#advice:focus")
    page.evaluate("sessionStorage.clear()")
    page.keyboard.type("Take the older one.", delay=40)
    page.wait_for_timeout(1500)
    page.keyboard.press("Control+Enter")
    while not page.evaluate("sessionStorage.getItem('focused')"):  # the content policy allows no predicate in the page
        page.wait_for_timeout(20)
    return float(page.evaluate("sessionStorage.getItem('focused') - sessionStorage.getItem('sent')"))


PARTS = ("flood", "claims", "crowd", "swap")


def chosen() -> Iterator[str]:
    yield from (name for name in PARTS if not sys.argv[1:] or name in sys.argv[1:])


def main() -> None:
    parts = list(chosen())
    if "flood" in parts:
        flood()
    if set(parts) - {"flood"}:
        if shutil.which("chromium") is None and {"crowd", "swap"} & set(parts):
            sys.exit("bench/desk.py needs a Chromium")
        with product(AWMWEB_HEARTBEAT_S="3600") as web:  # no process runs the episodes of these asks
            for name in parts:
                if name != "flood":
                    {"claims": claims, "crowd": crowd, "swap": swap}[name](web)


if __name__ == "__main__":
    main()
