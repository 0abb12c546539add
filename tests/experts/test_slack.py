"""Asks in Slack against a server that speaks its HTTP: who may press, one lease for all views, and what repeats."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from datetime import timedelta
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from experts import tasks
from experts.errors import AlreadyClaimed
from experts.find.reading import ask_view
from experts.models import Advice, Ask, Assignment
from experts.record import advising, desk, queue
from notices import sending
from notices.models import Delivery
from notices.record import slack, subscriptions
from people.errors import Invalid
from people.record import jobs, members
from tests.awmclient.openai_server import OpenAIServer, answering
from tests.experts.test_standing_answers import BROKEN, REPLY, approval
from tests.notices.receivers import slack_server

SECRET = "a signing secret"
EDO = "U0EDO"
BACK = json.dumps({"return": True, "reason": "No ticket 9."})


@pytest.fixture
def there(settings):
    with slack_server() as one:
        settings.AWMWEB_SLACK_TOKEN, settings.AWMWEB_SLACK_SECRET = "xoxb-token", SECRET
        settings.AWMWEB_SLACK_URL = one.url
        yield one


@pytest.fixture
def way(edo, there):
    """Edo has confirmed his Slack account."""
    made = subscriptions.subscribe(edo, "slack", EDO)
    sending.work()
    subscriptions.confirm(edo, made.pk, made.secret["code"])
    subscriptions.set_rules(edo, made.pk, 0, 0)
    there.calls.clear()
    return made


def told(ask):
    """Send what is due and return the delivery of an ask."""
    sending.work()
    return Delivery.objects.get(subject_id=ask.pk)


def posted(path, body, secret=SECRET, age_s=0, content_type="application/x-www-form-urlencoded", **headers):
    stamp = str(int(time.time()) - age_s)
    signed = "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    sent = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signed} | headers
    return Client(enforce_csrf_checks=True).post(path, body, content_type=content_type, headers=sent)


def ts_of(row):
    """Return Slack's name of a direct message, of one in a channel, or of any other."""
    return row.receipt.get("ts") if isinstance(row, Delivery) else getattr(row, "ts", "1.1")


def pressed(row, action, user=EDO, **more):
    payload = {
        "type": "block_actions", "user": {"id": user}, "trigger_id": "t", "channel": {"id": "D1"},
        "message": {"ts": ts_of(row)}, "actions": [{"action_id": action, "value": row.pk}], **more,
    }  # fmt: skip
    return posted("/slack/interactions", urlencode({"payload": json.dumps(payload)}))


def window(there):
    return there.of("views.open")[-1]["view"]


def submitted(view, values, user=EDO, kind="view_submission", view_id="V1"):
    blocks = {name: {"value": one} for name, one in values.items()}
    view = {"id": view_id, "private_metadata": view["private_metadata"], "state": {"values": blocks}}
    payload = {"type": kind, "user": {"id": user}, "view": view}
    return posted("/slack/interactions", urlencode({"payload": json.dumps(payload)}))


def replied(row, text, user=EDO, ts="2.2", secret=SECRET, **more):
    event = {
        "type": "message", "user": user, "channel": row.receipt["channel"], "thread_ts": row.receipt["ts"],
        "ts": ts, "text": text, **more,
    }  # fmt: skip
    body = json.dumps({"type": "event_callback", "event": event})
    return posted("/slack/events", body, secret, content_type="application/json")


def fresh(ask):
    return Ask.objects.select_related("accepted", "assignment").get(pk=ask.pk)


def test_account_is_confirmed_by_a_code_that_slack_brings(edo, asked, there):
    with pytest.raises(Invalid, match="member ID"):
        subscriptions.subscribe(edo, "slack", "edo")
    made = subscriptions.subscribe(edo, "slack", EDO)
    asked("too early")
    sending.work()
    (sent,) = there.of("chat.postMessage")
    assert sent["channel"] == EDO and made.secret["code"] in json.dumps(sent["blocks"])
    assert sent["bearer"] == "Bearer xoxb-token" and "too early" not in json.dumps(there.calls)


