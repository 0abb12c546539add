"""A model endpoint for coding agents: each request gets the turn of a script that its conversation has come to.

Speaks Anthropic's Messages API, OpenAI's Responses API and chat completions, streamed, as far as the programs need it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def text(words):
    return {"type": "text", "text": words}


def call(number, name, arguments):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def _messages(turn) -> Iterator[tuple[str, dict[str, Any]]]:
    # readers of a session join lines of one ID
    message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": "local", "content": []}
    usage = {"input_tokens": 1, "output_tokens": 1}
    yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(turn):
        is_call = block["type"] == "tool_use"
        empty = {**block, "input": {}} if is_call else text("")
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if is_call
            else {"type": "text_delta", "text": block["text"]}
        )
        yield "content_block_start", {"index": index, "content_block": empty}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    stop = "tool_use" if any(block["type"] == "tool_use" for block in turn) else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def _responses(turn) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.created", {"response": {"id": "resp"}}
    for index, block in enumerate(turn):
        if block["type"] == "tool_use":
            item = {"type": "function_call", "call_id": block["id"], "name": block["name"]}
            item["arguments"] = json.dumps(block["input"])
        else:
            content = [{"type": "output_text", "text": block["text"], "annotations": []}]
            item = {"type": "message", "role": "assistant", "id": f"m{index}", "content": content}
        yield "response.output_item.done", {"output_index": index, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}
    yield "response.completed", {"response": {"id": "resp", "usage": usage}}


def _chat(turn) -> Iterator[dict[str, Any]]:
    """Yield chunks of a chat completion."""
    head = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": "local"}
    delta: dict[str, Any] = {"role": "assistant"}
    for index, block in enumerate(turn):
        if block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            delta["tool_calls"] = [{"index": index, "id": block["id"], "type": "function", "function": function}]
        else:
            delta["content"] = block["text"]
    yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    stop = "tool_calls" if "tool_calls" in delta else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, format, *args):
        """Print nothing."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.endswith("/chat/completions"):
            turn = self._turn(body, "messages", '"role": "tool"') if body.get("tools") else [text("a title")]
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in _chat(turn)]
            self._send("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")
            return
        is_responses = self.path.split("?")[0].endswith("/responses")
        if not is_responses and not self.path.split("?")[0].endswith("/messages"):
            self._send(b'{"input_tokens": 1}', "application/json")
            return
        # requests without tools are for titles and the like
        place = ("input", '"type": "function_call_output"') if is_responses else ("messages", '"type": "tool_result"')
        turn = self._turn(body, *place) if body.get("tools") else [text("a title")]
        events = (_responses if is_responses else _messages)(turn)
        lines = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
        self._send("".join(lines).encode(), "text/event-stream")

    def do_GET(self):
        self._send(b'{"data": [], "models": []}', "application/json")

    do_HEAD = do_GET

    def _turn(self, body, entries, result):
        """Return the turn after as many results as the conversation has."""
        self.server.bodies.append(body)
        return self.server.script[min(json.dumps(body[entries]).count(result), len(self.server.script) - 1)]

    def _send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def model(script):
    """Serve a script: a list of turns, each a list of blocks. One call a turn. `bodies` are the requests."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.script, server.bodies = script, []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
