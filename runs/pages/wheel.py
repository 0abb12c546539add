"""Pages: a person at the wheel of a live episode: its newest steps, the next call as a form, words, and its limits.

The form is the one without scripts that typed asks have, made from the tool's schema. Leaves lease and orders to
`episodes.record.steering`.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from awmclient.record.wheel import DROPPED
from awmclient.schema import LIMITS, LimitsBody, WheelCallBody, WheelUndoBody
from episodes.models import Episode, Wheel
from episodes.record import steering
from episodes.show import windows
from episodes.visible.lens import lens_of
from experts.rules import decision_fields
from experts.rules.decision_fields import form_of_tool
from people.access import MemberRequest, holds, may_advise, may_launch, member_required, visible_or_404
from people.errors import AppError, Invalid
from people.models import new_id
from people.requests.forms import FormFields, all_of, number_of, read, text_of, whole
from people.text.plain_text import clean

SHOWN = 12
"""The newest steps on the page."""
HOLD_S = 5
"""How long a call or words can be undone before they are sent."""


@require_http_methods(["GET", "POST"])
@member_required(may_advise, rows=Episode.every.all)
def wheel_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the wheel; a POST takes it, renews it, makes a call, says words, undoes either, hands it back or
    changes limits."""
    episode = visible_or_404(Episode.every.select_related("run", "project"), request.actor, pk)
    problem, draft, status = "", None, 200
    act, nonce = text_of(request.POST, "act"), text_of(request.POST, "nonce")
    tools = _tools(episode)
    # the form sends back what its fields began with
    began = {name: text_of(request.POST, name) or text_of(request.GET, name) for name in BEGINS}
    step = number_of(request.POST, "step") or number_of(request.GET, "step")
    chosen = _proposed(request, episode, step) or _undone(request, episode, began["undone"])
    name = text_of(request.POST, "tool") or (chosen or {}).get("name") or text_of(request.GET, "tool")
    tool = next((one for one in tools if one["name"] == name), tools[0] if tools else None)
    if chosen and tool and tool["name"] == chosen["name"]:
        draft = {"value": chosen["arguments"]}
    if request.method == "POST":
        try:
            _do(request, episode, act, tool, draft)
        except AppError as refused:
            problem, status = refused.message, refused.status
            is_call = act == "call" and tool
            draft = decision_fields.draft_of(form_of_tool(tool), all_of(request.POST), draft) if is_call else None
        else:
            if act == "renew":
                return HttpResponse(status=204)
            where = "episode" if act == "hand_back" else "wheel"
            query = {"tool": tool["name"]} if tool and act == "call" else {}
            query |= {"undone": nonce} if act == "undo" else {}
            return redirect(f"{reverse(where, args=[pk])}{'?' if query else ''}{urlencode(query)}")
    part = request.headers.get("HX-Request") == "true"
    context = {**_state(request, episode), "problem": problem, "tool": tool, "tools": tools}
    if not part:
        context |= {
            "described": clean(str((tool or {}).get("description") or ""))[:2000],
            "fields": decision_fields.fields_of(form_of_tool(tool), draft) if tool else None,
            "nonce": new_id(),
            "began": {name: text for name, text in began.items() if text},
            "words": text_of(request.POST, "words"),
            "may_launch": holds(request.actor, may_launch),
            "limits": [(name, LABELS[name], text_of(request.POST, name)) for name in LIMITS],
            "reason": text_of(request.POST, "reason"),
        }
    return render(request, "runs/_wheel.html" if part else "runs/wheel.html", context, status=status)


BEGINS = ("step", "undone")
"""What names the call with which the fields begin."""
LABELS = {"max_steps": "Turns of the agent", "max_asks": "Asks", "timeout_s": "Seconds in all"}


class LimitsForm(FormFields):
    """Limits of a live episode; those that are empty stay."""

    max_steps: Annotated[int | None, whole(f"{LABELS['max_steps']}: use a whole number.")] = None
    max_asks: Annotated[int | None, whole(f"{LABELS['max_asks']}: use a whole number.")] = None
    timeout_s: Annotated[int | None, whole(f"{LABELS['timeout_s']}: use a whole number.")] = None
    reason: str = ""


