"""The house's own pages: home, health, models, vocabulary, and the frame that every page stands in."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from typing import Any

import redis
from django.conf import settings
from django.contrib import messages
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_GET, require_POST

from awmclient.chat import EndpointConfig
from curriculum import environment, launching
from episodes import events, wall
from episodes import legend as sheet
from episodes.formatting import clock, in_words
from episodes.models import Episode, EpisodeState, VerifierOutcome
from episodes.views import episode_page
from experts import availability, board
from experts.models import Ask
from people.access import (
    Actor,
    MemberRequest,
    chosen_membership,
    holds,
    may_advise,
    may_export,
    may_launch,
    may_read,
    member_required,
    memberships,
    person,
    scoped,
)
from people.errors import NotFound
from people.models import Membership, display_name
from people.plain_text import clean

HOME_ASKS = 8


def frame(request: HttpRequest) -> dict[str, Any]:
    """What the top bar shows, read only where there is one: most of what a page fetches later has none."""
    return {"shell": SimpleLazyObject(partial(_shell, request))}


def _shell(request: HttpRequest) -> dict[str, Any] | None:
    """Who is here, in which project, and how many asks people can take."""
    membership = getattr(request, "membership", None) or _here(request)
    if membership is None:
        return None
    now = timezone.now()
    waiting = scoped(Ask.objects.to_take(now), membership.project).order_by("deadline_at")
    nearest = waiting.only("created_at", "deadline_at").first()
    return {
        "name": display_name(membership.user),
        "role": membership.role,
        "runs_it": holds(person(membership), may_launch),
        "exports": holds(person(membership), may_export),
        "project": membership.project.slug,
        **_duty(person(membership)),
        "projects": [{"name": one.project.slug} for one in memberships(request)],
        "open": waiting.count(),
        "nearest": nearest.deadline_at if nearest else None,
        "budget": (nearest.deadline_at - nearest.created_at).total_seconds() if nearest else None,
        "left": (nearest.deadline_at - now).total_seconds() if nearest else None,
    }


def _here(request: HttpRequest) -> Membership | None:
    """Whoever is signed in keeps the top bar where an address leads to nothing, too."""
    user = getattr(request, "user", None)
    return chosen_membership(request) if user is not None and user.is_authenticated else None


def _duty(actor: Actor) -> dict[str, Any]:
    """Whether asks may wait for this person at all, and whether they said that they are away."""
    advises = availability.may_be_present(actor.role, None)
    return {"me": actor.key if advises else "", "away": advises and availability.is_away(actor)}


@require_GET
@member_required(may_read)
def home(request: MemberRequest) -> HttpResponse:
    """Open asks, the wall of live episodes, recent outcomes."""
    actor = request.actor
    now = timezone.now()
    found, rows = board.front_rows(actor, now, HOME_ASKS)
    tally = wall.tallies(actor)
    return render(
        request,
        "awmweb/home.html",
        {
            "asks": rows,
            "headline": board.headline(found, now) if found else (_calm_headline(actor), None),
            "underline": board.underline(availability.outlook(actor.project, now)),
            "wall": None if request.GET.get("wall") == "0" else wall.live(actor),
            "outcomes": wall.recent_outcomes(actor),
            "facts": _today(actor, now),
            "exportable": tally["complete"],
            "played": tally["total"],
            "may_advise": holds(actor, may_advise),
            "may_launch": holds(actor, may_launch),
            "may_export": holds(actor, may_export),
        },
    )


def _calm_headline(actor: Actor) -> str:
    episodes = scoped(Episode.objects.live(), actor.project)
    queued = episodes.filter(state=EpisodeState.QUEUED).count()
    live = episodes.count() - queued
    if not live and not queued:
        return "No agent is at work."
    if not live:
        return f"{in_words(queued)} {'episode is' if queued == 1 else 'episodes are'} queued; no agent is at work yet."
    more = f", {in_words(queued).lower()} {'is' if queued == 1 else 'are'} queued" if queued else ""
    return f"{in_words(live)} {'agent is' if live == 1 else 'agents are'} at work{more}; none waits for a person."


def _today(actor: Actor, now: datetime) -> list[tuple[str, str, str]]:
    """What came of the day, as (words, number, remark)."""
    since = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    asks = board.closed_today(actor, since)
    episodes = scoped(Episode.objects.filter(created_at__gt=since), actor.project)
    faults = episodes.filter(state=EpisodeState.FAILED).count()
    outcomes = VerifierOutcome.objects.verdicts().filter(at__gt=since)
    verified = scoped(outcomes, actor.project, "episode__project")
    complete = verified.filter(reward_type="complete").count()
    return [
        ("Asks answered", str(asks["answered"]), f"{asks['mine']} by you" if asks["mine"] else ""),
        ("Median time to answer", clock(asks["median"]) if asks["median"] is not None else "none yet", ""),
        ("Fell back", str(asks["fell_back"]), f"of {asks['asked']}" if asks["asked"] else ""),
        ("Episodes verified", str(verified.count()), f"{complete} complete" if complete else ""),
        ("Broke on a fault", str(faults), ""),
    ]


@require_POST
@member_required(may_launch)
def play_demo(request: MemberRequest) -> HttpResponse:
    run = launching.start_demo(request.actor)
    messages.success(request, f"The demo plays again: {run.episodes.count()} episodes are queued as {run.name}.")
    return redirect("home")


@require_POST
@episode_page
def play_again(request: MemberRequest, pk: str) -> HttpResponse:
    again = launching.play_again(request.actor, pk)
    messages.success(request, "It plays again, as this new episode.")
    return redirect("episode", again.pk)


@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """Ready: the database answers. Valkey is told apart: without it pages still work, only later."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except (OperationalError, InterfaceError):
        return JsonResponse({"status": "away", "version": settings.VERSION}, status=503)
    return JsonResponse({"status": "ok", "version": settings.VERSION, "hints": _hints()})


