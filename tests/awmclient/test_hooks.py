"""Hooks of coding agents without a product: settings of tools, what decides, and what a hook loads."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from awmclient.__main__ import main
from awmclient.hooks import installing, running
from awmclient.hooks.desk import DeskAway, HookSettings, Refusal, settings_file
from awmclient.hooks.local import Terminal
from awmclient.hooks.session import WITHDRAWN, HookedSession
from awmclient.hooks.shown import DIFF_FROM, LINES_MAX, LISTED, PLACE, VALUE_MAX, bounded, context_of, unusual
from awmclient.hooks.tools import TOOLS, Event, PromptDecision, decision_of, wants

OTHERS = {
    "theme": "dark",
    "hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "format"}]}]},
}
APPROVED = {"calls": [{"id": "1", "verdict": "approve", "arguments": {"command": "ls"}}]}
PROBLEM_OF = installing._problem_of
CALL = Event("permission", "s", cwd="/work", name="Bash", arguments={"command": "ls"})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Settings of tools and hooks are in a folder of the test, and every desk can be reached."""
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("AWMWEB_TOKEN", "secret-token")
    monkeypatch.setattr(installing, "_problem_of", lambda settings: "")
    return tmp_path


@pytest.mark.parametrize("tool", ["claude-code", "codex"])
def test_install_and_uninstall_leave_other_settings(tool):
    file = TOOLS[tool].settings()
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(OTHERS))
    for _ in range(2):  # the second time replaces the first
        assert main(["hook", "install", tool, "--url", "https://desk", "--deadline", "90"]) == 0
    hooks = json.loads(file.read_text())["hooks"]
    assert [len(hooks[event]) for event in ("PermissionRequest", "PostToolUse")] == [1, 2]
    assert hooks["PermissionRequest"][0]["hooks"][0]["timeout"] > 90
    assert main(["hook", "status", tool]) == 0
    assert main(["hook", "uninstall", tool]) == 0 and json.loads(file.read_text()) == OTHERS
    assert main(["hook", "status", tool]) == 1 and not settings_file().exists()


def test_plugin_of_opencode_is_a_file_of_its_own(capsys):
    file = TOOLS["opencode"].settings()
    for _ in range(2):  # the second time replaces the first
        assert main(["hook", "install", "opencode", "--url", "https://desk"]) == 0
    text = file.read_text()
    assert '"hook", "run", "opencode"' in text and "secret-token" not in text
    assert main(["hook", "status", "opencode"]) == 0
    assert main(["hook", "uninstall", "opencode"]) == 0 and not file.exists() and not settings_file().exists()
    file.write_text("export const Other = 1")
    assert main(["hook", "install", "opencode", "--url", "https://desk"]) == 1
    assert file.read_text() == "export const Other = 1" and "Nothing was changed." in capsys.readouterr().err


def test_reply_to_opencode_is_never_for_always():
    verdicts = (PromptDecision(verdict, "person", {}) for verdict in ("approve", "reject"))
    replies = [TOOLS["opencode"].reply(CALL, verdict) for verdict in verdicts]
    assert replies == [{"reply": "once"}, {"reply": "reject", "message": "A person rejected this call."}]


def test_tool_without_a_hook_says_why(capsys):
    assert main(["hook", "install", "gemini", "--url", "https://desk"]) == 1
    assert "no hook that answers its prompt" in capsys.readouterr().err and not settings_file().exists()


def test_token_is_private_and_not_in_the_tools_settings(capsys):
    assert main(["hook", "install", "claude-code", "--url", "https://desk"]) == 0
    assert settings_file().stat().st_mode & 0o077 == 0 and HookSettings.load().token == "secret-token"
    assert "secret-token" not in TOOLS["claude-code"].settings().read_text() + capsys.readouterr().out
    assert "secret-token" not in repr(HookSettings.load())


