"""Sessions of Claude Code and Codex, and trials of Harbor: what becomes a step, a note or a counted loss."""

from __future__ import annotations

import json
import time

import pytest

from imports import readers
from imports.readers import containers, sessions
from imports.readers.containers import BadFile, trials_of
from imports.readers.found import TrajectoryDraft
from tests.imports.files import CLAUDE_CODE, CODEX, TASK, TRIAL, archive, text_of, trial_files


@pytest.fixture
def read(tmp_path):
    def inner(content, wanted=""):
        path = tmp_path / "file"
        path.write_bytes(content)
        return list(readers.read(path, wanted))

    return inner


def lines_of(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def steps_of(found):
    return [step.model_dump(exclude_unset=True) for step in found.trajectory.steps]


def test_claude_code_message_of_many_lines_is_one_turn(read):
    (found,) = read(text_of("claude-code"))
    steps = steps_of(found)
    kinds = [(step["kind"], step.get("role") or step.get("name"), step.get("turn")) for step in steps]
    assert kinds == [
        ("message", "user", None),
        ("message", "assistant", 1),
        ("message", "assistant", 1),
        ("tool_call", "get_ticket", 1),
        ("tool_call", "get_ticket", 1),
        ("message", "assistant", 2),
        ("note", None, None),
    ]
    assert steps[1]["reasoning"]["text"] == "Both first."
    assert (steps[3]["result"], steps[4]["error"]) == ("ticket 7", "no such ticket")
    assert steps[3]["meta"]["tool_use_result"]["stderr"] == "slow"
    assert (steps[1]["usage"]["prompt_tokens"], "usage" in steps[3]) == (10, False)
    assert found.trajectory.policy == {"name": "claude-code", "version": "2.1.0", "model": "m-1"}
    assert (found.trajectory.final_answer, found.lost) == ("Merged into 7.", {"lines of type summary": 1})


def test_claude_code_lines_of_subagents_are_counted(read):
    beside = {**CLAUDE_CODE[3], "isSidechain": True}
    (found,) = read(lines_of([*CLAUDE_CODE, beside]))
    assert found.lost["lines of subagents in the same file"] == 1
    # the file of a subagent has nothing else
    (alone,) = read(lines_of([{**one, "isSidechain": True, "agentId": "a1"} for one in CLAUDE_CODE[1:]]))
    assert len(steps_of(alone)) == 7


def test_claude_code_task_is_what_a_person_asked(read):
    first = {**CLAUDE_CODE[1], "isMeta": True, "message": {"role": "user", "content": "Caveat: commands follow."}}
    (found,) = read(lines_of([first, *CLAUDE_CODE[1:]]))
    assert found.trajectory.task == TASK


def test_claude_code_summary_is_no_word_of_a_person(read):
    marks = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    words = "This session is being continued from a previous conversation."
    summary = {**CLAUDE_CODE[1], **marks, "message": {"role": "user", "content": words}}
    (found,) = read(lines_of([summary, *CLAUDE_CODE[1:]]))
    assert found.trajectory.task == TASK
    step = steps_of(found)[0]  # the model has read it, so it stays where it was
    assert (step["role"], step["content"]) == ("user", words)
    assert step["meta"] == {"is_compact_summary": True, "is_visible_in_transcript_only": True}
    assert "task that a person typed (the first message is taken)" not in found.lost


def test_session_without_a_word_of_a_person_says_so(read):
    own = {**CLAUDE_CODE[1], "isCompactSummary": True}
    (found,) = read(lines_of([own, *CLAUDE_CODE[2:]]))
    assert (found.trajectory.task, found.lost["task that a person typed (the first message is taken)"]) == (TASK, 1)


@pytest.mark.parametrize(
    "own",
    [
        "<environment_context>\n<cwd>/desk</cwd>\n</environment_context>",
        "# AGENTS.md instructions for /desk\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>",
        "Another language model started to solve this problem and produced a summary of its thinking process.",
    ],
)
def test_codex_task_is_found_without_events(read, own):
    first = json.loads(json.dumps(CODEX[1]).replace("<environment_context/>", json.dumps(own)[1:-1]))
    lines = [CODEX[0], first, *(one for one in CODEX[2:] if one["type"] != "event_msg")]
    (found,) = read(lines_of(lines))
    assert (found.trajectory.task, len(steps_of(found))) == (TASK, 7)
    assert steps_of(found)[1]["content"] == own


def test_codex_event_goes_before_an_item(read):
    """An item can have the program's words around those of a person."""
    around = json.loads(json.dumps(CODEX[2]).replace(TASK, f"# Files of the editor: {TASK}"))
    (found,) = read(lines_of([*CODEX[:2], around, *CODEX[3:]]))
    assert found.trajectory.task == TASK


def test_codex_events_repeat_and_others_are_notes(read):
    (found,) = read(text_of("codex"))
    steps = steps_of(found)
    assert [step["kind"] for step in steps] == [
        *("message", "message", "message", "message", "tool_call", "tool_call", "message", "note"),
    ]
    assert steps[3]["reasoning"]["text"] == "Both first."
    assert [step.get("turn") for step in steps[3:7]] == [1, 1, 1, 2]
    assert (steps[4]["result"], steps[5]["error"]) == ("ticket 7", "no such ticket")
    assert steps[7]["content"].startswith("turn_aborted")
    assert found.trajectory.task == TASK
    assert found.trajectory.policy["model"] == "m-1"


def test_codex_file_without_wrappers_is_read(read):
    head = {"id": "s1", "timestamp": "2026-03-01T12:00:00Z", "instructions": None}
    items = [one["payload"] for one in CODEX if one["type"] == "response_item"]
    (found,) = read(lines_of([head, *items]))
    assert (found.format, found.refusal, len(steps_of(found))) == ("codex", "", 6)


def test_broken_line_refuses_a_session(read):
    found = read(lines_of(CLAUDE_CODE) + b"{broken")
    assert [one.place for one in found if one.refusal] == ["line 11"]


def test_session_beyond_the_limit_of_a_row_is_refused(read, monkeypatch):
    size = len(text_of("codex"))
    monkeypatch.setattr(readers, "LINE_MAX", size)
    assert len(read(text_of("codex"))) == 1
    monkeypatch.setattr(readers, "LINE_MAX", size - 1)
    with pytest.raises(BadFile, match="Codex session has at most"):
        read(text_of("codex"))


def folder_of(path, trials):
    for folder, trial in trials.items():
        for name, content in trial_files(trial).items():
            (path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (path / folder / name).write_bytes(content)
    return path


def test_harbor_folder_and_archive_are_the_same_trials(read, tmp_path):
    trials = {"merge__1": TRIAL, "merge__2": {"result": TRIAL["result"]}}
    folder = folder_of(tmp_path / "job", trials)
    (folder / "result.json").write_text("{}")
    (folder / "config.json").write_text("{}")
    ways = [list(readers.read(folder)), read(archive(trials)), list(readers.read(folder / "merge__1"))]
    assert [len(one) for one in ways] == [2, 2, 1]
    for found in ways:
        one = found[0].trajectory
        assert (one.scenario, one.environment, one.outcome.reward, one.state) == ("merge", "harbor", 1.0, "finished")
        assert "solution" not in one.model_dump_json()
    bare = ways[0][1]
    assert bare.trajectory.outcome.reward == 1.0
    assert bare.lost["steps of a trial without a trajectory"] == 1


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("AgentTimeoutError", ("finished", None, "timeout")),
        ("RuntimeError", ("failed", "environment", "error")),
        ("APIConnectionError", ("failed", "model", "error")),
    ],
)
def test_harbor_exception_is_the_end_of_its_trial(read, kind, end):
    error = {"exception_type": kind, "exception_message": "refused", "exception_traceback": "x"}
    (found,) = read(archive({"t": {**TRIAL, "result": {**TRIAL["result"], "exception_info": error}}}))
    one = found.trajectory
    assert (one.state, one.fault, one.stop_reason) == end


