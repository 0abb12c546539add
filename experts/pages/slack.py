"""Presses, windows and replies of Slack: another view of the same lease.

Owns Slack's payloads and the answer's window. Slack's signature replaces a session here; the person is the member who
confirmed this Slack account by a code. Every write is a function of `queue.py` or `advising.py`. Slack repeats what was
not answered within three seconds, so each answer has a nonce.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, RawPostDataException
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from awmclient.nouns.ask_kinds import ask_kind
from episodes.show.decisions import in_one_line, in_plain_lines, proposed_lines
from experts import slack_answers
from experts.find.pictured import pictures_line
from experts.find.reading import asks_of
from experts.models import Ask, QuorumDecision
from experts.notifications import KIND
from experts.record import advising, closing, queue
from experts.rules.call_fit import breaks_in
from experts.rules.decisions import refusal_words
from experts.who.counting import calls_of_edit, calls_seen, edit_of
from notices.record import slack
from notices.record.slack import Pressed
from people.access import Actor, visible_or_404
from people.errors import AppError, BadJson, Invalid, NotFound, Unauthenticated
from people.requests import addresses
from people.requests.forms import text_of
from people.text.json_text import parse_json
from people.text.plain_text import clean, with_line_ends

OPTIONS_MAX, CALLS_MAX = 100, 20
"""What a window can hold; Slack allows 100 options and 100 blocks."""
ANSWER, CLAIM = slack.ANSWER, slack.CLAIM
REFUSED = "You can't answer this ask. Members of its project confirm their Slack account on Notifications in awmweb."
NOTE = "note"


@csrf_exempt
@require_POST
def interaction(request: HttpRequest) -> HttpResponse:
    """Claim an ask, open the window of an answer, send it, or release the ask when the window is closed."""
    _refuse_unsigned(request)
    payload = _read_payload(text_of(request.POST, "payload"))
    user = str(_dict(payload.get("user")).get("id", ""))
    if payload.get("type") == "block_actions":
        return _pressed(payload, user)
    carried = _given(payload)
    # `delivery`: a window that the version before opened, which named it so
    message = carried.get("message") or carried.get("delivery", "")
    pressed = slack.pressed_by(KIND, str(message), user)
    if pressed is None:
        return _problem(REFUSED)
    if payload.get("type") == "view_submission":
        return _submitted(payload, pressed, carried)
    if payload.get("type") == "view_closed":
        _released(pressed.actor, carried)
    return HttpResponse()


@csrf_exempt
@require_POST
def event(request: HttpRequest) -> HttpResponse:
    """Take a reply in the thread of a direct message as the answer to a question, and one in a channel as a comment.

    Edited and deleted messages change nothing.
    """
    _refuse_unsigned(request)
    payload = _read_payload(request.body.decode("utf-8", "replace"))
    if payload.get("type") == "url_verification":
        return JsonResponse({"challenge": str(payload.get("challenge", ""))})
    message = _dict(payload.get("event"))
    is_new = message.get("subtype") in (None, "", "thread_broadcast")
    if message.get("type") == "message" and message.get("thread_ts") and is_new and not message.get("bot_id"):
        reply = {name: str(message.get(name, "")) for name in ("user", "channel", "thread_ts", "ts", "text")}
        reply["text"] = with_line_ends(slack.unescaped(reply["text"]))
        _replied(reply) if reply["channel"].startswith(slack.DIRECT) else _commented(reply)
    return HttpResponse()


def _refuse_unsigned(request: HttpRequest) -> None:
    """Raise for a request that Slack did not sign."""
    try:
        is_signed = slack.is_signed(request.body, request.headers)
    except RawPostDataException:
        is_signed = False  # a form in parts, which Slack never sends: its body was read already
    if not is_signed:
        raise Unauthenticated


def _read_payload(text: str) -> dict[str, Any]:
    try:
        return _dict(parse_json(text.encode("utf-8", "surrogatepass")))
    except BadJson as error:
        raise Invalid("Slack sent no readable payload.") from error


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _given(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a window carries from its press: message, assignment and lease. Signed with the request."""
    try:
        carried = str(_dict(payload.get("view")).get("private_metadata", ""))
        return _dict(parse_json(carried.encode("utf-8", "surrogatepass")))
    except BadJson:
        return {}


