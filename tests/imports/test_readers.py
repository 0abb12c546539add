"""Readers: file -> trajectories, for every format, and what hostile files come to. Without a database."""

from __future__ import annotations

import gzip
import json

import pytest

from awmclient.conversation import conversation, messages
from imports import readers
from imports.readers import containers
from tests.exports.records import record, walk
from tests.exports.test_briefed_episodes import steps as briefed_steps
from tests.imports.files import (
    ATIF,
    LINES,
    MESSAGES,
    OPENAI,
    RECORD,
    ROWS,
    SAMPLE,
    TASK,
    VERIFICATION,
    eval_log,
    text_of,
)


@pytest.fixture
def rows_of(tmp_path):
    def read(content: bytes, wanted: str = ""):
        path = tmp_path / "file"
        path.write_bytes(content)
        return list(readers.read(path, wanted))

    return read


@pytest.fixture
def one(rows_of):
    def read(row, wanted: str = ""):
        (found,) = rows_of(row if isinstance(row, bytes) else json.dumps(row).encode(), wanted)
        return found

    return read


def steps_of(found):
    assert not found.refusal
    return [step.model_dump(exclude_unset=True) for step in found.trajectory.steps]


@pytest.mark.parametrize("name", ROWS)
def test_format_is_recognized_and_read(one, name):
    found = one(text_of(name))
    assert (found.format, found.refusal) == (name, "")
    assert found.trajectory.task == TASK
    assert [step["seq"] for step in steps_of(found)] == list(range(1, len(found.trajectory.steps) + 1))


@pytest.mark.parametrize("name", ["openai", "openenv", "tau_bench", "sft"])
def test_messages_are_what_the_agent_read(one, name):
    said = messages(steps_of(one(text_of(name))))
    wanted = [{**message, "content": message["content"] or ""} for message in MESSAGES]
    assert said == wanted


def test_own_exports_come_back_as_they_were_read(rows_of):
    for shape in ("sft", "openai"):
        rows, _ = walk(shape)
        (found,) = rows_of(json.dumps(rows[0]).encode())
        said = [one.message for one in conversation(steps_of(found))]
        wanted = [{name: value for name, value in one.items() if name != "weight"} for one in rows[0]["messages"]]
        if shape == "openai":
            said = messages(steps_of(found))
        assert said == wanted


def test_raw_export_comes_back_step_by_step(one):
    rows, _ = walk("raw")
    found = one(rows[0])
    assert steps_of(found) == rows[0]["steps"]
    assert found.trajectory.outcome.source == "verifier"


def test_verification_and_ask_ids_stay_out_of_own_records(one):
    found = one({**RECORD, "steps": [*RECORD["steps"], VERIFICATION]})
    assert [step["kind"] for step in steps_of(found)] == ["message", "message", "tool_call", "ask", "message"]
    assert "ask" not in steps_of(found)[3]
    assert found.lost == {"verification steps": 1, "ids of asks": 1, "run": 1}


def test_briefing_comes_back_without_ids_of_its_sources(one):
    briefed = record(steps=briefed_steps(privilege="sees_verifier"))
    (found,) = [one(row) for row in walk("raw", briefed, include=["informed"])[0]]
    told = steps_of(found)[2]
    assert (told["kind"], told["privilege"]) == ("briefing", "sees_verifier") and "sources" not in told
    assert found.lost["sources of a briefing"] == 1
    (found,) = [one(row) for row in walk("sft", briefed, include=["informed"])[0]]
    assert found.lost["who wrote a briefing (kept as a message)"] == 1


def test_own_record_with_a_gap_is_refused(one):
    found = one({**RECORD, "steps": [RECORD["steps"][0], RECORD["steps"][2]]})
    assert found.refusal == "Its steps are not numbered 1, 2, 3 without gaps."


def test_record_of_a_newer_version_is_refused(one):
    assert "newer" in one({**RECORD, "schema_version": "awmweb.trajectory/2"}).refusal


def test_verify_of_awm_is_the_outcome_and_no_step(one):
    found = one(ROWS["awm"])
    calls = steps_of(found)
    assert [step["name"] for step in calls] == ["get_ticket", "get_ticket"]
    assert calls[1]["error"] == "no such id"
    assert (found.trajectory.outcome.reward_type, found.trajectory.outcome.reward) == ("others", 0.0)


