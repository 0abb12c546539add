"""The input of label and comment forms: a place within a step, and a value in its label's type. Pure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from people.errors import Invalid
from people.requests.forms import FormFields, whole
from people.text.json_text import parse_json
from reviews.models import SchemaKind
from reviews.visible.places import Place

Whole = Annotated[int | None, whole()]


class LabelForm(FormFields):
    """A label or a comment. `as_text` repeats a text that was refused for a name in it, and is meant as it is."""

    seq: Whole = None
    path: str = ""
    start: Whole = None
    end: Whole = None
    quote: str = ""
    values: Annotated[list[str], Field(alias="value")] = []
    version: Annotated[str, Field(alias="schema")] = ""
    as_text: str | None = None


def place_in(form: LabelForm) -> tuple[Place, str | None]:
    """Return the place that a form names, and the characters that its reader saw there. They are sent as JSON, because
    a browser changes the line ends of form values."""
    # `encode` alone raises at a lone surrogate
    quote = parse_json(form.quote.encode("utf-8", "surrogatepass")) if form.quote else None
    return Place(form.seq, form.path, form.start, form.end), quote if isinstance(quote, str) else None


def value_of(values: list[str], kind: str) -> Any:
    """Return the value of a label's form, in the type of its kind."""
    text = values[-1] if values else ""
    if kind == SchemaKind.MULTI:
        return values
    if kind != SchemaKind.SCORE:
        return text
    try:
        number = float(text)
    except ValueError as error:
        raise Invalid(f"Enter a number instead of {text[:20] or 'nothing'}.") from error
    # a score of 5 and one of 5.0 are one value, and print as 5
    return int(number) if number.is_integer() else number
