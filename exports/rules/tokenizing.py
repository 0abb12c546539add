"""Conversations as token IDs of one local tokenizer, with the loss of each message on its tokens.

Owns the files of its folder: `tokenizer.json`, and a template in `chat_template.jinja` or `tokenizer_config.json`. The
template runs in jinja2's sandbox with the names that transformers provides. It must mark the assistant's text by `{%
generation %}`, as training templates do: nothing else shows which tokens belong to a message. Called by the format
`tokens`; `make test-train` compares the result with transformers' own rendering.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from exports.errors import BadRecipe

FILES = ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json")
OPEN, CLOSE = "\ufdd0", "\ufdd1"
"""Markers around the assistant's text while a template renders. These code points are in no text."""
MUTE, UNMUTE = "\ufdd2", "\ufdd3"
"""Markers around reasoning that is not learned."""
_MARKS = re.compile(f"[{OPEN}{CLOSE}{MUTE}{UNMUTE}]")
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
REASONING = "reasoning_content"
Spans = list[tuple[int, int]]
IGNORED = -100
"""The label by which trainers ignore a token in the loss."""


@dataclass(frozen=True)
class LocalTokenizer:
    """A tokenizer with its chat template. `digest` changes with every byte of its files."""

    name: str
    digest: str
    tokens: Tokenizer
    template: jinja2.Template
    marks: Mapping[str, str]

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
        losses: Sequence[int],
        reasoning_losses: Sequence[int] | None = None,
    ) -> tuple[list[int], list[int]] | None:
        """Return token IDs and labels; None if the template did not mark each assistant message once.

        Reasoning carries the loss of its message, if `reasoning_losses` does not say otherwise.
        """
        rendered = self._learned(messages, tools, losses, reasoning_losses)
        if rendered is None:
            return None
        text, spans = rendered
        # the template has written the special ones
        encoding = self.tokens.encode(text, add_special_tokens=False)
        labels = [IGNORED] * len(encoding.ids)
        learned = iter(spans)
        span = next(learned, None)
        # spans and tokens are both in order, so one pass is enough
        for place, (start, end) in enumerate(encoding.offsets):
            while span is not None and span[1] <= start:
                span = next(learned, None)
            # a token that reaches over the edge of a span is not learned
            if span is not None and span[0] <= start < end <= span[1]:
                labels[place] = encoding.ids[place]
        return encoding.ids, labels

    def pieces(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
        losses: Sequence[int],
        reasoning_losses: Sequence[int] | None = None,
    ) -> list[tuple[str, bool]] | None:
        """Return the rendered text in pieces, each with whether it carries loss; None as in `encode`."""
        rendered = self._learned(messages, tools, losses, reasoning_losses)
        if rendered is None:
            return None
        text, spans = rendered
        parts, place = [], 0
        for start, end in spans:
            parts += [(text[place:start], False), (text[start:end], True)]
            place = end
        return [piece for piece in [*parts, (text[place:], False)] if piece[0]]

    def _learned(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any],
        losses: Sequence[int],
        reasoning_losses: Sequence[int] | None,
    ) -> tuple[str, list[tuple[int, int]]] | None:
        """Return the rendered text and its places that carry loss; None if a message of the assistant was not marked
        once.
        """
        thoughts = losses if reasoning_losses is None else reasoning_losses
        muted = [
            {**message, REASONING: _muted(message[REASONING])}
            if loss and not thought and message.get(REASONING)
            else message
            for message, loss, thought in zip(map(_unmarked, messages), losses, thoughts, strict=True)
        ]
        text, spans, silent = self._render(muted, tools)
        turn_losses = [loss for message, loss in zip(messages, losses, strict=True) if message["role"] == "assistant"]
        if len(spans) != len(turn_losses):
            return None
        learned = [span for span, loss in zip(spans, turn_losses, strict=True) if loss]
        return text, [part for span in learned for part in _without(span, silent)]

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of these tokens, special ones included."""
        return str(self.tokens.decode(list(ids), skip_special_tokens=False))

    def pieces_of_tokens(self, ids: Sequence[int], labels: Sequence[int]) -> list[tuple[str, bool]]:
        """Return the text of token IDs in pieces, each with whether it carries loss."""
        pairs = zip(ids, (label != IGNORED for label in labels), strict=True)
        groups = groupby(pairs, key=lambda pair: pair[1])
        return [
            (self.tokens.decode([one for one, _ in group], skip_special_tokens=False), learned)
            for learned, group in groups
        ]

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> tuple[str, Spans, Spans]:
        """Return the text, the places of the assistant's text in it, and those of muted reasoning."""
        try:
            marked = self.template.render(
                messages=list(messages),
                tools=_unmarked(list(tools)) or None,
                add_generation_prompt=False,
                **self.marks,
            )
        except jinja2.TemplateError as error:
            raise BadRecipe(f"The chat template of {self.name} cannot be rendered: {error}"[:500]) from error
        pieces, length, begun = [], 0, {OPEN: 0, MUTE: 0}
        spans: dict[str, Spans] = {OPEN: [], MUTE: []}
        for piece in re.split(f"({_MARKS.pattern})", marked):
            if piece in begun:
                begun[piece] = length
            elif piece in (CLOSE, UNMUTE):
                mark = OPEN if piece == CLOSE else MUTE
                spans[mark].append((begun[mark], length))
            else:
                pieces.append(piece)
                length += len(piece)
        return "".join(pieces), spans[OPEN], spans[MUTE]


