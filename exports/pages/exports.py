"""The page Exports: a recipe with its preview, the list of exports, and one export.

Owns HTTP status and template choice. The recipe is in the query string, so that a link to the page shares it.
"""

from __future__ import annotations

from typing import IO, Any

import yaml
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from awmclient.schema import NOT_COUNTED
from episodes.find.facets import TITLES
from episodes.models import EXPERT_WORDS, Episode, ExpertMode, Run
from episodes.stored import run_names
from episodes.stored.strip import OUTCOMES, outcome_words
from exports.assembly import storing
from exports.errors import BadRecipe
from exports.explain import comparing, errata, explaining, reasons
from exports.explain.preview import Preview, preview
from exports.jobs import pushing, requesting
from exports.models import Export, ExportState
from exports.pages import downloads
from exports.recipe import FILTERS, KINDS, Recipe
from exports.rules import tokenizing
from exports.select.ground import tokenizer_root
from exports.select.reading import IMAGES
from exports.select.selecting import filters_of, may_open
from people.access import MemberRequest, holds, may_export, may_push, member_required, scoped, visible_or_404
from people.errors import AppError
from people.requests.forms import FormFields, in_form_words, read, text_of, texts_of
from people.requests.parts import part_of
from people.text import yaml_text
from people.text.in_words import clock, count

LISTED, CHOICES, YAML_MAX = 50, 100, 64 * 1024
COMPARED = 500_000
"""The most rows, of both exports together, that a page compares. The command compares larger ones."""
ADVICE = (
    ("keep", "Keep", "as the agent read it"),
    ("keep_masked", "Keep, masked", "no loss on turns that ask"),
    ("drop", "Drop", "only episodes without an ask"),
    ("distil", "Distill", "asks and advice are removed"),
)
REASONING = (("keep", "Keep"), ("keep_masked", "Keep, without loss"), ("drop", "Drop"))
REDACT = (("secrets", "Secrets"), ("personal", "Secrets and personal data"), ("off", "Nothing"))
OPT_INS = (
    ("reported", "Outcomes that a loop, a file or an environment reported"),
    ("informed", "Advice from experts who saw the verifier"),
    ("gave_up", "Episodes in which the agent gave up"),
    ("passes_untouched", "Tasks whose verifier passes an unmodified database"),
    ("duplicates", "Rows that repeat another row"),
    ("partial", "Partial scenarios"),
    ("ruled", "Tasks that the court ruled at fault"),
    ("rejected", "Complete episodes that reviewers rejected"),
    ("corrections", "Reviewers' unverified corrections, for DPO"),
    ("compared", "Pairs that reviewers compared, for DPO"),
    ("branches", "Branches of forks, for SFT"),
    ("verdicts", "Rejected episodes as what not to do, for DPO and KTO"),
)


@require_http_methods(["GET", "POST"])
@member_required(may_export)
def export_page(request: MemberRequest) -> HttpResponse:
    """Show the recipe and its preview; POST builds it."""
    if request.method == "POST":
        return _build(request)
    context: dict[str, Any] = {"given": (form_fields := _given(request.GET)), **_choices(request, form_fields)}
    try:
        recipe = recipe_of(request.GET)
        context |= _previewed(request, recipe)
    except AppError as refused:
        context["problem"] = in_form_words(refused.message)
    return render(request, "exports/page.html", context, status=422 if context.get("problem") else 200)


@require_POST
@member_required(may_export)
def load_recipe(request: MemberRequest) -> HttpResponse:
    """Load a recipe in YAML, pasted or from a file, into the form; errors are listed, and the text stays."""
    file = request.FILES.get("file")
    text = text_of(request.POST, "yaml")
    try:
        if file is not None:
            text = _text_of(file)
        if len(text) > YAML_MAX:
            raise BadRecipe(f"The recipe has more than {YAML_MAX:,} characters.")
        return redirect(f"{reverse('exports')}?{_query(_menus(request), Recipe.from_yaml(text))}")
    except AppError as refused:
        form_fields = _given(request.GET)
        problem = {"yaml": text[:YAML_MAX], "yaml_problem": in_form_words(refused.message)}
        context = {"given": form_fields, **_choices(request, form_fields), **problem}
        return render(request, "exports/page.html", context, status=422)


