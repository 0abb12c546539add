"""Forms and addresses of pages, read into shapes: the one way from what a browser sends to values.

Owns how a form says a number, a switch and a list, and in which words a wrong value is refused. Bounds are in the
shape: a body of the API, or a `FormFields` where the API has no such call. Leaves rights, and what values mean, to the
pages of all apps, which call it; `tests/test_style.py` refuses any other read of a form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from awmclient.nouns.fields import MAX_INT
from people.errors import Invalid, words_of

SENTENCE = "sentence"
"""The type of errors whose message says everything, so that no name of a field is put before it."""
DIGITS_MAX = 10**40
"""What a field is read up to whose bounds are elsewhere, in a refusal that names them."""
MAX_ID = 10**18 - 1
"""The largest number of a row that fits 64 bits, and whose digits are counted easily."""

WORDS_OF_FORMS = (
    (r"(?:String|Value) should have at least 1 character", "enter some text"),
    (
        r"(?:String|Value) should have at (least|most) ([\d,]+) characters?(?:, not [\d,]+)?",
        r"enter at \1 \2 characters",
    ),
    (r"\w+ should have at (least|most) ([\d,]+) items?(?: after validation)?(?:, not [\d,]+)?", r"enter at \1 \2"),
    (r"Input should be less than or equal to (\S*\w)", r"enter at most \1"),
    (r"Input should be greater than or equal to (\S*\w)", r"enter at least \1"),
    (r"Input should be less than (\S*\w)", r"enter less than \1"),
    (r"Input should be greater than (\S*\w)", r"enter more than \1"),
    (r"Input should be a valid integer(?:, [^.;]*)?", "enter a whole number"),
    (r"Input should be a valid number(?:, [^.;]*)?", "enter a number"),
    (r"Input should be a valid string", "enter some text"),
    (r"Input should be ('[^.;]*')", r"use \1"),
    (r"Field required", "enter a value"),
    (r"Extra inputs are not permitted", "no field has this name"),
)
"""What the type checker says of a wrong value, each with what a person at a form is to do."""


class FormFields(BaseModel):
    """What a page's form sends. Fields that it does not know are of another reader, or of a browser's extension."""

    model_config = ConfigDict(frozen=True, protected_namespaces=(), populate_by_name=True)


class AddressFields(FormFields):
    """The query string of a page. A wrong value is as if it were missing, because links get old and are cut."""

    @field_validator("*", mode="wrap")
    @classmethod
    def fall_back(cls, value: Any, check: ValidatorFunctionWrapHandler, field: ValidationInfo) -> Any:
        try:
            return check(value)
        except ValidationError:
            return cls.model_fields[str(field.field_name)].get_default(call_default_factory=True)


class Misread(Invalid):
    """Invalid request."""

    def __init__(self, error: ValidationError) -> None:
        self.by_field: dict[str, str] = {}
        for wrong in error.errors():
            path = ".".join(map(str, wrong["loc"]))
            says_all = wrong["type"] == SENTENCE or not path
            words = words_of(wrong) if says_all else f"{path}: {words_of(wrong)}"
            self.by_field.setdefault(path, in_form_words(words))
        super().__init__(next(iter(self.by_field.values())))


S = TypeVar("S", bound=BaseModel)


def read(sent: QueryDict | Mapping[str, Any], shape: type[S], **beside: Any) -> S:
    """Return a form as a shape. `beside` are fields that come from elsewhere, and win. Raises `Misread`, which has the
    words by field."""
    try:
        return shape.model_validate({**_values(sent, shape), **beside})
    except ValidationError as error:
        raise Misread(error) from error


def _values(sent: QueryDict | Mapping[str, Any], shape: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a shape that were sent: all values of a list, the last one of anything else. An empty field
    is one that nothing was typed into, so a value that can be missing is."""
    values: dict[str, Any] = {}
    for name, field in shape.model_fields.items():
        key = field.alias or name
        if key in sent:
            is_list = get_origin(field.annotation) is list
            values[key] = sent.getlist(key) if is_list and isinstance(sent, QueryDict) else sent[key]
            if not str(values[key]).strip() and _can_be_missing(field):
                del values[key]
        elif field.is_required() and issubclass(shape, FormFields):
            values[key] = ""  # refused in the words for an empty field
    return values