def _muted(text: str) -> str:
    """Return reasoning between markers. Templates strip it, so blanks at its ends stay outside of them."""
    inner = text.strip()
    return text.replace(inner, f"{MUTE}{inner}{UNMUTE}", 1) if inner else text


def _without(span: tuple[int, int], silent: Sequence[tuple[int, int]]) -> Spans:
    """Return what is left of a place without others inside it."""
    parts, begun = [], span[0]
    for start, end in silent:
        if span[0] <= start and end <= span[1]:
            parts.append((begun, start))
            begun = end
    return [part for part in [*parts, (begun, span[1])] if part[0] < part[1]]


def _unmarked(value: Any) -> Any:
    """Return the value without markers, in case a recorded text contains one."""
    if isinstance(value, str):
        return _MARKS.sub("?", value)
    if isinstance(value, Mapping):
        return {_unmarked(name): _unmarked(inner) for name, inner in value.items()}
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value


def names(root: Path) -> list[str]:
    """Return the tokenizers in this folder."""
    return sorted(file.parent.name for file in root.glob("*/tokenizer.json"))


def load(root: Path, name: str) -> LocalTokenizer:
    """Load a tokenizer by its folder's name. Raises `BadRecipe`, which names the missing file."""
    folder = root / name
    # compared with the list, so that a name cannot lead out of the folder
    if name not in names(root):
        raise BadRecipe(
            f"No tokenizer {name!r}: put its folder with a tokenizer.json into {root.name}/ of the data folder."
        )
    digest = hashlib.sha256()
    for file in (folder / one for one in FILES if (folder / one).exists()):
        # with names, so that the same bytes in another file give another digest
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    try:
        config = _config(folder)
        tokens = _tokens(folder / "tokenizer.json", name)
        template = _compiled(_template(folder, config, name))
    except (OSError, ValueError, jinja2.TemplateError) as error:
        raise BadRecipe(f"The tokenizer {name!r} cannot be read: {error}"[:500]) from error
    # `tokenizer.json` can have padding and truncation of its own, which would cut a row
    tokens.no_padding()
    tokens.no_truncation()
    return LocalTokenizer(name, digest.hexdigest(), tokens, template, _special(config))


def _tokens(file: Path, name: str) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no narrower error
        raise BadRecipe(f"The tokenizer {name!r} cannot be read: {error}"[:500]) from error


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return config if isinstance(config, dict) else {}


def _template(folder: Path, config: Mapping[str, Any], name: str) -> str:
    file = folder / "chat_template.jinja"
    text = file.read_text(encoding="utf-8") if file.exists() else config.get("chat_template")
    if not isinstance(text, str):
        raise BadRecipe(f"The tokenizer {name!r} has no chat template.")
    if not _GENERATION.search(text):
        raise BadRecipe(f"The chat template of {name!r} has no {{% generation %}}. Use the template for training.")
    return text


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    """Return `bos_token` and similar tokens, which templates can use."""
    specials = {key: value for key, value in config.items() if key.endswith("_token")}
    # a token is a text, or an object with its text in `content`
    texts = {key: value.get("content") if isinstance(value, Mapping) else value for key, value in specials.items()}
    return {key: value for key, value in texts.items() if isinstance(value, str)}


class _Generation(Extension):
    """The tag `{% generation %}`: its content is rendered between markers."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Any) -> str:
        return f"{OPEN}{caller()}{CLOSE}"


def _compiled(text: str) -> jinja2.Template:
    """Compile with the names and filters that transformers provides, except the clock: a dataset must not depend on
    it."""
    # a template is code, so it runs in a sandbox
    world = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=[_Generation, loopcontrols]
    )
    # jinja2's own escapes HTML and sorts the keys
    world.filters["tojson"] = _tojson
    world.globals["raise_exception"] = _refuse
    return world.from_string(text)


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