def test_question_is_answered_in_its_window(edo, asked, there, way):
    row = told(ask := asked("Merge <!channel> into 4127?"))
    (sent,) = there.of("chat.postMessage")
    assert "<!channel>" not in sent["text"] and sent["blocks"][1]["text"]["type"] == "plain_text"
    assert pressed(row, "awm_answer").status_code == 200
    assert fresh(ask).assignment.holder == edo.key
    assert submitted(window(there), {"note": {"value": "Into 4127.\r\nThen close."}}).content == b""
    assert submitted(window(there), {"note": {"value": "Into 4127.\r\nThen close."}}).content == b"", "delivered twice"
    said = fresh(ask).accepted
    assert (said.text, said.author, said.source) == ("Into 4127.\nThen close.", "edo", "human")
    assert Advice.objects.filter(ask=ask).count() == 1
    slack.redraw("ask", ask.pk)
    changed = there.of("chat.update")[-1]
    assert changed["ts"] == row.receipt["ts"] and "edo" in json.dumps(changed["blocks"])
    assert "awm_answer" not in json.dumps(changed["blocks"])


def test_press_on_a_second_message_counts_and_moves_it(asked, there, way):
    row = told(ask := asked())
    # Slack took this one, and its response was lost
    lost = "1600000000.000001"
    pressed(row, "awm_answer", message={"ts": lost})
    (moved,) = there.of("chat.update")
    assert moved["ts"] == lost and "Moved" in moved["text"]
    assert "awm_answer" not in json.dumps(moved) and f"/asks/{ask.pk}/" in json.dumps(moved)
    assert submitted(window(there), {"note": {"value": "Into 4127."}}).content == b""
    assert fresh(ask).accepted.text == "Into 4127."


def test_window_that_an_earlier_version_opened_is_sent(asked, there, way):
    pressed(told(ask := asked()), "awm_answer")
    carried = json.loads(window(there)["private_metadata"])
    carried["delivery"] = carried.pop("message")
    opened = {"private_metadata": json.dumps(carried)}
    assert submitted(opened, {"note": {"value": "Into 4127."}}).content == b""
    assert fresh(ask).accepted.text == "Into 4127."


def test_calls_are_decided_in_the_window_with_reasons(asked, there, way):
    row = told(ask := asked(**approval(REPLY, {"ticket": 9007199254740993})))
    pressed(row, "awm_answer")
    assert "9007199254740993" in json.dumps(window(there))
    values = {
        "call:0": {"selected_option": {"value": "approve"}},
        "call:1": {"selected_option": {"value": "reject"}},
        "why:1": {"value": None},
        "note": {"value": None},
    }
    answer = submitted(window(there), values).json()
    assert answer["response_action"] == "errors" and "needs a reason" in answer["errors"]["note"]
    values["why:1"] = {"value": "Not yet."}
    assert submitted(window(there), values).content == b""
    calls = fresh(ask).accepted.decision["calls"]
    assert [(one["verdict"], one.get("reason")) for one in calls] == [("approve", None), ("reject", "Not yet.")]


def test_window_says_which_arguments_break_their_schema(asked, there, way):
    typed = approval(REPLY)
    typed["calls"][0]["schema"] = BROKEN
    pressed(told(asked(**typed)), "awm_answer")
    assert "Does not fit the tool's schema: ticket is not of type string" in json.dumps(window(there))


REFUND, EDITED = {"order": 7, "amount": 40}, {"order": 7, "amount": 20}
APPROVED = {"call:0": {"selected_option": {"value": "approve"}}, "why:0": {"value": None}, "note": {"value": None}}


def edited_by(ada, ask):
    """Let Ada edit the call of an approval that needs two people, with a reason."""
    lease = queue.claim(ada, ask.pk)
    decision = {"calls": [{"id": "1", "verdict": "edit", "arguments": EDITED, "reason": "Half of it."}]}
    advising.answer(ada, lease.assignment_id, lease.lease_token, "", "n", decision=decision)


def test_window_shows_a_colleagues_edit_and_approves_just_that(ada, asked, there, way):
    edited_by(ada, ask := asked(**approval(REFUND), quorum={"of": 2}))
    pressed(told(ask), "awm_answer")
    words = window(there)["blocks"][1]["text"]["text"]
    assert "amount: 20\nada edited this call. The agent proposed:\n" in words and words.endswith("amount: 40")
    assert submitted(window(there), APPROVED).content == b""
    assert fresh(ask).accepted.decision["calls"] == [{"id": "1", "verdict": "edit", "arguments": EDITED}]


def test_approval_of_an_edit_has_its_own_persons_reason(ada, asked, there, way):
    edited_by(ada, ask := asked(**approval(REFUND), quorum={"of": 2}))
    pressed(told(ask), "awm_answer")
    assert submitted(window(there), {**APPROVED, "why:0": {"value": "As agreed."}}).content == b""
    (call,) = fresh(ask).accepted.decision["calls"]
    assert (call["verdict"], call["arguments"], call["reason"]) == ("edit", EDITED, "As agreed.")


