"""The page edge of exports: the download button."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from exports import exporting
from people.access import may_export, member_required


@member_required(may_export)
def download(request: HttpRequest, shape: str) -> HttpResponse:
    """`/exports/sft/download?run=…`: the same rows as the command writes, for this project."""
    filters = {name: value for name, value in request.GET.items() if value}
    actor = request.actor  # type: ignore[attr-defined]
    exporting.selected(actor, filters)
    manifest = exporting.new_manifest(shape, filters)
    # the whole file is made before the first byte leaves: an error must be an error page, not half a file
    body = list(exporting.lines(actor, shape, filters, manifest))
    response = HttpResponse(b"".join(body), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="awmweb-{request.project.slug}-{shape}.jsonl"'  # type: ignore[attr-defined]
    response["X-Awmweb-Rows"] = str(manifest.rows)
    return response
