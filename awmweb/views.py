"""The house's own pages: home, health, models, vocabulary, and the frame that every page stands in."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import redis
from django.conf import settings
from django.contrib import messages
from django.db import connection
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from awmclient.chat import EndpointConfig
from curriculum import launching
from episodes import events
from episodes.models import Episode, EpisodeState, Run, VerifierOutcome
from experts.models import Ask, AskStatus
from experts.reading import asks_of
from people.access import current_memberships, may_launch, may_read, member_required, scoped
from people.errors import NotFound
from people.models import display_name

WALL = 60
RECENT = 12


def frame(request: HttpRequest) -> dict[str, Any]:
    """What the top bar shows: who is here, in which project, and how many asks are open."""
    membership = getattr(request, "membership", None)
    if membership is None:
        return {"shell": None}
    now = timezone.now()
    waiting = scoped(Ask.objects.open(), membership.project).filter(deadline_at__gt=now).order_by("deadline_at")
    nearest = waiting.first()
    return {
        "shell": {
            "name": display_name(membership.user),
            "role": membership.role,
            "project": membership.project.slug,
            "projects": [{"name": one.project.slug} for one in current_memberships(membership.user)],
            "open": waiting.count(),
            "nearest": nearest.deadline_at if nearest else None,
            "budget": (nearest.deadline_at - nearest.created_at).total_seconds() if nearest else None,
            "left": (nearest.deadline_at - now).total_seconds() if nearest else None,
        }
    }


@require_GET
@member_required(may_read)
def home(request: HttpRequest) -> HttpResponse:
    """Open asks, the wall of live episodes, recent outcomes."""
    actor = request.actor  # type: ignore[attr-defined]
    now = timezone.now()
    asks = list(asks_of(actor).filter(status=AskStatus.OPEN, deadline_at__gt=now).in_turn()[:20])  # type: ignore[attr-defined]
    episodes = scoped(Episode.objects.select_related("run"), actor.project)
    live = list(episodes.live().order_by("-run__created_at", "run_id", "created_at")[:WALL])
    outcomes = VerifierOutcome.objects.select_related("episode", "episode__run").filter(source="verifier")
    return render(
        request,
        "awmweb/home.html",
        {
            "place": "home",
            "now": now,
            "asks": asks,
            "live": live,
            "outcomes": list(scoped(outcomes, actor.project, "episode__project").order_by("-at")[:RECENT]),
            "today": _today(actor.project, now),
            "has_runs": scoped(Run.objects.all(), actor.project).exists(),
            "may_play": actor.role in ("admin", "researcher"),
        },
    )


def _today(project: Any, now: Any) -> dict[str, int]:
    """Counts of the last day, by what came of each."""
    since = now - timedelta(days=1)
    asks = scoped(Ask.objects.filter(created_at__gt=since), project).aggregate(
        answered=Count("pk", filter=Q(status=AskStatus.ANSWERED)), fell_back=Count("pk", filter=Q(status=AskStatus.FELL_BACK))
    )
    episodes = scoped(Episode.objects.filter(created_at__gt=since), project).aggregate(
        ended=Count("pk", filter=Q(state=EpisodeState.FINISHED)), failed=Count("pk", filter=Q(state=EpisodeState.FAILED))
    )
    verified = scoped(VerifierOutcome.objects.filter(at__gt=since, source="verifier"), project, "episode__project")
    found = verified.aggregate(verified=Count("pk"), complete=Count("pk", filter=Q(reward_type="complete")))
    return {**asks, **episodes, **found}


@require_POST
@member_required(may_launch)
def play_demo(request: HttpRequest) -> HttpResponse:
    run = launching.start_demo(request.actor)  # type: ignore[attr-defined]
    messages.success(request, f"The demo plays again: {run.episodes.count()} episodes are queued as {run.name}.")
    return redirect("home")


@require_GET
def health(request: HttpRequest) -> JsonResponse:
    """Ready: the database answers. Valkey is told apart: without it pages still work, only later."""
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    return JsonResponse({"status": "ok", "version": settings.VERSION, "hints": _hints()})


def _hints() -> str:
    try:
        events.connection().ping()
    except redis.RedisError as error:
        return f"away: {type(error).__name__}"
    return "ok"


ROLES = {
    "agent": ("AWMWEB_AGENT_", "Plays tasks when the policy is `model`."),
    "expert": ("AWMWEB_EXPERT_", "Answers asks as the model expert."),
    "judge": ("AWMENV_JUDGE_", "Judges SQL evidence; only the environment server holds its key."),
}


def _endpoint(role: str) -> EndpointConfig | None:
    return {"agent": settings.AGENT_ENDPOINT, "expert": settings.EXPERT_ENDPOINT, "judge": settings.JUDGE_ENDPOINT}[role]


@require_GET
@member_required(may_launch)
def models_page(request: HttpRequest) -> HttpResponse:
    """What the environment configured for each role, without any key."""
    roles = []
    for role, (prefix, words) in ROLES.items():
        endpoint = _endpoint(role)
        roles.append(
            {
                "role": role,
                "prefix": prefix,
                "words": words,
                "configured": endpoint is not None,
                "base_url": endpoint.base_url if endpoint else "",
                "model": endpoint.model if endpoint else "",
                "has_key": bool(endpoint and endpoint.api_key),
                "timeout_s": endpoint.timeout_s if endpoint else None,
            }
        )
    return render(request, "awmweb/models.html", {"place": "models", "roles": roles})


@require_POST
@member_required(may_launch)
def test_model(request: HttpRequest, role: str) -> HttpResponse:
    """Ask the endpoint for one word and show what it says, its own error included."""
    if role not in ROLES:
        raise NotFound
    endpoint = _endpoint(role)
    if endpoint is None:
        return render(request, "awmweb/_model_test.html", {"ok": False, "words": f"Set {ROLES[role][0]}BASE_URL and restart."})
    probe = asyncio.run(endpoint.probe())
    return render(request, "awmweb/_model_test.html", {"ok": probe.ok, "words": probe.message})


@require_GET
@member_required(may_read)
def vocabulary(request: HttpRequest) -> HttpResponse:
    return render(request, "awmweb/vocabulary.html", {"place": "vocabulary"})