def test_solution_of_a_grader_stays_out(one):
    for name in ("tau_bench", "inspect"):
        found = one(ROWS[name])
        assert "solution" not in found.trajectory.model_dump_json()
        assert found.lost


def test_results_of_atif_go_to_their_calls(one):
    found = one(ATIF)
    first, second = (step for step in steps_of(found) if step["kind"] == "tool_call")
    assert (first["result"], second["result"]) == ("one", "two")
    assert found.lost == {"parts of messages that are not text": 1, "links to subagents": 1}


def test_times_of_atif_are_those_of_its_steps(one):
    times = ["2025-01-15T14:00:00Z", "2025-01-15T14:00:03.5+01:00", "noon", 5]
    said = [{"source": "user", "message": TASK, "timestamp": at, "metrics": {"cost_usd": 1}} for at in times]
    found = one({**ATIF, "steps": said, "final_metrics": {"total_steps": 4}})
    assert [step.get("at") and step["at"].isoformat() for step in steps_of(found)] == [
        "2025-01-15T14:00:00+00:00", "2025-01-15T14:00:03.500000+01:00", None, None,
    ]  # fmt: skip
    assert found.lost == {"times": 2, "metrics of steps": 4, "final metrics": 1}


@pytest.mark.parametrize("version", ["ATIF-v1.9", "ATIF-v2.0", "ATIF-v1.7\n"])
def test_unknown_version_of_atif_is_refused(one, version):
    assert "is not ATIF-v1.0" in one({**ATIF, "schema_version": version}).refusal


def test_wrapper_around_atif_is_refused_with_known_formats(one):
    found = one({"parent": ATIF, "child": ATIF})
    assert found.refusal.startswith("Unknown format. Use one of raw, sft, atif")


def test_samples_of_an_eval_log_are_read(rows_of):
    log = eval_log({"1_epoch_1": json.dumps(SAMPLE).encode(), "2_epoch_1": b"{}"})
    good, bad = rows_of(log)
    assert (good.place, good.format) == ("samples/1_epoch_1.json", "inspect")
    assert good.trajectory.scenario == "popularity"
    assert good.trajectory.outcome.details == {"scorer": "match", "value": "C"}
    assert [step.error for step in good.trajectory.steps if step.kind == "tool_call"] == ["took too long"]
    assert bad.refusal == "Its field messages is not a list of messages."


def test_lines_are_named_where_one_is_broken(rows_of):
    good = json.dumps(OPENAI).encode()
    found = rows_of(good + b"\n\n{broken\n" + good + b"\n[1]\n")
    assert [row.place for row in found] == ["line 1", "line 3", "line 4", "line 5"]
    assert [bool(row.refusal) for row in found] == [False, True, False, True]
    assert found[3].refusal == "It is not a JSON object."


def test_first_line_may_be_the_broken_one(rows_of):
    found = rows_of(b"{broken\n" + json.dumps(OPENAI).encode() + b"\n")
    assert [row.place for row in found] == ["line 1", "line 2"]
    assert found[0].refusal.startswith("It is not JSON")


@pytest.mark.parametrize("name", LINES)
def test_digest_ignores_the_order_of_keys(one, name):
    turned = dict(reversed(ROWS[name].items()))
    assert one(turned).digest == one(ROWS[name]).digest


def test_call_arguments_that_are_no_object_are_kept_as_text(one):
    call = {"id": "c1", "function": {"name": "x", "arguments": "[1"}}
    found = one({"messages": [MESSAGES[1], {"role": "assistant", "tool_calls": [call]}]})
    assert steps_of(found)[1]["arguments"] == {"_text": "[1"}
    assert found.lost == {"arguments that are not a JSON object (kept as text)": 1, "calls without a result (kept)": 1}


@pytest.mark.parametrize("said", ['{"x": NaN}', '{"x": 1e999}', '{"x": ' + "[" * 200 + "]" * 200 + "}"])
def test_call_arguments_beyond_json_are_kept_as_text(one, said):
    call = {"id": "c1", "function": {"name": "x", "arguments": said}}
    found = one({"messages": [MESSAGES[1], {"role": "assistant", "tool_calls": [call]}]})
    assert steps_of(found)[1]["arguments"] == {"_text": said}
    assert found.lost["arguments that are not a JSON object (kept as text)"] == 1