def test_edit_that_was_withdrawn_is_approved_as_ones_own(ada, asked, there, way):
    edited_by(ada, ask := asked(**approval(REFUND), quorum={"of": 2}))
    pressed(told(ask), "awm_answer")
    with pytest.raises(AlreadyClaimed, match="counts no longer"):
        advising.withdraw(ada, ask.pk)
    assert submitted(window(there), APPROVED).content == b""
    (counted,) = ask_view(fresh(ask)).decided
    assert (counted.by, counted.verdict, counted.calls[0].arguments) == ("edo", "edit", EDITED)


def test_window_that_is_older_than_an_edit_approves_nothing(ada, asked, there, way):
    pressed(told(ask := asked(**approval(REFUND), quorum={"of": 2})), "awm_answer")
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))
    edited_by(ada, ask)
    refused = submitted(window(there), APPROVED).json()
    assert "ada edited the call. Look at the edit" in refused["errors"]["note"]
    assert [one.by for one in ask_view(fresh(ask)).decided] == ["ada"]


@pytest.mark.parametrize(
    ("many", "value", "chosen"),
    [
        (False, {"selected_option": {"value": "1"}}, ["b"]),
        (True, {"selected_options": [{"value": "0"}, {"value": "1"}]}, ["a", "b"]),
    ],
)
def test_options_are_chosen_in_the_window(asked, there, way, many, value, chosen):
    options = [{"id": "a", "label": "First"}, {"id": "b", "label": "Second"}]
    row = told(ask := asked(kind="choice", options=options, many=many))
    pressed(row, "awm_answer")
    submitted(window(there), {"chosen": value, "note": {"value": ""}})
    assert fresh(ask).accepted.decision["chosen"] == chosen


def test_form_and_long_call_are_left_to_the_page(asked, there, way):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    for number, typed in enumerate(({"kind": "form", "response_schema": schema}, approval({"body": "x" * 4000}))):
        row = told(asked(task=f"t{number}", **typed))
        pressed(row, "awm_answer")
    assert not there.of("views.open")
    assert len([one for one in there.of("chat.postMessage") if "open it in awmweb" in one["text"]]) == 2


def test_rule_that_returns_a_reply_names_itself_once(ada, asked, there, way):
    desk.set_policy(ada, second_look=r"\b\d{16}\b => Remove the card number.")
    row = told(asked())
    replied(row, "Use 1234567890123456.")
    text = there.of("chat.postMessage")[-1]["text"]
    assert text == "Not sent: a rule of this project says: Remove the card number."


def test_of_two_views_one_claims_and_the_other_is_told(ada, asked, there, way):
    row = told(ask := asked())
    lease = queue.claim(ada, ask.pk)
    pressed(row, "awm_claim")
    assert "ada" in there.of("chat.postMessage")[-1]["text"] and fresh(ask).assignment.holder == ada.key
    slack.redraw("ask", ask.pk)
    assert "Claimed by ada." in json.dumps(there.of("chat.update")[-1])
    advising.answer(ada, lease.assignment_id, lease.lease_token, "mine", "n")
    replied(row, "too late")
    assert fresh(ask).accepted.text == "mine" and "Not sent" in there.of("chat.postMessage")[-1]["text"]


def test_window_outlives_its_lease_and_no_text_is_lost(ada, edo, asked, there, way):
    row = told(ask := asked())
    pressed(row, "awm_claim")
    slack.redraw("ask", ask.pk)
    kept = json.dumps(there.of("chat.update")[-1]["blocks"])
    assert "Claimed by you." in kept and "awm_answer" in kept and "awm_claim" not in kept
    pressed(row, "awm_answer")
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert submitted(window(there), {"note": {"value": "Into 4127."}}).content == b""
    assert fresh(ask).accepted.text == "Into 4127."
    row = told(other := asked(task="another"))
    pressed(row, "awm_answer")
    Assignment.objects.filter(ask=other).update(lease_until=timezone.now() - timedelta(seconds=1))
    queue.claim(ada, other.pk)
    answer = submitted(window(there), {"note": {"value": "Mine, too late."}}, view_id="V2").json()
    assert answer["response_action"] == "errors" and fresh(other).is_open
    assert Advice.objects.get(ask=other, late=True).text == "Mine, too late."


