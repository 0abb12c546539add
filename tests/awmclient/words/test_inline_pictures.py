"""Pictures in a step's values, in the three forms that programs write."""

from __future__ import annotations

import base64

import pytest

from awmclient.words.pictures import inline_pictures, with_parts

DATA = b"\x89PNG some bytes"
TEXT = base64.b64encode(DATA).decode()
PART = {"type": "image", "blob": "0" * 64, "media_type": "image/png", "width": 1, "height": 1}
WRITTEN = {
    "openai": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}", "detail": "low"}},
    "openai responses": {"type": "input_image", "image_url": f"data:image/png;base64,{TEXT}"},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}},
    "mcp": {"type": "image", "data": TEXT, "mimeType": "image/png"},
}


@pytest.mark.parametrize("form", WRITTEN)
def test_picture_is_taken_out_of_each_form(form):
    value = {"content": [{"type": "text", "text": "Look"}, WRITTEN[form]], "page": {"shot": WRITTEN[form]}}
    assert inline_pictures(value) == [DATA, DATA]
    placed = {"content": [{"type": "text", "text": "Look"}, PART], "page": {"shot": PART}}
    assert with_parts(value, {DATA: PART}) == placed


@pytest.mark.parametrize(
    "value",
    [
        *(PART, {"type": "image"}, {"type": "image", "data": "no base64", "mimeType": "image/png"}, "data:image/png;,"),
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:text/html;base64,AAAA"}},
        {"type": "audio", "data": TEXT, "mimeType": "audio/wav"},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ],
)
def test_everything_else_stays_as_it_is(value):
    assert inline_pictures([value]) == [] and with_parts([value], {DATA: PART}) == [value]


def test_value_that_nests_without_end_is_left_alone():
    deep: list = []
    for _ in range(50_000):
        deep = [deep]
    assert inline_pictures(deep) == [] and with_parts(deep, {}) is not None
