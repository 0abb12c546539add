"""The page Desk: how a project wants its asks routed, in words, with the models that may answer and who changed what.

Owns the words of the form and the reading of what was typed. What a value may be is `desk.py`'s to say; nothing that
was typed is lost when it refuses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from experts import availability, desk
from experts.errors import PolicyRefused
from experts.models import Desk, Tier
from people.access import MemberRequest, holds, may_see_queue, may_set_desk, member_required, scoped
from people.errors import BadJson, NotFound
from people.http import parse_json
from people.models import AuditEntry, Membership, display_name

CHANGES = 20


@dataclass(frozen=True)
class Knob:
    """One value of the desk as it stands in the form. `kind`: switch, share, whole, limit, choice or person."""

    name: str
    label: str
    words: str
    kind: str
    unit: str = ""


SECTIONS: list[tuple[str, list[Knob]]] = [
    (
        "Who answers first",
        [
            Knob(
                "model_first",
                "The model answers first",
                "Off: people are asked, and a model is the last resort. On: a model answers, and people get the shares "
                "below and whatever the model is unsure of.",
                "switch",
            ),
            Knob(
                "people_while_free",
                "People first while they have capacity",
                "With the model first: an ask goes to people who are online and have capacity before the model sees "
                "it. Off: only the audit share and large groups do.",
                "switch",
            ),
            Knob(
                "audit_share",
                "Audit share",
                "How likely an ask goes to people although the model is first; 0.05 is one in twenty.",
                "share",
            ),
            Knob(
                "low_confidence",
                "Low confidence",
                "A model that is less sure than this passes the ask on to people; its text is kept as an unseen draft.",
                "share",
            ),
            Knob(
                "large_group",
                "Large group",
                "From so many open asks that ask the same on, they go to people: one answer serves all.",
                "whole",
                "asks",
            ),
            Knob("seed", "Seed", "The draw follows from it and the ask's id, so it can be checked later.", "whole"),
        ],
    ),
    (
        "Human time",
        [
            Knob("capacity", "Capacity", "Asks that one person may hold at once.", "whole", "asks"),
            Knob(
                "per_hour",
                "Budget per hour",
                "Asks of one run that may go to people within an hour. Empty: no limit. 0: none.",
                "limit",
                "asks",
            ),
            Knob(
                "per_training_step",
                "Budget per training step",
                "Asks of one run that may go to people within one training step. Empty: no limit.",
                "limit",
                "asks",
            ),
            Knob(
                "wait_limit_s",
                "Wait limit",
                "Where people would take longer than this, the ask is not put before them; without a model it falls "
                "back at once. Empty: no limit.",
                "limit",
                "s",
            ),
            Knob("senior", "Senior expert", "One person behind the others: who passes upwards reaches them.", "person"),
        ],
    ),
    (
        "Models and the cache",
        [
            Knob(
                "cache",
                "Answers that serve again",
                "Whether the exact repeat of a question of the same task gets the answer that was given before.",
                "choice",
            ),
            Knob(
                "model_tokens_per_hour",
                "Model tokens per hour",
                "What the models of this project may use; beyond it they pass every ask on. Empty: no limit.",
                "limit",
                "tokens",
            ),
        ],
    ),
]
KNOBS = {knob.name: knob for _, knobs in SECTIONS for knob in knobs}


@require_http_methods(["GET", "POST"])
@member_required(may_see_queue)
def desk_page(request: MemberRequest) -> HttpResponse:
    """Everybody reads; admins and researchers change. What was typed stays where a value is refused."""
    if request.method == "GET":
        return _page(request, _texts(availability.desk_of(request.project)), {})
    may_set_desk(request.actor)
    typed = {name: _typed(request, knob) for name, knob in KNOBS.items()}
    was = _was(request.POST.get("was", ""))
    touched = {name: text for name, text in typed.items() if was.get(name) != text}
    try:
        _save(request, touched)
    except PolicyRefused as refused:
        return _page(request, typed, refused.problems, was)
    return redirect("desk")


def _save(request: MemberRequest, touched: Mapping[str, str]) -> None:
    """Only what this form changed, so that what somebody else changed meanwhile stays."""
    wanted: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, text in touched.items():
        try:
            wanted[name] = _value(request, KNOBS[name], text)
        except ValueError as error:
            unread[name] = str(error)
    problems = {**desk.problems_of(request.actor, wanted), **unread}
    if problems:
        raise PolicyRefused(problems)
    desk.set_policy(request.actor, **wanted)
    names = ", ".join(KNOBS[name].label.lower() for name in wanted)
    messages.success(request, f"Saved: {names}. Asks that come from now on follow it." if names else "Nothing changed.")


def _typed(request: MemberRequest, knob: Knob) -> str:
    if knob.kind == "switch":
        return "on" if request.POST.get(knob.name) else "off"
    return request.POST.get(knob.name, "").strip()[:40]


def _was(text: str) -> dict[str, str]:
    """What the form showed when it was opened."""
    try:
        given = parse_json(text.encode("utf-8", "surrogatepass"))
    except BadJson:
        return {}
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


def _texts(row: Desk) -> dict[str, str]:
    """The values as the form shows them."""
    return {name: _text(getattr(row, name)) for name in KNOBS}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Membership):
        return str(value.pk)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _value(request: MemberRequest, knob: Knob, text: str) -> Any:
    """What a text means; a ValueError says what it should have been."""
    if knob.kind == "switch":
        return text == "on"
    if knob.kind == "choice":
        return text
    if knob.kind == "person":
        return _person(request, text)
    if knob.kind == "limit" and not text:
        return None
    try:
        return float(text.replace(",", ".")) if knob.kind == "share" else int(text)
    except ValueError:
        raise ValueError(
            f"{text or 'Nothing'} is not a {'share' if knob.kind == 'share' else 'whole number'}."
        ) from None


def _person(request: MemberRequest, text: str) -> Membership | None:
    if not text:
        return None
    people = {str(one.pk): one for one in availability.advisers(request.project, timezone.now())}
    if text not in people:
        raise ValueError("Somebody of this project who may answer.")
    return people[text]


def _page(
    request: MemberRequest, texts: Mapping[str, str], problems: Mapping[str, str], was: Mapping[str, str] | None = None
) -> HttpResponse:
    actor, now = request.actor, timezone.now()
    row = availability.desk_of(actor.project)
    advisers = availability.advisers(actor.project, now)
    choices = {
        "cache": Desk._meta.get_field("cache").flatchoices,
        "senior": [("", "Nobody"), *((str(one.pk), display_name(one.user)) for one in advisers)],
    }
    outlook = availability.outlook(actor.project, now)
    context = {
        "frame": "experts/_parts.html" if request.htmx else "base.html",  # type: ignore[attr-defined]
        "headline": headline(row),
        "sections": [
            (words, [(knob, texts[knob.name], choices.get(knob.name), problems.get(knob.name, "")) for knob in knobs])
            for words, knobs in SECTIONS
        ],
        "was": json.dumps(dict(was if was is not None else texts)),
        "problems": problems,
        "may_set": holds(actor, may_set_desk),
        "desk": outlook,
        "tiers": [(words, outlook.by_tier.get(str(tier), 0)) for tier, words in Tier.choices if tier != Tier.CACHE],
        "models": availability.expert_models(actor.project, now),
        "tokens": availability.tokens_spent(actor.project, now),
        "changes": scoped(AuditEntry.objects.filter(verb="desk.changed"), actor.project).order_by("-at")[:CHANGES],
    }
    return render(request, "experts/desk.html", context, status=422 if problems else 200)


def headline(row: Desk) -> str:
    """What the desk does now, as a sentence."""
    if not settings.EXPERT_ENDPOINTS:
        return "People answer every ask; no expert model is set up."
    if row.model_first:
        share = f"{row.audit_share * 100:.3g}\u00a0%"
        if row.people_while_free:
            return f"People come first while they have capacity, then the model; when busy, they get {share}."
        return f"The model answers first; people get {share} and whatever it is unsure of."
    return "People are asked first; the model is the last resort."


@require_POST
@member_required(may_set_desk)
def test_expert(request: MemberRequest, name: str) -> HttpResponse:
    """Ask this model for one word and show what it says, its own error included."""
    endpoint = settings.EXPERT_ENDPOINTS.get(name)
    if endpoint is None:
        raise NotFound("No expert model has this name.")
    probe = asyncio.run(endpoint.probe())
    return render(request, "awmweb/_model_test.html", {"ok": probe.ok, "words": probe.message})
