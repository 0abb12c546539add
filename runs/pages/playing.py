"""Pages: a person acts for the agent of an episode: the task, what came so far, and the next call as a form.

The form is the one without scripts that typed asks have, made from the tool's schema. Leaves turns to `play.person`.
"""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET, require_http_methods

from awmclient.nouns.fields import has_come
from awmclient.nouns.kinds import is_ask, is_call
from awmclient.words.conversation import as_seen
from episodes.models import Episode, Run
from episodes.visible import trajectory
from episodes.visible.lens import MODEL
from experts.rules import decision_fields
from experts.rules.decision_fields import form_of_tool
from people.access import MemberRequest, may_advise, member_required, visible_or_404
from people.errors import AppError, Invalid, NotFound
from people.requests.forms import all_of, number_of, text_of
from people.text.plain_text import clean
from runs.play import person

SHOWN = 200
"""The most steps of a page, the newest."""
CHARS = 20_000
KINDS = ("tool_call", "ask", "nudge", "briefing", "message")


@require_GET
@member_required(may_advise, rows=Run.objects.all)
def play_next(request: MemberRequest, pk: str) -> HttpResponse:
    """Lead to the next episode of a run that waits for this person, or back to the run."""
    following = person.to_play(request.actor, pk).first()
    return redirect("play_episode", following.pk) if following is not None else redirect("run", pk)


@require_http_methods(["GET", "POST"])
@member_required(may_advise, rows=Episode.objects.all)
def play_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show an episode to its player; a POST sends a turn, or shows the form again with what is wrong."""
    episode = visible_or_404(Episode.objects.select_related("run"), request.actor, pk)
    if not person.is_of_person(episode):
        raise NotFound
    tools = person.tools_of(episode)
    name = text_of(request.POST, "tool") or text_of(request.GET, "tool")
    tool = next((one for one in tools if one["name"] == name), tools[0] if tools else None)
    problem, draft, status = "", None, 200
    if request.method == "POST":
        try:
            person.say(request.actor, pk, _number(request), _posted_turn(request, tool))
        except AppError as refused:
            problem, status = refused.message, refused.status
            draft = decision_fields.draft_of(form_of_tool(tool), all_of(request.POST)) if tool else None
        else:
            chosen = urlencode({"tool": tool["name"] if tool else ""})
            return redirect(f"{reverse('play_episode', args=[pk])}?{chosen}#now")
    task, steps = _seen(episode)
    context = {
        "episode": episode,
        "task": task,
        "steps": steps,
        "tools": tools,
        "tool": tool,
        "described": clean(str((tool or {}).get("description") or ""))[:2000],
        "fields": decision_fields.fields_of(form_of_tool(tool), draft) if tool else None,
        "number": person.turns_of(episode) + 1,
        "is_turn": episode.is_live and person.waits_for_turn(episode),
        "is_asking": person.is_asking(episode),
        "answer": text_of(request.POST, "answer"),
        "problem": problem,
        **_others(request, episode),
    }
    return render(request, "runs/play.html", context, status=status)


def _others(request: MemberRequest, episode: Episode) -> dict[str, Any]:
    """Return who else acts in the episode, and the next one of its run once it has ended."""
    first = person.player_of(episode)
    other = first.author if first is not None and not request.actor.owns(first.author_key) else ""
    is_over = not episode.is_live and episode.run_id
    return {"other": other, "following": is_over and person.to_play(request.actor, str(episode.run_id)).first()}


def _number(request: MemberRequest) -> int:
    if (number := number_of(request.POST, "number")) is None:
        raise Invalid("number: the number of a turn.")
    return number


def _posted_turn(request: MemberRequest, tool: dict[str, Any] | None) -> dict[str, Any]:
    act = text_of(request.POST, "act")
    if act == "give_up":
        return {"gave_up": True}
    if act == "answer":
        return {"answer": text_of(request.POST, "answer")}
    if act != "call" or tool is None or tool["name"] != text_of(request.POST, "tool"):
        raise Invalid("act: call, answer or give_up, and a call names a tool of the episode.")
    value = decision_fields.decision_of(form_of_tool(tool), all_of(request.POST))["value"]
    return {"call": {"name": tool["name"], "arguments": value}}


def _seen(episode: Episode) -> tuple[str, list[dict[str, str]]]:
    """Return what an agent would have seen: its task, with the first observation of a world that has one, and as texts
    the calls, results and answers so far, without rewards."""
    steps = trajectory.steps_of(episode, lens=MODEL)
    rows = [as_seen(step) for step in steps if step["kind"] in KINDS and step.get("role") != "system"]
    first = next((step for step in rows if step.get("role") == "user"), None)
    shown = [_texts(step) for step in rows if step is not first]
    task = str(first["content"]) if first is not None else episode.task
    return task, [one for one in shown if any(one.values())][-SHOWN:]


def _texts(step: dict[str, Any]) -> dict[str, str]:
    if is_call(step):
        arguments = {name: decision_fields.in_words(value) for name, value in (step.get("arguments") or {}).items()}
        reply = step.get("error") if step.get("error") is not None else step.get("result")
        if not has_come(step):
            reply = "no result"
        return {
            "name": clean(str(step["name"])),
            "given": clean("\n".join(f"{name}: {value}" for name, value in arguments.items()))[:CHARS],
            "error": clean(_value_text(reply))[:CHARS] if step.get("error") is not None else "",
            "words": "" if step.get("error") is not None else clean(_value_text(reply))[:CHARS],
        }
    if is_ask(step):
        return {
            "name": "ask_expert",
            "given": clean(str(step["question"])),
            "words": clean(_value_text(step.get("advice"))),
        }
    return {
        "name": str(step["kind"]),
        "words": clean(_value_text(step.get("content") or step.get("text") or ""))[:CHARS],
    }


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