def test_folder_without_a_trial_is_refused(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(BadFile, match="no trial of Harbor"):
        list(readers.read(tmp_path))


def test_trials_are_found_at_their_own_depth():
    files = ("result.json", "config.json", "agent/trajectory.json")
    one = {f"a/b/{name}" for name in files}
    assert trials_of(one) == ["a/b/"]
    assert trials_of({f"x/y/z/q/{name}" for name in files}) == []
    assert trials_of({*one, "a/b/artifacts/result.json", "a/b/artifacts/config.json"}) == ["a/b/"]


def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("name", ["results", "trials", "steps of trials"])
def test_time_grows_with_the_size_of_a_file(name):
    def of(size):
        if name == "results":
            parts = [{"type": "tool_result", "tool_use_id": str(one), "content": "x"} for one in range(size)]
            line = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": parts}}
            return lambda: sessions.read_claude({"lines": [CLAUDE_CODE[1], line]}, TrajectoryDraft())
        names = {f"t{one}/{file}" for one in range(size) for file in ("result.json", "config.json")}
        if name == "trials":
            return lambda: trials_of(names)
        trials, raw = [f"t{one}/" for one in range(size)], b"{}"
        return lambda: list(containers._of_trials(trials, names, set(), lambda _: raw, containers.Repeats()))

    # what is quadratic takes 256 times as long
    assert seconds(of(16_000)) < 80 * max(min(seconds(of(1_000)) for _ in range(3)), 0.004)


@pytest.mark.parametrize("kind", [["session_meta"], {"a": 1}, None, 7])
def test_type_that_is_no_text_is_no_session(read, kind):
    (found,) = read(json.dumps({"type": kind, "payload": {}}).encode())
    assert found.refusal.startswith("Unknown format")
