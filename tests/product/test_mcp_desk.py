"""Tools for a person's own agent at `/mcp/desk`: official clients over real HTTP, by tokens of several people."""

from __future__ import annotations

import asyncio
import json
import textwrap

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from experts.mcp.desk import PAGE, PART_CHARS, ROW_CHARS, TEXT_CHARS
from tests.documented import proves, starting
from tests.product.test_mcp import HELLO, _http, refusal, said, talking

pytestmark = pytest.mark.attack("tokens and doors")

NAMES = ["find_episodes", "read_steps", "read_step", "label_episode", "list_asks", "plan_export"]
KEYS = {"key": ["judged", "free", "live"]}
WORDS = "zebra-detail"
LAB = """
import json
from django.db import transaction
from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch
from episodes.models import Episode
from episodes.record import ending, recording
from experts.record import opening
from people import access
from people.record import members
from reviews.record import assigning

project = members.ensure_project("desk")
people = {name: access.person(members.ensure_member(project, name, role))
          for name, role in (("ada", "admin"), ("edo", "expert"), ("rita", "reviewer"), ("vic", "viewer"))}
ada = people["ada"]
def own(name, scope):
    return members.issue_token(people[name], scope, scope, personal=True)[1]
steps = [{"seq": 1, "kind": "message", "role": "assistant", "content": "x" * 30_000},
         {"seq": 2, "kind": "tool_call", "name": "list", "arguments": {}, "result": [{"a": n} for n in range(5_000)]},
         {"seq": 3, "kind": "message", "role": "assistant", "content": "half \\ud800 of a pair"}]
def ended(key):
    episode, _ = recording.start_episode(ada, EpisodeStart(key=key, task=f"Count the rows of {key}."))
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": steps}).steps)
    ending.finish(ada, episode.pk, Finish(stop_reason="done"))
    outcome = Outcome(reward_type="complete", reward=1.0, details={"why": "WORDS"}, source="verifier")
    ending.record_outcome(access.system(project), episode.pk, outcome)
    return episode.pk
judged, free = ended("judged"), ended("free")
live, _ = recording.start_episode(ada, EpisodeStart(key="live", task="Ask.", expert="plain"))
opening.open_ask(ada, AskOpen(key="q", episode=live.pk, seq=1, question="Which rows?", deadline_s=3600))
queue = assigning.create_queue(ada, "First look", reviews_required=2)
assigning.fill(ada, queue.pk, Episode.objects.filter(pk=judged))
print(json.dumps({"judged": judged, "free": free, "ada": own("ada", "read,answer,review,export"),
                  "edo": own("edo", "expert"), "rita": own("rita", "review"), "writer": own("ada", "agent")}))
""".replace("WORDS", WORDS)


@pytest.fixture(scope="module")
def lab(house):
    """A project with two ended episodes, one of which Rita judges blind, an open ask, and tokens of its people."""
    place = house.with_project("desk")
    made = json.loads(place.manage("shell", "-c", LAB).strip().splitlines()[-1])
    return {**made, "agent": place.token("agent"), "reader": place.token("expert,review,export")}


async def called(house, token, tool, **arguments):
    """Return what a tool returns to the official client: its text, read, and whether it is an error."""
    async with talking(house, token, "/desk") as (client, session):
        result = await client.call_tool(tool, arguments)
    assert session is None and len(result.content) == 1
    return json.loads(result.content[0].text), result.isError


async def read(house, token, tool, **arguments):
    value, is_error = await called(house, token, tool, **arguments)
    assert not is_error, value
    return value


async def code_of(house, token, tool, **arguments):
    value, is_error = await called(house, token, tool, **arguments)
    assert is_error
    return value["error"]["code"]


async def test_desk_tools_are_listed_for_a_person(house, lab):
    async with talking(house, lab["ada"], "/desk") as (client, _):
        tools = (await client.list_tools()).tools
    assert [one.name for one in tools] == NAMES
    assert {one.name for one in tools if not one.annotations.readOnlyHint} == {"label_episode"}


