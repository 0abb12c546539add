"""Pages of awmweb as a whole: home, health, models, environment, legend, and the top bar of every page."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from functools import partial
from typing import Any

import redis
from django.conf import settings
from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_POST

from awmclient.choosing import testing
from awmclient.choosing.chat import EndpointConfig
from awmweb import beat, navigation, searching
from awmweb.demo import removing
from awmweb.erasing import episodes as erasing
from episodes import events
from episodes.models import Episode, EpisodeState
from episodes.pages.one import episode_page
from episodes.show import durability, wall
from episodes.show import legend as sheet
from episodes.visible import visibility
from experts import llm
from experts.find import board, held_answers
from experts.models import Ask
from experts.who import advisers, eligibility, online, policies
from experts.who.eligibility import Spot
from people import operating
from people.access import (
    Actor,
    MemberRequest,
    chosen_membership,
    holds,
    may_advise,
    may_export,
    may_launch,
    may_manage_projects,
    may_read,
    may_review,
    may_see_reviews,
    member_required,
    memberships,
    person,
    scoped,
)
from people.errors import AWAY, NotFound, away_of
from people.models import Membership, display_name
from people.requests import addresses
from people.requests.forms import text_of
from people.requests.parts import part_of
from people.text.in_words import count
from people.text.plain_text import clean
from people.text.zones import midnight, zone_name, zone_of
from reviews.statistics import reports
from runs.launch import launching, slots
from runs.plan import limits
from runs.play import environment
from runs.taskset import probes

HOME_ASKS = 8
EXPORTABLE_MAX = 10_000
"""Complete episodes that the home page counts."""


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return what the top bar shows, read lazily: fragments that a page fetches later have no top bar."""
    return {"shell": SimpleLazyObject(partial(_shell, request))}


def _shell(request: HttpRequest) -> dict[str, Any] | None:
    """Return the person, the project, and the number of asks that people can claim."""
    membership = getattr(request, "membership", None) or _here(request)
    if membership is None:
        return None
    now = timezone.now()
    me = person(membership)
    waiting = eligibility.claimable(me, now)
    asked_at, due = waiting.nearest or (None, None)
    shell = {
        "name": display_name(membership.user),
        "role": membership.role,
        "runs_it": holds(person(membership), may_launch),
        "exports": holds(person(membership), may_export),
        "reviews": holds(person(membership), may_see_reviews),
        "project": membership.project,
        "projects": [
            {
                "name": member.project.name,
                "url": addresses.in_project(member.project.slug, ""),
                "here": member == membership,
            }
            for member in memberships(request)
            if not member.project.archived_at
        ],
        "all_projects": addresses.without_project("projects"),
        "sign_out": addresses.without_project("logout"),
        "has_factors": settings.AWMWEB_MFA,
        **_duty(me),
        "held": held_answers.of(me, now) if holds(me, may_advise) else None,
        "archived": membership.project.archived_at is not None,
        "audits": holds(person(membership), may_manage_projects),
        "open": waiting.count,
        "nearest": due,
        "budget": (due - asked_at).total_seconds() if due and asked_at else None,
        "left": (due - now).total_seconds() if due else None,
    }
    return shell | navigation.places(request, shell)


def _here(request: HttpRequest) -> Membership | None:
    """Return the membership of a signed-in person, so that error pages keep the top bar."""
    user = getattr(request, "user", None)
    return chosen_membership(request) if user is not None and user.is_authenticated else None


def _duty(actor: Actor) -> dict[str, Any]:
    """Return the person's key if their role can answer, and whether and until when they are set to Away."""
    advises = advisers.may_be_present(actor.role, None)
    away = online.away_of(actor, timezone.now()) if advises else None
    mine = advisers.member_of(actor, policies.desk_of(actor.project)) if advises else None
    # a skill has no line break: `data-skills` separates by them
    skills, every_tier = ("\n".join(sorted(mine.skills)), mine.is_senior) if mine is not None else ("", True)
    return {
        "me": actor.key if advises else "",
        "skills": skills,
        "every_tier": every_tier,
        "away": away is not None,
        "until": away and away.away_until,
    }


