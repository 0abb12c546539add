"""The page edge of exports: the download button."""

from __future__ import annotations

from django.http import HttpResponse

from exports import exporting
from people.access import MemberRequest, may_export, member_required


@member_required(may_export)
def download(request: MemberRequest, shape: str) -> HttpResponse:
    """`/exports/sft/download?run=…`: the same rows as the command writes, for this project."""
    filters = {name: str(value) for name, value in request.GET.items() if value}
    actor = request.actor
    exporting.selected(actor, filters)
    manifest = exporting.new_manifest(shape, filters)
    # the whole file is made before the first byte leaves: an error must be an error page, not half a file
    body = list(exporting.lines(actor, shape, filters, manifest))
    response = HttpResponse(b"".join(body), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="awmweb-{request.project.slug}-{shape}.jsonl"'
    response["X-Awmweb-Rows"] = str(manifest.rows)
    return response