def test_reply_in_the_thread_answers_once(asked, there, way):
    row = told(ask := asked())
    replied(row, "edited", subtype="message_changed")
    replied(row, "a bot", bot_id="B1")
    assert fresh(ask).is_open
    for _ in range(2):
        assert replied(row, "Into 4127.").status_code == 200
    replied(row, "Another reply.", ts="3.3")
    assert fresh(ask).accepted.text == "Into 4127." and Advice.objects.filter(ask=ask, late=False).count() == 1


@pytest.mark.parametrize("had", [False, True])
def test_window_that_does_not_open_keeps_no_claim(edo, asked, there, way, had):
    row = told(ask := asked())
    if had:
        queue.claim(edo, ask.pk)
    there.refuses["views.open"] = "expired_trigger_id"
    pressed(row, "awm_answer")
    assert fresh(ask).assignment.is_held(timezone.now()) is had
    assert "Slack responded expired_trigger_id. Press Answer again." in there.of("chat.postMessage")[-1]["text"]


def test_closed_window_releases_the_ask(asked, there, way):
    row = told(ask := asked())
    pressed(row, "awm_answer")
    submitted(window(there), {}, kind="view_closed")
    assert not fresh(ask).assignment.holder
    assert submitted(window(there), {}, kind="view_closed").status_code == 200


@pytest.mark.parametrize("wrong", ["signature", "old", "unset", "odd stamp"])
def test_request_that_slack_did_not_sign_does_nothing(asked, there, way, settings, wrong):
    row = told(ask := asked())
    if wrong == "unset":
        settings.AWMWEB_SLACK_SECRET = ""
    body = urlencode({"payload": json.dumps({"type": "block_actions", "user": {"id": EDO},
                                             "actions": [{"action_id": "awm_claim", "value": row.pk}]})})  # fmt: skip
    more = {"X-Slack-Request-Timestamp": "²"} if wrong == "odd stamp" else {}
    age, secret = (400 if wrong == "old" else 0), ("other" if wrong == "signature" else SECRET)
    assert posted("/slack/interactions", body, secret, age, **more).status_code == 401
    assert replied(row, "x", secret="other").status_code == 401
    assert not fresh(ask).assignment.holder


@pytest.mark.parametrize("end", ["another account", "unsubscribed", "removed", "unconfirmed"])
def test_press_of_anyone_else_is_refused(ada, edo, asked, there, way, end):
    row = told(ask := asked())
    user = "U0OTHER" if end == "another account" else EDO
    if end == "unsubscribed":
        subscriptions.unsubscribe(edo, way.pk)
    elif end == "removed":
        members.remove_member(ada, edo.person.memberships.get().pk)
    elif end == "unconfirmed":
        type(way).objects.filter(pk=way.pk).update(is_confirmed=False)
    pressed(row, "awm_claim", user=user)
    replied(row, "mine", user=user)
    assert fresh(ask).is_open and not fresh(ask).assignment.holder


@pytest.mark.parametrize(
    "payload", ["", "[]", "{", '{"type": "block_actions"}', '{"type": "view_submission", "view": 5, "user": 3}', "\x00"]
)
def test_payload_that_is_not_slacks_breaks_nothing(db, there, payload):
    status = posted("/slack/interactions", urlencode({"payload": payload})).status_code
    assert status in (200, 404, 422), status
    assert posted("/slack/events", payload, content_type="application/json").status_code in (200, 404, 422)


def test_form_in_parts_is_refused(there):
    for path in ("/slack/interactions", "/slack/events"):
        assert Client().post(path, {"payload": "{}"}).status_code == 401


def test_challenge_of_the_events_address_is_answered(there):
    body = json.dumps({"type": "url_verification", "challenge": "c"})
    assert posted("/slack/events", body, content_type="application/json").json() == {"challenge": "c"}


@pytest.mark.parametrize(
    ("code", "state"), [("ratelimited", "waiting"), ("user_not_found", "failed"), ("internal_error", "waiting")]
)
def test_refusal_of_slack_is_named_and_perhaps_tried_again(asked, there, way, code, state):
    there.refuses["chat.postMessage"] = code
    row = told(asked())
    assert (row.state, row.words) == (state, f"Slack responded {code}.")


