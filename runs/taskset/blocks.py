"""Tasks with a blocker, made from a task of a pack: one value is taken out of its text, and only a registry has it.

Owns which values can be taken out, the variants of a value, and the rows of the new tasks. Pure: nothing runs,
and every text is a stranger's, so none of them becomes a pattern. `play.blocking` proves what this makes.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from awmenv.blockers import MAX_TERM, MAX_WORDS, BadRegistry, Blocker, holds, read_blockers, words_of
from awmenv.packs import Mode, Pack

Turn = dict[str, Any]
ORACLE = "oracle"
TEXT_CHARS, NUMBER_DIGITS = 4, 3
"""A shorter text without a digit, or a shorter number, is not distinctive: it can be guessed."""
QUOTES = "\"'`“”‘’«»"
BEFORE = 4
"""The words in front of a value, of which those that say what it is become terms."""
EMPTY = frozenset(
    {"a", "an", "the", "this", "that", "these", "those", "with", "exactly", "is", "are", "to", "of", "on", "in"}
    | {"it", "its", "for", "and", "or", "at", "by", "as", "her", "his", "new", "following", "says", "reads"}
)
ALSO = {
    "phone": ("telephone", "phone number", "mobile"),
    "body": ("words", "wording", "text", "message", "reply"),
    "text": ("words", "wording", "message", "note"),
    "amount": ("sum", "price", "how much"),
    "email": ("e-mail", "mail address"),
    "quantity": ("how many", "number"),
    "date": ("when", "day"),
}
"""Other words for the name of an argument."""


@dataclass(frozen=True)
class Fact:
    """A value of a writing call of the oracle that the task's text has."""

    scenario: str
    task_idx: int
    argument: str
    tool: str
    value: str | int | float
    first: int
    """The number of the first turn that uses it."""

    @property
    def text(self) -> str:
        return str(self.value)

    @property
    def name(self) -> str:
        return " ".join(self.argument.replace("_", " ").split()) or "value"


@dataclass(frozen=True)
class BlockedTask:
    """A task without the fact, with the new `value` that its oracle and verifier use."""

    fact: Fact
    value: str | int | float
    text: str
    oracle: list[Turn]
    """The oracle with the new value, as it would act if it knew it."""
    rows: dict[str, dict[str, Any]]
    """Its rows by file, without scenario and task_idx."""


def facts_of(pack: Pack, scenario: str, task_idx: int, wrote: Sequence[bool]) -> Iterator[Fact | str]:
    """Yield the facts of a task that can be taken out, and the reason for each value that cannot.

    `wrote` says of each turn of the oracle whether its call changed rows.
    """
    text, turns = pack.tasks(scenario)[task_idx], pack.scripts(scenario, task_idx).get(ORACLE, [])
    seen: set[str] = set()
    for turn, writes in zip(turns, wrote, strict=True):
        call = turn.get("call") if writes else None
        for argument, value in (call or {}).get("arguments", {}).items():
            if not isinstance(value, str | int | float) or isinstance(value, bool) or not holds(text, str(value)):
                continue
            if str(value) in seen:
                continue
            seen.add(str(value))
            first = next(number for number, one in enumerate(turns) if _uses(one, value))
            fact = Fact(scenario, task_idx, str(argument), str(call["name"]) if call else "", value, first)
            yield _unfit(fact, text) or fact


def _unfit(fact: Fact, text: str) -> str:
    """Return why a value cannot be taken out of the text; "" if it can."""
    words, is_text = fact.text, isinstance(fact.value, str)
    if len(words) > MAX_WORDS // 2:
        return "the value is too long"
    has_digit = any(char.isdecimal() for char in words)
    if (is_text and len(words) < TEXT_CHARS and not has_digit) or (
        not is_text and sum(char.isdecimal() for char in words) < NUMBER_DIGITS
    ):
        return "the value is too short to be distinctive"
    if is_text and _is_number(words):
        return "the value is a number as a text, which a script would send as a number"
    if not words.isascii():
        return "the value is not ASCII"
    return "" if not holds(_without(text, fact), words) else "the text says the value in other words, too"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _uses(turn: Any, value: Any) -> bool:
    if isinstance(turn, Mapping):
        return any(_uses(one, value) for one in turn.values())
    if isinstance(turn, list):
        return any(_uses(one, value) for one in turn)
    return bool(turn == value and type(turn) is type(value)) or (isinstance(turn, str) and holds(turn, str(value)))


