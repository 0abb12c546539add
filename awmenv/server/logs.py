"""Log records that cannot be forged: the text of a scenario, an agent or a pack stays inside its own record.

Owns the one format of the environment server's records. Called where a process starts.
"""

import logging
import re

MAX_RECORD = 8_000
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and newline: terminals obey them
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or turning lines around
    "\ud800-\udfff\U000e0000-\U000e007f]"  # half characters, and tags
)


class RecordFormatter(logging.Formatter):
    """One record: further lines are indented, so that none can pass for a record of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if len(text) > MAX_RECORD:
            text = f"{text[:MAX_RECORD]}… ({len(text) - MAX_RECORD} more characters)"
        return shown(text).replace("\n", "\n    | ")


def shown(text: str) -> str:
    """Return a text with control and invisible characters as codes; newlines stay."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def install(level: int) -> None:
    """Use this format for all log records, unless another one is configured."""
    handler = logging.StreamHandler()
    handler.setFormatter(RecordFormatter())
    logging.basicConfig(level=level, handlers=[handler])
