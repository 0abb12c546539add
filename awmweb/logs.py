"""Lines of the log. Django names the address of what it refuses, and the address of a sign-in link is its secret: no
line holds one, whoever writes it.
"""

from __future__ import annotations

import logging
import re

LINK = re.compile(r"(/login/once/|%2Flogin%2Fonce%2F)[^\s\"'<>]+", re.IGNORECASE)


class Line(logging.Formatter):
    """One line of the log, with what came of an error below it."""

    def format(self, record: logging.LogRecord) -> str:
        return LINK.sub(r"\1[secret]", super().format(record))