def _can_be_missing(field: FieldInfo) -> bool:
    return type(None) in get_args(field.annotation)


def labeled(refusal: str, labels: Mapping[str, str]) -> str:
    """Return a refusal in the words of forms, with the label of the field in place of its path in the API."""
    refusal = in_form_words(refusal)
    path, colon, words = refusal.partition(": ")
    return f"{labels[path]}: {words}" if colon and path in labels else refusal


def in_form_words(refusal: str) -> str:
    """Return a refusal with what a person is to enter in place of what the type checker says."""
    for checker, form in WORDS_OF_FORMS:
        refusal = re.sub(rf"(?:^|(?<=: )){checker}(?=[.;]|$)", form, refusal)
    return f"{refusal[0].upper()}{refusal[1:]}" if refusal.startswith("enter ") else refusal


def text_of(sent: Mapping[str, Any], name: str, most: int | None = None) -> str:
    """Return one text that was sent, at most this many characters of it; empty if it is missing."""
    return str(sent.get(name, ""))[:most]


def texts_of(sent: QueryDict, name: str) -> list[str]:
    """Return all texts that were sent under a name."""
    return [str(text) for text in sent.getlist(name)]


def files_of(sent: MultiValueDict[str, UploadedFile[bytes]], name: str) -> list[UploadedFile[bytes]]:
    """Return all files that were sent under a name."""
    return list(sent.getlist(name))


def all_of(sent: QueryDict) -> Callable[[str], list[str]]:
    """Return a look-up of all texts by name, for forms whose fields are made from a schema."""
    return lambda name: texts_of(sent, name)


def is_named(sent: QueryDict, name: str) -> bool:
    """Return whether a switch is in an address or a form, with or without a value."""
    return name in sent


def ids_of(sent: QueryDict, name: str) -> list[str]:
    """Return the IDs that were sent under a name, each once and in their order."""
    return list(dict.fromkeys(text for text in texts_of(sent, name) if "\x00" not in text))


def number_of(sent: Mapping[str, Any], name: str) -> int | None:
    """Return one number that was sent; None if it is missing or anything else."""
    return number_in(sent.get(name))


def number_in(text: Any, most: int = MAX_INT, least: int = 0) -> int | None:
    """Return the whole number that a text is, if it is within its bounds; None if it is anything else."""
    digits = str(text or "").removeprefix("-" if least < 0 else "")
    # `isdecimal` and `int` also take digits of other scripts, and thousands of digits take quadratic time
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(max(most, -least)))):
        return None
    return number if least <= (number := int(str(text))) <= most else None


def whole(words: str = "Enter a whole number instead of {sent}.", most: int = MAX_INT, least: int = 0) -> Any:
    """Return the check of a field that must be a whole number. `words` say what else is to be entered."""

    def check(text: Any) -> int:
        if (number := number_in(str(text).strip(), most, least)) is None:
            raise PydanticCustomError(SENTENCE, "{words}", {"words": words.format(sent=str(text)[:20] or "nothing")})
        return number

    return BeforeValidator(check)


def cut(most: int) -> Any:
    """Return the check of a text of which at most this many characters are kept."""
    return BeforeValidator(lambda text: text[:most])


OptionalNumber = Annotated[int | None, BeforeValidator(lambda text: number_in(str(text or "").strip()))]
"""A number, also with spaces around it; anything else is none."""
Ticked = Annotated[bool, BeforeValidator(lambda text: text in ("1", True))]
Named = Annotated[bool, BeforeValidator(lambda text: text is not False)]
"""A switch that is on as soon as it is named, with or without a value."""
Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]
