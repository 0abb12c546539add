"""Reads YAML that a person or a program wrote: names, lists, texts, numbers, true, false and null, and nothing else.

Pure. The one way in which awmweb reads YAML. A text has no aliases, no tags, no merge keys and no dates, and a bounded
length, depth and number of values, so that reading it takes time and memory in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

LENGTH_MAX, VALUES_MAX, DEPTH_MAX = 1_000_000, 100_000, 32
_WORDS: dict[str, Any] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
# 18 digits fit 64 bits; a longer number stays a text instead of being rounded.
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,18}|[0-9]{1,18}(?:\.[0-9]{0,18})?)(?:[eE][-+]?[0-9]{1,2})?", re.ASCII)


class BadYaml(ValueError):
    """A text that is not YAML as awmweb reads it; the message names the line."""


def read(text: str) -> Any:
    """Return the value of a text; None for an empty one. Raises `BadYaml`."""
    if len(text) > LENGTH_MAX:
        raise BadYaml(f"more than {LENGTH_MAX:,} characters")
    try:
        # Events, not `load`: aliases and tags are refused before anything is built from them.
        return _YamlReader(yaml.parse(text, Loader=yaml.CSafeLoader)).document()
    except yaml.YAMLError as error:
        raise BadYaml(" ".join(str(error).split())[:300]) from error
    except UnicodeError as error:
        raise BadYaml("a half of a surrogate pair") from error


class _YamlReader:
    """The values of one document, from the events of the parser."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events, self._values = events, 0

    def document(self) -> Any:
        content = None
        for number, event in enumerate(one for one in self._events if not isinstance(one, yaml.StreamStartEvent)):
            if isinstance(event, yaml.DocumentStartEvent):
                if number:
                    raise _bad(event, "a second document")
                content = self._value(next(self._events), 0)
        return content

    def _value(self, event: Any, depth: int) -> Any:
        self._values += 1
        if self._values > VALUES_MAX:
            raise _bad(event, f"more than {VALUES_MAX:,} values")
        if depth > DEPTH_MAX:
            raise _bad(event, f"more than {DEPTH_MAX} levels")
        if isinstance(event, yaml.AliasEvent):
            raise _bad(event, "an alias (*): write the value again")
        # `!` alone says only that a scalar is a text.
        if event.tag not in (None, "!"):
            raise _bad(event, "a tag (!)")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(one, depth + 1) for one in self._until(yaml.SequenceEndEvent)]
        mapping: dict[str, Any] = {}
        for name_event in self._until(yaml.MappingEndEvent):
            if not isinstance(name_event, yaml.ScalarEvent):
                raise _bad(name_event, "a name that is not a text")
            # Unquoted only: a quoted `<<` is a name like any other.
            if name_event.value == "<<" and name_event.implicit[0]:
                raise _bad(name_event, "a merge key (<<)")
            if name_event.value in mapping:
                raise _bad(name_event, f"{name_event.value[:100]!r} twice")
            mapping[name_event.value] = self._value(next(self._events), depth + 1)
        return mapping

    def _until(self, end: type) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: a quoted one is a text, as are dates, and numbers that no column can hold."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _bad(event: Any, what: str) -> BadYaml:
    return BadYaml(f"line {event.start_mark.line + 1}: {what}")
