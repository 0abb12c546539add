"""Pages about one episode: live, its fragments, the replay, stopping it, and connecting an agent.

Owns HTTP status and template choice. Leaves values to `wall.py` and `trajectory.py`, writes to `ending.py` and
`people.record.members`.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from awmclient.nouns.kinds import is_briefing
from awmclient.nouns.sources import SOURCES
from episodes.find import held, in_episode
from episodes.models import Episode, EpisodeState
from episodes.record import ending
from episodes.show import page, wall, windows
from episodes.stored.settled import NO_SERVER
from episodes.visible import trajectory
from episodes.visible.lens import Lens, lens_of
from people.access import (
    MemberRequest,
    holds,
    may_advise,
    may_issue_tokens,
    may_launch,
    may_manage_people,
    may_set_reviews,
    member_required,
    scoped,
    visible_or_404,
)
from people.errors import AppError, NotFound
from people.models import ApiToken
from people.record.members import issue_token
from people.requests.forms import number_of, read, text_of, texts_of
from people.requests.parts import part_of
from people.text.plain_text import clean

episode_page = member_required(rows=Episode.every.all)


@require_GET
@part_of("home")
@member_required()
def live_rows(request: MemberRequest) -> HttpResponse:
    """Return the live episodes, or only those named by `episode=`."""
    only = texts_of(request.GET, "episode") or None
    return render(request, "episodes/_wall.html", {"wall": wall.live(request.actor, only)})


@require_GET
@episode_page
def episode(request: MemberRequest, pk: str) -> HttpResponse:
    """Show a running episode, or an ended one with its outcome."""
    row = _episode(request, pk)
    if (raw := number_of(request.GET, "raw")) is not None:
        return _raw(request, row, raw)
    lens = lens_of(request.actor, row)
    context, step = _context(request, lens, row), number_of(request.GET, "step")
    begin = None if context["watch"] else 1  # one that goes on opens with its newest steps, one to read with its first
    steps = windows.around(lens, row, begin if step is None else step)
    return render(request, "episodes/live.html", {**context, "steps": steps})


@require_GET
@part_of("episode")
@episode_page
def step_fragments(request: MemberRequest, pk: str) -> HttpResponse:
    """Return up to `limit` steps after `since`, those of `again` before it, and unless `parts=0` the side panel."""
    row = _episode(request, pk)
    lens, wish = lens_of(request.actor, row), read(request.GET, windows.StepsAddress)
    steps = windows.after(lens, row, wish.since, wish.limit, wish.again)
    beside = {} if wish.parts == "0" else {"parts": True, **_context(request, lens, row)}
    ended = not row.is_live
    context = {"episode": row, "ended": ended, "steps": steps, **beside}
    # without the request: the queries of the top bar would cost more than the steps
    return HttpResponse(render_to_string("episodes/_fragments.html", context))


@require_GET
@part_of("episode")
@episode_page
def find_in_episode(request: MemberRequest, pk: str) -> JsonResponse:
    """Return the numbers of the steps that contain a text; the page holds only a window of them."""
    row = _episode(request, pk)
    seqs, more = in_episode.holding(lens_of(request.actor, row), row, text_of(request.GET, "q", 200))
    return JsonResponse({"seqs": seqs, "more": more})


@require_GET
@episode_page
def replay(request: MemberRequest, pk: str) -> HttpResponse:
    """Step through a recorded episode; `?step=N` is the step in view."""
    row = _episode(request, pk)
    lens = lens_of(request.actor, row)
    shown = windows.replay(lens, row, number_of(request.GET, "step") or 1)
    return render(request, "episodes/replay.html", {**_context(request, lens, row), **shown})


@require_GET
@part_of("episode", "Briefing")
@episode_page
def briefing_words(request: MemberRequest, pk: str, seq: int) -> HttpResponse:
    """Return what a briefing says, unless this reader judges an episode of its task blind."""
    row = _episode(request, pk)
    # the address takes any number, the column 32 bits
    step = json.loads(trajectory.step_text(lens_of(request.actor, row), row, min(seq, 2**31 - 1)))
    if not is_briefing(step):
        raise NotFound
    words = {"text": clean(step["text"]), "human": SOURCES[step.get("source", "human")].is_human}
    return render(request, "episodes/step/_briefing_words.html", words)


@require_POST
@episode_page
def stop_episode(request: MemberRequest, pk: str) -> HttpResponse:
    ending.cancel(request.actor, pk, text_of(request.POST, "reason", 500))
    messages.success(request, "Episode stopped.")
    return redirect("episode", pk)


def _episode(request: MemberRequest, pk: str) -> Episode:
    return visible_or_404(Episode.every.select_related("run", "project"), request.actor, pk)


def _raw(request: MemberRequest, row: Episode, seq: int) -> HttpResponse:
    """Return one step as it was sent, as plain text, because its content is not trusted."""
    try:
        step = json.loads(trajectory.step_text(lens_of(request.actor, row), row, seq))
    except NotFound:
        return HttpResponse("Step not found.", content_type="text/plain; charset=utf-8", status=404)
    return HttpResponse(json.dumps(step, indent=2), content_type="text/plain; charset=utf-8")


def _context(request: MemberRequest, lens: Lens, row: Episode) -> dict[str, Any]:
    """Return what the head, the side panel and the asks show; the outcome only once there is one."""
    ending, asked = page.ending_of(request.actor, lens, row), page.asked_in(lens, row)
    no_server = row.events.filter(verb=NO_SERVER).first() if row.state == EpisodeState.QUEUED else None
    return {
        "episode": row,
        "head": page.head_of(row, ending.outcome, asked.open, no_server is not None),
        "ending": ending,
        "changes": page.changes_in(lens, row, ending.outcome),
        "asked": asked,
        "no_server": no_server,
        "watch": row.is_live or ending.is_expected,
        "ended": not row.is_live,
        "final_answer": clean(row.final_answer) if row.final_answer else "",
        "cut_off": page.cut_off_words(row),
        # the newest ones, shown oldest first
        "events": list(row.events.order_by("-pk")[: windows.BESIDE])[::-1],
        "tools": wall.tools_of(row),
        "may_stop": holds(request.actor, may_launch),
        "may_drive": row.is_live and holds(request.actor, may_advise),
        "may_erase": (may_erase := holds(request.actor, may_manage_people)),
        "on_hold": held.held_among(row.project, [row.pk]).get(row.pk) if may_erase else None,
        "may_queue": holds(request.actor, may_set_reviews),
        "forks": list(row.forks.order_by("-created_at")[:12]),
    }


@require_http_methods(["GET", "POST"])
@member_required()
def connect(request: MemberRequest) -> HttpResponse:
    """Create an agent token, show the code that uses it, and wait for the token's first event."""
    actor = request.actor
    token, secret, problem = None, "", ""
    if request.method == "POST":
        try:
            token, secret = issue_token(actor, text_of(request.POST, "name"), "agent")
        except AppError as refused:
            problem = refused.message
    here = {"url": settings.AWMWEB_PUBLIC_URL, "token": secret or "YOUR-TOKEN"}
    context = {
        "token": token,
        "secret": secret,
        "problem": problem,
        "project": actor.project.slug,
        "may_issue": holds(actor, may_issue_tokens),
        "snippet": SNIPPET.format(**here),
        "mcp_snippet": MCP_SNIPPET.format(**here),
        "hook_snippet": HOOK_SNIPPET.format(**here),
    }
    return render(request, "awmweb/connect.html", context, status=422 if problem else 200)