def test_lists_of_tools_that_differ_a_little_stay_apart(rows_of):
    lists = [[{"name": "x", "input_schema": {"least": least}}] for least in (1, True, 1.0, 1)]
    found = rows_of(b"\n".join(json.dumps({**RECORD, "tools": tools}).encode() for tools in lists))
    read = [json.dumps(row.start.tools[0].input_schema) for row in found]
    assert read == ['{"least": 1}', '{"least": true}', '{"least": 1.0}', '{"least": 1}']
    assert found[0].start.tools is not found[3].start.tools


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"messages": [{"role": "assistant", "content": "x"}]}, "no task"),
        ({"messages": [{"role": "user", "content": 5}]}, "neither text nor a list"),
        ({"messages": ["x"]}, "Message 1 is not an object"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "unknown role 'wizard'"),
        ({"messages": [*MESSAGES[:2], {"role": "assistant", "tool_calls": {"a": 1}}]}, "not a list"),
        ({"messages": [*MESSAGES[:2], {"role": "assistant", "tool_calls": [{"function": {}}]}]}, "no name"),
        ({**OPENAI, "tools": [{"name": "x" * 300}]}, "at most 200"),
        ({**RECORD, "task": "x" * 30_000}, "at most 20000"),
        ({**RECORD, "steps": ["x"]}, "A step is not an object."),
        ({**RECORD, "surprise": 1}, "surprise: Extra inputs"),
        ({**ATIF, "steps": [{"source": "oracle"}]}, "Step 1 is not of source"),
    ],
)
def test_row_is_refused_with_its_reason(one, row, why):
    found = one(row)
    assert why in found.refusal and found.trajectory is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (gzip.compress(b"{}", mtime=0), "packed as gzip"),
        (b"PK\x03\x04 and no more", "cannot be unpacked"),
        (eval_log({}, {"no": "eval"}), "no object eval"),
        (eval_log({}, "[" * 500), "no object eval"),
    ],
)
def test_file_without_rows_is_refused(rows_of, content, why):
    with pytest.raises(readers.BadFile, match=why):
        rows_of(content)


def test_deep_json_is_refused(one):
    assert "128 levels" in one(b'{"messages": ' + b"[" * 300 + b"]" * 300 + b"}").refusal


def test_numbers_that_json_does_not_have_are_refused(one):
    assert "not JSON" in one(b'{"messages": [], "reward": NaN}').refusal


def test_bomb_in_an_archive_is_refused(rows_of):
    log = eval_log({"1": b" " * (40 * 1024 * 1024)})
    assert len(log) < 100_000
    with pytest.raises(readers.BadFile, match="unpacks to too much"):
        rows_of(log)


def test_member_that_is_too_large_is_refused(rows_of, monkeypatch):
    monkeypatch.setattr(containers, "LINE_MAX", 1000)
    with pytest.raises(readers.BadFile, match="MB unpacked"):
        rows_of(eval_log({"1": b"x" * 2000}))


def test_line_that_is_too_long_is_refused(rows_of, monkeypatch):
    monkeypatch.setattr(containers, "LINE_MAX", 1000)
    good = json.dumps({"messages": MESSAGES[:2]}).encode()
    found = rows_of(good + b"\n" + b"x" * 2000 + b"\n" + good)
    assert [row.place for row in found] == ["line 1", "line 2"]
    assert "The line has more than" in found[1].refusal


def test_too_many_rows_are_refused(rows_of, monkeypatch):
    monkeypatch.setattr(containers, "ROWS_MAX", 2)
    with pytest.raises(readers.BadFile, match="more than 2 rows"):
        rows_of((json.dumps(OPENAI).encode() + b"\n") * 3)


def test_too_many_steps_are_refused(one, monkeypatch):
    monkeypatch.setattr("imports.readers.found.STEPS_MAX", 3)
    assert "more than 3 steps" in one(OPENAI).refusal


def test_hostile_text_is_kept_inside_steps(one):
    text = "\ud800\x00\x1b[2J<script>\u202e"
    found = one({"messages": [MESSAGES[1], {"role": "assistant", "content": text}]})
    assert steps_of(found)[1]["content"] == text