def _text_of(file: IO[bytes]) -> str:
    try:
        # one byte more shows that the file is too long
        return file.read(YAML_MAX + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecipe("The file is not UTF-8 text.") from error


def _build(request: MemberRequest) -> HttpResponse:
    try:
        export = requesting.request(request.actor, recipe_of(request.POST))
    except AppError as refused:
        form_fields = _given(request.POST)
        context = {"given": form_fields, **_choices(request, form_fields), "problem": in_form_words(refused.message)}
        return render(request, "exports/page.html", context, status=refused.status)
    return redirect("export", pk=export.pk)


@require_GET
@part_of("exports")
@member_required(may_export)
def export_preview(request: MemberRequest) -> HttpResponse:
    """Show only the preview, and set the page's own address in the browser."""
    context: dict[str, Any] = {"moved": True}
    try:
        context |= _previewed(request, recipe_of(request.GET))
    except AppError as refused:
        context["problem"] = in_form_words(refused.message)
    response = render(request, "exports/_preview.html", context)
    # htmx sets the address without a new entry in the history
    response["HX-Replace-Url"] = f"{reverse('exports')}?{_tidy(request.GET).urlencode()}"
    return response


def _previewed(request: MemberRequest, recipe: Recipe) -> dict[str, Any]:
    sample = preview(request.actor, recipe, text_of(request.GET, "template"))
    return {"recipe": recipe, "preview": sample, "headline": _headline(sample), "sieve": _sieve(sample)}


def _headline(sample: Preview) -> str:
    if not sample.matching:
        return "No finished episodes match."
    rows = count(sample.rows, "row") if sample.rows else "no rows"
    if not sample.is_whole:
        return f"Sample: {rows} from the newest {sample.looked_at:,} of {count(sample.usable, 'episode')}"
    if not sample.rows:
        return f"No rows from {count(sample.matching, 'episode')}"
    return f"{rows} from {sample.used:,} of {count(sample.matching, 'episode')}"


def _sieve(sample: Preview) -> list[tuple[str, int, str]]:
    unread = (
        ("No outcome to use", sample.matching - sample.usable),
        ("Not in the sample", sample.usable - sample.looked_at),
    )
    left_out = [*unread, *((reasons.label(name), count) for name, count in sample.left_out)]
    shown = [(word, count, "no") for word, count in left_out if count]
    return [("Considered", sample.matching, ""), *shown, ("Used", sample.used, "gd")]


def _tidy(query: QueryDict) -> QueryDict:
    """Return the query without empty fields, so that a shared address is short."""
    kept = QueryDict(mutable=True)
    for name, values in query.lists():
        kept.setlist(name, [value for value in values if value])
    return kept


class RecipeForm(FormFields):
    """The controls of a recipe, and `more` for fields without one. Its filters are beside these, by their names."""

    format: str = ""
    advice: str = ""
    redact: str = ""
    license: str = ""
    tokenizer: str = ""
    template: str = ""
    reasoning: str = "keep"
    include: list[str] = []
    parquet: str = ""
    more: str = ""


def recipe_of(sent: QueryDict) -> Recipe:
    """Return the recipe of a form: its controls, and `more` for fields without a control. Raises `BadRecipe`."""
    form = read(sent, RecipeForm)
    more, kind = _more(form.more), KINDS.get(form.format)
    options = {name: text for name in ("format", "advice", "redact", "license") if (text := getattr(form, name))}
    # the field keeps its value while another format is chosen
    if kind is not None and kind.takes_tokenizer and form.tokenizer:
        options["tokenizer"] = form.tokenizer
    # the default stays unsaid, so that the recipe is also one for formats without reasoning
    if kind is not None and form.reasoning != "keep" and kind.reasoning:
        options["reasoning"] = form.reasoning
    filters = filters_of((name, value) for name in FILTERS for value in texts_of(sent, name))
    lists = {"include": [*more.get("include", []), *form.include], "parquet": form.parquet == "on"}
    # a control wins over the same field in `more`
    return Recipe.read({"format": "sft", **more, **options, "filter": {**more.get("filter", {}), **filters}, **lists})


def _more(text: str) -> dict[str, Any]:
    """Return fields of a recipe that the form has no control for, as YAML."""
    try:
        value = yaml_text.read(text) or {}
    except yaml_text.BadYaml as error:
        raise BadRecipe(f"More of the recipe: not YAML: {error}"[:500]) from error
    shapes = {"filter": dict, "include": list}
    if not isinstance(value, dict) or not all(isinstance(value.get(name, of()), of) for name, of in shapes.items()):
        raise BadRecipe("More of the recipe: use fields such as `authors: true`, with filter as names and values.")
    return value


def _given(sent: QueryDict) -> dict[str, Any]:
    """Return the values that a form shows as chosen, valid or not."""
    form = read(sent, RecipeForm)
    return {
        **{name: text_of(sent, name) for name in FILTERS},
        **form.model_dump(),
        "format": form.format or "sft",
        "advice": form.advice or "keep",
        "reasoning": form.reasoning or "keep",
        "redact": form.redact or "secrets",
        "parquet": form.parquet == "on",
    }


def _menus(request: MemberRequest) -> dict[str, list[str]]:
    """Return the options of each filter that has a menu, except runs."""
    rows = scoped(Episode.objects.all(), request.project)
    menus = {
        name: sorted(value for value in _values(rows, column) if value)
        for name, column in (
            ("arm", "arm"),
            ("policy", "policy_name"),
            ("policy_kind", "policy_kind"),
            ("split", "split"),
            ("origin", "origin"),
        )
    }
    runs = [text for run in _runs(request) for text in (run.pk, run.name)]
    return {
        "outcome": [name for name in OUTCOMES if name not in NOT_COUNTED],
        "expert": list(ExpertMode.values),
        **menus,
        "run": runs,
    }


def _runs(request: MemberRequest) -> list[Run]:
    """Return the newest runs, each with a `label` that no other run has."""
    runs = list(scoped(Run.objects.all(), request.project).order_by("-created_at")[:CHOICES])
    labels = run_names.apart(request.project, {run.pk: run.name for run in runs})
    for run in runs:
        run.label = labels[run.pk]  # type: ignore[attr-defined]
    return runs


def _refusal_of_build(request: MemberRequest) -> str:
    """Return why this person cannot build any export now; empty if they can."""
    try:
        may_open(request.actor)
    except AppError as refused:
        return refused.message
    return ""


def _choices(request: MemberRequest, form_fields: dict[str, Any]) -> dict[str, Any]:
    tokenizers = tokenizing.names(tokenizer_root())
    menus = _menus(request)
    return {
        "refusal": _refusal_of_build(request),
        "formats": [(name, one.title) for name, one in KINDS.items()],
        "tokenizers": tokenizers,
        "advice_modes": ADVICE,
        "reasoning_choices": REASONING,
        "redactions": REDACT,
        "opt_ins": OPT_INS,
        "runs": _runs(request),
        "filters": [
            (
                name,
                TITLES.get(name) or name.replace("_", " ").capitalize(),
                [(value, _words(name, value)) for value in menu],
                form_fields[name],
            )
            for name, menu in menus.items()
            if name != "run"
        ],
        "exports": (exports := list(requesting.exports_of(request.actor)[:LISTED])),
        # the number of rows of an export, or that a repair changed some, can reveal an outcome
        "shows_rows": (opens := holds(request.actor, may_open)),
        "with_errata": errata.with_errata([export.pk for export in exports]) if opens else set(),
    }


def _words(name: str, value: str) -> str:
    if name == "expert":
        return EXPERT_WORDS[ExpertMode(value)].capitalize()
    return outcome_words(value) if name == "outcome" else value


def _values(rows: Any, column: str) -> list[str]:
    """Return distinct values, as many as a menu can hold."""
    return list(rows.order_by().values_list(column, flat=True).distinct()[:CHOICES])


@require_GET
@member_required(may_open, rows=Export.objects.all)
def export_detail(request: MemberRequest, pk: str) -> HttpResponse:
    """Show one export: its progress, its contents and why it has no more rows. A fragment during the build.

    `row` and `episode` in the query ask for the origin of a row, and for why an episode is not in it.

    """
    # the decorator has checked the project
    export = Export.objects.select_related("project").get(pk=pk)
    manifest = export.manifest if isinstance(export.manifest, dict) else {}
    template = "exports/_one.html" if request.htmx else "exports/one.html"  # type: ignore[attr-defined]
    context = {
        "export": export,
        "manifest": manifest,
        "title": KINDS[export.format].title if export.format in KINDS else export.format,
        "files": _files(export) if export.state == ExportState.DONE else [],
        "left_out": [(reasons.label(name), count) for name, count in _most(manifest.get("left_out"))],
        "rows_left_out": [(reasons.label(name), count) for name, count in _most(manifest.get("rows_left_out"))],
        "redacted": _most(manifest.get("redacted")),
        "yaml": Recipe.read(export.recipe).as_yaml(),
        "left": clock(export.seconds_left) if export.seconds_left is not None else "",
        "again": "" if export.is_working else _query(_menus(request), Recipe.read(export.recipe)),
        **(_explained(request, export) if export.state == ExportState.DONE else {}),
    }
    return render(request, template, context)


def _explained(request: MemberRequest, export: Export) -> dict[str, Any]:
    """Return the explanation of one row or one episode, and the datasets that can be compared with this one."""
    row, episode = (text_of(request.GET, name).strip() for name in ("row", "episode"))
    others = requesting.exports_of(request.actor).filter(state=ExportState.DONE, format=export.format)
    context: dict[str, Any] = {"asked_row": row, "asked_episode": episode}
    context["pushes"] = list(export.pushes.order_by("-created_at")[:5])
    context["is_pushing"] = any(push.is_working for push in context["pushes"])
    context["may_push"] = holds(request.actor, may_push)
    context["hub"] = settings.HUB_ENDPOINT if settings.HUB_TOKEN else ""
    # two exports of one dataset have no difference
    context["errata"] = errata.of_exports([export.pk])[export.pk]
    context["others"] = [one for one in others.exclude(pk=export.pk)[:LISTED] if one.dataset != export.dataset]
    dataset = explaining.of_export(export)
    try:
        if row:
            context["origin"] = explaining.row_origin(dataset, row)
        if episode:
            context["fate"] = explaining.fate_of(dataset, episode)
    except AppError as refused:
        context["not_found"] = refused.message
    return context


@require_POST
@member_required(may_push, rows=Export.objects.all)
def push(request: MemberRequest, pk: str) -> HttpResponse:
    """Start a push to the Hub; the page shows its progress."""
    try:
        private = text_of(request.POST, "public") != "on"
        pushing.request(request.actor, pk, text_of(request.POST, "repo").strip(), private=private)
    except AppError as refused:
        messages.error(request, refused.message)
    return redirect(f"{reverse('export', args=[pk])}#hub")


@require_GET
@member_required(may_open, rows=Export.objects.all)
def compare(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the differences between an older export (`with`) and this one, row by row; the address can be shared."""
    new = Export.objects.select_related("project").get(pk=pk)
    old = visible_or_404(Export.objects.select_related("project"), request.actor, text_of(request.GET, "with"))
    context: dict[str, Any] = {"old": old, "new": new}
    if old.rows + new.rows > COMPARED:
        context["too_many"] = COMPARED
        return render(request, "exports/compare.html", context)
    difference = comparing.compare(explaining.of_export(old), explaining.of_export(new))
    kinds = (
        ("Added", difference.added, new),
        ("Removed", difference.removed, old),
        ("Changed", difference.changed, new),
    )
    context |= {
        "found": difference,
        "kinds": [(word, change, home, change.why.most_common()) for word, change, home in kinds],
    }
    return render(request, "exports/compare.html", context)


def _most(counts: dict[str, int] | None) -> list[tuple[str, int]]:
    return sorted((counts or {}).items(), key=lambda pair: (-pair[1], pair[0]))


def _files(export: Export) -> list[tuple[str, int]]:
    """Return path and size of each file, the data file first. Pictures are too many for a page, which counts them."""
    files = list(storing.files_of(export.project_id, export.dataset, without=f"data/{IMAGES}"))
    return sorted(files, key=lambda pair: (not pair[0].startswith("data/"), pair[0]))


def _query(menus: dict[str, list[str]], recipe: Recipe) -> str:
    """Return the address of the page with this recipe; fields without a control are in `more`."""
    query, more = QueryDict(mutable=True), recipe.model_dump(mode="json", exclude_defaults=True)
    for name in ("format", "advice", "redact", "tokenizer"):
        more.pop(name, None)
        query[name] = getattr(recipe, name)
    query["reasoning"] = more.pop("reasoning", "")
    shown = [name for name in recipe.include if name in dict(OPT_INS)]
    query.setlist("include", shown)
    more["include"] = [name for name in recipe.include if name not in shown]
    more["filter"] = {}
    for name, values in recipe.filter.items():
        # a control shows one value; several go to `more`
        if len(values) == 1 and (name == "scenario" or values[0] in menus.get(name, ())):
            query[name] = values[0]
        else:
            more["filter"][name] = list(values)
    if more.pop("parquet", False):
        query["parquet"] = "on"
    more = {name: value for name, value in more.items() if value}
    if more:
        query["more"] = yaml.safe_dump(more, sort_keys=False)
    return _tidy(query).urlencode()


@require_POST
@member_required(may_open, rows=Export.objects.all)
def command(request: MemberRequest, pk: str, command: str) -> HttpResponse:
    """Cancel, delete, or build the same recipe again from the current episodes."""
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
@member_required(may_open, rows=Export.objects.all)
def download(request: MemberRequest, pk: str) -> HttpResponseBase:
    export = Export.objects.select_related("project").get(pk=pk)
    return downloads.serve(request, request.actor, export, text_of(request.GET, "path"))
