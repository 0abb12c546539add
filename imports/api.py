"""The JSON API of imports: send a file, read its progress."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.http import HttpRequest
from ninja import File, Form, Router, Schema, Status
from ninja.files import UploadedFile

from imports.models import Import
from imports.record import importing
from people.access import visible_or_404
from people.http import REFUSALS, actor_of, answer_of, refuse_unknown

router = Router(tags=["imports"])


class RefusalView(Schema):
    """The reason a row was refused: `row` says where in the file it is."""

    row: str
    reason: str


class ImportView(Schema):
    """One import and its state. `episodes` counts new ones, `known` those that the project already had. A file with one
    refused row is refused as a whole. `lost` counts values that the record cannot hold, by kind."""

    id: str
    url: str
    name: str
    format: str | None
    state: str
    bytes: int
    bytes_read: int
    rows: int
    episodes: int
    known: int
    steps: int
    refused: int
    refusals: list[RefusalView]
    lost: dict[str, int]
    problem: str | None
    created_at: datetime


class ImportList(Schema):
    imports: list[ImportView]


def _view(job: Import) -> ImportView:
    return answer_of(
        ImportView,
        job,
        url=settings.AWMWEB_PUBLIC_URL + job.get_absolute_url(),
        format=job.format or None,
        bytes=job.size,
        bytes_read=job.behind,
        refusals=[RefusalView(row=row, reason=reason) for row, reason in job.refusals],
        problem=job.problem or None,
    )


@router.post("/imports", response={202: ImportView, **REFUSALS})
def start_import(request: HttpRequest, file: File[UploadedFile], format: Form[str] = "") -> Status[ImportView]:
    """Import a file of trajectories as multipart form data. Requires scope launch."""
    job = importing.request(actor_of(request), file.name or "", format, file.chunks())
    return Status(202, _view(job))


@router.get("/imports", response={200: ImportList, **REFUSALS})
def list_imports(request: HttpRequest) -> ImportList:
    """List the newest hundred."""
    refuse_unknown(request)
    return ImportList(imports=[_view(one) for one in importing.imports_of(actor_of(request))[:100]])


@router.get("/imports/{import_id}", response={200: ImportView, **REFUSALS})
def get_import(request: HttpRequest, import_id: str) -> ImportView:
    actor = actor_of(request)
    return _view(visible_or_404(importing.imports_of(actor), actor, import_id))
