"""The page edge of exports: the download button."""

from __future__ import annotations

import tempfile

from django.http import FileResponse

from exports import exporting
from people.access import MemberRequest, may_export, member_required


@member_required(may_export)
def download(request: MemberRequest, shape: str) -> FileResponse:
    """`/exports/sft/download?run=…`: the same rows as the command writes, for this project."""
    filters = {name: str(value) for name, value in request.GET.items() if value}
    actor = request.actor
    exporting.selected(actor, filters)
    # the whole file is made before the first byte leaves: an error must be an error page, not half a file
    file = tempfile.TemporaryFile()  # noqa: SIM115  the response closes it
    manifest = exporting.write(actor, shape, filters, file)
    file.seek(0)
    name = f"awmweb-{request.project.slug}-{shape}.jsonl"
    response = FileResponse(file, as_attachment=True, filename=name, content_type="application/x-ndjson")
    response["X-Awmweb-Rows"] = str(manifest.rows)
    return response
