"""An engine behind the OpenAI chat protocol that returns token IDs as vLLM does: a token is a byte of its rendering."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.awmclient.openai_server import OpenAIServer, Reply


def rendered(message: dict[str, Any]) -> str:
    """A message as this engine's template writes it; the IDs of calls are not in it."""
    calls = [
        {"name": one["function"]["name"], "arguments": json.loads(one["function"]["arguments"])}
        for one in message.get("tool_calls") or ()
    ]
    return f"<{message['role']}>{message.get('content') or ''}{json.dumps(calls) if calls else ''}<end>\n"


def tokens(text: str) -> list[int]:
    return list(text.encode())


def words(ids: list[int]) -> str:
    return bytes(ids).decode()


class TokenEngine(OpenAIServer):
    """`spoils` names replies, by their number from 0, that come without log-probabilities."""

    def __init__(self, reply: Reply, spoils: tuple[int, ...] = ()) -> None:
        super().__init__(reply)
        self.spoils = spoils

    async def _complete(self, request: Request) -> Response:
        answer = json.loads((await super()._complete(request)).body)
        body, [choice] = self.bodies[-1], answer["choices"]
        prompt = "".join(map(rendered, body["messages"])) + "<assistant>"
        sampled = tokens(rendered(choice["message"]).removeprefix("<assistant>"))
        if body.get("return_token_ids"):
            answer["prompt_token_ids"], choice["token_ids"] = tokens(prompt), sampled
        if body.get("logprobs") and len(self.bodies) - 1 not in self.spoils:
            scores = [{"token": f"token_id:{one}", "logprob": -one / 1000} for one in sampled]
            choice["logprobs"] = {"content": scores}
        return JSONResponse(answer)
