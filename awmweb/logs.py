"""Log lines without secrets, as text or as JSON: Django logs the address of a refused request, those of sign-in and
answer links are secrets, and a query has codes of a provider and words of people. The files in `docs/proxy` keep the
same out of the logs of nginx and Caddy."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from random import getrandbits
from urllib.parse import quote

from awmenv import spans

SECRET_ADDRESSES = ("/login/once/", "/answer/")
"""What follows one of these in an address signs a person in, or answers for them.

`tests/awmweb/test_addresses_in_logs.py` compares the addresses of awmweb and the logs of the documented proxies."""
# Also inside another address, such as in `next=`, where slashes are encoded; and each query.
LINK = re.compile(
    rf"({'|'.join(re.escape(form) for one in SECRET_ADDRESSES for form in (one, quote(one, safe='')))}"
    r"|(?<=[\w/])\?)[^\s\"'<>]+",
    re.IGNORECASE,
)
ABOUT = re.compile(r"/(episode|ask)s/([0-9a-z]{20})(?=/|$)")
Ids = dict[str, str]
_ids: ContextVar[Ids] = ContextVar("ids", default={})  # noqa: B039  never changed in place


def enter(**ids: str) -> Token[Ids]:
    """Have all lines of this task or thread name these IDs, until `leave`."""
    return _ids.set(ids)


def leave(entered: Token[Ids]) -> None:
    _ids.reset(entered)


def ids_of(path: str) -> Ids:
    """Return the IDs for the lines of a request: its own, and those of the episode and ask that it is about."""
    return {"request": f"{getrandbits(128):032x}", **dict(ABOUT.findall(path))}


class LineFormatter(logging.Formatter):
    """One line of the log, with the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        return LINK.sub(r"\1[secret]", super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the IDs of its request or task."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _plain(record.getMessage()),
            **_ids.get(),
        }
        if trace := spans.trace_id():
            line["trace_id"] = trace
        if record.exc_info:
            line["error"] = _plain(self.formatException(record.exc_info))
        return json.dumps(line)


def _plain(text: str) -> str:
    # Before it becomes JSON: an escape such as \\n would else belong to the link.
    return LINK.sub(r"\1[secret]", text)


class NoAddresses(logging.Filter):
    """Lines of uvicorn without those that name the address of a socket."""

    def filter(self, record: logging.LogRecord) -> bool:
        return '"WebSocket ' not in str(record.msg)