def _pattern(value: str) -> re.Pattern[str]:
    """Return the value as a pattern of whole words, in any case and spacing. The value is escaped."""
    parts = r"\s+".join(re.escape(part) for part in value.split())
    return re.compile(rf"(?<!\w){parts}(?!\w)", re.IGNORECASE)


def _without(text: str, fact: Fact) -> str:
    """Return the task's text with every occurrence of the value, and the quotes around it, replaced by its name."""
    parts, at = [], 0
    for match in _pattern(fact.text).finditer(text):
        begin, end = match.span()
        quoted = begin > 0 and end < len(text) and text[begin - 1] in QUOTES and text[end] in QUOTES
        begin, end = (begin - 1, end + 1) if quoted else (begin, end)
        # the full stop of a quoted sentence was that of the text as well
        stop = "." if quoted and text[end - 2] in ".!?" and re.match(r"\s+[A-Z]|\s*$", text[end:]) else ""
        parts += [text[at:begin], f"the right {fact.name}{stop}"]
        at = end
    return "".join([*parts, text[at:]])


def variants(fact: Fact, n: int, seed: int) -> list[str | int | float]:
    """Return `n` other values of the same shape: digits are drawn by the seed, and a text without digits gets a
    reference number. Fewer if the shape has no more."""
    draw = random.Random(f"{seed}/{fact.scenario}/{fact.task_idx}/{fact.argument}/{fact.text}")  # noqa: S311
    by_text: dict[str, str | int | float] = {}
    for _ in range(20 * n):
        if len(by_text) == n:
            break
        new = _redrawn(fact.value, draw)
        if str(new) != fact.text:
            by_text[str(new)] = new
    return list(by_text.values())


def _redrawn(value: str | int | float, draw: random.Random) -> str | int | float:
    text = str(value)
    if not any(char.isdecimal() for char in text):
        return f"{text} Ref {draw.randrange(10_000, 100_000)}"
    new, begins = "", True
    for char in text:
        if char.isdecimal():
            # a leading zero stays, as in a telephone number; another leading digit is never one
            new += char if begins and char == "0" else draw.choice("123456789" if begins else "0123456789")
        else:
            new += char
        begins = not char.isdecimal()
    return type(value)(new) if not isinstance(value, str) else new


def blocked(pack: Pack, fact: Fact, value: str | int | float) -> BlockedTask | str:
    """Return the task without the fact and with another value, or the reason why it cannot be made."""
    name, idx = fact.scenario, fact.task_idx
    text = _without(pack.tasks(name)[idx], fact)
    swap = _swapping(fact.text, str(value))
    rows: dict[str, dict[str, Any]] = {}
    named = False
    files: tuple[tuple[Mode, str], ...] = (("sql", "gen_verifier.jsonl"), ("code", "gen_verifier.pure_code.jsonl"))
    for mode, file in files:
        verifier = pack.verifier(name, idx, mode)
        if verifier is None:
            continue
        code, raw = swap(verifier.code), _in_json(verifier.raw_response, swap)
        named = named or code != verifier.code or (mode == "sql" and raw != verifier.raw_response)
        rows[file] = {"task": text, "verification": {"code": code, "raw_response": raw}}
    if not named:
        return "the verifier does not name the value"
    turns = pack.scripts(name, idx)[ORACLE]
    oracle = _put(turns, fact.value, value)
    if oracle == turns:
        return "the oracle does not send the value as it is written"
    registry = _registry(pack.tasks(name)[idx], fact, value)
    known_blockers = [_as_row(one) for one in pack.blockers(name, idx)]
    while registry["id"] in {one["id"] for one in known_blockers}:
        registry["id"] += "-2"
    about = pack.about(name, idx)
    note = "\n\n".join(filter(None, (about.get("expert_note"), registry["answer"])))
    about = {**about, "needs_expert": True, "kind": "normal", "expert_note": note}
    rows["scripts.jsonl"] = {"about": about, "scripts": _scripts(turns, fact, value, registry["questions"][0])}
    rows["blockers.jsonl"] = {"blockers": [*known_blockers, registry]}
    try:
        read_blockers(rows["blockers.jsonl"]["blockers"], text)
    except BadRegistry as refused:
        return f"its registry is refused: {refused}"
    return BlockedTask(fact, value, text, oracle, rows)