def _pressed(payload: Mapping[str, Any], user: str) -> HttpResponse:
    actions = payload.get("actions")
    action = _dict(actions[0]) if isinstance(actions, list) and actions else {}
    if action.get("action_id") not in (ANSWER, CLAIM, slack_answers.ANYWAY):
        return HttpResponse()  # a link, which Slack reports, too
    message, _, version = str(action.get("value", "")).partition(" ")
    pressed = slack.pressed_by(KIND, message, user)
    if pressed is None:
        return _message(payload, REFUSED)
    if action["action_id"] == slack_answers.ANYWAY:
        return _sent_anyway(payload, pressed, version)
    response = _claimed(payload, pressed, action)
    # last, since a window must be open within three seconds
    _move_second(payload, pressed)
    return response


def _sent_anyway(payload: Mapping[str, Any], pressed: Pressed, version: str) -> HttpResponse:
    try:
        slack_answers.send_anyway(pressed, version)
    except AppError as refused:
        return _message(payload, refused.message)
    return HttpResponse()


def _move_second(payload: Mapping[str, Any], pressed: Pressed) -> None:
    """Take the buttons from a message that was sent twice because Slack's response was lost, and is drawn no more."""
    ts = str(_dict(payload.get("message")).get("ts", ""))
    if pressed.ts and ts and ts != pressed.ts:
        url = addresses.public_url(pressed.actor.project.slug, f"/asks/{pressed.subject_id}/")
        slack.move(pressed.channel, ts, url)


def _claimed(payload: Mapping[str, Any], pressed: Pressed, action: Mapping[str, Any]) -> HttpResponse:
    """Claim the ask, and open its window for *Answer*."""
    actor, ask_id = pressed.actor, pressed.subject_id
    try:
        had = _has(actor, ask_id)
        # the same press again, as its message has no Claim for who holds the ask
        if had and action["action_id"] == CLAIM:
            return HttpResponse()
        lease = queue.claim(actor, ask_id)
    except AppError as refused:
        return _message(payload, refused.message)
    if action["action_id"] == CLAIM:
        return HttpResponse()
    ask = asks_of(actor).get(pk=ask_id)
    edited = edit_of(ask)
    window = _window(ask, edited)
    if window is None:
        url = addresses.public_url(actor.project.slug, f"/asks/{ask_id}/")
        return _message(payload, f"Slack can't show this ask whole. It is claimed for you: open it in awmweb. {url}")
    carried = {"message": pressed.id, "assignment": lease.assignment_id, "lease": lease.lease_token}
    carried |= {"seen": edited.calls_digest} if edited is not None else {}
    problem = slack.open_window(str(payload.get("trigger_id", "")), {**window, "private_metadata": json.dumps(carried)})
    if problem and not had:
        # no one sees the ask, so others must be able to claim it
        _released(actor, carried)
    return _message(payload, f"{problem} Press Answer again.") if problem else HttpResponse()


def _has(actor: Actor, ask_id: str) -> bool:
    """Return whether the actor has claimed the ask already."""
    slot = visible_or_404(asks_of(actor), actor, ask_id).assignment
    return slot.is_held(timezone.now()) and actor.owns(slot.holder)


def _message(payload: Mapping[str, Any], words: str) -> HttpResponse:
    """Say something to the person who pressed."""
    slack.whisper(payload, words)
    return HttpResponse()


def _problem(words: str, block: str = NOTE) -> HttpResponse:
    return JsonResponse({"response_action": "errors", "errors": {block: words[:500]}})


def _released(actor: Actor, carried: Mapping[str, Any]) -> None:
    try:
        queue.release(actor, str(carried.get("assignment")), str(carried.get("lease")))
    except AppError:
        return  # answered, expired or taken since: nothing to give up


