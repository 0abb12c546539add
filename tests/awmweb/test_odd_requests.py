"""Whatever stands in an address, a form or a body, no page and no call breaks, and no page carries what turns lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from awmclient.schema import AskOpen, EpisodeStart
from episodes.record import recording
from experts.record import opening, queue
from people.models import ApiToken, Membership
from tests.browsing import as_person, link_of
from tests.people_by_name import person, token

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r"""(?:GET|POST|query)\.(?:get|getlist)\(\s*["']([a-z_]+)["']""")
TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
HALF = "\ud800"
ODD = [
    "", "abc", "0", "-1", "1", "2", "9" * 9, "9" * 30, "9" * 5000, "1e3", "٣", "²", "nan", "null", "true", "%", "%s%n",
    "'", '"><script>alert(1)</script>', "//evil.example", "http:", "javascript:x", "../..", "a\x00b", "\x00", HALF,
    "\udfff", "\u202e", "\u2067x\u2069", "🙂" * 300, "x" * 3000, "a,b,,", "1,2,999999999999", "2026-02-30",
    "2026-11-22", "0001-01-01", "9999-12-31", "[]", "{}", '{"a": 1}', '[{"name": "x", "arguments": {}}]', "[" * 5000,
    '[{"name": "x", "arguments": ' + '{"a":' * 500 + "1" + "}" * 502 + "]", "[[[",
    '[{"name": "x", "arguments": {"\\ud800": 1}}]', "week", "all", "mine", "deadline", "invite", "remove", "link",
    "skills", "issue", "revoke", "admin", "expert", "agent", "email", "webhook", "push", "test", "confirm", "watch",
    "none", "lab", "\r\nX: y",
]  # fmt: skip
LEFT_OUT = {"test_model", "test_expert", "logout"}
BOUNDED = settings(
    max_examples=250,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)


def named() -> list[str]:
    """Every name that a page reads from an address or a form."""
    apps = ("awmweb", "people", "episodes", "experts", "exports")
    sources = [path for app in apps for path in ROOT.glob(f"{app}/**/*.py")]
    found = {name for path in sources for name in READ.findall(path.read_text())}
    more = {"run", "arm", "scenario", "state", "outcome", "tier", "skill", "sight", "group", "drawn", "role", "until"}
    return sorted(found | more)


def addresses(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    """The route of every page; the API has examples of its own."""
    for one in patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from addresses(one.url_patterns, route)
        elif not route.startswith(("api/", "^api/")) and one.name not in LEFT_OUT:
            yield route


ROUTES = sorted(addresses(get_resolver("awmweb.urls").url_patterns))
VALUES = st.one_of(st.sampled_from(ODD), st.text(max_size=12))


@pytest.fixture
def scene(project, ada, edo):
    """Ids of real rows, so that half of the addresses get past 404."""
    start = EpisodeStart(key="one", task="merge \u202e the tickets", expert="plain", scenario="desk\u2067")
    episode, _ = recording.start_episode(ada, start)
    words = {"question": "Into \u202e which?", "context": "\u2066x"}
    ask, _ = opening.open_ask(ada, AskOpen(key="q", episode=episode.pk, seq=1, **words))
    queue.claim(ada, ask.pk)
    secret = token(project, "agent")[1]
    member, known = Membership.objects.get(user=edo.person), ApiToken.objects.get()
    return {"episode": episode.pk, "ask": ask.pk, "token": known.pk, "member": str(member.pk), "secret": secret}


def coded(value: str) -> str:
    """As a hostile caller writes it: half a pair goes as three bytes that are no UTF-8."""
    return quote(value.encode("utf-8", "surrogatepass"), safe="")


def filled(route: str, ids: list[str]) -> str:
    given = iter(ids)
    return "/" + re.sub(r"<[^>]+>", lambda _: coded(next(given)), route)


def test_no_address_and_no_form_breaks_a_page(scene, project):
    client = as_person(person(project, "kim", "admin"), raise_request_exception=False)
    broken: dict[str, str] = {}
    names = named()
    real = st.one_of(st.sampled_from([scene["episode"], scene["ask"], scene["token"], scene["member"]]), VALUES)
    ids = st.lists(real, min_size=2, max_size=2)

    @seed(20261122)
    @BOUNDED
    @given(st.sampled_from(ROUTES), ids, st.lists(real, min_size=len(names), max_size=len(names)), st.booleans())
    def ask(route, ids, values, as_form):
        path, query = (
            filled(route, ids),
            "&".join(f"{name}={coded(value)}" for name, value in zip(names, values, strict=True)),
        )
        if as_form:
            answer = client.post(path, query, content_type="application/x-www-form-urlencoded")
        else:
            answer = client.get(path, QUERY_STRING=query)
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        if answer.status_code >= 500:
            broken.setdefault(route, f"{path} {query} {as_form=}")
        elif answer.get("Content-Type", "").startswith("text/html") and TURNING.search(body.decode()):
            broken.setdefault(f"turns lines in {route}", f"{path} {query} {as_form=}")

    ask()
    assert not broken, "\n".join(f"{what}: {where}" for what, where in broken.items())


def test_every_page_answers_head_as_it_answers_get(scene, project):
    client = as_person(person(project, "kim", "admin"))
    ids = [scene["episode"], scene["ask"]]
    pages = [filled(route, ids) for route in ROUTES if not route.startswith("login/once/")]
    wrong = {}
    for page in pages:
        head, get = client.generic("HEAD", page), client.generic("GET", page)
        if (head.status_code, head.get("Content-Type")) != (get.status_code, get.get("Content-Type")):
            wrong[page] = (head.status_code, get.status_code)
    assert not wrong


def test_head_of_a_page_has_its_length_and_no_body(ada):
    health = Client().head("/health")
    assert (health.status_code, health.content) == (200, b"") and int(health["Content-Length"]) > 0
    secret = link_of(ada)
    assert Client().head(f"/login/once/{secret}").status_code == 403
    assert Client().get(f"/login/once/{secret}").status_code == 302


@pytest.mark.parametrize(
    "where", ["abc", "people", "home", "login_once", "..", "\x00", HALF, "\\\\evil.example", "/\\evil.example"]
)
def test_word_is_no_address_to_go_to(ada, where):
    """`redirect` takes a word for the name of a page."""
    client = as_person(ada, raise_request_exception=False)
    assert client.get("/login", QUERY_STRING=f"next={coded(where)}").get("Location", "/") == "/"
    secret = link_of(ada)
    once = Client().get(f"/login/once/{secret}", QUERY_STRING=f"next={coded(where)}")
    assert once.get("Location", "/") == "/"


def odd_keys(depth: int) -> dict:
    return {HALF: 1} if not depth else {HALF: odd_keys(depth - 1), "list": [odd_keys(depth - 1), "\x00" + HALF]}


def bodies(scene) -> Iterator[tuple[str, dict]]:
    odd = odd_keys(2)
    start = {"task": "t", "expert": "plain"}
    yield "/runs", {"name": "r", "policy": odd, "metadata": odd}
    yield "/episodes", {**start, "key": "a", "policy": odd, "tools": [{"name": "x", "input_schema": odd}]}
    yield (
        "/episodes",
        {**start, "key": "b", "tools": [{"type": "function", "function": {"name": "x", "parameters": odd}}]},
    )
    yield "/episodes", {**start, "key": "c", **odd}
    steps = [
        {
            "kind": "tool_call",
            "name": "x",
            "arguments": odd,
            "result": odd,
            "meta": odd,
            "state_diff": {HALF: {"added": [odd], "more": 1}},
            "usage": odd,
        }
    ]
    steps += [{"kind": "action", "action": odd, "observation": odd}, {"kind": "note", "content": "x", **odd}, {HALF: 1}]
    steps += [{"kind": "note", "content": "x", "state_diff": diff} for diff in (odd, {HALF: {HALF: []}})]
    for number, step in enumerate(steps):
        yield f"/episodes/{scene['episode']}/steps", {"steps": [{"seq": 2 + number, **step}]}
    yield "/asks", {"key": "z", "episode": scene["episode"], "seq": 9, "question": "?", **odd}
    outcome = {"reward_type": "mine", "reward": 1, "details": odd}
    yield f"/episodes/{scene['episode']}/finish", {"stop_reason": "done", "outcome": outcome}


def test_lone_surrogate_key_breaks_no_call_or_page(scene, ada):
    client = Client(headers={"Authorization": f"Bearer {scene['secret']}"}, raise_request_exception=False)
    statuses = {}
    for number, (path, body) in enumerate(bodies(scene)):
        answer = client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
        statuses[f"{number} {path}"] = answer.status_code
    assert max(statuses.values()) < 500, statuses
    assert list(statuses.values()).count(201) >= 2 and 200 in statuses.values()
    reader = as_person(ada, raise_request_exception=False)
    pages = ["", "replay/", "steps.html?since=0", *(f"?raw={seq}" for seq in (1, 2, 3))]
    seen = {page: reader.get(f"/episodes/{scene['episode']}/{page}").status_code for page in pages}
    assert set(seen.values()) == {200}, seen
    told = client.get(f"/api/v1/episodes/{scene['episode']}/steps")
    assert told.status_code == 200 and told.json()["steps"][1]["arguments"] == odd_keys(2)


ODD_COOKIES = ['"\\000aaaaaaaa"', '"\\377aaaaaaaa"', "x" * 5000, '"\\"aaaaaaaaa"', "%00aaaaaaaa", "\u00e9aaaaaaaaa"]


@pytest.mark.parametrize("cookie", ODD_COOKIES)
def test_cookie_that_is_no_session_is_a_strangers(db, settings, cookie):
    answer = Client(raise_request_exception=False).get("/", HTTP_COOKIE=f"{settings.SESSION_COOKIE_NAME}={cookie}")
    assert (answer.status_code, answer["Location"]) == (302, "/login?next=%2F")
