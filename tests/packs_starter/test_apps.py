"""The scenario apps: well described tools, and a helpful error for every wrong call."""

import re

RESERVED = {"verify", "done", "__list_scenarios__", "ask_expert", "reset", "step", "state", "close"}


def test_an_app_offers_twelve_tools_over_four_tables(play, scenario, initial):
    offered = play(scenario, [])["tools"]
    assert len(offered) >= 12
    assert not RESERVED & set(offered)
    assert initial[scenario].read_bytes().count(b"CREATE TABLE") >= 4


def test_every_tool_and_every_argument_is_described(play, scenario):
    for name, tool in play(scenario, [])["tools"].items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), f"{tool['method']} {tool['path']} has no operation_id"
        assert tool["summary"] and tool["description"], name
        arguments = [argument for _, argument, _ in tool["parameters"]]
        assert len(arguments) == len(set(arguments)), f"{name}: arguments collide once they are merged flat"
        assert all(schema.get("description") for _, _, schema in tool["parameters"]), name


def test_no_call_makes_an_app_fall_over(play, scenario):
    offered = play(scenario, [])["tools"]
    calls = []
    for value in (1, 0, 999_999, 2**70, -1, "x", "", "\x00", None, [], {}, True):
        for name, tool in offered.items():
            path = {argument: 1 for place, argument, _ in tool["parameters"] if place == "path"}
            arguments = {argument: value for _, argument, _ in tool["parameters"]}
            calls += [{"name": name, "arguments": each} for each in (arguments, arguments | path, path)]
    statuses = [result["status"] for result in play(scenario, calls)["results"]]
    broken = [call for call, status in zip(calls, statuses, strict=True) if status >= 500]
    assert broken == []


def test_what_is_not_there_is_404_and_says_what(play):
    results = play(
        "helpdesk_1",
        [
            {"name": "get_ticket", "arguments": {"ticket_id": 1999}},
            {"name": "assign_ticket", "arguments": {"ticket_id": 1025, "assignee": "nobody"}},
            {"name": "add_tag", "arguments": {"ticket_id": 1012, "tag": "no-such-tag"}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [404, 404, 404]
    assert "1999" in results[0]["text"]
    assert "list_agents" in results[1]["text"]
    assert "list_tags" in results[2]["text"]


def test_the_help_desk_refuses_what_its_rules_forbid(play):
    results = play(
        "helpdesk_1",
        [
            {"name": "assign_ticket", "arguments": {"ticket_id": 1025, "assignee": "marek"}},
            {"name": "merge_ticket", "arguments": {"ticket_id": 1003, "duplicate_id": 1017}},
            {"name": "merge_ticket", "arguments": {"ticket_id": 1017, "duplicate_id": 1022}},
            {"name": "set_ticket_status", "arguments": {"ticket_id": 1021, "status": "solved"}},
            {"name": "set_agent_availability", "arguments": {"login": "lena", "availability": "on_leave"}},
            {"name": "update_ticket", "arguments": {"ticket_id": 1004, "priority": "high"}},
            {"name": "update_ticket", "arguments": {"ticket_id": 1012, "priority": "sky-high"}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [409, 409, 409, 409, 409, 409, 422]


def test_a_ticket_that_is_opened_can_be_worked_to_its_end(play):
    results = play(
        "helpdesk_1",
        [
            {
                "name": "create_ticket",
                "arguments": {"customer_id": 6, "subject": "New filter", "description": "Which one?", "group_id": 3},
            },
            {"name": "assign_ticket", "arguments": {"ticket_id": 1032, "assignee": "Oskar"}},
            {"name": "create_tag", "arguments": {"tag": "Question"}},
            {"name": "add_tag", "arguments": {"ticket_id": 1032, "tag": "question"}},
            {"name": "remove_tag", "arguments": {"ticket_id": 1032, "tag": "question"}},
            {"name": "set_ticket_status", "arguments": {"ticket_id": 1032, "status": "solved"}},
            {"name": "update_customer", "arguments": {"customer_id": 6, "notes": "Has a C2 filter."}},
            {"name": "list_overdue_tickets", "arguments": {}},
            {"name": "get_ticket", "arguments": {"ticket_id": 1032}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [201, 200, 201, 200, 200, 200, 200, 200, 200]
    assert '"status":"solved"' in results[-1]["text"]
    assert '"tags":[]' in results[-1]["text"]
