"""Which files can be attached, decided by their bytes alone: neither a name nor a sender's word counts. Pure.

Nothing that a browser runs is among the types: no HTML, no SVG, no script.
"""

from __future__ import annotations

import re

MOST_BYTES = 5 * 1024 * 1024
MOST_FILES = 5
"""Files of one side of an ask."""
TOO_LARGE = "A file can have at most 5 MB."
NAME_MAX = 200
TEXT = "text/plain"
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_ENDINGS = {
    "image/png": (".png",),
    "image/jpeg": (".jpg", ".jpeg"),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "application/pdf": (".pdf",),
    TEXT: (".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".log", ".yaml", ".yml", ".sql"),
}
_UNPRINTED = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")


def media_type_of(data: bytes) -> str:
    """Return the media type of a file, empty for a type that is not allowed."""
    for start, media_type in _STARTS:
        if data.startswith(start):
            return media_type
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return TEXT if _is_plain(data) else ""


def named_by_type(name: str, media_type: str) -> str:
    """Return a name with an ending of its type.

    A computer opens a downloaded file by its ending: a text named x.html would run its scripts there.
    """
    endings = _ENDINGS[media_type]
    return name if name.casefold().endswith(endings) else name[: NAME_MAX - len(endings[0])] + endings[0]


def _is_plain(data: bytes) -> bool:
    """Return whether this is text that no reader takes for markup."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    # markup begins with this sign, also HTML and SVG without their first line
    return bool(text.strip()) and not text.lstrip("\ufeff \t\r\n\f").startswith("<") and not _UNPRINTED.search(text)
