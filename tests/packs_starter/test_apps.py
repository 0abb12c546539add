"""The scenario apps: well described tools, and a helpful error for every wrong call."""

import json
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


def test_the_library_refuses_what_its_rules_forbid(play):
    results = play(
        "library_1",
        [
            {"name": "check_out", "arguments": {"reader_id": 8, "copy_id": 108}},
            {"name": "check_out", "arguments": {"reader_id": 15, "copy_id": 108}},
            {"name": "check_out", "arguments": {"reader_id": 4, "copy_id": 102}},
            {"name": "check_out", "arguments": {"reader_id": 2, "copy_id": 102, "loan_weeks": 9}},
            {"name": "renew_loan", "arguments": {"loan_id": 205}},
            {"name": "renew_loan", "arguments": {"loan_id": 203}},
            {"name": "place_hold", "arguments": {"reader_id": 2, "title_id": 14, "branch_id": 1}},
            {"name": "place_hold", "arguments": {"reader_id": 2, "title_id": 13, "branch_id": 4}},
            {"name": "change_hold_pickup", "arguments": {"hold_id": 311, "branch_id": 1}},
            {"name": "set_branch_status", "arguments": {"branch_id": 2, "status": "closed"}},
            {
                "name": "add_fine",
                "arguments": {"reader_id": 10, "loan_id": 210, "kind": "lost", "amount": 1, "reason": "Lost"},
            },
            {"name": "pay_fine", "arguments": {"fine_id": 404, "amount": 6.01, "method": "cash"}},
            {"name": "update_reader", "arguments": {"reader_id": 2}},
            {"name": "get_reader", "arguments": {"reader_id": 2014}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [409] * 12 + [422, 404]


def test_a_copy_that_comes_back_goes_to_whoever_waited_longest(play):
    results = play(
        "library_1",
        [
            {"name": "return_copy", "arguments": {"copy_id": 104, "branch_id": 1}},
            {"name": "return_copy", "arguments": {"copy_id": 105, "branch_id": 1}},
            {"name": "receive_transfer", "arguments": {"transfer_id": 603}},
            {"name": "check_out", "arguments": {"reader_id": 10, "copy_id": 105}},
            {"name": "cancel_hold", "arguments": {"hold_id": 305}},
            {"name": "return_copy", "arguments": {"copy_id": 122, "branch_id": 3}},
            {"name": "list_holds", "arguments": {"title_id": 3, "hold_status": "ready"}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [200, 200, 200, 201, 200, 200, 200]
    first, second, late, ready = (json.loads(results[place]["text"]) for place in (0, 1, 5, 6))
    assert (first["next_hold"]["id"], first["next_hold"]["status"], first["fine"]) == (305, "ready", None)
    assert (second["next_hold"]["id"], second["next_hold"]["status"]) == (310, "in_transit")
    assert (late["fine"]["amount"], late["copy_now"]["status"], late["copy_now"]["branch"]) == (
        5.0,
        "available",
        "Hillside",
    )
    assert [(hold["id"], hold["copy_id"]) for hold in ready] == [(301, 106), (303, 104)]


def test_the_haulier_refuses_what_its_rules_forbid(play):
    results = play(
        "trucking_1",
        [
            {"name": "plan_consignment", "arguments": {"consignment_id": 3018, "tour_code": "C-07"}},
            {"name": "plan_consignment", "arguments": {"consignment_id": 3018, "tour_code": "E-21"}},
            {"name": "plan_consignment", "arguments": {"consignment_id": 3020, "tour_code": "n-14"}},
            {"name": "plan_consignment", "arguments": {"consignment_id": 3012, "tour_code": "E-21"}},
            {"name": "assign_driver", "arguments": {"tour_code": "E-21", "driver_name": "Nia Prosser"}},
            {"name": "assign_driver", "arguments": {"tour_code": "N-15", "driver_name": "Stefan Brandt"}},
            {"name": "assign_vehicle", "arguments": {"tour_code": "C-07", "plate": "BW23 ICE"}},
            {"name": "assign_vehicle", "arguments": {"tour_code": "C-07", "plate": "BW19 FRO"}},
            {"name": "assign_vehicle", "arguments": {"tour_code": "C-07", "plate": "BW22 TRK"}},
            {"name": "set_vehicle_status", "arguments": {"plate": "BW24 KLD", "status": "workshop"}},
            {"name": "set_tour_status", "arguments": {"tour_code": "N-14", "status": "completed"}},
            {"name": "hand_over_consignment", "arguments": {"consignment_id": 3018, "partner_name": "Moorland"}},
            {"name": "hand_over_consignment", "arguments": {"consignment_id": 3018, "partner_name": "Farrow"}},
            {
                "name": "add_charge",
                "arguments": {"consignment_id": 3017, "kind": "extra", "amount": 5, "text": "Extra"},
            },
            {"name": "get_tour", "arguments": {"tour_code": "N-99"}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [409] * 14 + [404]
    assert "N-14" in results[-1]["text"]


def test_booked_consignment_links_to_its_invoice(play):
    new = {
        "customer_id": 10,
        "goods": "Maps",
        "destination": "corran",
        "pallets": 2,
        "kg": 700,
        "deliver_by": "2040-01-01",
    }
    results = play(
        "trucking_1",
        [
            {"name": "book_consignment", "arguments": new},
            {"name": "plan_consignment", "arguments": {"consignment_id": 3035, "tour_code": "S-03"}},
            {"name": "set_tour_status", "arguments": {"tour_code": "S-03", "status": "departed"}},
            {"name": "set_tour_status", "arguments": {"tour_code": "S-03", "status": "completed"}},
            {
                "name": "add_charge",
                "arguments": {"consignment_id": 3035, "kind": "freight", "amount": 80, "text": "Freight to Corran"},
            },
            {"name": "remove_charge", "arguments": {"charge_id": 9}},
            {"name": "get_consignment", "arguments": {"consignment_id": 3035}},
        ],
    )["results"]
    assert [result["status"] for result in results] == [201, 200, 200, 200, 201, 200, 200]
    assert json.loads(results[-1]["text"]).items() >= {"status": "delivered", "tour": "S-03", "charges": []}.items()
