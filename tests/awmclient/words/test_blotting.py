"""What an endpoint was sent and sends back is blotted out in every spelling, and nothing else is touched."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from awmclient.words.blotting import MARK, blot, blotted, secrets_of
from tests.awmclient.spellings import spellings

ROOT = Path(__file__).resolve().parents[3]
SECRETS = [
    "sk-aB3/+x9_Secret-77",
    "hunter2!",
    "abcdef",
    'a-tenant\'s "own" line',
    "schlüssel-ß-1",
    "%41-100%-safe",
    "x\\yz\\99",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_blotted_in_every_spelling(secret: str) -> None:
    for one in spellings(secret):
        left = blot(one.text, [secret])
        assert left.startswith(one.before) and left.endswith(one.after), f"{one.name}: {left}"
        inside = left[len(one.before) : len(left) - len(one.after)]
        rest = inside.replace(MARK, "").rstrip("=").replace("%3D", "")
        assert MARK in inside and len(rest) <= (2 if "base64" in one.name else 0), f"{one.name}: {left}"


def test_words_around_a_secret_stay_as_they_were() -> None:
    text = 'a %41 \\u0041 "\\n" ü 😀 \ud800 &amp; c2VjcmV0 '
    assert blot(f"{text}sk-one-two{text}", ["sk-one-two"]) == f"{text}{MARK}{text}"
    assert blot(text, ["sk-one-two"]) == text
    assert blot("Bearer tok-abcdef", ["Bearer tok-abcdef", "tok-abcdef"]) == MARK


def test_all_texts_of_a_json_value_are_blotted() -> None:
    secret = "12345678"
    value = {"a": [f"x{secret}", {secret: None}], "n": 12345678, "f": 12345678.5, "ok": True, "none": None, "m": 7}
    assert blotted(value, [secret]) == {
        "a": [f"x{MARK}", {MARK: None}], "n": MARK, "f": MARK, "ok": True, "none": None, "m": 7,
    }  # fmt: skip


def test_arguments_of_a_call_stay_json_when_a_secret_is_blotted() -> None:
    secret = 'sk-with-"quotes"-and-\\'
    for one in spellings(secret):
        arguments = json.dumps({"note": one.text, "n": 1})
        assert json.loads(blot(arguments, [secret]))["n"] == 1, one.name


def test_secrets_include_headers_and_query_not_plain_words() -> None:
    headers = {"Authorization": "Bearer tok-abcdef", "X-Team": "blue", "Accept": "application/json"}
    query = {"api-version": "2024-10-21", "preview": "2025-01-01-preview", "code": "a-code-of-ours"}
    assert secrets_of("sk-123456", headers, query) == {"sk-123456", "Bearer tok-abcdef", "tok-abcdef", "a-code-of-ours"}
    assert blot("any text", secrets_of("", {}, {})) == "any text"


@pytest.mark.parametrize(
    "piece",
    ["x", "%41", "\\u0041", "\\", "%25", "&amp;", "%", "&#", "sk-aB3/+x9_Secret-7", "sk-aB3/+x9_Secret-77", "c2st"],
)
def test_blotting_takes_time_in_proportion_to_the_text(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    started = time.process_time()
    blot(text, ["sk-aB3/+x9_Secret-77", "another-secret-1", "aaaaaaaaaaaa"])
    assert time.process_time() - started < 3  # 0.3 s where it was written


def test_the_environment_server_blots_by_the_same_code() -> None:
    """One file: neither package may import the other, so the client has a link, and its wheel the file itself."""
    assert (ROOT / "awmclient" / "words" / "blotting.py").resolve() == ROOT / "awmenv" / "server" / "blotting.py"


def test_words_that_say_who_asks_are_no_secrets() -> None:
    headers = {
        "HTTP-Referer": "https://example.org",
        "X-Title": "Retail orders",
        "X-Team": "The orders",
        "X-Key": "Key abc-12345",
    }
    assert secrets_of("ollama", headers, {}) == {"The orders", "Key abc-12345", "abc-12345"}
    assert blot("list_orders at Ollama", secrets_of("ollama", headers, {})) == "list_orders at Ollama"