def _hints() -> str:
    try:
        events.connection().ping()
    except redis.RedisError as error:
        return f"away: {type(error).__name__}"
    return "ok"


ROLES = {
    "agent": ("AWMWEB_AGENT_", "Plays tasks when the policy is model."),
    "expert": ("AWMWEB_EXPERT_", "Answers asks as the model expert."),
    "judge": ("AWMENV_JUDGE_", "Judges SQL evidence. Only the environment server holds its key and can ask it."),
}
ELSEWHERE = "judge"
"""The role that another process asks; nothing here knows its secrets."""


def _endpoint(role: str) -> EndpointConfig | None:
    return {"agent": settings.AGENT_ENDPOINT, "expert": settings.EXPERT_ENDPOINT, "judge": settings.JUDGE_ENDPOINT}[
        role
    ]


@require_GET
@member_required(may_launch)
def models_page(request: MemberRequest) -> HttpResponse:
    """What the environment configured for each role and for every further expert model, without any key."""
    roles = []
    for role, (prefix, words) in ROLES.items():
        test = reverse("test_model", args=[role]) if role != ELSEWHERE else ""
        roles.append(_role(role, prefix, words, _endpoint(role), test))
        if role == "expert":
            roles += [_further(name, one) for name, one in settings.EXPERT_ENDPOINTS.items() if name != role]
    return render(request, "awmweb/models.html", {"place": "models", "roles": roles})


def _further(name: str, endpoint: EndpointConfig) -> dict[str, Any]:
    prefix, test = f"AWMWEB_EXPERT_{name.upper()}_", reverse("test_expert", args=[name])
    return _role(f"expert {name}", prefix, "Answers asks after the expert models above it.", endpoint, test)


def _role(title: str, prefix: str, words: str, endpoint: EndpointConfig | None, test: str) -> dict[str, Any]:
    """A part of the page: what is set, if anything is, and where its button leads, if it can be tested from here."""
    known = {"title": title, "slug": title.replace(" ", "-"), "prefix": prefix, "words": words, "test": test}
    if endpoint is None:
        return known
    return {
        **known,
        "configured": True,
        "base_url": endpoint.base_url,
        "model": endpoint.model,
        "key": ("set, not shown" if endpoint.api_key else "not set") if test else "not known to this process",
        "timeout_s": f"{endpoint.timeout_s:g}",
    }


@require_POST
@member_required(may_launch)
def test_model(request: MemberRequest, role: str) -> HttpResponse:
    """Ask the endpoint for one word and show what it says, its own error included."""
    if role not in ROLES:
        raise NotFound
    endpoint = _endpoint(role)
    if endpoint is None:
        return render(
            request, "awmweb/_model_test.html", {"ok": False, "words": f"Set {ROLES[role][0]}BASE_URL and restart."}
        )
    if role == ELSEWHERE:
        words = "Only the environment server can ask the judge. Run: python manage.py checkpack --judge"
        return render(request, "awmweb/_model_test.html", {"ok": False, "words": words})
    probe = asyncio.run(endpoint.probe())
    return render(request, "awmweb/_model_test.html", {"ok": probe.ok, "words": probe.message})


PROBES = {
    "landlock": "the kernel has Landlock",
    "reads_own": "a confined process reads what it was given",
    "no_reading": "it reads no other file",
    "no_writing": "it writes no file",
    "no_network": "it opens no socket",
    "no_fork": "it starts no process",
    "no_signals": "it signals nobody",
    "no_looking": "it sees no name or size of another file",
}


@require_GET
@member_required(may_read)
def environment_page(request: MemberRequest) -> HttpResponse:
    """Behind which walls the code of packs runs, asked of the running server."""
    at = environment.standing()
    probes = [(PROBES.get(name, clean(name)), holds) for name, holds in at.probes.items()]
    return render(request, "awmweb/environment.html", {"at": at, "probes": probes})


@require_GET
@member_required(may_read)
def vocabulary(request: MemberRequest) -> HttpResponse:
    context = {"marks": sheet.marks(), "steps": sheet.SAMPLE_STEPS}
    return render(request, "awmweb/vocabulary.html", context)