@require_GET
@member_required(may_read)
def home(request: MemberRequest) -> HttpResponse:
    """Show open asks, live episodes and recent outcomes."""
    actor = request.actor
    now, zone = timezone.now(), zone_of(request)
    spots, rows = board.front_rows(actor, now, HOME_ASKS)
    advises, may_judge = holds(actor, may_advise), holds(actor, may_review)
    waiting = reports.waiting_for(actor, now) if may_judge else []
    only_reviews = waiting and not advises
    return render(
        request,
        "awmweb/home.html",
        {
            "asks": rows,
            "headline": (_reviews_headline(waiting), None) if only_reviews else _headline(actor, spots, now),
            "underline": "" if only_reviews else board.underline(online.outlook(actor.project, now)),
            "reviews": waiting,
            "may_review": may_judge,
            "wall": None if text_of(request.GET, "wall") == "0" else wall.live(actor),
            "outcomes": wall.recent_outcomes(actor),
            "facts": _today(actor, midnight(now, zone)),
            "zone": zone_name(zone),
            "exportable": wall.complete_up_to(actor, EXPORTABLE_MAX + 1),
            "exportable_max": EXPORTABLE_MAX,
            "played": scoped(Episode.objects.all(), actor.project).exists(),
            "new_here": not spots and not scoped(Ask.objects.all(), actor.project).exists(),
            "needs": operating.needs_of(actor, now),
            "may_advise": advises,
            "may_launch": holds(actor, may_launch),
            "may_export": holds(actor, may_export),
            "demo": removing.demo_of(actor) if holds(actor, may_manage_projects) else None,
        },
    )


@require_GET
@part_of("home", title="Search")
@member_required(may_read)
def search(request: MemberRequest) -> HttpResponse:
    """Return what a text finds, for the command palette."""
    typed = " ".join(clean(text_of(request.GET, "q", searching.WORDS_MAX)).split())
    groups = searching.search(request.actor, typed)
    context = {"groups": groups, "typed": typed, "query": urlencode({"q": typed})}
    return render(request, "awmweb/_found.html", context)


def _headline(actor: Actor, spots: list[Spot], now: datetime) -> tuple[str, datetime | None]:
    return board.headline(spots, now) if spots else (_calm_headline(actor), None)


def _reviews_headline(waiting: list[reports.Waiting]) -> str:
    """Return the headline of a person who reviews and answers nothing."""
    total = sum(one.held + one.free for one in waiting)
    queues = f" in {len(waiting)} queues" if len(waiting) > 1 else ""
    return f"{count(total, 'review')} {'is' if total == 1 else 'are'} open for you{queues}."


def _calm_headline(actor: Actor) -> str:
    episodes = scoped(Episode.objects.live(), actor.project)
    queued = episodes.filter(state=EpisodeState.QUEUED).count()
    live = episodes.count() - queued
    if not live and not queued:
        return "No agents are running."
    if not live:
        return f"{queued:,} {'episode is' if queued == 1 else 'episodes are'} queued. No agents are running."
    more = f", {queued:,} queued" if queued else ""
    return f"{live:,} {'agent is' if live == 1 else 'agents are'} running{more}. None needs a person."


def _today(actor: Actor, since: datetime) -> list[tuple[str, str, str]]:
    """Return the counts of the reader's day as (label, value, note)."""
    asks = board.closed_today(actor, since)
    episodes = scoped(Episode.objects.filter(created_at__gt=since), actor.project)
    faults = episodes.filter(state=EpisodeState.FAILED).count()
    verified = visibility.verdicts_of(actor).filter(at__gt=since)
    complete = verified.filter(reward_type="complete").count()
    # as on *Metrics*: an ask that is open or was withdrawn neither was answered nor fell back
    closed = asks["answered"] + asks["fell_back"]
    return [
        ("Asks answered", f"{asks['answered']:,}", f"{asks['mine']:,} by you" if asks["mine"] else ""),
        ("Median wait for people", asks["wait"].words, ""),
        ("Fell back", f"{asks['fell_back']:,}", f"of {closed:,}" if closed else ""),
        ("Outcomes", f"{verified.count():,}", f"{complete:,} complete" if complete else ""),
        ("Failed (fault)", f"{faults:,}", ""),
    ]


