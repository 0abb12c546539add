"""The page of a project's labels, and the page that labels several episodes: those that were selected in the list.

Owns HTTP status, redirects and words. It reads and writes only this person's own labels, so it reveals nothing to a
blind reviewer. Every write is a function of `annotating.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from episodes.models import Episode
from people.access import (
    MemberRequest,
    holds,
    may_annotate,
    may_see_reviews,
    may_set_reviews,
    member_required,
    scoped,
)
from people.errors import AppError, Invalid
from people.requests.forms import ids_of, text_of, texts_of
from reviews.models import Annotation, LabelSchema, SchemaKind
from reviews.record import annotating, schemas
from reviews.visible.annotated import own_labels
from reviews.visible.label_forms import value_of
from reviews.visible.narrowing import carried as carried_by

MOST = 200


@require_GET
@member_required(may_see_reviews)
def labels_page(request: MemberRequest) -> HttpResponse:
    """Show the project's labels, those that were retired, and how many episodes carry each."""
    actor, carried = request.actor, carried_by(request.actor)
    current, retired = schemas.of_project(actor.project), schemas.retired(actor.project)
    asked = schemas.asked_in(actor.project)
    context = {
        "labels": [(one, carried[one.name], asked.get(one.pk, [])) for one in current],
        "retired": [(one, carried[one.name]) for one in retired],
        "kinds": SchemaKind.choices,
        "may_set": holds(actor, may_set_reviews),
    }
    return render(request, "reviews/labels.html", context)


@require_POST
@member_required(may_set_reviews)
def retire_label(request: MemberRequest) -> HttpResponse:
    ended = schemas.retire(request.actor, text_of(request.POST, "name"))
    messages.success(request, f"Label {ended.title} is retired. Episodes keep the labels that were set.")
    return redirect("labels")


@require_http_methods(["GET", "POST"])
@member_required(may_annotate)
def label_episodes(request: MemberRequest) -> HttpResponse:
    """Show the project's labels for the selected episodes, and set or withdraw one on all of them."""
    actor, problem, status = request.actor, "", 200
    ids = ids_of(request.POST or request.GET, "episode")
    if not 0 < len(ids) <= MOST:
        raise Invalid(f"Select 1 to {MOST} episodes on Episodes, then Label.")
    if request.method == "POST":
        try:
            messages.success(request, _answer(request, ids))
            # redirected, so that a reload does not set the label again
            return redirect(f"{reverse('label_episodes')}?{urlencode([('episode', pk) for pk in ids])}")
        except AppError as refused:
            problem, status = refused.message, refused.status
    # a query returns its own order; the page lists them as they were selected
    episodes = sorted(scoped(Episode.objects.filter(pk__in=ids), actor.project), key=lambda row: ids.index(row.pk))
    labels = [
        (label, _own(label, own_labels(actor, ids, label.name), len(ids)))
        for label in schemas.of_project(actor.project)
    ]
    context = {"ids": ids, "episodes": episodes, "labels": labels, "problem": problem, "given": request.POST}
    return render(request, "reviews/label_episodes.html", context, status=status)


def _answer(request: MemberRequest, ids: list[str]) -> str:
    """Run the form's command and return its result, with the unchanged episodes and the reasons."""
    label = schemas.version_of(request.actor.project, text_of(request.POST, "schema"))
    if text_of(request.POST, "withdraw") == "1":
        count = annotating.undo_all(request.actor, ids, label.name)
        return f"Withdrew {label.title} from {count or 'no'} {'episode' if count == 1 else 'episodes'}."
    tally = annotating.annotate_all(request.actor, ids, label, value_of(texts_of(request.POST, "value"), label.kind))
    return _tally_text(label.title, tally, len(ids))


def _own(label: LabelSchema, rows: Mapping[str, Annotation], total: int) -> str:
    """Return on how many of the selected episodes this person has set the label, and which values; nothing for none."""
    if not rows or not SchemaKind(label.kind).is_counted:
        return f"You labeled {len(rows):,} of {total:,}." if rows else ""
    names = {one.get("value"): one.get("label") for one in label.options}
    chosen = (row.text if isinstance(row.text, list) else [row.text] for row in rows.values())
    # a value of an earlier version may have no name now
    tally = Counter(", ".join(str(names.get(one) or one) for one in values) or "none" for values in chosen)
    return f"You labeled {len(rows):,} of {total:,}: {'; '.join(f'{count} {name}' for name, count in tally.items())}."


def _tally_text(title: str, tally: Counter[str], total: int) -> str:
    # "" counts the labeled ones; what is left are reasons
    labeled = f"Set {title} on {tally.pop('', 0):,} of {total:,} selected {'episode' if total == 1 else 'episodes'}."
    return " ".join([labeled, *(f"{count} {reason}" for reason, count in tally.items())])
