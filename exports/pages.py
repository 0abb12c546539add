"""The page Exports: a recipe with what it would give, the exports there are, and one export.

Owns HTTP status and which template. A recipe stands in the query string, so that a link to the page shares it.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from episodes.models import Episode, ExpertMode, Run
from exports import downloads, requesting, storing, tokenizing
from exports.formats import FORMATS
from exports.ground import tokenizer_root
from exports.models import Export, ExportState
from exports.preview import Preview, preview
from exports.recipe import FILTERS, Recipe
from exports.selecting import filters_of
from people.access import MemberRequest, may_export, member_required, scoped
from people.errors import AppError

LISTED, CHOICES = 50, 100
OUTCOMES = ("complete", "others")
ADVICE = (
    ("keep", "Keep", "as the agent read it"),
    ("keep_masked", "Keep, masked", "turns that ask carry no loss"),
    ("drop", "Drop", "only episodes without an ask"),
    ("distil", "Distill", "asks and advice are cut out"),
)
REDACT = (("secrets", "Secrets"), ("personal", "Secrets and personal data"), ("off", "Nothing"))
OPT_INS = (
    ("reported", "Outcomes that only the loop reported"),
    ("informed", "Advice from experts who saw the verifier"),
    ("gave_up", "Episodes in which the agent gave up"),
    ("passes_untouched", "Tasks whose verifier passes an untouched database"),
    ("duplicates", "Rows that repeat another row"),
    ("partial", "Partial scenarios"),
)
REASONS = {
    "branch": "Branch of another episode",
    "cancelled": "Canceled",
    "infrastructure_failure": "Infrastructure failure",
    "held_out": "Held-out task",
    "near_held_out": "Nearly a held-out task",
    "evaluation": "Evaluation run",
    "control_tool": "Agent had control tools",
    "reported_only": "Outcome only reported by the loop",
    "not_verified": "Not verified",
    "not_complete": "Not complete",
    "gave_up": "Agent gave up",
    "passes_untouched": "Verifier passes an untouched database",
    "informed": "Advice from somebody who saw the verifier",
    "partial": "Partial scenario",
    "verifier_text": "Quotes the verifier",
    "no_conversation": "No conversation",
    "asked": "Asked an expert",
    "mentions_expert": "Mentions the expert",
    "ungrounded": "Needs the advice to be known",
    "no_turn_left": "No turn left to learn",
    "duplicate": "Same as another row",
    "no_row": "Gives no row in this format",
    "too_many_of_task": "Too many episodes of one task",
}


@require_http_methods(["GET", "POST"])
@member_required(may_export)
def export_page(request: MemberRequest) -> HttpResponse:
    """The recipe and its preview; POST builds it."""
    if request.method == "POST":
        return _build(request)
    context: dict[str, Any] = {"given": (given := _given(request.GET)), **_choices(request, given)}
    try:
        recipe = recipe_of(request.GET)
        context |= _previewed(request, recipe)
    except AppError as refused:
        context["problem"] = refused.message
    return render(request, "exports/page.html", context, status=422 if context.get("problem") else 200)


def _build(request: MemberRequest) -> HttpResponse:
    try:
        export = requesting.request(request.actor, recipe_of(request.POST))
    except AppError as refused:
        given = _given(request.POST)
        context = {"given": given, **_choices(request, given), "problem": refused.message}
        return render(request, "exports/page.html", context, status=refused.status)
    return redirect("export", pk=export.pk)


@require_GET
@member_required(may_export)
def export_preview(request: MemberRequest) -> HttpResponse:
    """The preview alone, with the page's own address for the browser's line."""
    context: dict[str, Any] = {"moved": True}
    try:
        context |= _previewed(request, recipe_of(request.GET))
    except AppError as refused:
        context["problem"] = refused.message
    response = render(request, "exports/_preview.html", context)
    response["HX-Replace-Url"] = f"{reverse('exports')}?{_tidy(request.GET).urlencode()}"
    return response


def _previewed(request: MemberRequest, recipe: Recipe) -> dict[str, Any]:
    found = preview(request.actor, recipe)
    return {"recipe": recipe, "preview": found, "headline": _headline(found), "sieve": _sieve(found)}


def _headline(found: Preview) -> str:
    if not found.looked_at:
        return "Exports"
    of = f"{found.used:,} of {found.looked_at:,} episodes"
    rows = f"{found.rows:,} {'row' if found.rows == 1 else 'rows'}"
    return f"{rows} from {of}" if found.is_whole else f"{rows} from {of} (the newest of {found.matching:,})"


def _sieve(found: Preview) -> list[tuple[str, int, str]]:
    reasons = [(REASONS.get(name, name), count, "no") for name, count in found.left_out]
    return [("Looked at", found.looked_at, ""), *reasons, ("Used", found.used, "gd")]


def _tidy(given: QueryDict) -> QueryDict:
    """The query without empty fields, so that a shared address is short."""
    kept = QueryDict(mutable=True)
    for name, values in given.lists():
        kept.setlist(name, [value for value in values if value])
    return kept


def recipe_of(given: QueryDict) -> Recipe:
    """Return the recipe of a form. Raises `BadRecipe`."""
    options = {name: given[name] for name in ("format", "advice", "redact", "license") if given.get(name)}
    if options.get("format") == "tokens" and given.get("tokenizer"):
        options["tokenizer"] = given["tokenizer"]
    filters = filters_of((name, value) for name in FILTERS for value in given.getlist(name))
    lists = {"include": given.getlist("include"), "parquet": given.get("parquet") == "on"}
    return Recipe.read({"format": "sft", **options, "filter": filters, **lists})


def _given(given: QueryDict) -> dict[str, Any]:
    """What a form shows as chosen, right or wrong."""
    single = {name: given.get(name, "") for name in (*FILTERS, "license", "tokenizer")}
    return {
        **single,
        "format": given.get("format") or "sft",
        "advice": given.get("advice") or "keep",
        "redact": given.get("redact") or "secrets",
        "include": given.getlist("include"),
        "parquet": given.get("parquet") == "on",
    }


def _choices(request: MemberRequest, given: dict[str, Any]) -> dict[str, Any]:
    rows = scoped(Episode.objects.all(), request.project)
    tokenizers = tokenizing.names(tokenizer_root())
    return {
        "formats": [(name, one.title) for name, one in FORMATS.items() if name != "tokens" or tokenizers],
        "tokenizers": tokenizers,
        "advice_modes": ADVICE,
        "redactions": REDACT,
        "opt_ins": OPT_INS,
        "runs": list(scoped(Run.objects.all(), request.project).order_by("-created_at")[:CHOICES]),
        "filters": [
            ("outcome", "Outcome", list(OUTCOMES), given["outcome"]),
            ("expert", "Expert", list(ExpertMode.values), given["expert"]),
            *(
                (name, label, sorted(value for value in _values(rows, column) if value), given[name])
                for name, label, column in (
                    ("arm", "Arm", "arm"),
                    ("policy", "Policy", "policy_name"),
                    ("policy_kind", "Policy kind", "policy_kind"),
                    ("split", "Split", "split"),
                    ("origin", "Origin", "origin"),
                )
            ),
        ],
        "exports": list(requesting.exports_of(request.actor)[:LISTED]),
    }


def _values(rows: Any, column: str) -> list[str]:
    """Distinct values, the most there can be in a menu."""
    return list(rows.order_by().values_list(column, flat=True).distinct()[:CHOICES])


@require_GET
@member_required(may_export, rows=Export.objects.all)
def one(request: MemberRequest, pk: str) -> HttpResponse:
    """One export: how far it is, what it holds and why it holds no more. A fragment while it is being built."""
    export = Export.objects.get(pk=pk)
    manifest = export.manifest if isinstance(export.manifest, dict) else {}
    template = "exports/_one.html" if request.htmx else "exports/one.html"  # type: ignore[attr-defined]
    context = {
        "export": export,
        "manifest": manifest,
        "title": FORMATS[export.format].title if export.format in FORMATS else export.format,
        "files": _files(export) if export.state == ExportState.DONE else [],
        "left_out": [(REASONS.get(name, name), count) for name, count in _most(manifest.get("left_out"))],
        "rows_left_out": [(REASONS.get(name, name), count) for name, count in _most(manifest.get("rows_left_out"))],
        "redacted": _most(manifest.get("redacted")),
        "yaml": Recipe.read(export.recipe).as_yaml(),
        "again": _query(Recipe.read(export.recipe)),
    }
    return render(request, template, context)


def _most(counts: dict[str, int] | None) -> list[tuple[str, int]]:
    return sorted((counts or {}).items(), key=lambda pair: (-pair[1], pair[0]))


def _files(export: Export) -> list[tuple[str, int]]:
    """Path and size of each file; the data comes first."""
    found = list(storing.files_of(export.project_id, export.dataset))
    return sorted(found, key=lambda pair: (not pair[0].startswith("data/"), pair[0]))


def _query(recipe: Recipe) -> str:
    """The address of the page with this recipe; what the form has no field for is not in it."""
    query = QueryDict(mutable=True)
    query["format"], query["advice"], query["redact"] = recipe.format, recipe.advice, recipe.redact
    query.setlist("include", list(recipe.include))
    for name, values in recipe.filter.items():
        query.setlist(name, list(values))
    if recipe.parquet:
        query["parquet"] = "on"
    if recipe.tokenizer:
        query["tokenizer"] = recipe.tokenizer
    return query.urlencode()


@require_POST
@member_required(may_export, rows=Export.objects.all)
def command(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Cancel, delete, or build the same recipe again on the episodes there are now."""
    if command == "delete":
        requesting.delete(request.actor, pk)
        messages.success(request, "Export deleted.")
        return redirect("exports")
    if command == "cancel":
        requesting.cancel(request.actor, pk)
        return redirect("export", pk=pk)
    export = requesting.request(request.actor, Recipe.read(Export.objects.get(pk=pk).recipe))
    return redirect("export", pk=export.pk)


@require_GET
@member_required(may_export, rows=Export.objects.all)
def download(request: MemberRequest, pk: str) -> HttpResponseBase:
    export = Export.objects.select_related("project").get(pk=pk)
    return downloads.serve(request, export, request.GET.get("path", ""))
