"""An episode over /ws.

What each action answers, in upstream's words and rewards, and what the agent never gets to see.
"""

import json
from collections.abc import Callable

import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from tests.awmenv.conftest import Server


async def test_a_whole_episode_ends_complete_with_its_changes(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        started = await env.reset(scenario="Notes 1", task_idx=0, state_diff=True)
        assert (started.reward_type, started.num_tools, started.reward) == ("reset_ok", 7, None)
        assert started.has_verifier == {"sql": True, "code": True}
        assert started.task == "Write a note titled 'Milk' and change nothing else."
        assert [tool.name for tool in await env.list_tools()][:2] == ["list_notes", "create_note"]
        made = await env.call_tool("create_note", {"title": "Milk"})
        assert (made.reward_type, made.reward) == ("tool_call_ok", 0.0)
        assert json.loads(made.tool_result)["title"] == "Milk"
        assert made.tool_result.startswith('{\n  "id"')
        outcome = await env.verify(final_answer="done")
        assert (outcome.reward_type, outcome.reward, outcome.done) == ("complete", 1.0, False)
        assert outcome.verify_result is not None
        assert outcome.verify_result["execution_status"] == "success"
        assert outcome.metadata["tier"] == "strict"
        assert [row["title"] for row in (outcome.state_diff or {})["notes"]["added"]] == ["Milk"]
        ended = await env.done()
        assert (ended.reward_type, ended.done) == ("episode_done", True)
        assert (await env.call_tool("list_notes")).reward_type == "episode_already_done"


async def test_a_write_tells_its_rows_and_a_read_an_empty_diff(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=0, state_diff=True)
        changed = await env.call_tool("change_note", {"note_id": 1, "pinned": True})
        assert changed.state_diff == {
            "notes": {
                "added": [],
                "removed": [],
                "changed": [{"key": {"id": 1}, "before": {"pinned": 0}, "after": {"pinned": 1}}],
                "more": 0,
            }
        }
        assert (await env.call_tool("list_notes")).state_diff == {}
        removed = await env.call_tool("delete_note", {"note_id": 2})
        assert [row["title"] for row in (removed.state_diff or {})["notes"]["removed"]] == ["Ada's desk"]


async def test_without_state_diff_no_metadata_is_sent(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        assert (await env.reset(scenario="notes_1", task_idx=0)).metadata == {}
        assert (await env.call_tool("create_note", {"title": "Milk"})).metadata == {}
        assert "state_diff" not in (await env.verify()).metadata


@pytest.mark.parametrize(
    ("call", "reward_type", "reward", "words"),
    [
        (("nope", {}), "tool_not_found", -1.0, "Unknown tool: nope"),
        (
            ("list_notes", {"limit": "abc"}),
            "invalid_args",
            -1.0,
            "Input validation error: 'abc' is not of type 'integer'",
        ),
        (("create_note", {}), "invalid_args", -1.0, "Input validation error: 'title' is a required property"),
        (
            ("get_note", {"note_id": 99}),
            "tool_error",
            0.0,
            'Error calling get_note. Status code: 404. Response: {"detail":"Note not found"}',
        ),
        (
            ("broken_report", {}),
            "server_error",
            0.0,
            "Error calling broken_report. Status code: 500. Response: Internal Server Error",
        ),
    ],
)
async def test_errors_are_classified_by_cause(
    server: Server, call: tuple[str, dict[str, object]], reward_type: str, reward: float, words: str
) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        refused = await env.call_tool(*call)
        assert (refused.reward_type, refused.reward, refused.error) == (reward_type, reward, words)


async def test_upstreams_labels_by_words_are_a_switch(make_server: Callable[..., Server]) -> None:
    async with EnvironmentClient(make_server(AWMENV_LABELS="upstream").url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        wanted = [
            ("nope", {}, "tool_not_found", -1.0),
            ("get_note", {"note_id": 99}, "tool_not_found", -1.0),
            ("list_notes", {"limit": "abc"}, "invalid_args", -1.0),
            ("broken_report", {}, "server_error", 0.0),
        ]
        for name, arguments, label, reward in wanted:
            refused = await env.call_tool(name, arguments)
            assert (refused.reward_type, refused.reward) == (label, reward), name


async def test_a_traceback_reaches_people_and_never_the_agent(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", state_diff=True)
        failed = await env.call_tool("broken_report")
        assert "traceback-secret" not in str(failed.error)
        assert "traceback-secret" in failed.metadata["detail"]
        assert "broken_report" in failed.metadata["detail"] and "site-packages" not in failed.metadata["detail"]
        await env.reset(scenario="notes_1")
        assert (await env.call_tool("broken_report")).metadata == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scenario": "bakery"}, "Scenario 'bakery' not found"),
        ({"scenario": "notes_1", "task_idx": 99}, "task_idx 99 out of range (0..1)"),
        ({"scenario": "notes_1", "task_idx": "0"}, "task_idx"),
        ({"scenario": "notes_1", "task_idx": True}, "task_idx"),
        ({"scenario": ""}, "required"),
        ({"scenario": "notes_1", "reward_config": {"complete": "much"}}, "reward_config"),
    ],
)
async def test_a_reset_that_cannot_be_says_why(server: Server, arguments: dict[str, object], words: str) -> None:
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(ResetFailed, match=words.split("(")[0]):
            await env.reset(**arguments)  # type: ignore[arg-type]
        assert (await env.reset(scenario="notes_1")).reward_type == "reset_ok"


async def test_nothing_works_before_reset_but_the_list_of_scenarios(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        assert [item["name"] for item in await env.list_scenarios()] == ["lamps_1", "notes_1"]
        assert (await env.call_tool("list_notes")).reward_type == "server_error"
        assert (await env.verify()).reward_type == "server_error"


async def test_first_verification_is_final_and_repeatable(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=1)
        first = await env.verify(final_answer="many")
        assert first.reward_type == "others"
        refused = await env.call_tool("create_note", {"title": "Milk"})
        assert (refused.reward_type, refused.done) == ("episode_already_done", True)
        again = await env.verify(final_answer="there are 3")
        assert again.reward_type == "others"
        assert again.verify_result == first.verify_result


async def test_the_final_answer_reaches_the_verifier(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=1)
        assert (await env.verify(final_answer="there are 3")).reward_type == "complete"


async def test_sql_mode_without_judge_is_an_error_with_evidence(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        await env.call_tool("create_note", {"title": "Milk"})
        found = await env.verify(mode="sql")
        assert (found.reward_type, found.reward) == ("judge_error", 0.0)
        assert found.verify_result is not None
        assert found.verify_result["raw_result"] == {"before": 0, "after": 1}


async def test_an_episode_without_a_task_has_no_verifier(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1")
        assert (await env.verify()).reward_type == "no_verifier"


async def test_verify_and_done_without_control_key_are_unknown_tools(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=1, control_key="open sesame")
        for arguments in ({}, {"control_key": "wrong"}, {"control_key": 5}):
            for name in ("verify", "done"):
                refused = await env.call_tool(name, arguments)
                assert (refused.reward_type, refused.error) == ("tool_not_found", f"Unknown tool: {name}")
        assert (await env.call_tool("list_notes")).reward_type == "tool_call_ok"
        assert (await env.verify(final_answer="3")).reward_type == "complete"
        unknown, refused = await env.call_tool("nope"), await env.call_tool("done")
        assert (refused.reward_type, refused.error) == (unknown.reward_type, unknown.error)
        assert (await env.done()).reward_type == "episode_done"


async def test_control_key_stays_through_every_reset(server: Server) -> None:
    """Without it nothing happens at all: the episode that runs goes on."""
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=1, control_key="open sesame")
        await env.call_tool("create_note", {"title": "Milk"})
        for key in ({}, {"control_key": None}, {"control_key": "wrong"}, {"control_key": ""}, {"control_key": 5}):
            refused = await env.reset_environment(scenario="notes_1", task_idx=1, **key)
            assert refused["observation"]["metadata"]["code"] == "control_key_needed", key
            assert (await env.call_tool("verify")).reward_type == "tool_not_found"
        assert "Milk" in (await env.call_tool("list_notes")).tool_result
        again = await env.reset_environment(scenario="notes_1", task_idx=1, control_key="open sesame")
        assert again["observation"]["reward_type"] == "reset_ok"
        assert (await env.call_tool("verify")).reward_type == "tool_not_found"
        await env.reset(scenario="lamps_1", task_idx=0)  # our client sends the key that it once set
        assert (await env.verify()).reward_type in ("complete", "others")


async def test_control_key_of_a_reset_that_failed_is_none(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(ResetFailed):
            await env.reset(scenario="bakery", control_key="open sesame")
        for key in ("", "a" * 300):
            refused = await env.reset_environment(scenario="notes_1", control_key=key)
            assert "control_key" in refused["observation"]["error"]
        await env.reset(scenario="notes_1", task_idx=1)
        assert (await env.call_tool("done")).reward_type == "episode_done"


async def test_a_reset_in_a_live_connection_is_a_fresh_world(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1")
        await env.call_tool("create_note", {"title": "Milk"})
        await env.reset(scenario="notes_1")
        assert "Milk" not in (await env.call_tool("list_notes")).tool_result
        await env.reset(scenario="lamps_1")
        assert "kitchen" in (await env.call_tool("list_lamps")).tool_result


async def test_rewards_can_be_set_at_reset(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", task_idx=1, reward_config={"complete": 5, "tool_call_ok": 0.25})
        assert (await env.call_tool("list_notes")).reward == 0.25
        assert (await env.call_tool("nope")).reward == -1.0
        assert (await env.verify(final_answer="3")).reward == 5.0


async def test_the_state_counts_steps_from_each_reset(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="notes_1", episode_id="ep-1")
        await env.call_tool("list_notes")
        await env.list_tools()
        state = await env.state()
        assert (state.episode_id, state.step_count) == ("ep-1", 2)


async def test_two_sessions_of_one_scenario_do_not_see_each_other(server: Server) -> None:
    async with EnvironmentClient(server.url) as ada, EnvironmentClient(server.url) as edo:
        await ada.reset(scenario="notes_1")
        await edo.reset(scenario="notes_1")
        await ada.call_tool("create_note", {"title": "Ada's own"})
        assert "Ada's own" not in (await edo.call_tool("list_notes")).tool_result


async def test_sync_endpoints_and_bodies_with_path_params_work(server: Server) -> None:
    async with EnvironmentClient(server.url) as env:
        await env.reset(scenario="lamps_1", task_idx=0)
        assert (await env.call_tool("set_lamp", {"lamp_id": 1, "lit": False, "level": 0})).ok
        assert (await env.verify()).reward_type == "complete"


def test_health_and_stats_tell_the_tier(server: Server) -> None:
    assert json.loads(server.get("/health"))["tier"] == "strict"
    stats = json.loads(server.get("/stats"))
    walls = {name: holds for name, holds in stats["probes"].items() if name != "no_looking"}
    assert stats["tier"] == "strict" and all(walls.values())