async def test_desk_tools_work_from_another_client(house, lab):
    transport = StreamableHttpTransport(f"{house.url}/mcp/desk", headers={"Authorization": f"Bearer {lab['ada']}"})
    async with Client(transport) as client:
        assert [one.name for one in await client.list_tools()] == NAMES
        result = await client.call_tool("find_episodes", {"filters": {"q": "free"}})
    [row] = json.loads(result.content[0].text)["items"]
    assert row["id"] == lab["free"] and row["outcomes"][0]["reward_type"] == "complete"


async def test_tokens_of_agents_and_projects_get_no_desk_tool(house, lab):
    for name in ("agent", "reader"):
        async with _http(house, lab[name]) as http:
            for message in (
                said("initialize", 0, **HELLO),
                said("tools/list", 1),
                said("tools/call", 2, name=NAMES[0]),
            ):
                assert await refusal(http, body=json.dumps(message).encode(), path="/mcp/desk") == (403, "scope")
    async with talking(house, lab["agent"]) as (client, _):
        assert not {one.name for one in (await client.list_tools()).tools}.intersection(NAMES)
        assert (await client.call_tool("find_episodes", {})).isError


async def test_personal_token_that_writes_reads_no_outcome(house, lab):
    rows = (await read(house, lab["writer"], "find_episodes", filters=KEYS))["items"]
    assert len(rows) == 3 and not any(row.get("outcomes") for row in rows)
    steps = await read(house, lab["writer"], "read_steps", episode=lab["free"])
    assert [one["kind"] for one in steps["steps"]] == ["message", "tool_call", "message"]
    assert await code_of(house, lab["writer"], "find_episodes", filters={"outcome": "complete"}) == "scope"
    assert await code_of(house, lab["writer"], "plan_export", recipe={"format": "raw"}) == "scope"


async def test_blind_reviewer_reads_no_outcome_of_what_they_judge(house, lab):
    rows = {row["id"]: row for row in (await read(house, lab["rita"], "find_episodes"))["items"]}
    assert rows[lab["free"]]["outcomes"] and not rows[lab["judged"]].get("outcomes")
    assert WORDS in json.dumps(await read(house, lab["rita"], "read_steps", episode=lab["free"]))
    steps = await read(house, lab["rita"], "read_steps", episode=lab["judged"])
    assert WORDS not in json.dumps(steps)
    assert WORDS in json.dumps(await read(house, lab["ada"], "read_steps", episode=lab["judged"]))
    assert await code_of(house, lab["rita"], "read_step", episode=lab["judged"], seq=4) == "not_found"


async def test_long_texts_are_cut_with_their_length(house, lab):
    first, second, third, _ = (await read(house, lab["ada"], "read_steps", episode=lab["free"]))["steps"]
    assert first["content"] == f"{'x' * TEXT_CHARS}… [cut: 2,000 of 30,000 characters]"
    assert (second["seq"], second["kind"]) == (2, "tool_call") and len(second["cut"]) < ROW_CHARS + 60
    assert third["content"] == "half ? of a pair"
    parts, offset = [], 0
    while offset is not None:
        part = await read(house, lab["ada"], "read_step", episode=lab["free"], seq=2, offset=offset)
        parts.append(part["step"])
        offset = part["next"]
    assert len(parts) > 2 and {len(one) for one in parts[:-1]} == {PART_CHARS}
    assert json.loads("".join(parts))["result"][-1] == {"a": 4_999}


async def test_pages_of_desk_tools_are_bounded(house, lab):
    page = await read(house, lab["ada"], "find_episodes", filters=KEYS, limit=2)
    rest = await read(house, lab["ada"], "find_episodes", filters=KEYS, limit=2, cursor=page["next"])
    assert len(page["items"]) == 2 and len(rest["items"]) == 1 and rest.get("next") is None
    assert (await read(house, lab["ada"], "find_episodes", filters={"limit": 1}))["items"][1:]
    for tool, more in (("find_episodes", {}), ("read_steps", {"episode": lab["free"]}), ("list_asks", {})):
        assert await code_of(house, lab["ada"], tool, limit=PAGE + 1, **more) == "invalid"


