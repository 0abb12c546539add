"""The input of label and comment forms: a place within a step, and a value in its label's type. Pure."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from people.errors import Invalid
from people.text.json_text import parse_json
from reviews.models import SchemaKind
from reviews.visible.places import Place


def whole(text: str) -> int:
    # `isdecimal` is true of digits of other scripts as well; seven digits fit every column
    if not (text.isascii() and text.isdecimal() and len(text) < 8):
        raise Invalid(f"Enter a whole number instead of {text[:20] or 'nothing'}.")
    return int(text)


def place_in(given: QueryDict) -> tuple[Place, str | None]:
    """Return the place that a form names, and the characters that its reader saw there. They are sent as JSON, because
    a browser changes the line ends of form values."""
    seq, start, end = (whole(text) if (text := given.get(name, "")) else None for name in ("seq", "start", "end"))
    said = given.get("quote", "")
    # `encode` alone raises at a lone surrogate
    quote = parse_json(said.encode("utf-8", "surrogatepass")) if said else None
    return Place(seq, given.get("path", ""), start, end), quote if isinstance(quote, str) else None


def value_of(given: QueryDict, kind: str) -> Any:
    """Return the value of a label's form, in the type of its kind."""
    text = given.get("value", "")
    if kind == SchemaKind.MULTI:
        return given.getlist("value")
    if kind != SchemaKind.SCORE:
        return text
    try:
        number = float(text)
    except ValueError as error:
        raise Invalid(f"Enter a number instead of {text[:20] or 'nothing'}.") from error
    # a score of 5 and one of 5.0 are one value, and print as 5
    return int(number) if number.is_integer() else number