def _state(request: MemberRequest, episode: Episode) -> dict[str, Any]:
    wheel, now = Wheel.objects.filter(episode=episode).first(), timezone.now()
    held = wheel is not None and wheel.is_held(now) and episode.is_live
    mine = held and wheel is not None and request.actor.owns(wheel.holder)
    lens = lens_of(request.actor, episode)
    last = windows.last_of(lens, episode)
    shown = windows.after(lens, episode, max(0, last - SHOWN), last=last)
    newest = shown.rows[-1] if mine and shown.rows else None
    proposal = newest is not None and _proposed(request, episode, newest.seq)
    return {
        "episode": episode,
        "held": held,
        "mine": mine,
        "holder": wheel.holder_name if wheel is not None and held else "",
        "goes_back_at": steering.goes_back_at(wheel) if wheel is not None and mine else None,
        "idle_s": steering.IDLE_S,
        "token": wheel.lease_token if wheel is not None and mine else "",
        "steps": shown,
        "proposal": newest.seq if newest is not None and proposal else None,
        **(_waits(episode, wheel) if mine and wheel is not None else {}),
    }


def _proposed(request: MemberRequest, episode: Episode, seq: int | None) -> dict[str, Any] | None:
    """Return the first call that the agent chose at a note, and that was not made; None without one."""
    rows = windows.at(lens_of(request.actor, episode), episode, [seq] if seq else [])
    dropped = [(row.wire().get("meta") or {}).get(DROPPED) for row in rows]
    calls = [one for found in dropped if isinstance(found, list) for one in found if isinstance(one, dict)]
    fits = [one for one in calls if isinstance(one.get("name"), str) and isinstance(one.get("arguments"), dict)]
    return fits[0] if fits else None


def _tools(episode: Episode) -> list[dict[str, Any]]:
    listed = episode.tools if isinstance(episode.tools, list) else []
    return [one for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)]


def _waits(episode: Episode, wheel: Wheel) -> dict[str, Any]:
    """Return what the first order that is not carried out asks for, and the last one that can be undone."""
    orders = list(steering.waiting(episode, wheel.acted))
    held = [one for one in orders if one.pk > wheel.sent and one.held_until is not None]
    last = held[-1] if held else None
    call = (last.said.get("call") or {}) if last is not None else {}
    return {
        "waits": next(iter(orders[0].said), "") if orders else "",
        "held_order": last,
        "held_call": clean(str(call.get("name", ""))),
        "hold_s": HOLD_S,
    }


def _undone(request: MemberRequest, episode: Episode, nonce: str) -> dict[str, Any] | None:
    """Return the call that the person has just undone, for the form."""
    mine = episode.orders.filter(nonce=nonce, author_key=request.actor.key)
    order = mine.exclude(undone=None).first()
    call = order.said.get("call") if order is not None else None
    return {"arguments": {}, **call} if call else None


def _do(
    request: MemberRequest,
    episode: Episode,
    act: str,
    tool: dict[str, Any] | None,
    begun: dict[str, Any] | None,
) -> None:
    actor, token = request.actor, text_of(request.POST, "lease_token")
    if act == "take":
        steering.take(actor, episode.pk)
    elif act == "renew":
        steering.renew(actor, episode.pk, token)
    elif act == "hand_back":
        steering.hand_back(actor, episode.pk, token)
        messages.success(request, "Handed back. The agent chooses again.")
    elif act == "limits":
        limits = read(request.POST, LimitsForm).model_dump(exclude_none=True)
        steering.change_limits(actor, episode.pk, read(limits, LimitsBody))
        messages.success(request, "Limits changed. They hold from the agent's next turn.")
    elif act == "undo":
        steering.undo(actor, episode.pk, read(request.POST, WheelUndoBody, lease_token=token))
        messages.success(request, "Undone. Nothing was sent.")
    elif act in ("call", "say", "propose"):
        # what the agent proposes changes nothing
        hold_s = 0 if act == "propose" else HOLD_S
        order: dict[str, Any] = {"lease_token": token, "nonce": text_of(request.POST, "nonce"), "hold_s": hold_s}
        if act == "propose":
            order["propose"] = True
        elif act == "say":
            order["words"] = text_of(request.POST, "words")
            if not order["words"].strip():
                raise Invalid("Enter the words first.")
        elif tool is None or tool["name"] != text_of(request.POST, "tool"):
            raise Invalid("tool: the episode has no such tool.")
        else:
            value = decision_fields.decision_of(form_of_tool(tool), all_of(request.POST), begun)["value"]
            order["call"] = {"name": tool["name"], "arguments": value}
        steering.order(actor, episode.pk, read(order, WheelCallBody))
    else:
        raise Invalid("act: take, renew, call, say, propose, undo, hand_back or limits.")
