"""Shorter schemas: what is left out says nothing, and the server checks calls all the same."""

import copy

import pytest

from awmenv import schemas
from awmenv.client import EnvironmentClient

WHOLE = {
    "type": "object",
    "title": "Body",
    "properties": {
        "title": {"type": "string", "title": "Title", "maxLength": 200},
        "note_id": {"type": "integer", "title": "Note Id", "minimum": 1, "maximum": 2147483647},
        "rating": {"type": "integer", "maximum": 5, "minimum": -2147483648, "default": {"title": "x"}},
        "tags": {"type": "array", "items": {"anyOf": [{"type": "string", "title": "A"}, {"type": "null"}]}},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def test_shorter_schema_keeps_names_values_and_bounds():
    before = copy.deepcopy(WHOLE)
    assert schemas.shorter(WHOLE) == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "maxLength": 200},
            "note_id": {"type": "integer", "minimum": 1},
            "rating": {"type": "integer", "maximum": 5, "default": {"title": "x"}},
            "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    assert before == WHOLE


def test_schema_is_left_alone_below_its_levels():
    deep = {"title": "T"}
    for _ in range(5000):
        deep = {"title": "T", "items": deep}
    short = schemas.shorter(deep)
    for _ in range(schemas.LEVELS):
        assert "title" not in short
        short = short["items"]
    assert "title" in short["items"]


@pytest.mark.parametrize("chosen", ["full", "short"])
async def test_server_lists_short_schemas_and_checks_whole_ones(make_server, chosen):
    async with EnvironmentClient(make_server(AWMENV_SCHEMAS=chosen).url) as env:
        await env.reset(scenario="notes_1", task_idx=0)
        texts = str([tool.input_schema for tool in await env.list_tools()])
        assert ("'title': 'Title'" in texts) is (chosen == "full")
        refused = await env.call_tool("create_note", {"title": 5})
        assert refused.reward_type == "invalid_args"
