"""Readers: file -> trajectories, for every format, and what hostile files come to. Without a database."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import UTC, datetime
from typing import get_args

import pytest

from awmclient.schema import Fault
from awmclient.words.conversation import conversation, messages
from episodes.stored.arrivals import arrival_of
from exports.formats import FORMATS
from imports import readers
from imports.readers import containers, unpacking
from tests.exports.assembly.test_briefed_episodes import steps as briefed_steps
from tests.exports.records import STEPS, record, walk
from tests.imports.files import (
    ATIF,
    AWM,
    CALL,
    HEAD,
    INSPECT,
    LINES,
    MESSAGES,
    OPENAI,
    OPENENV,
    RECORD,
    ROWS,
    SAMPLE,
    SFT,
    SWE,
    TASK,
    TAU,
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


def test_own_inspect_log_comes_back_with_its_task_and_policy(one):
    about = {"task_idx": 3, "arm": "expert", "seed": 5, "split": "train", "training_step": 7, "checkpoint": "step-7"}
    given = record(**about, policy={"model": "m/1"}, policy_name="react", policy_kind="model")
    (row,), _ = walk("inspect", given)
    found = one({"eval": {"task": "awmweb", "model": "m/1"}, "samples": [{**row, "epoch": 1}]})
    back = found.trajectory.model_dump()
    assert {name: back[name] for name in about} == about
    assert (back["scenario"], back["policy"]) == ("desk_1", {"kind": "model", "name": "react", "model": "m/1"})
    assert [tool["name"] for tool in back["tools"]] == ["get_ticket", "merge", "ask_expert"]
    assert "field id" not in found.lost and "field metadata" not in found.lost


@pytest.mark.parametrize("shape", ["inspect", "atif", "openenv", "raw"])
@pytest.mark.parametrize("fault", ["", *get_args(Fault)])
def test_own_log_comes_back_with_its_end(one, shape, fault):
    ends = [
        {"state": "failed" if fault else "finished", "fault": fault, "stop_reason": "error" if fault else "max_steps"},
        {"state": "cancelled", "fault": fault, "stop_reason": ""},
    ]
    for end in ends:
        (row,), _ = walk(shape, record(**end))
        inside = {"eval": {"task": "awmweb", "model": "m/1"}, "samples": [{**row, "epoch": 1}]}
        back = one(inside if shape == "inspect" else row).trajectory
        assert {name: getattr(back, name) or "" for name in end} == end


def test_error_of_another_log_is_of_the_boundary_it_names(one):
    for words, fault in (("APIConnectionError: refused", "model"), ("KeyError: 'x'", "environment")):
        found = one({**INSPECT, "samples": [{**SAMPLE, "error": {"message": words}}]}).trajectory
        assert (found.state, found.fault, found.stop_reason) == ("failed", fault, "error")


@pytest.mark.parametrize(
    ("times", "ended"),
    [
        ({"started_at": "2026-11-01T10:00:00Z", "completed_at": "2026-11-01T10:05:00+00:00"}, 300),
        ({"started_at": "2026-11-01T10:00:00", "total_time": 7.5}, 7.5),
        ({"started_at": "2026-11-01T12:00:00+02:00"}, 0),
        ({"started_at": "2026-11-01T10:00:00Z", "total_time": float("1e300")}, 0),
    ],
)
def test_inspect_sample_comes_back_with_its_times(one, times, ended):
    found = one({**INSPECT, "samples": [{**SAMPLE, **times}]})
    episode = arrival_of(found.start, found.trajectory, "").episode
    began, end = (datetime.fromisoformat(episode[name]) for name in ("started_at", "ended_at"))
    assert began == datetime(2026, 11, 1, 10, tzinfo=UTC) and (end - began).total_seconds() == ended
    assert not {"field started_at", "field completed_at", "field total_time", "times"} & found.lost.keys()


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


def test_files_of_asks_stay_where_they_are(one):
    """Their IDs name rows of the instance that exported them, and could be any text of a stranger."""
    ref = {"id": "1m8b", "name": "shot.png", "media_type": "image/png", "size": 9, "sha256": "0" * 64}
    asked = next(step for step in RECORD["steps"] if step["kind"] == "ask")
    planted = {**asked, "files": [ref], "advice": {**asked["advice"], "files": [ref]}}
    found = one({**RECORD, "steps": [planted if step is asked else step for step in RECORD["steps"]]})
    told = next(step for step in steps_of(found) if step["kind"] == "ask")
    assert "files" not in told and "files" not in told["advice"] and told["advice"]["text"] == asked["advice"]["text"]
    assert found.lost["files of asks"] == 2


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


def called(*calls: tuple[str, str]):
    made = [{"id": one, "function": {"name": name, "arguments": "{}"}} for one, name in calls]
    return {"role": "assistant", "content": "", "tool_calls": made}


def told(content, **fields):
    return {"role": "tool", "content": content, **fields}


@pytest.mark.parametrize(
    ("said", "wanted", "lost"),
    [
        ([called(("x", "a"), ("x", "b")), told("1", tool_call_id="x"), told("2", tool_call_id="x")], ["1", "2"], 0),
        ([called(("x", "a"), ("y", "b")), told("2", tool_call_id="z")], [None, None], 1),
        ([called(("x", "a"), ("y", "b")), told("2", tool_call_id="z"), told("3", tool_call_id="y")], [None, "3"], 1),
        ([called(("", "a"), ("", "b")), {"role": "function", "name": "b", "content": "2"}], [None, "2"], 0),
        ([called(("", "a")), {"role": "function", "name": "c", "content": "2"}], [None], 1),
        ([called(("x", "a")), called(("x", "a")), told("2", tool_call_id="x")], [None, "2"], 0),
        (
            [called(("x", "a")), called(("x", "a")), told("2", tool_call_id="x"), told("1", tool_call_id="x")],
            ["1", "2"], 0,
        ),
        ([called(("", "a")), called(("", "a")), told("2", name="a")], [None, "2"], 0),
        ([called(("x", "a")), called(("y", "b")), told("1", tool_call_id="x")], ["1", None], 0),
        ([called(("x", "a"), ("y", "b")), told("1")], [None, None], 1),
        ([called(("x", "a")), told("1")], ["1"], 0),
        ([called(("", "a"), ("", "b")), told("1"), told("2")], ["1", "2"], 0),
        (
            [called(("1", "a"), ("y" * 300, "b")), told("2", tool_call_id="y" * 300), told("1", tool_call_id=1)],
            ["1", "2"], 0,
        ),
    ],
)  # fmt: skip
def test_result_goes_to_the_call_it_answers(one, said, wanted, lost):
    found = one({"messages": [*MESSAGES[:2], *said]}, "openai")
    calls = [step for step in steps_of(found) if step["kind"] == "tool_call"]
    assert [step.get("result") for step in calls] == wanted
    kept = [step["content"] for step in steps_of(found) if step.get("role") == "tool"]
    assert len(kept) == lost == found.lost.get("results without a call (kept as messages)", 0)


def test_atif_result_of_an_unknown_call_stays_a_message(one):
    results = [{"source_call_id": "c9", "content": "nine"}, {"source_call_id": "c2", "content": "two"}]
    steps = [ATIF["steps"][0], {**ATIF["steps"][1], "observation": {"results": results}}]
    found = one({**ATIF, "steps": steps})
    first, second = (step for step in steps_of(found) if step["kind"] == "tool_call")
    assert (first.get("result"), second["result"]) == (None, "two")
    assert found.lost["results without a call (kept as messages)"] == 1


def test_times_of_atif_are_those_of_its_steps(one):
    times = ["2025-01-15T14:00:00Z", "2025-01-15T14:00:03.5+01:00", "noon", 5]
    said = [{"source": "user", "message": TASK, "timestamp": at, "metrics": {"cost_usd": 1}} for at in times]
    found = one({**ATIF, "steps": said, "final_metrics": {"total_steps": 4}})
    assert [step.get("at") and step["at"].isoformat() for step in steps_of(found)] == [
        "2025-01-15T14:00:00+00:00", "2025-01-15T14:00:03.500000+01:00", None, None,
    ]  # fmt: skip
    assert found.lost == {"times": 2, "metrics of steps of no agent": 4}


def test_trial_of_tau_bench_is_the_seed(one):
    assert one({**TAU, "trial": 3}).trajectory.seed == 3 and one({**TAU, "trial": 0}).trajectory.seed == 0


def test_swe_agent_demonstration_has_only_its_history(one):
    said = [("system", "You program."), ("user", TASK), ("assistant", "ls"), ("user", "a.py"), ("assistant", "submit")]
    found = one({"environment": "swe_main", "history": [{"role": role, "content": text} for role, text in said]})
    assert found.format == "swe_agent" and found.trajectory.task == TASK
    assert [(step["role"], step["content"]) for step in steps_of(found)] == said
    assert (found.trajectory.stop_reason, found.lost) == ("done", {})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "done"),
        ({"steps": ATIF["steps"][:2]}, None),
        ({"extra": {"awm": {"stop_reason": "timeout"}}}, "timeout"),
        ({"extra": {"awm": {"stop_reason": "whatever"}}}, "done"),
    ],
)
def test_atif_says_finished_only_after_an_answer(one, more, reason):
    assert one({**ATIF, **more}).trajectory.stop_reason == reason


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


@pytest.mark.parametrize("head", ["eval", "info"])
def test_digest_writes_a_shared_head_once(head, monkeypatch):
    row = {head: {"b": 1, "a": ["ä", 2.5]}, "sample": {"z": None, "y": '"'}, "task": None}
    digests, plain = readers.RowDigests(), hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
    assert (
        digests.of({head: row[head]})
        == hashlib.sha256(json.dumps({head: row[head]}, sort_keys=True).encode()).hexdigest()
    )
    written = []
    dumps = json.dumps
    monkeypatch.setattr(readers.json, "dumps", lambda value, **more: written.append(value) or dumps(value, **more))
    assert [digests.of(dict(reversed(row.items()))) for _ in range(3)] == [plain] * 3
    assert not any(head in value for value in written)


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


TWICE = "values of a name that an object has again (the last is kept)"


@pytest.mark.parametrize(
    ("arguments", "kept", "count"),
    [
        ('{"id": 1, "id": 2, "id": 3}', {"id": 3}, 2),
        ('{"id": {"a": 1, "\\u0061": 2}}', {"id": {"a": 2}}, 1),
        ('{"a": "\\"", "a": "\\u0022"}', {"a": '"'}, 1),
        ('{"a": "\\u0022", "b": "\\"id\\": 1, \\"id\\": 2"}', {"a": '"', "b": '"id": 1, "id": 2'}, 0),
        ('{"a": 123456789012345678901234567890, "a": 1}', {"a": 1}, 1),
    ],
)
def test_repeated_names_in_arguments_are_counted(one, arguments, kept, count):
    call = {"id": "c1", "type": "function", "function": {"name": "get_ticket", "arguments": arguments}}
    found = one({"messages": [*MESSAGES[:2], {"role": "assistant", "tool_calls": [call]}]}, "openai")
    assert steps_of(found)[-1]["arguments"] == kept
    assert found.lost.get(TWICE, 0) == count


@pytest.mark.parametrize("indent", [None, 2])
def test_repeated_names_in_a_row_are_counted(rows_of, indent):
    text = json.dumps([AWM, AWM], indent=indent).replace('"id": 7', '"id": 6, "id": 7', 1)
    first, second = rows_of(text.encode())
    assert (first.lost.get(TWICE), second.lost.get(TWICE)) == (1, None)
    assert next(step for step in steps_of(first) if step["kind"] == "tool_call")["arguments"] == {"id": 7}


@pytest.mark.parametrize("parts", [["I look", " first."], [{"type": "text", "text": "I look"}, {"text": " first."}]])
def test_texts_of_content_parts_are_joined_as_written(one, parts):
    found = one({"messages": [*MESSAGES[:2], {"role": "assistant", "content": parts}]}, "openai")
    assert steps_of(found)[-1]["content"] == "I look first."
    assert found.lost == {"borders of text parts (their texts are joined)": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused_by_name(rows_of, encoding):
    with pytest.raises(readers.BadFile, match=f"encoded as {encoding.upper()[:6]}. Save it as UTF-8"):
        rows_of(json.dumps(OPENAI).encode(encoding))


def test_bytes_that_are_no_utf_8_are_named(one):
    assert one(b'{"messages": "caf\xe9"}').refusal == "It is not UTF-8 text: byte 18 cannot be read."


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
        ({**RECORD, "task": "x" * 30_000}, "at most 20,000 characters"),
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


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
def test_deep_json_is_refused(one, depth):
    found = one(b'{"messages": ' + b"[" * depth + b"]" * depth + b"}")
    assert found.refusal == "It nests deeper than 128 levels."


def test_numbers_that_json_does_not_have_are_refused(one):
    assert "not JSON" in one(b'{"messages": [], "reward": NaN}').refusal


def test_bomb_in_an_archive_is_refused(rows_of):
    log = eval_log({"1": b" " * (40 * 1024 * 1024)})
    assert len(log) < 100_000
    with pytest.raises(readers.BadFile, match="unpacks to too much"):
        rows_of(log)


def test_member_that_is_too_large_is_refused(rows_of, monkeypatch):
    monkeypatch.setattr(unpacking, "LINE_MAX", 1000)
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


SEEN = {"tool_result": "r", "data": {"a": 1}, "metadata": {"b": 1}, "done": False, "tool_name": "x", "reward": 0.5}
ACTED = {"action": {"tool_name": "x", "arguments": [7], "why": "w"}, "observation": SEEN, "took": 3}
VERIFIED = {"action": {"tool_name": "verify"}, "observation": {"task": TASK, "verify_result": {"r": 1}, "reward": 1.0}}
SPOKEN = {"role": "assistant", "content": "x", "name": "n", "refusal": "r", "audio": {"id": 1}, "annotations": [1]}
CALLED = {"role": "assistant", "tool_calls": [{**CALL, "index": 0, "function": {**CALL["function"], "strict": True}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "name": "get_ticket", "content": [{"text": "x", "cited": [1]}]}
AGENT = {"name": "a", "version": "1", "model_name": "m-1", "extra": {"parser": "json"}}
OBSERVED = {"results": [{"content": "c", "extra": {"c": 1}}], "extra": {"o": 1}}
TOLD = {"source": "agent", "message": "m", "extra": {"e": 1}, "llm_call_count": 2, "observation": OBSERVED}
LOSSES = {
    "awm": (
        {**AWM, "steps": [ACTED, VERIFIED], "notes": "n", "reward": None},
        {
            **{"field data of observations": 1, "field metadata of observations": 1, "field why of actions": 1},
            **{"field took of steps": 1, "field verify_result of verify": 1, "field notes": 1, "schemas of tools": 1},
            "arguments that are not a JSON object (kept as text)": 1,
        },
    ),
    "inspect": (
        {
            "eval": {**HEAD["eval"], "config": {"limit": 1}},
            "sample": {
                **{name: value for name, value in SAMPLE.items() if name != "events"},
                **{"metadata": {"m": 1}, "output": {"o": 1}, "model_usage": {"u": 1}, "choices": ["c"]},
                "scores": {"parts": {"value": {"a": 1}, "answer": "a", "metadata": {"reward_type": "x", "b": 1}}},
            },
        },
        {
            **{"field target": 1, "field metadata": 1, "field output": 1, "field model_usage": 1, "field choices": 1},
            **{"score that is not a number": 1, "reward type without a reward": 1, "field answer of scores": 1},
            **{"field b of metadata of scores": 1, "settings of the log": 1, "field type of errors": 1},
        },
    ),
    "atif": (
        {**ATIF, "agent": AGENT, "notes": "n", "extra": {"run": 1}, "steps": [ATIF["steps"][0], TOLD]},
        {
            **{"field extra of agent": 1, "field notes": 1, "field run of extra": 1, "field extra of steps": 1},
            **{"field llm_call_count of steps": 1, "field extra of observations": 1, "field extra of results": 1},
        },
    ),
    "swe_agent": (
        {
            **{**SWE, "replay_config": "{}", "history": [{**SWE["history"][2], "agent": "primary"}]},
            "trajectory": [{**SWE["trajectory"][0], "query": [1]}],
            "info": {"exit_status": "exit_cost", "submission": None, "model_stats": {"api_calls": 1}},
        },
        {
            **{"field replay_config": 1, "field agent of messages": 1, "field query of steps": 1},
            **{"field exit_status of info": 1, "field model_stats of info": 1},
        },
    ),
    "openai": (
        {"messages": [MESSAGES[1], SPOKEN, CALLED, RESULT], "seed": 1},
        {
            **{"field name of messages": 1, "field refusal of messages": 1, "field audio of messages": 1},
            **{"field annotations of messages": 1, "field index of calls": 1, "field strict of calls": 1},
            **{"field cited of parts of messages": 1, "field seed": 1},
        },
    ),
    "openenv": (
        {**OPENENV, "metrics": {}, "tool_trace": [], "verify_metrics": {"n": 1}, "extra": {"loss": [1]}, "notes": "n"},
        {"field n of verify_metrics": 1, "field loss of extra": 1, "field notes": 1},
    ),
    "tau_bench": (
        {**TAU, "info": "i", "notes": "n", "reward": "high"},
        {"field info": 1, "field notes": 1, "reward that is not a number": 1},
    ),
    "sft": (
        {**SFT, "reward_type": "", "phase": "warm", "task_idx": "third"},
        {"field phase": 1, "loss mask": 1, "reward without a reward type": 1, "task index": 1},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_fields_without_a_place_are_counted_as_lost(one, name):
    row, lost = LOSSES[name]
    found = one(row, name)
    assert not found.refusal and found.lost == lost


@pytest.mark.parametrize("name", ["openai", "atif", "awm", "swe_agent", "openenv"])
def test_fields_that_hold_nothing_are_no_loss(one, name):
    nothing = {"nothing": None, "blank": "", "list": [], "object": {}}
    inner = {"openai": "messages", "openenv": "messages", "swe_agent": "trajectory"}.get(name, "steps")
    row = ROWS[name]
    filled = {**row, **nothing, inner: [{**step, **nothing} for step in row[inner]]}
    assert one(filled, name).lost == one(row, name).lost


def test_names_of_lost_fields_are_bounded_and_readable(one):
    found = one({**OPENAI, "a\x00\ud800" + "b" * 100: 1, **{f"field{number:03}": 1 for number in range(300)}})
    assert found.lost[f"field a??{'b' * 57}"] == 1
    assert (len(found.lost), found.lost["further kinds"], sum(found.lost.values())) == (101, 201, 301)


def test_awm_keeps_a_result_beside_an_error_and_its_reward(one):
    seen = {"error": "late", "tool_result": "half", "reward": 0.5, "done": True}
    (step,) = steps_of(one({**AWM, "steps": [{"action": {"tool_name": "x", "arguments": [7]}, "observation": seen}]}))
    assert (step["error"], step["meta"]) == ("late", {"result_beside_error": "half"})
    assert (step["arguments"], step["reward"], step["done"]) == ({"_text": "[7]"}, 0.5, True)


def test_reward_of_verify_counts_where_the_row_has_none(one):
    found = one({**AWM, "steps": [ACTED, VERIFIED], "reward": None})
    assert found.trajectory.outcome.reward == 1.0


def test_subagents_of_atif_that_are_no_list_are_counted(one):
    found = one({**ATIF, "subagent_trajectories": 5})
    assert found.lost["trajectories of subagents"] == 1


def test_atif_keeps_another_model_and_the_effort(one):
    told = {**TOLD, "model_name": "m-2", "reasoning_effort": "high", "reasoning_content": "so"}
    same = {"source": "agent", "message": "m", "model_name": "m-1"}
    found = one({**ATIF, "steps": [ATIF["steps"][0], told, same]})
    turns = [step for step in steps_of(found) if step.get("role") == "assistant"]
    assert [step.get("meta") for step in turns] == [{"model_name": "m-2", "reasoning_effort": "high"}, None]
    assert turns[0]["reasoning"]["text"] == "so" and "reasoning" not in turns[1]
    assert found.trajectory.policy == {"name": "a", "version": "1", "model": "m-1"}


def test_swe_agent_keeps_response_and_time_of_a_step(one):
    said, done = steps_of(one({**SWE, "trajectory": [{**SWE["trajectory"][0], "execution_time": 0.2}]}))[-2:]
    assert (said["content"], said["meta"]) == ("I look.", {"response": "x"})
    assert done["meta"] == {"state": "{}", "execution_time": 0.2}


@pytest.mark.parametrize("name", ["openai", "atif", "tau_bench"])
def test_byte_order_mark_is_accepted(rows_of, name):
    mark = b"\xef\xbb\xbf"
    plain, marked = rows_of(text_of(name)), rows_of(mark + text_of(name))
    assert [(row.place, row.digest, row.refusal) for row in marked] == [(row.place, row.digest, "") for row in plain]
    if name == "openai":
        assert [row.refusal for row in rows_of(mark + text_of(name) * 2)] == ["", ""]
        assert [row.place for row in rows_of(mark + b"\n" + text_of(name) * 2)] == ["line 2", "line 3"]


def test_file_of_a_byte_order_mark_is_empty(rows_of):
    with pytest.raises(readers.BadFile, match="The file is empty"):
        rows_of(b"\xef\xbb\xbf")


def test_hostile_text_is_kept_inside_steps(one):
    text = "\ud800\x00\x1b[2J<script>\u202e"
    found = one({"messages": [MESSAGES[1], {"role": "assistant", "content": text}]})
    assert steps_of(found)[1]["content"] == text


@pytest.mark.parametrize(
    "said",
    [
        {"content": "Nine.", "reasoning_content": "It is 9."},
        {"content": "Nine.", "reasoning": "It is 9."},
        {"content": [{"type": "thinking", "thinking": "It is 9."}, {"type": "text", "text": "Nine."}]},
        {"content": [{"type": "reasoning", "reasoning": "It is 9."}, {"type": "text", "text": "Nine."}]},
        {"content": "Nine.", "reasoning_details": [{"type": "reasoning.text", "text": "It is 9."}]},
    ],
)
def test_reasoning_is_kept_in_every_form(one, said):
    found = one({"messages": [{"role": "user", "content": TASK}, {"role": "assistant", **said}]}, "openai")
    turn = steps_of(found)[-1]
    assert (turn["content"], turn["reasoning"]["text"]) == ("Nine.", "It is 9.")
    assert not [kind for kind in found.lost if "reasoning" in kind or "parts" in kind]


def test_reasoning_survives_our_own_rows(one):
    thought = [{**step} for step in STEPS]
    thought[2]["reasoning"] = {"text": "Look first.", "form": "field"}
    ((row,), _) = walk("sft", record(steps=thought))
    found = steps_of(one(row))
    assert [step["reasoning"]["text"] for step in found if "reasoning" in step] == ["Look first."]


def test_rows_of_the_newest_export_are_read(one):
    assert not one({**SFT, "schema_version": FORMATS["sft"].version}, "sft").refusal