def test_settings_keep_their_link_and_mode(home):
    file, target = TOOLS["claude-code"].settings(), home / "linked.json"
    file.parent.mkdir(parents=True)
    file.symlink_to(target)
    target.write_text("{}")
    target.chmod(0o640)
    assert (
        main(["hook", "install", "claude-code", "--url", "https://desk"]) == 0 and installing.MARK in target.read_text()
    )
    assert main(["hook", "uninstall", "claude-code"]) == 0
    assert file.is_symlink() and json.loads(target.read_text()) == {} and target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [("http://127.0.0.1:8000", True), ("http://localhost:8000", True), ("http://[::1]:8000", True),
     ("https://desk", True), ("http://desk", False), ("http://10.0.0.2:8000", False), ("HTTP://127.0.0.1.desk", False)],
)  # fmt: skip
def test_token_goes_to_no_other_machine_in_the_clear(url, is_taken, capsys):
    assert main(["hook", "install", "codex", "--url", url]) == (0 if is_taken else 1)
    assert ("use https:// for" in capsys.readouterr().err) is not is_taken is settings_file().exists()


def test_what_is_no_url_is_refused_in_words(capsys, monkeypatch):
    monkeypatch.setattr(installing, "_problem_of", PROBLEM_OF)
    assert main(["hook", "install", "codex", "--url", "http://[desk"]) == 1
    assert "Not installed" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["// with a comment\n{}", '{"hooks": {"Stop": {}}}', "[]"])
def test_settings_that_are_not_understood_stay(text, capsys):
    file = TOOLS["claude-code"].settings()
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert main(["hook", "install", "claude-code", "--url", "https://desk"]) == 1
    assert file.read_text() == text and "Nothing was changed." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "sent"),
    [
        ("claude-code", b"not JSON"),
        ("claude-code", b"[]"),
        ("claude-code", b'{"hook_event_name": "PermissionRequest"}'),
        ("claude-code", b'{"session_id": "s", "hook_event_name": "PermissionRequest", "tool_name": "Bash"}'),
        ("unknown", b"{}"),
    ],
)
def test_crash_decides_nothing_and_blocks_nothing(tool, sent, home):
    HookSettings("http://127.0.0.1:9", "t", {}).save()
    out = io.StringIO()
    assert running.run(tool, io.BytesIO(sent), out) == 0 and out.getvalue() == ""
    log = home / "XDG_STATE_HOME" / "awmclient" / "hook.log"
    assert "Traceback" in log.read_text() and log.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("view", "decides"),
    [
        ({"status": "answered", "advice": {"by": "person", "decision": APPROVED}}, True),
        ({"status": "answered", "advice": {"by": "standing", "decision": APPROVED}}, True),
        ({"status": "answered", "advice": {"by": "person", "behind": "person", "decision": APPROVED}}, True),
        ({"status": "answered", "advice": {"by": "person", "behind": "script", "decision": APPROVED}}, False),
        ({"status": "answered", "advice": {"by": "person", "behind": "model", "decision": APPROVED}}, False),
        ({"status": "answered", "advice": {"by": "standing", "behind": "script", "decision": APPROVED}}, False),
        ({"status": "answered", "advice": {"by": "model", "decision": APPROVED}}, False),
        ({"status": "answered", "advice": {"by": "timeout", "decision": APPROVED}}, False),
        ({"status": "open", "advice": {"by": "person", "decision": APPROVED}}, False),
        ({"status": "answered", "advice": {"by": "person", "text": "Yes"}}, False),
        ({"status": "answered", "advice": {"by": "person", "decision": {"calls": []}}}, False),
        ({"status": "answered", "advice": {"by": "person", "decision": {"calls": [{"verdict": "maybe"}]}}}, False),
        ({"status": "answered", "advice": {"by": "person", "decision": {"chosen": ["1"]}}}, False),
        ({"status": "cancelled"}, False),
    ],
)
def test_decision_needs_a_person_and_a_verdict(view, decides):
    assert (decision_of(CALL, view) is not None) is decides


