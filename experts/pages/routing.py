"""The page Routing: how a project routes its asks, the models that can answer, and the history of changes.

Owns the labels of the form and the parsing of its values. `desk.py` validates them; the form keeps what was typed
when a value is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from experts import llm
from experts.errors import PolicyRefused
from experts.models import Desk, Tier
from experts.record import desk
from experts.who import advisers, online, policies
from people.access import MemberRequest, holds, may_see_queue, may_set_desk, member_required, scoped
from people.errors import BadJson, NotFound
from people.models import AuditEntry, Membership, display_name
from people.requests.forms import DIGITS_MAX, number_in, text_of
from people.text.json_text import parse_json

CHANGES = 20


@dataclass(frozen=True)
class Knob:
    """One setting in the form. `kind`: switch, share, whole, limit, choice, person or
    patterns."""

    name: str
    label: str
    words: str
    kind: str
    unit: str = ""
    empty: str = "no limit"
    """What a limit without a value means."""


SECTIONS: list[tuple[str, list[Knob]]] = [
    (
        "Who answers first",
        [
            Knob(
                "model_first",
                "Model answers first",
                "Off: people answer; the model drafts, and answers only if no person does. On: the model answers; "
                "people get the audit share, large groups and asks with low model confidence.",
                "switch",
            ),
            Knob(
                "people_while_free",
                "People first while they have capacity",
                "With the model first: asks go to people who are online and have capacity before the model sees "
                "them. Off: people get only the audit share and large groups.",
                "switch",
            ),
            Knob(
                "audit_share",
                "Audit share",
                "Share of asks sent to people even when the model answers first (0.05 = 5%).",
                "share",
            ),
            Knob(
                "low_confidence",
                "Low confidence",
                "If the model's confidence is below this, the ask goes to people and the answer is kept as a hidden "
                "draft.",
                "share",
            ),
            Knob(
                "large_group",
                "Large group",
                "When this many open asks share a question, send them to people. One answer covers all of them.",
                "whole",
                "asks",
            ),
            Knob("seed", "Seed", "Seed of the random draw. The same seed and ask ID always draw the same.", "whole"),
            Knob(
                "model_tokens_per_hour",
                "Model tokens per hour",
                "Tokens that the models of this project can use per hour. Above it they decline asks. Empty: no limit.",
                "limit",
                "tokens",
            ),
        ],
    ),
    (
        "People",
        [
            Knob("capacity", "Claim limit", "Open asks one person can claim at the same time.", "whole", "asks"),
            Knob(
                "per_hour",
                "Budget per hour",
                "Asks of one run sent to people per hour. Empty: no limit. 0: none.",
                "limit",
                "asks",
            ),
            Knob(
                "per_training_step",
                "Budget per training step",
                "Asks of one run sent to people per training step. Empty: no limit. 0: none.",
                "limit",
                "asks",
            ),
            Knob(
                "wait_limit_s",
                "Wait limit",
                "If the expected wait is longer, skip people. Without a model, the ask falls back immediately. Empty: "
                "no limit.",
                "limit",
                "s",
            ),
            Knob("senior", "Senior expert", "Receives escalated asks.", "person"),
            Knob(
                "undo_s",
                "Time to undo",
                "Seconds that an answer or decision from a page can be undone before the agent gets it, at most a "
                "tenth of the time to the deadline. 0: not at all. Empty: the server's default.",
                "limit",
                "s",
                "default",
            ),
        ],
    ),
    (
        "Approvals and links",
        [
            Knob(
                "high_risk",
                "High-risk tools",
                "Patterns of tool names, separated by commas. Their calls are decided one by one: no standing answer "
                "and no batch approves them. Empty: none.",
                "patterns",
            ),
            Knob(
                "quorum",
                "People per approval",
                "How many different people approve the same calls, one rule a line: a pattern of tools, or high-risk, "
                "=> 2 to 5, and perhaps a role. Examples: *refund* => 2; high-risk => 2 admin. A line such as after "
                "50% => admin sends what lacks people by then to a role or a skill. Empty: one person.",
                "patterns",
            ),
            Knob(
                "second_look",
                "Second look",
                "Rules that return an answer before it leaves, one a line: pattern => reason. Example: "
                r"\b\d{16}\b => Remove the card number. Empty: none.",
                "patterns",
            ),
            Knob(
                "second_look_model",
                "Second look by a model",
                "An expert model that reads people's answers on the ask's page and through links before they leave. "
                "It can return one with its reason; the person can send it anyway. It takes 6 s at most, and an answer "
                "never waits for a model that fails.",
                "choice",
            ),
            Knob(
                "answer_links",
                "Answer links",
                "Emails and webhooks have a link that answers this one ask in the person's name, once, without signing "
                "in. Off: links that were sent stop working.",
                "switch",
            ),
        ],
    ),
    (
        "Answer cache",
        [
            Knob(
                "cache",
                "Answer cache",
                "Reuse an earlier answer when the same task asks exactly the same question.",
                "choice",
            ),
        ],
    ),
]
FOR_MODELS = SECTIONS[0][0]
"""The section whose values do nothing while no expert model is configured."""
KNOBS = {knob.name: knob for _, knobs in SECTIONS for knob in knobs}


@require_http_methods(["GET", "POST"])
@member_required(may_see_queue)
def desk_page(request: MemberRequest) -> HttpResponse:
    """Show the settings to every member; save them for admins and researchers. Keep typed values that are refused."""
    if request.method == "GET":
        return _page(request, _texts(policies.desk_of(request.project)), {})
    may_set_desk(request.actor)
    typed = {name: _typed(request, knob) for name, knob in KNOBS.items()}
    was = _was(text_of(request.POST, "was"))
    touched = {name: text for name, text in typed.items() if was.get(name) != text}
    try:
        _save(request, touched)
    except PolicyRefused as refused:
        return _page(request, typed, refused.problems, was)
    return redirect("desk")


def _save(request: MemberRequest, touched: Mapping[str, str]) -> None:
    """Save only the values that this form changed, so that concurrent changes of others stay."""
    changes: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, text in touched.items():
        try:
            changes[name] = _value(request, KNOBS[name], text)
        except ValueError as error:
            unread[name] = str(error)
    problems = {**desk.problems_of(request.actor, changes), **unread}
    if problems:
        raise PolicyRefused(problems)
    desk.set_policy(request.actor, **changes)
    names = ", ".join(KNOBS[name].label.lower() for name in changes)
    messages.success(request, f"Saved: {names}. Applies to new asks." if names else "No changes.")


def _typed(request: MemberRequest, knob: Knob) -> str:
    if knob.kind == "switch":
        return "on" if text_of(request.POST, knob.name) else "off"
    # a value that is refused is shown again, so it must not be of any length
    return text_of(request.POST, knob.name).strip()[: 5000 if knob.kind == "patterns" else 40]


def _was(text: str) -> dict[str, str]:
    """Return the values that the form showed when it was opened."""
    try:
        shown = parse_json(text.encode("utf-8", "surrogatepass"))
    except BadJson:
        return {}
    return {str(name): str(value) for name, value in shown.items()} if isinstance(shown, dict) else {}


def _texts(row: Desk) -> dict[str, str]:
    """Return the values as the form shows them."""
    return {name: _form_text(getattr(row, name)) for name in KNOBS}


def _form_text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Membership):
        return str(value.pk)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _value(request: MemberRequest, knob: Knob, text: str) -> Any:
    """Return the value of a text. Raises ValueError with what the text should be."""
    if knob.kind == "switch":
        return text == "on"
    if knob.kind in ("choice", "patterns"):
        return text
    if knob.kind == "person":
        return _person(request, text)
    if knob.kind == "limit" and not text:
        return None
    if knob.kind != "share":
        if (number := number_in(text, DIGITS_MAX, -DIGITS_MAX)) is None:
            raise ValueError("Enter a whole number.")
        return number
    try:
        return float(text.replace(",", "."))  # many people write a decimal comma
    except ValueError:
        raise ValueError("Enter a share from 0 to 1.") from None


def _person(request: MemberRequest, text: str) -> Membership | None:
    if not text:
        return None
    people = {str(one.pk): one for one in advisers.advisers(request.project, timezone.now())}
    if text not in people:
        raise ValueError("Choose a member of this project who can answer asks.")
    return people[text]


def _page(
    request: MemberRequest, texts: Mapping[str, str], problems: Mapping[str, str], was: Mapping[str, str] | None = None
) -> HttpResponse:
    actor, now = request.actor, timezone.now()
    row = policies.desk_of(actor.project)
    could_be_senior = advisers.advisers(actor.project, now)
    choices = {
        "cache": Desk._meta.get_field("cache").flatchoices,
        "second_look_model": _models(row.second_look_model),
        "senior": [("", "No one"), *((str(one.pk), display_name(one.user)) for one in could_be_senior)],
    }
    outlook = online.outlook(actor.project, now)
    changes = scoped(AuditEntry.objects.filter(verb="desk.changed"), actor.project).order_by("-at")
    context = {
        "frame": "experts/desk/_parts.html" if request.htmx else "base.html",  # type: ignore[attr-defined]
        "headline": headline(row),
        **_sections(texts, choices, problems),
        "was": json.dumps(dict(was if was is not None else texts)),
        "problems": problems,
        "may_set": holds(actor, may_set_desk),
        "desk": outlook,
        "tiers": [(words, outlook.by_tier.get(str(tier), 0)) for tier, words in Tier.choices if tier != Tier.CACHE],
        "models": policies.expert_models(actor.project, now),
        "tokens": policies.tokens_spent(actor.project, now),
        "changes": [(one, _changed(one)) for one in changes[:CHANGES]],
    }
    return render(request, "experts/desk/desk.html", context, status=422 if problems else 200)


def _models(now: str) -> list[tuple[str, str]]:
    """Return the expert models to choose from; one that was chosen and is no longer configured stays."""
    configured = [(name, f"{name} ({endpoint.model})") for name, endpoint in settings.EXPERT_ENDPOINTS.items()]
    unset = [(now, f"{now}, not configured")] if now and now not in settings.EXPERT_ENDPOINTS else []
    return [("", "Off"), *configured, *unset]


def _changed(entry: AuditEntry) -> str:
    """Return what a change set, with the labels of the form in place of the names that the log keeps."""
    words = entry.reason
    for name in entry.target.split(", "):
        if name in KNOBS:
            words = re.sub(rf"(^|; ){name}: ", rf"\1{KNOBS[name].label}: ", words, count=1)
    return words


def _sections(texts: Mapping[str, str], choices: Mapping[str, Any], problems: Mapping[str, str]) -> dict[str, Any]:
    """Return the sections of the form; those that need a model are folded while none is configured."""
    shown = [
        (words, [(knob, texts[knob.name], choices.get(knob.name), problems.get(knob.name, "")) for knob in knobs])
        for words, knobs in SECTIONS
    ]
    if settings.EXPERT_ENDPOINTS:
        return {"sections": shown}
    folded = [one for one in shown if one[0] == FOR_MODELS]
    wrong = any(problem for _, knobs in folded for *_, problem in knobs)
    return {"sections": [one for one in shown if one not in folded], "folded": folded, "folded_open": wrong}


def headline(row: Desk) -> str:
    """Return how asks are routed now, in one sentence."""
    if not settings.EXPERT_ENDPOINTS:
        return "People answer every ask. No expert model is configured."
    if row.model_first:
        share = f"{row.audit_share * 100:.3g}%"
        if row.people_while_free:
            return f"People first while they have capacity, then the model; {share} go to people."
        return f"Model first; {share} and asks with low model confidence go to people."
    return "People first; the model answers only if no person does."


@require_POST
@member_required(may_set_desk)
def test_expert(request: MemberRequest, name: str) -> HttpResponse:
    """Ask this model the question of a test. Show its advice, or why the desk could not send its answer."""
    endpoint = settings.EXPERT_ENDPOINTS.get(name)
    if endpoint is None:
        raise NotFound("No expert model has this name.")
    prefix = "AWMWEB_EXPERT_" if name == "expert" else f"AWMWEB_EXPERT_{name.upper()}_"
    probe = asyncio.run(llm.tested(endpoint, prefix))
    return render(request, "awmweb/_model_test.html", {"ok": probe.ok, "words": probe.message})