def _submitted(payload: Mapping[str, Any], pressed: Pressed, carried: Mapping[str, Any]) -> HttpResponse:
    actor = pressed.actor
    ask = asks_of(actor).filter(pk=pressed.subject_id).first()
    if ask is None:
        return _problem("This ask no longer exists.")
    view = _dict(payload.get("view"))
    fields = _fields(_dict(_dict(view.get("state")).get("values")))
    text, nonce = fields.get(NOTE, ""), f"slack:{view.get('id', '')}"[:150]
    # Slack sends again what was not answered in time
    if ask.advice.filter(author_key=actor.key, nonce=nonce, late=False).exists():
        return HttpResponse()
    try:
        decision = _decision(ask, fields, str(carried.get("seen", ""))) if ask.typed else None
        advising.refuse_misfit(actor, ask, text, decision)
        slack_answers.send(pressed, ask, text, decision, nonce, _held(actor, ask, carried))
    except AppError as refused:
        return _problem(refusal_words(refused))
    return HttpResponse()


def _held(actor: Actor, ask: Ask, carried: Mapping[str, Any]) -> tuple[str, str]:
    """Return assignment and lease: a new claim, since a window can be open longer than a lease. If someone else has the
    ask, the lease of the press: with it the text is stored beside the ask.
    """
    try:
        lease = queue.claim(actor, ask.pk)
    except AppError:
        return str(carried.get("assignment")), str(carried.get("lease"))
    return lease.assignment_id, lease.lease_token


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a window by block: a text, an option's number, or the numbers of several."""
    fields: dict[str, Any] = {}
    for block, elements in values.items():
        element = _dict(_dict(elements).get("value"))
        if isinstance(many := element.get("selected_options"), list):
            fields[block] = [str(_dict(one).get("value")) for one in many]
        elif "selected_option" in element:
            fields[block] = str(_dict(element["selected_option"]).get("value", ""))
        else:
            fields[block] = with_line_ends(str(element.get("value") or ""))
    return fields


def _decision(ask: Ask, fields: Mapping[str, Any], seen: str) -> dict[str, Any]:
    """Return the decision of a window; what it approves of a colleague's edit that it showed is that edit."""
    typed = ask.typed or {}
    if ask_kind(typed).is_approval:
        calls, shown = [], {one["id"]: one for one in calls_seen(ask, seen)}
        for place, call in enumerate(typed["calls"]):
            reason = {"reason": why} if (why := fields.get(f"why:{place}")) else {}
            verdict = fields.get(f"call:{place}", "")
            approved = shown.get(call["id"], {}) if verdict == "approve" else {}
            calls.append({"id": call["id"], "verdict": verdict} | approved | reason)
        return {"calls": calls}
    chosen = fields.get("chosen") or []
    by_place = {str(place): one["id"] for place, one in enumerate(typed["options"])}
    picked = [by_place[one] for one in (chosen if isinstance(chosen, list) else [chosen]) if one in by_place]
    return {"chosen": picked} | ({"other": other} if (other := fields.get("other")) else {})


def _window(ask: Ask, edited: QuorumDecision | None) -> dict[str, Any] | None:
    """Return the window of an answer, with the edit of a colleague; None if Slack cannot show the ask whole."""
    blocks = [*_texts(ask.question)] if len(ask.question) <= slack.TEXT_CHARS else []
    blocks += _texts(shown) if blocks and (shown := pictures_line(ask)) else []
    typed, kind = ask.typed or {}, ask_kind(ask.typed)
    asked = _calls(ask, edited) if kind.is_approval else _options(typed) if kind.is_choice else []
    if not blocks or asked is None or kind.is_form:
        return None
    note = _input(NOTE, "Note to the agent" if typed else "Your answer", _text_area(), optional=bool(typed))
    return {
        "type": "modal",
        "callback_id": ANSWER,
        "notify_on_close": True,
        "title": slack.plain("Answer an agent"),
        "submit": slack.plain("Send"),
        "close": slack.plain("Cancel"),
        "blocks": [*blocks, *asked, note],
    }


def _texts(text: str) -> list[dict[str, Any]]:
    return [{"type": "section", "text": slack.plain(clean(text))}]


