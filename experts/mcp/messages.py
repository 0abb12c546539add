"""A client's message over MCP, read once: within bounds, and split into what is ours and what the SDK gets to read.

The SDK parses a body on the event loop, and validates and writes it there three times. So it gets a body without the
arguments of a call, which it would only hand on. Pure; called by `server` through `read_aside`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from awmclient.nouns.typed import SPEC_VALUES
from experts.mcp.sessions import PendingCall, as_object
from people.errors import Invalid, TooLarge
from people.text.json_text import holds_more_than, read_object

MOST_BYTES = 1024 * 1024
"""A question, a context, calls and a schema: 320,000 characters at most, of three bytes each."""
MOST_VALUES = 2 * SPEC_VALUES
"""Texts, lists, objects and commas; names count, too, which `SPEC_VALUES` leaves out."""
SDK_BYTES, SDK_VALUES = 64 * 1024, 2_000
"""What the SDK reads of a message. The longest is an `initialize` whose client sends an icon."""
EVENT_BYTES = 4096
"""An event ID has a client's number of a call, a key and the client's token."""


class ClientMessage(NamedTuple):
    """A message, the arguments of its call, what waits for its answer, and the body for the SDK."""

    fields: dict[str, Any]
    arguments: dict[str, Any]
    call: PendingCall
    for_sdk: bytes

    @property
    def params(self) -> dict[str, Any]:
        return as_object(self.fields.get("params"))


def message_of(raw: bytes) -> ClientMessage:
    """Return the message of a body. Raises `AppError`."""
    fields = read_object(raw, MOST_BYTES, MOST_VALUES)
    params = as_object(fields.get("params"))
    arguments = as_object(params.get("arguments"))
    rest = fields
    if arguments:
        rest = {**fields, "params": {**params, "arguments": {}}}
    elif "method" not in fields and "result" in fields:
        rest = {**fields, "result": {}}  # an answer to an expert's question, which `tasks` reads
    for_sdk = json.dumps(rest).encode()
    if len(for_sdk) > SDK_BYTES or holds_more_than(for_sdk, SDK_VALUES):
        raise TooLarge(
            f"Beside a call's arguments, a message has at most {SDK_BYTES >> 10} kB and {SDK_VALUES:,} values."
        )
    return ClientMessage(fields, arguments, PendingCall.of(fields), for_sdk)


def call_after(event_id: bytes) -> PendingCall:
    """Return the call of the event that a client received last. Raises `Invalid`."""
    if len(event_id) > EVENT_BYTES:
        raise Invalid("Unknown Last-Event-ID.")
    return PendingCall.after(event_id.decode("latin-1"))
