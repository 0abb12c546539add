"""The model as a policy of rollouts and as an OpenAI endpoint, with one sampler that answers all who wait together."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tokenizers import Tokenizer

from awmclient.conversation import messages, offered
from awmclient.policies import Turn, View
from awmclient.toolcalls import Call
from examples.batches import Batches
from examples.train_demo.learning import Played
from examples.train_demo.model import Tiny
from examples.train_demo.words import END, call_of, encoded, told

LONGEST = 400
"""Tokens of an episode; a longer one gives up."""


class Sampler(Batches):
    """The model at a temperature, for all who wait together."""

    def __init__(self, model: Tiny, tokenizer: Tokenizer, temperature: float) -> None:
        end = tokenizer.token_to_id(END)
        super().__init__(lambda contexts: model.sampled(contexts, end=end, temperature=temperature))
        self.tokenizer = tokenizer


class TinyPolicy:
    """Runs one episode, and keeps the very tokens that were read and drawn, for learning."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.played = Played([], [], [])

    async def act(self, view: View) -> Turn:
        tools, played = offered(view.tools or [], expert=False), self.played  # the loop has added the expert's
        segments = told(messages(view.steps), tools)
        written = [place for place, (_, learns) in enumerate(segments) if learns]
        read, _ = encoded(self._sampler.tokenizer, segments[written[-1] + 1 if written else 0 :])
        if len(played.ids) + len(read) > LONGEST:
            return Turn(gave_up=True)
        self._keep(read, [0.0] * len(read), 0)
        drawn, logps = await self._sampler(list(played.ids))
        self._keep(drawn, logps, 1)
        meant = call_of(said(self._sampler.tokenizer, drawn), tools)
        return Turn(answer=meant) if isinstance(meant, str) else Turn(calls=[Call(*meant)])

    def _keep(self, ids: Sequence[int], logps: Sequence[float], drawn: int) -> None:
        self.played.ids += ids
        self.played.logps += logps
        self.played.drawn += [drawn] * len(ids)


def said(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=True))


class Endpoint:
    """Chat completions of named models; `models` may be filled while it serves. Greedy, so that it repeats itself."""

    def __init__(self, port: int) -> None:
        self.base_url, self.models = f"http://127.0.0.1:{port}/v1", dict[str, Sampler]()
        self._port = port

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        sampler, tools = self.models[body["model"]], body.get("tools") or []
        context, _ = encoded(sampler.tokenizer, told(body["messages"], tools))
        if len(context) > LONGEST:
            message: dict[str, Any] = {"role": "assistant", "content": "I give up."}
        else:
            drawn, _ = await sampler(context)
            message = _message(call_of(said(sampler.tokenizer, drawn), tools))
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "tiny", "object": "chat.completion", "model": body["model"], "choices": [choice]})

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve from a thread."""
        app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=self._port, log_level="warning"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(10)


def _message(meant: tuple[str, dict[str, Any]] | str) -> dict[str, Any]:
    if isinstance(meant, str):
        return {"role": "assistant", "content": meant}
    call = {"id": "call", "type": "function", "function": {"name": meant[0], "arguments": json.dumps(meant[1])}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}