@require_GET
@part_of("connect")
@member_required()
def connect_status(request: MemberRequest) -> HttpResponse:
    """Return the status light: green from the first episode that the token started."""
    actor = request.actor
    token = visible_or_404(ApiToken.objects.all(), actor, text_of(request.GET, "token_id"))
    first = scoped(Episode.every.filter(token=token.pk), actor.project).order_by("created_at").first()
    return render(request, "awmweb/_connected.html", {"token": token, "episode": first})


SNIPPET = """import asyncio

from awmclient.client import HttpDashboard


async def main() -> None:
    async with HttpDashboard("{url}", "{token}") as dashboard:
        episode = await dashboard.start_episode("Greet the right person", expert="plain")
        # steps with the same turn are one message of the model
        said = {{"role": "assistant", "content": "I do not know the name."}}
        await episode.append({{"kind": "message", "turn": 1, **said}})
        advice = await episode.ask("Whom do I greet?", turn=1, deadline_s=300)  # answer it in the queue
        call = {{"name": "greet", "arguments": {{"text": advice.text or "hello, world"}}, "result": "greeted"}}
        await episode.append({{"kind": "tool_call", "turn": 2, **call}})
        await episode.finish("done")


asyncio.run(main())
"""

HOOK_SNIPPET = """python3 -m venv ~/.awmclient
~/.awmclient/bin/pip install ./awmclient
export AWMWEB_TOKEN={token} PATH=~/.awmclient/bin:$PATH
awmclient hook install claude-code --url {url}
"""

MCP_SNIPPET = """{{
  "mcpServers": {{
    "awmweb": {{
      "type": "http",
      "url": "{url}/mcp",
      "headers": {{"Authorization": "Bearer {token}"}}
    }}
  }}
}}
"""