def _swapping(before: str, after: str) -> Callable[[str], str]:
    """Return a function that replaces a value in code and prose, also as bare digits."""
    pairs = [(_pattern(before), after)]
    bare = "".join(filter(str.isdecimal, before))
    if bare != before and len(bare) >= NUMBER_DIGITS and bare.isdecimal():
        pairs.append((_pattern(bare), "".join(filter(str.isdecimal, after))))

    def swapped(text: str) -> str:
        for pattern, new in pairs:
            text = _swap(pattern, new, text)
        return text

    return swapped


def _swap(pattern: re.Pattern[str], new: str, text: str) -> str:
    # a function: in a replacement text a backslash would mean something
    return pattern.sub(lambda _: new, text)


def _in_json(raw: str, swap: Callable[[str], str]) -> str:
    """Return a raw response with the value replaced in each of its texts."""
    try:
        response = json.loads(raw)
    except (ValueError, RecursionError):
        return swap(raw)
    if not isinstance(response, dict):
        return swap(raw)
    new = {key: swap(one) if isinstance(one, str) else one for key, one in response.items()}
    return json.dumps(new, ensure_ascii=False) if new != response else raw


def _put(turn: Any, before: str | int | float, after: Any) -> Any:
    """Return turns with the value replaced, where it is a whole value or part of a text."""
    if isinstance(turn, Mapping):
        return {key: _put(one, before, after) for key, one in turn.items()}
    if isinstance(turn, list):
        return [_put(one, before, after) for one in turn]
    if turn == before and type(turn) is type(before):
        return after
    return _swap(_pattern(str(before)), str(after), turn) if isinstance(turn, str) else turn


def without_argument(turns: list[Turn], value: Any) -> list[Turn]:
    """Return turns whose calls leave out each argument that has the value."""
    kept_turns = []
    for turn in turns:
        call = turn.get("call")
        if call:
            kept = {key: one for key, one in (call.get("arguments") or {}).items() if not _uses(one, value)}
            turn = {**turn, "call": {**call, "arguments": kept}}
        kept_turns.append(turn)
    return kept_turns


def with_value(turns: list[Turn], before: str | int | float, after: Any) -> list[Turn]:
    """Return turns that send another value."""
    changed: list[Turn] = _put(turns, before, after)
    return changed


def _scripts(turns: list[Turn], fact: Fact, value: str | int | float, question: str) -> dict[str, list[Turn]]:
    """Return an oracle that asks and listens for the fact, and a script that acts on the value that is no longer so."""
    ended = {"answer": f"I did not finish: the task does not say the {fact.name}, and no one told me."}
    ask = {
        "say": f"The task does not say the {fact.name}. I ask.",
        "ask": {"question": question, "context": ""},
        "listen": {"fact": _listened(str(value))},
        "advised": _put(turns[fact.first :], fact.value, "{{fact}}"),
        "unadvised": [ended],
        "after": [{"answer": "I did what the advice said."}],
    }
    return {ORACLE: [*turns[: fact.first], ask], "negative": turns}


def _listened(value: str) -> str:
    """Return a pattern for a value of this shape, as one group."""
    return "(" + "".join(r"\d" if char.isdecimal() else re.escape(char) for char in value) + ")"


def _as_row(blocker: Blocker) -> dict[str, Any]:
    """Return a blocker that the task has already, as a row holds it."""
    row: dict[str, Any] = json.loads(json.dumps(asdict(blocker)))
    return {key: value for key, value in row.items() if key != "task" and (key != "fact" or value)}


def _registry(text: str, fact: Fact, value: str | int | float) -> dict[str, Any]:
    match = _pattern(fact.text).search(text)
    before = words_of(text[: match.start()] if match else "").split()[-BEFORE:]
    # of the tool's own name every question about the task has a word
    common = EMPTY | set(words_of(fact.tool.replace("_", " ")).split())
    words = [word for word in before if word not in common and len(word) > 2][-2:]
    names = [fact.name, *fact.name.split(), *words]
    for name in (fact.argument, *fact.name.split()):
        names += ALSO.get(name.casefold(), ())
    terms = list(dict.fromkeys(one.casefold()[:MAX_TERM] for one in names if words_of(one).strip()))[:20]
    return {
        "id": re.sub(r"[^a-z0-9]+", "-", fact.argument.casefold()).strip("-")[:60] or "value",
        "missing": f"The {fact.name} that {fact.tool} needs."[:MAX_WORDS],
        "holder": "Who gave the task",
        "terms": [terms],
        "questions": [f"What is the right {fact.name}?"[:MAX_WORDS]],
        "answer": f"The right {fact.name}: {value}",
        "fact": str(value),
    }