def _calls(ask: Ask, edited: QuorumDecision | None) -> list[dict[str, Any]] | None:
    proposed = (ask.typed or {})["calls"]
    if len(proposed) > CALLS_MAX:
        return None
    changed = {one["id"]: one for one in calls_of_edit(edited)} if edited is not None else {}
    calls = [{**call, "arguments": changed.get(call["id"], call).get("arguments") or {}} for call in proposed]
    blocks: list[dict[str, Any]] = []
    verdicts = [("Approve", "approve"), ("Reject", "reject")]
    was = proposed_lines(proposed)
    for place, (line, breaks) in enumerate(
        zip(proposed_lines(calls), breaks_in(calls, ask.episode.tools), strict=True)
    ):
        lines = in_plain_lines(place + 1, line)
        if edited is not None and changed[proposed[place]["id"]]["verdict"] == "edit":
            lines.append(f"{in_one_line(clean(edited.author))} edited this call. The agent proposed:")
            lines += in_plain_lines(place + 1, was[place])
        if breaks:
            unfit = in_one_line("; ".join(broken.words for broken in breaks))
            lines.append(f"Does not fit the tool's schema: {unfit}")
        words = "\n".join(lines)
        if len(words) > slack.TEXT_CHARS:
            return None
        radio = {"type": "radio_buttons", "options": [_option(*one) for one in verdicts]}
        blocks += _texts(words)
        blocks.append(_input(f"call:{place}", f"Call {place + 1}", radio))
        blocks.append(_input(f"why:{place}", "Reason, required to reject", _text_area(), optional=True))
    return blocks


def _options(typed: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    labels = [in_one_line(clean(one["label"])) for one in typed["options"]]
    # Slack cuts options after 75 characters, and shows two that begin alike as one
    if len(labels) > OPTIONS_MAX or any(len(label) > 75 for label in labels):
        return None
    kind = "multi_static_select" if typed.get("many") else "static_select"
    element = {"type": kind, "options": [_option(label, str(place)) for place, label in enumerate(labels)]}
    other = [_input("other", "Other", _text_area(), optional=True)] if typed.get("other") else []
    return [_input("chosen", "Your choice", element, optional=bool(other)), *other]


def _option(words: str, value: str) -> dict[str, Any]:
    return {"text": slack.plain(words), "value": value}


def _text_area() -> dict[str, Any]:
    return {"type": "plain_text_input", "multiline": True, "max_length": 3000}


def _input(block: str, label: str, element: dict[str, Any], optional: bool = False) -> dict[str, Any]:
    field = {**element, "action_id": "value"}
    return {"type": "input", "block_id": block, "label": slack.plain(label), "element": field, "optional": optional}


def _replied(message: Mapping[str, str]) -> None:
    """Answer the question of a direct message with the reply in its thread."""
    pressed = slack.replied_to(KIND, message["channel"], message["thread_ts"], message["user"])
    if pressed is None:
        return
    actor, text = pressed.actor, message["text"]
    nonce = f"slack:{message['channel']}:{message['ts']}"[:150]
    try:
        ask = visible_or_404(asks_of(actor), actor, pressed.subject_id)
        closing.close_if_due(ask.pk)
        # the same event again, or one that comes after the answer, changes nothing
        if ask.advice.filter(author_key=actor.key, nonce=nonce).exists():
            return
        if ask.typed:
            raise Invalid("This ask wants a decision. Press Answer.")
        advising.refuse_misfit(actor, ask, text, None)
        lease = queue.claim(actor, ask.pk)
        slack_answers.send(pressed, ask, text, None, nonce, (lease.assignment_id, lease.lease_token))
    except (AppError, NotFound) as refused:
        slack.tell(pressed.channel, message["thread_ts"], message["user"], slack_answers.not_sent(refused.message))


def _commented(message: Mapping[str, str]) -> None:
    """Store a reply in the thread of a channel's message as a comment on the step of its newest ask."""
    post = slack.thread_of(KIND, message["channel"], message["thread_ts"])
    if post is None or not message["text"].strip():
        return
    pressed = slack.replied_in(post, message["user"])
    try:
        if pressed is None:
            raise Invalid(REFUSED)
        slack_answers.comment(pressed, message["ts"], message["text"])
    except (AppError, NotFound) as refused:
        why = f"Your reply is only in Slack. {refused.message}"
        slack.tell(message["channel"], message["thread_ts"], message["user"], why)
