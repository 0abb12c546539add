"""Messages with pictures as parts of their content, as chat models that see and trainers read them. Pure.

Owns where a picture is among messages: behind the words of its own, and for one that a call returned in a message of
the user behind the results, because neither endpoints nor trainers take one in a result. Leaves what a part is (an
address with data, a file beside rows) to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from awmclient.nouns.pictures import picture_words
from awmclient.words.conversation import readable

RETURNED = "The pictures of these results, in order:"
"""The line above them. Models read it and training data contains it."""
Pictured = tuple[dict[str, Any], Sequence[Mapping[str, Any]]]
"""A message and the parts of its pictures."""


def in_parts(messages: Iterable[Pictured]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield messages with their pictures, each with its place; -1 for one that was not there.

    >>> list(in_parts([({"role": "user", "content": "Look\\n[picture]"}, [{"type": "image"}])]))
    [(0, {'role': 'user', 'content': [{'type': 'text', 'text': 'Look'}, {'type': 'image'}]})]
    """
    waiting: list[Mapping[str, Any]] = []
    for place, (message, pictures) in enumerate(messages):
        is_result = message["role"] == "tool"
        if waiting and not is_result:
            yield -1, _returned(waiting)
            waiting = []
        if is_result:
            waiting += pictures
        elif pictures:
            message = {**message, "content": _parts(_own_words(message["content"], pictures), pictures)}
        yield place, message
    if waiting:
        yield -1, _returned(waiting)


def _returned(pictures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": _parts(RETURNED, pictures)}


def _parts(text: str, pictures: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [*([{"type": "text", "text": text}] if text else []), *pictures]


def _own_words(text: str, pictures: Sequence[Mapping[str, Any]]) -> str:
    """Return a message's text without the lines that it has in the place of its pictures."""
    lines = readable("\n".join(map(picture_words, pictures)))
    return text.removesuffix(lines).removesuffix("\n") if text.endswith(lines) else text