async def test_label_is_its_persons_and_repeats_change_nothing(house, lab):
    asked = {"episode": lab["free"], "label": "comment", "value": "Rows are counted twice."}
    first, again = [await read(house, lab["rita"], "label_episode", **asked) for _ in range(2)]
    assert first["id"] == again["id"] and first["value"] == asked["value"]
    rows = await read(house, lab["ada"], "find_episodes", filters={"label": "comment"})
    assert [row["id"] for row in rows["items"]] == [lab["free"]]
    async with talking(house, lab["rita"], "/desk") as (client, _):
        assert (await client.call_tool("label_episode", {**asked, "value": None})).isError


async def test_asks_and_exports_need_the_right_to_them(house, lab):
    [ask] = (await read(house, lab["edo"], "list_asks"))["asks"]
    assert ask["question"] == "Which rows?"
    assert await code_of(house, lab["rita"], "list_asks") == "scope"
    assert await code_of(house, lab["edo"], "plan_export", recipe={"format": "raw"}) == "scope"
    plan = await read(house, lab["ada"], "plan_export", recipe={"format": "raw", "filter": {"outcome": "complete"}})
    assert (plan["matching"], plan["rows"]) == (2, 2)
    assert plan["recipe"]["filter"] == {"outcome": ["complete"]} and plan["recipe"]["redact"] == "secrets"
    assert await code_of(house, lab["ada"], "plan_export", recipe={"format": "none"}) == "bad_recipe"


@pytest.mark.parametrize("odd", ["../asks", "unknown", "0" * 20, "0" * 20 + "\n", "half \ud800"])
async def test_odd_episode_is_not_found_and_no_other_call(house, lab, odd):
    async with _http(house, lab["ada"]) as http:
        call = said("tools/call", 1, name="read_steps", arguments={"episode": odd})
        head = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        answered = await http.post("/mcp/desk", content=json.dumps(call), headers=head)
    result = answered.json()["result"]
    assert result["isError"] and json.loads(result["content"][0]["text"])["error"]["code"] == "not_found"


async def test_desk_tools_at_the_same_time_all_answer(house, lab):
    reads = [read(house, lab["ada"], "read_steps", episode=lab["free"]) for _ in range(8)]
    assert {len(one["steps"]) for one in await asyncio.gather(*reads)} == {4}


async def test_door_of_the_desk_says_why_it_stays_shut(house, lab):
    async with _http(house, lab["ada"]) as http:
        assert await refusal(http, "GET", path="/mcp/desk") == (405, "method_not_allowed")
        assert await refusal(http, path="/mcp/desk", Origin="https://evil.example") == (403, "origin")
        assert await refusal(http, path="/mcp/desk", Authorization="Bearer awm_nonsense") == (401, "unauthenticated")
        assert await refusal(http, body=b"{", path="/mcp/desk") == (400, "bad_json")
        called_wrongly = said("tools/call", 1, name="find_episodes", arguments={"color": "red"})
        head = {"Accept": "application/json, text/event-stream"}
        answered = (await http.post("/mcp/desk", json=called_wrongly, headers=head)).json()
    assert "color" in answered["result"]["content"][0]["text"]


@proves("docs/mcp.md", "import json")
async def test_documented_reads_print_what_the_page_says(house, lab, block, capsys):
    lines = block.text.replace("http://127.0.0.1:8000", house.url).replace("TOKEN", lab["ada"])
    names: dict[str, object] = {}
    exec(f"async def documented():\n{textwrap.indent(lines, '    ')}", names)
    await names["documented"]()
    [printed] = starting("docs/mcp.md", "xxxxx")
    assert capsys.readouterr().out == printed.text