@require_POST
@member_required(may_launch)
def play_demo(request: MemberRequest) -> HttpResponse:
    run = launching.start_demo(request.actor)
    messages.success(request, f"Demo started: {run.episodes.count()} episodes queued in run {run.name}.")
    return redirect("home")


@require_POST
@member_required(may_manage_projects)
def remove_demo(request: MemberRequest) -> HttpResponse:
    removing.remove(request.actor)
    messages.success(request, "The recorded demo was removed.")
    return redirect("home")


@require_POST
@episode_page
def rerun(request: MemberRequest, pk: str) -> HttpResponse:
    again = launching.rerun(request.actor, pk)
    messages.success(request, "Rerun queued as this episode.")
    return redirect("episode", again.pk)


@require_POST
@episode_page
def erase_episode(request: MemberRequest, pk: str) -> HttpResponse:
    tombstone = erasing.erase_episode(request.actor, pk)
    datasets = count(len(tombstone.datasets), "dataset")
    steps = count(tombstone.fell.get("episodes.Step", 0), "step")
    messages.success(request, f"Episode deleted, with {steps} and its rows of {datasets}.")
    return redirect("episodes")


@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """Report whether the database responds, and apart from it what pages work without: Valkey, and periodic tasks by
    the seconds since each ran."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except AWAY as error:
        refusal = away_of(error)
        why = {"code": refusal.code, "message": str(refusal)}
        return JsonResponse({"status": "away", "version": settings.VERSION, **why}, status=503)
    ran = beat.seconds_since()
    return JsonResponse({"status": "ok", "version": settings.VERSION, "hints": _hints(), "beat": ran})


def _hints() -> str:
    try:
        events.connection().ping()
    except redis.RedisError as error:
        return f"away: {type(error).__name__}"
    return "ok"


ROLES = {
    "agent": ("AWMWEB_AGENT_", "Runs tasks with policy model."),
    "expert": ("AWMWEB_EXPERT_", "Answers asks as the model expert."),
    "judge": ("AWMENV_JUDGE_", "Judges SQL evidence. Only the environment server has its key and can call it."),
}
ELSEWHERE = "judge"
"""The role that only the environment server calls; this process does not have its secrets."""


def _endpoint(role: str) -> EndpointConfig | None:
    """Return the endpoint of a role, or of a further agent model, such as `agent:small`."""
    kind, _, name = role.partition(":")
    if kind == "agent":
        return settings.AGENT_ENDPOINTS.get(name or kind)
    return {"expert": settings.EXPERT_ENDPOINT, "judge": settings.JUDGE_ENDPOINT}[role]


@require_GET
@member_required(may_launch)
def models_page(request: MemberRequest) -> HttpResponse:
    """Show the endpoint of each role and of every further expert model, without keys."""
    roles = []
    for role, (prefix, words) in ROLES.items():
        test = reverse("test_model", args=[role]) if role != ELSEWHERE else ""
        first = _role(role, prefix, words, _endpoint(role), test)
        roles.append(
            first | ({"parallel": _parallel(role)} if role == "agent" and role in settings.AGENT_ENDPOINTS else {})
        )
        named = {"agent": settings.AGENT_ENDPOINTS, "expert": settings.EXPERT_ENDPOINTS}.get(role, {})
        roles += [_further(role, name, one) for name, one in named.items() if name != role]
    configured = sum("configured" in role for role in roles)
    return render(request, "awmweb/models.html", {"place": "models", "roles": roles, "configured": configured})


def _further(role: str, name: str, endpoint: EndpointConfig) -> dict[str, Any]:
    prefix = f"{ROLES[role][0]}{name.upper()}_"
    if role == "agent":
        words, test = f"Runs tasks with policy model:{name}.", reverse("test_model", args=[f"agent:{name}"])
        return _role(f"{role} {name}", prefix, words, endpoint, test) | {"parallel": _parallel(name)}
    words, test = "Answers asks after the expert models above it.", reverse("test_expert", args=[name])
    return _role(f"{role} {name}", prefix, words, endpoint, test)


def _parallel(name: str) -> str:
    """Return how many episodes can ask an agent model at a time, and who says so."""
    bounds = limits.model_limits()
    place = bounds.places.get(name)
    if place is None:
        return "no limit"
    if place not in bounds.learned:
        return f"{bounds.most[place]:,}"
    shared = ", with the other models at it" if place != name else ""
    return f"{bounds.most[place]:,}, by the slots of its server{shared}"


def _role(title: str, prefix: str, words: str, endpoint: EndpointConfig | None, test: str) -> dict[str, Any]:
    """Return one role for the page; `test` is the address of its button, empty if it can't be tested from here."""
    fields = {"title": title, "slug": title.replace(" ", "-"), "prefix": prefix, "words": words, "test": test}
    if endpoint is None:
        return fields
    return {
        **fields,
        "configured": True,
        "base_url": endpoint.base_url,
        "model": endpoint.model,
        "key": ("set, not shown" if endpoint.api_key else "not set") if test else "not known to this process",
        "timeout_s": f"{endpoint.timeout_s:g}",
        "options": json.dumps(endpoint.without_secrets(dict(endpoint.options))) if test and endpoint.options else "",
    }


