"""Statements by which an environment server vouches for a session of an external loop, and signed questions.

Owns the format that server and dashboard share: the hash over a session's calls with their results, the statement, the
question, and their signatures (HMAC-SHA256 with a shared key). Standard library only.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

VERSION = 2
"""Of a statement. Those of version 1 had the loop's own reward, and could follow a world that was moved."""
QUESTION_VERSION = 1
QUESTION = b"awmenv.question"
FRESH_S = 120
"""Seconds for which a sent verifier is taken."""
RESERVED = frozenset({"verify", "done", "__list_scenarios__", "ask_expert"})
"""Names, spelled exactly so, that no scenario's tool has. Loops answer such calls, so neither side counts them."""
FIELDS = (
    "session", "scenario", "task_idx", "task_sha256", "verifier_sha256", "database_sha256", "trail_sha256",
    "reward_type", "reward",
)  # fmt: skip


class NotAttested(ValueError):
    """A statement that proves nothing; the message gives the reason."""


class Trail:
    """The hash over the calls of a session, in order, each with its arguments and its result or error."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.calls = 0

    def add(self, name: str, arguments: Any, result: Any = None, error: str | None = None) -> None:
        if name in RESERVED:
            return
        outcome = ["result", result] if error is None else ["error", error]
        # Canonical JSON has no line end inside, so two calls cannot be read as another one.
        self._digest.update(canonical([name, arguments, *outcome]).encode() + b"\n")
        self.calls += 1

    def sha256(self) -> str:
        return self._digest.hexdigest()


def is_loops_own(name: str, error: str | None) -> bool:
    """Return whether a recorded call can be one like `" Verify "` that our loops answer themselves."""
    return name.strip().casefold() in RESERVED and error == f"Unknown tool: {name}"


def canonical(value: Any) -> str:
    """Return JSON with sorted keys in ASCII: the same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def sha256_of(text: str | None) -> str:
    """Return the digest of a text; "" for an empty one."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def signed(key: str, statement: Mapping[str, Any]) -> dict[str, str]:
    """Return a signed statement: its text and the signature of exactly that text."""
    text = canonical({"version": VERSION, **statement})
    return {"statement": text, "signature": _signature(key, text)}


def opened(key: str, attestation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of a signed statement. Raises `NotAttested` for any other text."""
    text, signature = attestation.get("statement"), attestation.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str):
        raise NotAttested("the attestation has no statement and signature")
    try:
        expected = _signature(key, text)
        is_ours = hmac.compare_digest(expected.encode(), signature.encode())
    except UnicodeEncodeError:
        is_ours = False
    if not is_ours:
        raise NotAttested("the signature is not by an environment server that shares this dashboard's key")
    statement = json.loads(text)
    if statement.get("version") != VERSION or not all(name in statement for name in FIELDS):
        raise NotAttested("the statement has another version")
    contents: dict[str, Any] = statement
    return contents


def question(key: str, about: Mapping[str, Any]) -> dict[str, str]:
    """Return a signed question of the dashboard to a server that shares its key.

    Its signature is of another kind than a statement's, so that neither is accepted as the other.
    """
    text = canonical({"version": QUESTION_VERSION, "at": int(time.time()), **about})
    return {"question": text, "signature": _signature(key, text, QUESTION)}


def asked(key: str, body: Any) -> dict[str, Any]:
    """Return the contents and time (`at`) of a signed question. Raises `NotAttested` for any other text."""
    text, signature = (body.get("question"), body.get("signature")) if isinstance(body, Mapping) else (None, None)
    # Beyond ASCII the signature and `compare_digest` would raise.
    if not isinstance(text, str) or not isinstance(signature, str) or not (text + signature).isascii():
        raise NotAttested("a question has a text and a signature")
    if not hmac.compare_digest(_signature(key, text, QUESTION), signature):
        raise NotAttested("the signature is not by a dashboard that shares this server's key")
    contents: dict[str, Any] = json.loads(text)
    if contents.pop("version", None) != QUESTION_VERSION or type(contents.get("at")) is not int:
        raise NotAttested("the question has another version")
    return contents


def sent_verifier(key: str, body: Any) -> str:
    """Return the code of a verifier that a dashboard sent, signed as a question. Raises `NotAttested`."""
    contents = asked(key, body)
    if set(contents) != {"at", "verifier"} or not isinstance(contents["verifier"], str):
        raise NotAttested("a sent verifier is a question with its code")
    if abs(time.time() - contents["at"]) > FRESH_S:
        raise NotAttested("the verifier was sent too long ago, or the clocks of server and dashboard differ")
    return str(contents["verifier"])


def _signature(key: str, text: str, kind: bytes = b"awmenv.attestation") -> str:
    # The kind is a part of what is signed, so no statement passes for a question.
    return hmac.new(key.encode(), kind + b"\0" + text.encode("ascii"), hashlib.sha256).hexdigest()