class FakeDesk:
    """A desk whose answers are listed: each is a status or the error of one call."""

    def __init__(self, *answers):
        self.answers, self.sent = [*answers], []

    def call(self, method, path, body=None, wait_s=10.0):
        self.sent.append((path, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def session_of(desk, **state):
    session = HookedSession(TOOLS["claude-code"], CALL, desk)
    session.state = {"episode": "e", "last": 4, "pending": [], **state}
    return session


def test_ask_whose_answer_was_lost_is_sent_with_its_key():
    desk = FakeDesk(DeskAway("lost"), {"id": "a"})
    session = session_of(desk)
    assert session.open_ask({}) == "a" and session.state["last"] == 5
    assert desk.sent[0] == desk.sent[1] and desk.sent[0][1]["key"]
    with pytest.raises(DeskAway):
        session_of(FakeDesk(DeskAway("lost"), DeskAway("lost"))).open_ask({})


@pytest.mark.parametrize("heard", WITHDRAWN)
@pytest.mark.parametrize(
    ("answer", "notes"), [({"status": "cancelled"}, 1), ({"status": "answered"}, 0), (Refusal(404, "", ""), 0)]
)
def test_note_of_a_withdrawn_ask_needs_that_it_was(heard, answer, notes):
    session = session_of(FakeDesk(answer), asks={"a": ""})
    session.withdraw(["a"], heard)
    assert [step["content"] for step in session.state["pending"]] == [WITHDRAWN[heard]] * notes
    assert session.state["asks"] == {}


@pytest.mark.parametrize("kind", ["prompt", "answer"])
def test_decision_expires_when_its_turn_ends(kind):
    session = session_of(FakeDesk({}), decided={"digest": {}})
    running._record(session, Event(kind, "s", {}, text="Go on"))
    assert "decided" not in session.state


class StoppingDesk:
    """A desk during whose answer to a new ask the tool stops the hook."""

    def __init__(self):
        self.called = []

    def call(self, method, path, body=None, wait_s=0):
        self.called.append(path)
        if path == "/asks":
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # of a hook, which has one thread
        return {"id": "a", "status": "open"}


def test_ask_that_opens_while_its_hook_is_stopped_is_withdrawn(monkeypatch):
    before = signal.signal(signal.SIGTERM, running._stop)
    desk = StoppingDesk()
    try:
        with pytest.raises(SystemExit):
            running._ask(TOOLS["claude-code"], CALL, desk, 5)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert desk.called[-1] == "/asks/a/cancel"
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_lock_of_a_session_stays():
    for _ in range(2):
        with HookedSession(TOOLS["claude-code"], CALL, FakeDesk()) as session:
            lock = session._file.with_suffix(".lock")
            inode = lock.stat().st_ino
            session.state = {}
    assert lock.stat().st_ino == inode and not session._file.exists()


def test_older_result_of_an_equal_call_is_not_an_answer(tmp_path):
    def line(**block):
        return json.dumps({"message": {"content": [block]}}) + "\n"

    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text(line(**call, id="1") + line(type="tool_result", tool_use_id="1"))
    terminal = Terminal(CALL._replace(transcript=str(transcript)))
    with transcript.open("a") as opened:
        opened.write(line(type="text", text="One more time."))
    assert not terminal.has_answered()
    with transcript.open("a") as opened:
        opened.write(line(**call, id="2") + line(type="tool_result", tool_use_id="2"))
    assert terminal.has_answered()


def test_tool_that_takes_no_edit_asks_for_none():
    schema = wants(TOOLS["codex"], CALL)["calls"][0]["schema"]
    assert schema == {"const": {"command": "ls", PLACE: f"/work on {os.uname().nodename}"}}


def test_place_of_a_call_is_pinned_and_not_printed():
    here, there = (wants(TOOLS["claude-code"], CALL._replace(cwd=cwd))["calls"][0] for cwd in ("/work", "/other"))
    assert here["arguments"] != there["arguments"] and here["schema"]["properties"][PLACE] == {
        "const": here["arguments"][PLACE]
    }
    edited = {"id": "1", "verdict": "edit", "arguments": {**here["arguments"], "command": "ls -l"}}
    view = {"status": "answered", "advice": {"by": "person", "decision": {"calls": [edited]}}}
    decision = decision_of(CALL, view)
    assert decision is not None and decision.arguments == {"command": "ls -l"}
    with pytest.raises(ValueError, match=PLACE):
        wants(TOOLS["claude-code"], CALL._replace(arguments={PLACE: "/elsewhere"}))


def test_difference_and_signs_outside_ascii_are_shown(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/prices\n")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = context_of("Write", {"file_path": "a.txt", "content": "one\nthr\u0435e\n"}, str(tmp_path))
    assert f"Repository: {tmp_path}, branch prices" in text
    assert "-two\n+thr\u0435e" in text and "U+0435" in text
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    assert "-two\n+2" in context_of("Edit", edit, str(tmp_path))


def test_what_is_not_shown_is_said(tmp_path):
    assert unusual("".join(map(chr, range(0x400, 0x400 + LISTED))))[-1] == "U+0413"
    assert unusual("".join(map(chr, range(0x400, 0x401 + LISTED))))[LISTED:] == ["and others"]
    (tmp_path / "large.txt").write_text("x" * (DIFF_FROM + 1))
    (tmp_path / "link.txt").symlink_to("large.txt")
    many = context_of("Write", {"file_path": "new.txt", "content": "x\n" * (LINES_MAX + 1)}, str(tmp_path))
    assert "new.txt: 0 characters become 8,002" in many
    text = context_of("Write", {"file_path": "link.txt", "content": "x"}, str(tmp_path))
    assert f"Leads to: {tmp_path / 'large.txt'}\nlink.txt: not compared: larger than 1 MB" in text
    (tmp_path / "large.txt").unlink()
    assert f"Leads to: {tmp_path / 'large.txt'}" in context_of("Edit", {"file_path": "link.txt"}, str(tmp_path))


def test_names_with_line_breaks_fake_no_line(tmp_path):
    text = context_of("Write", {"file_path": "a\nMachine: b", "content": "x"}, "/work\nRepository: /b", "default\nx")
    assert text.startswith("Folder: '/work\\nRepository: /b'\n") and "Permission mode: 'default\\nx'" in text
    assert [line for line in text.splitlines() if line.startswith(("Machine: b", "Repository"))] == []


def test_long_results_are_cut():
    cut = bounded({"stdout": "x" * (VALUE_MAX + 1)})["stdout"]
    assert len(cut) < VALUE_MAX + 100 and cut.endswith("(cut, 100,001 characters)")


def test_hook_loads_no_large_package_and_no_module_of_its_folder(home):
    work = home / "work"
    (work / "awmclient").mkdir(parents=True)
    for file in ("json.py", "awmclient/__init__.py"):
        (work / file).write_text("raise SystemExit('a module of the folder was loaded')")
    python, *words = installing._program(TOOLS["claude-code"])
    assert installing.MARK in shlex.join(words)
    done = subprocess.run(
        [python, "-X", "importtime", *words], cwd=work, input="{}", env={**os.environ, "PYTHONPATH": "."},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and "KeyError" in (home / "XDG_STATE_HOME/awmclient/hook.log").read_text()
    large = {"httpx", "pydantic", "asyncio", "argparse", "difflib", "http.client", "dataclasses", "inspect"}
    assert not large & loaded and "awmclient.hooks.desk" in loaded


def test_installed_package_is_started_without_a_path(monkeypatch):
    root = str(Path(installing.__file__).parents[2])
    monkeypatch.setattr(installing.site, "getsitepackages", lambda: [root])
    words = installing._program(TOOLS["codex"])[1:]
    assert words == ["-I", "-m", "awmclient", "hook", "run", "codex"]
