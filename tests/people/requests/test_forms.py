"""One reader of forms and addresses: the shapes of pages and of the API, and the words of what they refuse."""

from typing import Annotated

import pytest
from django.http import QueryDict

from awmclient.schema import LeaseBody
from people.requests.forms import (
    AddressFields,
    FormFields,
    Misread,
    Named,
    OptionalNumber,
    Stripped,
    Ticked,
    cut,
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
    assert refused.value.by_field == {"lease_token": "lease_token: Field required"}


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
