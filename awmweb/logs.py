"""Log lines without secrets: Django logs the address of a refused request, and those of sign-in and answer links are
secrets."""

from __future__ import annotations

import logging
import re

# The second form is a link inside a query, such as `next=`, where slashes are encoded.
LINK = re.compile(r"(/login/once/|/answer/|%2Flogin%2Fonce%2F|%2Fanswer%2F)[^\s\"'<>]+", re.IGNORECASE)


class LineFormatter(logging.Formatter):
    """One line of the log, with the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        return LINK.sub(r"\1[secret]", super().format(record))


class NoAddresses(logging.Filter):
    """Lines of uvicorn without those that name the address of a socket."""

    def filter(self, record: logging.LogRecord) -> bool:
        return '"WebSocket ' not in str(record.msg)
