"""Messages and tools of an export row, or of a request, as the few tokens that a tiny model can learn.

Owns the short template, the way back from generated words to a call, the tokenizer, and the redrawing of names and
numbers. A result is told as its values without keys, and a call as its values in the schema's order.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from examples.train_demo.worlds import FIRST, IDS, ITEMS, last_name

PAD, TASK, ASK, SAY, END, GOT = MARKS = ("<pad>", "<task>", "<ask>", "<say>", "<end>", "<got>")
ANSWER, ASK_TOOL = "answer", "ask_expert"
Segment = tuple[str, bool]
"""Text, and whether the model wrote it."""
Tools = Sequence[Mapping[str, Any]]
_ENTITY = re.compile(r"\b\d{2,3}\b|\b[A-Z][a-z]+\b|\b(?:" + "|".join(ITEMS) + r")\b")


def told(messages: Sequence[Mapping[str, Any]], tools: Tools) -> list[Segment]:
    """Return the conversation as segments; one that asks for the model's next turn ends with the mark `SAY`."""
    segments: list[Segment] = []
    for message in messages:
        role, content = message["role"], str(message.get("content") or "")
        if role == "user" and not segments:
            words = content[:1].lower() + content[1:].rstrip("?. ")
            offer = f" {ASK}" if any(tool["function"]["name"] == ASK_TOOL for tool in tools) else ""
            segments.append((f"{TASK} {words}{offer} {SAY}", False))
        elif role == "assistant":
            segments.append((f"{_turn(message, content)} {END}", True))
        elif role in ("tool", "user"):
            segments.append((f"{GOT} {_result(content)} {SAY}", False))
    return segments


def _turn(message: Mapping[str, Any], content: str) -> str:
    if not message.get("tool_calls"):
        return f"{ANSWER} {content}"
    function = message["tool_calls"][0]["function"]
    arguments = function["arguments"]
    values = json.loads(arguments) if isinstance(arguments, str) else arguments
    return " ".join([function["name"], *(str(value) for value in values.values() if value is not None)])


def _result(content: str) -> str:
    try:
        found = json.loads(content)
    except ValueError:
        return "error" if content.startswith("Error") else content
    if isinstance(found, Mapping) and found.get("advice"):
        return str(found["advice"])
    rows = found if isinstance(found, list) else [found]
    shown = [" ".join(map(str, row.values())) if isinstance(row, Mapping) else str(row) for row in rows]
    return " ; ".join(shown) or "nothing"


def call_of(words: str, tools: Tools) -> tuple[str, dict[str, Any]] | str:
    """Return what the model's words mean: name and arguments of a call, or the text of its answer.

    Arguments that are missing or no numbers are left as they are: the environment says what is wrong with them.
    """
    name, _, rest = words.strip().partition(" ")
    if name == ANSWER:
        return rest or "nothing"
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    schema = schemas.get(name, {})
    needed = list(schema.get("required") or [])
    values = rest.split(" ", max(0, len(needed) - 1)) if rest else []
    given = zip(needed, values, strict=False)
    return name or "nothing", {key: _typed(value, schema["properties"][key]) for key, value in given}


def _typed(value: str, schema: Mapping[str, Any]) -> Any:
    return int(value) if schema.get("type") == "integer" and value.isdigit() and value.isascii() else value


def redrawn(segments: Sequence[Segment], chance: random.Random) -> list[Segment]:
    """Return the segments with other names, items and numbers, each exchanged for the same one throughout."""
    drawn: dict[str, str] = {}
    threes, twos = iter(chance.sample(range(*IDS), 60)), iter(chance.sample(range(10, 100), 60))
    firsts, items = (iter(chance.sample(words, len(words))) for words in (FIRST, ITEMS))

    def other(found: re.Match[str]) -> str:
        word = found[0]
        if word not in drawn:
            if word.isdigit():
                drawn[word] = str(next(threes if len(word) == 3 else twos))
            elif word in ITEMS:
                drawn[word] = next(items)
            else:
                drawn[word] = next(firsts) if word in FIRST else last_name(chance)
        return drawn[word]

    return [(_ENTITY.sub(other, text), learns) for text, learns in segments]


def trained_tokenizer(texts: Sequence[str], vocabulary: int = 340) -> Tokenizer:
    """Train a BPE tokenizer of words; numbers up to the largest ID are whole tokens beside it."""
    tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="##", unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    letters = [chr(code) for code in range(33, 127)]
    plain = [re.sub(r"\d+|<\w+>", " ", text) for text in texts]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(MARKS),
        initial_alphabet=letters,
        continuing_subword_prefix="##",
        show_progress=False,
    )
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_tokens([str(number) for number in range(IDS[1])])
    return tokenizer


def encoded(tokenizer: Tokenizer, segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """Return token IDs, and for each 1 where the model wrote it, else 0."""
    ids: list[int] = []
    mask: list[int] = []
    for text, learns in segments:
        found = tokenizer.encode(text).ids
        ids += found
        mask += [int(learns)] * len(found)
    return ids, mask
