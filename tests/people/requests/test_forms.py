"""One reader of forms and addresses: the shapes of pages and of the API, and the words of what they refuse."""

from typing import Annotated, Literal

import pytest
from django.http import QueryDict
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from awmclient.nouns.fields import Text
from awmclient.schema import LeaseBody
from people.errors import words_of
from people.requests.forms import (
    AddressFields,
    FormFields,
    Misread,
    Named,
    OptionalNumber,
    Stripped,
    Ticked,
    cut,
    in_form_words,
    number_in,
    read,
    text_of,
    whole,
)


class Turn(FormFields):
    name: Annotated[Stripped, cut(6)] = ""
    tries: Annotated[int, whole("Enter 1 to 32 tries, not {sent}.", 32, 1)] = 8
    seed: Annotated[int | None, whole(least=-5)] = None
    tools: list[str] = []
    is_shared: Ticked = False
    anyway: Named = False


class Where(AddressFields):
    step: OptionalNumber = None
    page: Annotated[int, whole(most=9999)] = 1


@pytest.mark.parametrize(
    ("sent", "fields"),
    [
        ("", {}),
        ("name=+Ada+Lovelace&tries=32&seed=-5", {"name": "Ada L", "tries": 32, "seed": -5}),
        ("tools=a&tools=b&is_shared=1&anyway=", {"tools": ["a", "b"], "is_shared": True, "anyway": True}),
        ("is_shared=0&seed=&other=1", {}),
        ("seed=+", {}),
    ],
)
def test_form_is_read_into_its_shape(sent, fields):
    assert read(QueryDict(sent), Turn) == Turn(**fields)


def test_refused_form_has_its_words_by_field():
    with pytest.raises(Misread) as refused:
        read(QueryDict("tries=33&seed=x"), Turn)
    words = {"tries": "Enter 1 to 32 tries, not 33.", "seed": "Enter a whole number instead of x."}
    assert refused.value.by_field == words and refused.value.message == words["tries"]
    assert refused.value.status == 422


@pytest.mark.parametrize("sent", ["step=x&page=", "step=-1&page=99999", "step=2147483648&page=-1", "step=%C2%B2"])
def test_wrong_value_of_an_address_is_as_if_missing(sent):
    assert read(QueryDict(sent), Where) == Where()


def test_spaces_around_a_number_are_no_part_of_it():
    assert read(QueryDict("step=%2020%20"), Where) == Where(step=20)


def test_body_of_the_api_is_read_from_a_form_with_its_bounds():
    body = read(QueryDict("lease_token=abc&reason=&csrfmiddlewaretoken=x"), LeaseBody)
    assert (body.lease_token, body.reason) == ("abc", None)
    with pytest.raises(Misread) as refused:
        read(QueryDict("reason=late"), LeaseBody)
    assert refused.value.by_field == {"lease_token": "lease_token: enter a value"}


def test_field_from_elsewhere_wins_over_the_form():
    assert read(QueryDict("lease_token=theirs"), LeaseBody, lease_token="ours").lease_token == "ours"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("2147483647", 2**31 - 1), ("2147483648", None), ("-3", None), ("٣", None), (None, None)],
)
def test_number_is_whole_and_within_its_bounds(text, number):
    assert number_in(text) == number


def test_number_of_many_digits_is_none_without_counting_them():
    assert number_in("9" * 100_000) is None and number_in("-" + "9" * 100_000, least=-5) is None


def test_only_field_of_a_form_is_cut():
    assert (text_of(QueryDict("code=1234567"), "code", 6), text_of(QueryDict(), "code")) == ("123456", "")


class Checked(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: Annotated[Text, Field(min_length=1, max_length=2000)] = "x"
    name: Annotated[str, Field(min_length=1, max_length=4)] = "x"
    rows: Annotated[list[int], Field(min_length=1, max_length=2)] = [1]
    share: Annotated[float, Field(ge=0, le=2.5)] = 0
    more: Annotated[float, Field(gt=0, lt=1)] = 0.5
    tries: int = 1
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"text": ""}, "text: enter some text"),
        ({"text": "x" * 2001}, "text: enter at most 2,000 characters"),
        ({"name": ""}, "name: enter some text"),
        ({"name": "Ada L"}, "name: enter at most 4 characters"),
        ({"name": 3}, "name: enter some text"),
        ({"rows": []}, "rows: enter at least 1"),
        ({"rows": [1, 2, 3]}, "rows: enter at most 2"),
        ({"share": 3}, "share: enter at most 2.5"),
        ({"share": -1}, "share: enter at least 0"),
        ({"more": 1}, "more: enter less than 1"),
        ({"more": 0}, "more: enter more than 0"),
        ({"more": "x"}, "more: enter a number"),
        ({"tries": "x"}, "tries: enter a whole number"),
        ({"tries": 1.5}, "tries: enter a whole number"),
        ({"kind": "c"}, "kind: use 'a' or 'b'"),
        ({"other": 1}, "other: no field has this name"),
    ],
)
def test_checkers_sentences_are_in_the_words_of_forms(value, words):
    with pytest.raises(ValidationError) as refused:
        Checked.model_validate(value)
    wrong = refused.value.errors()[0]
    assert in_form_words(f"{wrong['loc'][0]}: {words_of(wrong)}.") == f"{words}."


def test_sentence_without_a_field_begins_with_a_capital():
    assert in_form_words("String should have at least 1 character") == "Enter some text"
    assert in_form_words("Words: String theory.") == "Words: String theory."
