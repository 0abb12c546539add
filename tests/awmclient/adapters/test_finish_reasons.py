"""How a model's turn ended, as frameworks say it."""

import pytest

from awmclient.adapters.transcript import Transcript
from awmclient.words.toolcalls import Call

LOOK = Call("look", {}, "c1")


@pytest.mark.parametrize("word", ["length", "max_tokens", "content_filter", "model_length"])
def test_cut_turn_has_a_message_even_with_a_single_call(word):
    (message,) = Transcript().said("", [LOOK], finish_reason=word)
    assert message["finish_reason"] == word and message["calls"][0]["name"] == "look"


def test_ended_turn_keeps_its_word_and_needs_no_message():
    (message,) = Transcript().said("Done.", finish_reason="stop")
    assert message["finish_reason"] == "stop"
    assert Transcript().said("", [LOOK], finish_reason="tool_calls") == []
    (message,) = Transcript().said("Done.", finish_reason={"odd": 1})
    assert "finish_reason" not in message
