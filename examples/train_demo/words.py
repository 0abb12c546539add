"""Messages and tools of an export row, or of a request, as the few tokens that a tiny model can learn.

Owns the short template, the way back from generated words to a call, the tokenizer, and the redrawing of names and
numbers. A result is told as its values without keys, and a call as its values in the schema's order.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from examples.train_demo.worlds import FIRST, IDS, ITEMS, last_name

PAD, TASK, ASK, SAY, END, GOT = MARKS = ("<pad>", "<task>", "<ask>", "<say>", "<end>", "<got>")
ANSWER, ASK_TOOL, INSIDE = "answer", "ask_expert", "##"
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


class Redrawn:
    """Other names, items and numbers, each exchanged for the same one throughout, there and back.

    To a learner a desk whose rows are redrawn is a new one, whether it reads the desk's export or works on it.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._there: dict[str, str] = {}
        for words in ([*map(str, range(*IDS))], [*map(str, range(10, 100))], FIRST, ITEMS):
            self._there |= dict(zip(words, chance.sample(words, len(words)), strict=True))
        self._back = {other: word for word, other in self._there.items()}

    def there(self, text: str) -> str:
        """Return a text of the desk as the learner reads it."""
        return _ENTITY.sub(lambda found: self._other(found[0]), text)

    def back(self, text: str) -> str:
        """Return the learner's words as the desk has them; a name that it was never told stays."""
        return _ENTITY.sub(lambda found: self._back.get(found[0], found[0]), text)

    def _other(self, word: str) -> str:
        # last names are drawn as they come: there are too many to exchange them all beforehand
        if word not in self._there:
            other = last_name(self._chance)
            while other in self._back:
                other = last_name(self._chance)
            self._there[word], self._back[other] = other, word
        return self._there[word]


def redrawn(segments: Sequence[Segment], chance: random.Random) -> list[Segment]:
    """Return the segments with other names, items and numbers."""
    other = Redrawn(chance)
    return [(other.there(text), learns) for text, learns in segments]


def trained_tokenizer(texts: Sequence[str], vocabulary: int = 340) -> Tokenizer:
    """Train a BPE tokenizer of words; numbers up to the largest ID are whole tokens beside it. The same texts give the
    same tokenizer in every process, which the trainer of `tokenizers` does not."""
    words = Counter(word for text in texts for word in re.sub(r"\d+|<\w+>", " ", text).split())
    letters = [chr(code) for code in range(33, 127)]
    tokens, merges = _merged(words, [*MARKS, *letters, *(f"{INSIDE}{letter}" for letter in letters)], vocabulary)
    ids = {token: at for at, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, merges, continuing_subword_prefix=INSIDE, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE, cleanup=False)
    tokenizer.add_special_tokens(list(MARKS))
    tokenizer.add_tokens([str(number) for number in range(IDS[1])])
    return tokenizer


def _merged(words: Counter[str], tokens: list[str], vocabulary: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Join the most frequent pair of neighbors until there are enough tokens; the alphabet decides between equals."""
    spelled = {word: [word[0], *(f"{INSIDE}{letter}" for letter in word[1:])] for word in words}
    merges: list[tuple[str, str]] = []
    while len(tokens) < vocabulary:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in spelled.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        joined = best[0] + best[1].removeprefix(INSIDE)
        merges.append(best)
        if joined not in tokens:
            tokens.append(joined)
        spelled = {word: _joined(parts, best, joined) for word, parts in spelled.items()}
    return tokens, merges


def _joined(parts: list[str], pair: tuple[str, str], joined: str) -> list[str]:
    found: list[str] = []
    for part in parts:
        if found and (found[-1], part) == pair:
            found[-1] = joined
        else:
            found.append(part)
    return found


def encoded(tokenizer: Tokenizer, segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """Return token IDs, and for each 1 where the model wrote it, else 0."""
    ids: list[int] = []
    mask: list[int] = []
    for text, learns in segments:
        found = tokenizer.encode(text).ids
        ids += found
        mask += [int(learns)] * len(found)
    return ids, mask
