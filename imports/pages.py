"""The page Imports: the form, the list of imports, and one import with its episodes.

Owns HTTP status and template choice.
"""

from __future__ import annotations

from django.db.models import QuerySet, Sum
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from imports.models import Import, ImportState
from imports.readers import FORMATS
from imports.readers.found import lost_words
from imports.record import importing
from people.access import MemberRequest, holds, may_launch, may_see_imports, member_required
from people.errors import AppError
from people.requests.forms import files_of, text_of
from people.text.plain_text import clean

LISTED, EPISODES = 50, 500


@require_http_methods(["GET", "POST"])
@member_required(may_see_imports)
def imports_page(request: MemberRequest) -> HttpResponse:
    """Show the form and the imports so far; POST takes a file."""
    problems: list[str] = []
    if request.method == "POST":
        accepted, problems = _requested(request)
        if accepted and not problems:
            return redirect(accepted[0] if len(accepted) == 1 else "imports")
    context = {
        "may_import": holds(request.actor, may_launch),
        "problems": problems,
        "formats": [(name, one.title) for name, one in FORMATS.items()],
        "imports": list(importing.imports_of(request.actor)[:LISTED]),
        "headline": _headline(importing.imports_of(request.actor)),
        "largest": importing.UPLOAD_MAX,
    }
    return render(request, "imports/page.html", context, status=422 if problems else 200)


def _requested(request: MemberRequest) -> tuple[list[Import], list[str]]:
    """Ask for an import of each file. A file that is refused says why, and the others come in."""
    accepted, problems = [], []
    files = files_of(request.FILES, "file")
    for file in files:
        try:
            made = importing.request(request.actor, file.name or "", text_of(request.POST, "format"), file.chunks())
            accepted.append(made)
        except AppError as refused:
            problems.append(f"{clean(file.name or 'file')}: {refused.message}" if len(files) > 1 else refused.message)
    return accepted, problems if files else ["Choose a file."]


def _headline(imports: QuerySet[Import]) -> str:
    done = imports.filter(state=ImportState.DONE)
    files, episodes = done.count(), done.aggregate(all=Sum("episodes"))["all"] or 0
    if not files:
        return "No file imported yet."
    made = "1 episode" if episodes == 1 else f"{episodes:,} episodes"
    return f"{made} imported from {'1 file' if files == 1 else f'{files:,} files'}."


@require_GET
@member_required(may_see_imports, rows=Import.objects.all)
def import_detail(request: MemberRequest, pk: str) -> HttpResponse:
    """Show one import: its progress, refused rows, losses and episodes. A fragment while the file is being read."""
    job = Import.objects.get(pk=pk)
    template = "imports/_one.html" if request.htmx else "imports/one.html"  # type: ignore[attr-defined]
    context = {
        "given": job,
        "title": FORMATS[job.format].title if job.format in FORMATS else "",
        "made": importing.episodes_of(job, EPISODES),
        "lost": lost_words(job.lost),
    }
    return render(request, template, context)