def test_slack_that_is_away_keeps_the_notification(asked, there, way, settings):
    settings.AWMWEB_SLACK_URL = "http://127.0.0.1:1"
    row = told(asked())
    assert row.state == "waiting" and "could not be reached" in row.words


def test_missed_change_is_redrawn_by_the_sweep(ada, asked, there, way):
    told(ask := asked())
    there.refuses["chat.update"] = "internal_error"
    queue.claim(ada, ask.pk)
    slack.redraw("ask", ask.pk)
    there.refuses.clear()
    slack.redraw_missed()
    assert "Claimed by ada." in json.dumps(there.of("chat.update")[-1])
    count = len(there.of("chat.update"))
    slack.redraw_missed()
    assert len(there.of("chat.update")) == count, "nothing changed"


@pytest.fixture
def returns(settings, ada, monkeypatch):
    """A model that returns answers with *9*, and what is called of a worker."""
    server = OpenAIServer(lambda body: BACK if "Into 9" in body["messages"][1]["content"] else '{"return": false}')
    with answering(server):
        settings.EXPERT_ENDPOINTS = {"wise": EndpointConfig(server.base_url, "wise-1", "k", timeout_s=60.0)}
        desk.set_policy(ada, second_look_model="wise")
        called = []
        monkeypatch.setattr(jobs, "call_worker", lambda task, *args: called.append((task, args)) or True)
        yield called


def worked(called):
    """Do what a worker was called for."""
    for task, args in [called.pop(0) for one in list(called) if one[0] == "experts.tasks.send_from_slack"]:
        assert task == "experts.tasks.send_from_slack"
        tasks.send_from_slack(*args)


@pytest.mark.parametrize("by", ["window", "reply"])
def test_returned_answer_comes_back_with_send_anyway(edo, asked, there, way, returns, by):
    row = told(ask := asked())
    returns.clear()
    if by == "window":
        pressed(row, "awm_answer")
        assert submitted(window(there), {"note": {"value": "Into 9."}}).content == b""
    else:
        replied(row, "Into 9.")
    assert fresh(ask).is_open, "no press waits for the model"
    worked(returns)
    back = there.of("chat.postMessage")[-1]
    button = back["blocks"][1]["elements"][0]
    assert back["text"] == "Not sent: the model wise thinks: No ticket 9." and back["thread_ts"] == row.receipt["ts"]
    assert button["action_id"] == "awm_anyway" and fresh(ask).is_open
    for _ in range(2):  # the second press changes nothing
        pressed(SimpleNamespace(pk=button["value"]), "awm_anyway")
    said = fresh(ask).accepted
    assert (said.text, said.overruled, Advice.objects.filter(ask=ask).count()) == ("Into 9.", "wise: No ticket 9.", 1)
    assert there.of("chat.postMessage")[-1] == back, "nothing more was said"


def test_answer_that_passes_the_look_is_sent_by_a_worker(edo, asked, there, way, returns):
    row = told(ask := asked())
    returns.clear()
    there.calls.clear()
    for _ in range(2):  # delivered twice
        replied(row, "Into 8.")
    worked(returns)
    assert fresh(ask).accepted.text == "Into 8." and fresh(ask).accepted.overruled == ""
    assert Advice.objects.filter(ask=ask).count() == 1 and not there.of("chat.postMessage"), "nothing is said of it"


def test_send_anyway_sends_only_what_was_returned(edo, asked, there, way, returns):
    row = told(ask := asked())
    returns.clear()
    replied(row, "Into 9.")
    worked(returns)
    value = there.of("chat.postMessage")[-1]["blocks"][1]["elements"][0]["value"]
    desk.keep_text(edo, ask.pk, "Into 7.", None)
    pressed(SimpleNamespace(pk=value), "awm_anyway")
    assert fresh(ask).is_open and "has changed since" in there.of("chat.postMessage")[-1]["text"]
    pressed(SimpleNamespace(pk=value), "awm_anyway", user="U0EVE")
    assert fresh(ask).is_open and "can't answer" in there.of("chat.postMessage")[-1]["text"]


def test_without_a_broker_the_look_is_taken_at_once(edo, asked, there, way, returns, monkeypatch):
    row = told(ask := asked())
    monkeypatch.setattr(jobs, "call_worker", lambda *_: False)
    replied(row, "Into 9.")
    assert fresh(ask).is_open and "No ticket 9" in there.of("chat.postMessage")[-1]["text"]
    replied(row, "Into 8.", ts="2.3")
    assert fresh(ask).accepted.text == "Into 8."
