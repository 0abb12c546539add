"""A policy of rollouts that keeps each token as it was read or drawn: only what the model drew is trained on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from awmclient.conversation import conversation, offered
from awmclient.errors import MalformedCall
from awmclient.policies import Turn, View
from awmclient.toolcalls import text_calls
from examples.batches import Continued

_CALL = {"type": "function", "id": "call00000", "function": {"name": "f", "arguments": {}}}
_BEFORE = [{"role": "user", "content": "."}, {"role": "assistant", "content": "", "tool_calls": [_CALL]}]


class Chat:
    """A chat template whose turns end with the tokenizer's end-of-sequence token, as ChatML's do. Without `thinking` a
    template of Qwen 3 opens each turn behind an empty thought; templates that know no thoughts ignore it."""

    def __init__(self, tokenizer: Any, thinking: bool = False) -> None:
        self.tokenizer, self.end, self._thinking = tokenizer, tokenizer.eos_token_id, thinking
        self._turns_before = self._text(_BEFORE, None).count(tokenizer.eos_token)

    def opening(self, messages: Sequence[Any], tools: Sequence[Any]) -> list[int]:
        """Return the tokens before the first turn."""
        return self._ids(self._text([*messages], [*tools] or None))

    def following(self, messages: Sequence[Any]) -> list[int]:
        """Return the tokens between the end of a turn and the next one: results, advice, nudges. What was drawn before
        is never rendered again: text that is encoded twice can give other tokens."""
        parts = self._text([*_BEFORE, *messages], None).split(self.tokenizer.eos_token)
        return self._ids(self.tokenizer.eos_token.join(parts[self._turns_before :]))

    def _text(self, messages: list[Any], tools: list[Any] | None) -> str:
        asked = {"tools": tools, "add_generation_prompt": messages is not _BEFORE, "tokenize": False}
        return str(self.tokenizer.apply_chat_template(messages, enable_thinking=self._thinking, **asked))

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


@dataclass
class Drawn:
    """One rollout as a trainer takes it. `mask` is 1 for tokens that the model drew; the other lists are as long. A
    `reward` of None says that it has no outcome: an infrastructure fault is not the model's. `lead` is how far the
    reward is above the others that had the same offer of help; `settled` of `rollouts.py` sets it."""

    prompt: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    reward: float | None = None
    lead: float = 0.0
    helped: bool = False
    complete: bool = False
    episode: str = ""

    def keep(self, ids: Sequence[int], logps: Sequence[float], mask: int) -> None:
        self.ids += ids
        self.mask += [mask] * len(ids)
        self.logps += logps or [0.0] * len(ids)


class TokenPolicy:
    """Runs one episode; `longest` bounds its tokens."""

    def __init__(self, chat: Chat, draw: Callable[[list[int]], Awaitable[Continued]], longest: int) -> None:
        self.drawn = Drawn()
        self._chat, self._draw, self._longest = chat, draw, longest

    async def act(self, view: View) -> Turn:
        drawn, told = self.drawn, conversation(view.steps)
        if not drawn.prompt:
            tools = offered(view.tools or [], expert=False)  # the loop has added the expert's
            drawn.prompt = self._chat.opening([one.message for one in told], tools)
        else:
            own = max(place for place, one in enumerate(told) if one.part == "assistant")
            drawn.keep(self._chat.following([one.message for one in told[own + 1 :]]), [], 0)
        if len(drawn.prompt) + len(drawn.ids) >= self._longest:
            return Turn(gave_up=True)
        ids, logps = await self._draw(drawn.prompt + drawn.ids)
        drawn.keep(ids, logps, 1)
        is_cut = not ids or ids[-1] != self._chat.end
        if is_cut:  # the template needs an end, which the model did not draw
            drawn.keep([self._chat.end], [], 0)
        turn = _turn(self._chat.tokenizer.decode(ids, skip_special_tokens=True))
        # as a server says it: half a sentence is no answer, and the loop tells the model so
        return replace(turn, finish_reason="length" if is_cut else "stop")


def _turn(text: str) -> Turn:
    try:
        calls = text_calls(text)
    except MalformedCall as problem:
        return Turn(content=text, malformed=str(problem))
    said = text.partition("<tool_call>")[0].strip()
    return Turn(content=said, calls=calls) if calls else Turn(answer=said)
