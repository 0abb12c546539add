"""Files of datasets over HTTP, whole or by ranges, streamed from their store as long as the reader may read them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from exports.assembly import storing
from exports.errors import NotBuilt
from exports.models import Export, ExportState
from people.access import Actor
from people.errors import NotFound
from people.revalidation import Right, ended, right_of

# 18 digits fit 64 bits; `int` raises at thousands of them
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
TYPES = {"jsonl": "application/x-ndjson", "json": "application/json", "md": "text/markdown; charset=utf-8"}


CHECKED_S = 20.0
"""A download of hours asks this often whether its reader is still a member, or its token works."""


def serve(request: HttpRequest, actor: Actor, export: Export, path: str = "") -> HttpResponseBase:
    """Answer with a file of the dataset; without a path, its data file. A single range gets 206, an invalid one 416."""
    if export.state != ExportState.DONE or not isinstance(export.manifest, dict):
        raise NotBuilt
    path = path or export.manifest["files"][0]["path"]
    try:
        size = storing.size_of(export.project_id, export.dataset, path)
    # no such file, or a name that no file can have
    except (OSError, ValueError) as error:
        raise NotFound from error
    first, last = _wanted(request.headers.get("Range", ""), size)
    if first is None or last is None:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    is_part = (first, last) != (0, size - 1) or "Range" in request.headers
    name = f"awmweb-{export.project.slug}-{export.format}-{export.dataset[:12]}-{path.rpartition('/')[2]}"
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(last - first + 1),
        # a dataset never changes, and each of its files has its own address
        "ETag": f'"{export.dataset}"',
        # rows hold text of agents, which a browser must not take for a page
        "X-Content-Type-Options": "nosniff",
    }
    if is_part:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    kind = TYPES.get(path.rpartition(".")[2], "application/octet-stream")
    blocks = storing.blocks_of(export.project_id, export.dataset, path, first, last)
    right = right_of(actor, request.session.session_key or "")
    body = StreamingHttpResponse(_while_held(right, blocks), content_type=kind, headers=headers)
    body.status_code = 206 if is_part else 200
    return body


def _while_held(right: Right, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield blocks until the right ends. The refusal then breaks the connection off, so that no reader takes a part
    for the whole."""
    checked = time.monotonic()
    for block in blocks:
        if time.monotonic() - checked >= CHECKED_S:
            try:
                refused = ended([right]).get(right)
            finally:
                close_old_connections()  # each block can be read in another thread
            if refused is not None:
                raise refused
            checked = time.monotonic()
        yield block


def _wanted(header: str, size: int) -> tuple[int | None, int | None]:
    """Return first and last byte; (None, None) if the range is outside. A header that is not a single range means the
    whole file."""
    match = _RANGE.fullmatch(header.replace(" ", ""))
    if match is None or match.groups() == ("", ""):
        return 0, size - 1
    start, end = match.groups()
    if not start:
        # `bytes=-500` means the last 500
        first, last = max(size - int(end), 0), size - 1
    else:
        first, last = int(start), min(int(end), size - 1) if end else size - 1
    return (first, last) if first <= last and first < size else (None, None)
