"""The log's lines cannot be forged by what a scenario, an agent or a pack says, and no terminal obeys them."""

import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from awmenv.client import EnvironmentClient
from awmenv.errors import ResetFailed
from awmenv.server.logs import MAX_RECORD, RecordFormatter, shown
from tests.awmenv.conftest import Server
from tests.awmenv.hostile_packs import RUN_CODE, pack

FORGED = "2026-01-01 00:00:00,000 INFO awmenv: all is well"
OBEYED = "\x1b[2J\x1b]0;owned\x07\r\x08\x00\x7f\x9b31m\x85\u2028\u2029\u202egnp.exe\u2066\u200f\ufeff\U000e0041"


def line(text: str, *arguments: object) -> str:
    return RecordFormatter().format(logging.LogRecord("awmenv", logging.WARNING, "", 0, text, arguments, None))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_logs_keep_what_looks_like_a_line_inside_its_record(newline: str) -> None:
    said = line("scenario %s", f"x{newline}{FORGED}{newline}{newline}y")
    assert len(re.findall(r"^\d{4}-", said, re.MULTILINE)) == 1
    assert all(part.startswith("    | ") for part in said.splitlines()[1:])


def test_logs_show_what_a_terminal_would_obey_as_codes() -> None:
    said = line(OBEYED)
    assert all(char.isprintable() for char in said), ascii(said)
    assert "\\x1b[2J" in said and "\\u202e" in said


def test_logs_leave_words_of_all_scripts_as_they_are() -> None:
    text = "Größe 漢字 العربية \U0001f600 tab\there"
    assert shown(text) == text


def test_logs_cut_a_record_that_is_long() -> None:
    said = line("%s", "a" * 10 * MAX_RECORD)
    assert len(said) < MAX_RECORD + 100 and "more characters" in said


def test_logs_take_half_a_character_and_a_traceback() -> None:
    try:
        raise ValueError(f"\ud800 x\n{FORGED}")
    except ValueError as error:
        record = logging.LogRecord("awmenv", logging.ERROR, "", 0, "failed", (), (ValueError, error, None))
    assert f"\n    | {FORGED}" in RecordFormatter().format(record)
    RecordFormatter().format(record).encode()


async def test_scenario_and_agent_text_cannot_forge_log_lines(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    loud = f"raise RuntimeError({FORGED + chr(10) + OBEYED + chr(10) + FORGED!r})"
    folder = pack(pack(tmp_path / "pack", RUN_CODE, "open_1"), loud, "loud")
    server = make_server(folder)
    async with EnvironmentClient(server.url) as env:
        with pytest.raises(ResetFailed):
            await env.reset(scenario="loud")
        await env.reset(scenario="open_1")
        code = f"def verify_task_completion(a, b):\n    {loud}\n"
        assert (await env.call_tool("run_code", {"code": code})).reward_type == "server_error"
    server.process.terminate()
    said = server.process.stdout.read() if server.process.stdout else ""
    assert said.count(FORGED) >= 2, "it is told, to those who look for it"
    assert not re.search(f"^{FORGED}", said, re.MULTILINE)
    assert all(char.isprintable() or char == "\n" for char in said)