@require_POST
@member_required(may_launch)
def test_model(request: MemberRequest, role: str) -> HttpResponse:
    """Test the endpoint as its role needs it, and show the result and what to set."""
    kind, _, name = role.partition(":")
    if kind not in ROLES or (name and (kind != "agent" or name not in settings.AGENT_ENDPOINTS)):
        raise NotFound
    endpoint = _endpoint(role)
    if endpoint is None:
        return render(
            request, "awmweb/_model_test.html", {"ok": False, "words": f"Set {ROLES[role][0]}BASE_URL and restart."}
        )
    if role == ELSEWHERE:
        words = "Only the environment server can call the judge. Run: python manage.py checkpack --judge"
        return render(request, "awmweb/_model_test.html", {"ok": False, "words": words})
    prefix = f"{ROLES[kind][0]}{name.upper() + '_' if name else ''}"
    probe = asyncio.run((llm.tested if kind == "expert" else testing.check_endpoint)(endpoint, prefix))
    if kind == "agent" and probe.ok:
        slots.note(endpoint, probe.slots)
    return render(request, "awmweb/_model_test.html", {"ok": probe.ok, "words": probe.message})


PROBES = {
    "landlock": "the kernel supports Landlock",
    "reads_own": "reading its own files is allowed",
    "no_reading": "reading other files is blocked",
    "no_writing": "writing files is blocked",
    "no_network": "opening sockets is blocked",
    "no_fork": "starting processes is blocked",
    "no_signals": "signals to other processes are blocked",
    "no_looking": "names and sizes of other files are hidden",
}


@require_GET
@member_required(may_read)
def environment_page(request: MemberRequest) -> HttpResponse:
    """Show the sandbox level of pack code, as the running environment server reports it."""
    at = environment.status()
    checks = [(PROBES.get(name, clean(name)), holds) for name, holds in at.probes.items()]
    context = {"at": at, "probes": checks, "replays": durability.replays(), "probed": probes.overview()}
    context["further"] = environment.further()
    return render(request, "awmweb/environment.html", context)


@require_GET
@member_required(may_read)
def legend(request: MemberRequest) -> HttpResponse:
    context = {"marks": sheet.marks(), "steps": sheet.SAMPLE_STEPS}
    return render(request, "awmweb/legend.html", context)
