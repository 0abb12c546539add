"""A project's Slack channel: one message an ask, drawn until it is true, and presses of members only."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from awmclient.schema import AskOpen
from experts.models import Advice, Assignment
from experts.record import advising, closing, desk, opening, queue
from notices.models import SlackChannel, SlackPost, Subscription
from notices.record import channels, slack, subscriptions
from people.access import Actor
from people.errors import Forbidden, Invalid, NotFound
from people.models import AuditEntry
from reviews.models import Annotation
from tests.browsing import as_person, html
from tests.experts.test_slack import EDO, fresh, posted, pressed, submitted, there, window
from tests.experts.test_standing_answers import approval

__all__ = ["there"]
PLACE, ANN = "C0DESK", "U0ANN"


@pytest.fixture
def channel(ada, there):
    return channels.add(ada, PLACE)


@pytest.fixture
def edo_in_slack(edo, there):
    return in_slack(edo, EDO)


def in_slack(actor, target):
    """Confirm a Slack account, without its messages."""
    return Subscription.objects.create(project=actor.project, user=actor.person, kind="slack", target=target)


def drawn(ask):
    """Draw the message of an ask, as a worker does after a change, and return its row."""
    channels.draw("ask", ask.pk)
    return SlackPost.objects.get(subject_id=ask.pk)


def last(there, method="chat.update"):
    return json.dumps(there.of(method)[-1], ensure_ascii=False)


def press(post, action, user=EDO):
    return pressed(post, action, user, channel={"id": PLACE})


def replied(post, text, user=EDO, ts="2.2", **more):
    event = {"type": "message", "user": user, "channel": PLACE, "thread_ts": post.thread_ts or post.ts, "ts": ts}
    body = json.dumps({"type": "event_callback", "event": {**event, "text": text, **more}})
    return posted("/slack/events", body, content_type="application/json")


def whispered(there):
    return [(one["user"], one["text"]) for one in there.of("chat.postEphemeral")]


def test_ask_is_one_message_that_follows_its_state(ada, edo, asked, there, channel):
    post = drawn(ask := asked())
    (sent,) = there.of("chat.postMessage")
    assert sent["channel"] == PLACE and "Answer by" in json.dumps(sent) and "awm_claim" in json.dumps(sent)
    lease = queue.claim(edo, ask.pk)
    drawn(ask)
    assert "Claimed by edo." in last(there) and "awm_claim" not in last(there) and "awm_answer" in last(there)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "the old one", "n")
    assert not drawn(ask).is_over, "an answer can be withdrawn"
    assert "edo answered" in last(there) and "awm_answer" not in last(there) and "the old one" not in last(there)
    advising.withdraw(edo, ask.pk)
    drawn(ask)
    assert "Claimed by edo." in last(there)
    closing.cancel(ada, ask.pk)
    assert drawn(ask).is_over and "The agent withdrew its question." in last(there)
    assert len(there.of("chat.postMessage")) == 1 and {one["ts"] for one in there.of("chat.update")} == {post.ts}
    changes = len(there.calls)
    drawn(ask)
    assert len(there.calls) == changes, "nothing changed"


def test_deadline_and_lease_end_are_drawn_by_the_sweep(edo, asked, there, channel):
    drawn(ask := asked())
    queue.claim(edo, ask.pk)
    drawn(ask)
    Assignment.objects.filter(ask=ask).update(lease_until=timezone.now() - timedelta(seconds=1))
    channels.draw_missed()
    assert "awm_claim" in last(there) and "Claimed by" not in last(there)
    type(ask).objects.filter(pk=ask.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
    closing.close_if_due(ask.pk)
    channels.draw_missed()
    assert "awm_" not in last(there).replace("awm_open", "") and SlackPost.objects.get().is_over


def test_member_claims_once_and_answers_in_a_window(edo, asked, there, channel, edo_in_slack):
    post = drawn(ask := asked())
    for _ in range(2):
        press(post, "awm_claim")
    assert fresh(ask).assignment.holder == edo.key
    assert list(ask.events.values_list("verb", flat=True)).count("claimed") == 1
    press(post, "awm_answer")
    for _ in range(2):
        assert submitted(window(there), {"note": {"value": "Into 4127."}}).content == b""
    assert fresh(ask).accepted.text == "Into 4127." and Advice.objects.filter(ask=ask).count() == 1
    assert whispered(there) == []


def test_press_is_that_of_a_member_with_the_right(edo, rita, asked, there, channel, edo_in_slack):
    in_slack(rita, "U0RITA")
    post = drawn(ask := asked())
    for user in (ANN, "U0RITA"):
        press(post, "awm_claim", user)
        press(post, "awm_answer", user)
    assert not fresh(ask).assignment.holder and not there.of("views.open")
    assert [user for user, _ in whispered(there)] == [ANN, ANN, "U0RITA", "U0RITA"]
    assert "confirm their Slack account" in whispered(there)[0][1]
    edo_in_slack.is_confirmed = False
    edo_in_slack.save()
    press(post, "awm_claim")
    assert not fresh(ask).assignment.holder


def test_second_who_presses_hears_it_alone(ada, edo, asked, there, channel, edo_in_slack):
    post = drawn(ask := asked())
    queue.claim(ada, ask.pk)
    press(post, "awm_answer")
    ((user, words),) = whispered(there)
    assert user == EDO and "ada" in words and len(there.of("chat.postMessage")) == 1


@pytest.mark.parametrize("code", ["expired_trigger_id", "exchanged_trigger_id"])
def test_unopened_window_gives_the_claim_back(edo, asked, there, channel, edo_in_slack, code):
    post = drawn(ask := asked())
    there.refuses["views.open"] = code
    press(post, "awm_answer")
    # the second is a press that was delivered twice: its window is open
    is_open = code == "exchanged_trigger_id"
    assert fresh(ask).assignment.is_held(timezone.now()) is is_open and bool(whispered(there)) is not is_open


def test_form_is_left_to_the_page_with_its_link(asked, there, channel, edo_in_slack):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    post = drawn(ask := asked(kind="form", response_schema=schema))
    press(post, "awm_answer")
    assert f"/asks/{ask.pk}/" in whispered(there)[0][1] and not there.of("views.open")


def test_reply_is_a_comment_once_and_no_answer(edo, asked, there, channel, edo_in_slack):
    post = drawn(ask := asked())
    for _ in range(2):
        assert replied(post, "Is 3 &lt; 4 &amp;amp; so?").status_code == 200
    replied(post, "another", ts="3.3")
    replied(post, "edited", ts="4.4", subtype="message_changed")
    replied(post, "of a bot", ts="5.5", bot_id="B1")
    notes = Annotation.objects.filter(episode=ask.episode_id).order_by("created_at")
    assert [(one.label, one.text, one.author, one.seq) for one in notes] == [
        ("comment", "Is 3 < 4 &amp; so?", "edo", ask.seq),
        ("comment", "another", "edo", ask.seq),
    ]
    assert fresh(ask).is_open and whispered(there) == []
    replied(post, "of a stranger", user=ANN, ts="6.6")
    assert notes.count() == 2 and whispered(there)[0][0] == ANN and "only in Slack" in whispered(there)[0][1]


def test_next_ask_of_the_agent_comes_in_the_thread(ada, edo, asked, there, channel, edo_in_slack):
    first = drawn(ask := asked())
    lease = queue.claim(edo, ask.pk)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "Which one?", "n", asks_back=True)
    later = AskOpen(key="q2", episode=ask.episode_id, seq=2, question="The older one?", thread=ask.pk)
    second = drawn(following := opening.open_ask(ada, later)[0])
    sent = there.of("chat.postMessage")[-1]
    assert (sent["thread_ts"], sent["reply_broadcast"]) == (first.ts, True) and second.thread_ts == first.ts
    replied(first, "Yes, the older one.")
    assert Annotation.objects.get().seq == following.seq, "of the newest ask in the thread"


def test_channel_shows_asks_of_its_skills_and_risk(ada, asked, there):
    desk.set_policy(ada, high_risk="*refund*")
    for target, skills, only in (("C0ALL", "", False), ("C0LAW", " law ,  tax law", False), ("C0RISK", "", True)):
        channels.add(ada, target, skills, only)
    calls = [{"id": "1", "name": "create_refund", "arguments": {"order": 7}}]
    shown = {}
    for name, more in (("plain", {}), ("law", {"skills": ["tax law"]}), ("risk", {"kind": "approval", "calls": calls})):
        rows = SlackPost.objects.filter(subject_id=asked(task=name, **more).pk)
        shown[name] = sorted(rows.values_list("channel__target", flat=True))
    assert shown == {"plain": ["C0ALL"], "law": ["C0ALL", "C0LAW"], "risk": ["C0ALL", "C0RISK"]}


def test_texts_of_agents_stay_texts_and_are_cut(asked, there, channel):
    typed = approval({"body": "x" * 4000 + "-tail"})
    drawn(asked("Is <!channel> *bold* & rev\u202eersed?", **typed))
    (sent,) = there.of("chat.postMessage")
    assert sent["text"].count("&lt;!channel&gt;") == 1 and "<!channel>" not in sent["text"]
    texts = [one["text"] for one in sent["blocks"] if one["type"] == "section"]
    assert {one["type"] for one in texts} == {"plain_text"} and all(len(one["text"]) <= 3000 for one in texts)
    assert "⟨U+202E⟩" in texts[1]["text"] and "\u202e" not in json.dumps(sent, ensure_ascii=False)
    assert texts[2]["text"].endswith("open it in awmweb.") and "-tail" not in texts[2]["text"]


def test_press_on_a_second_message_moves_it(edo, asked, there, channel, edo_in_slack):
    post = drawn(ask := asked())
    press(post, "awm_claim")
    assert not there.of("chat.update"), "its own message is drawn by a worker"
    lost = "1600000000.000001"
    pressed(post, "awm_claim", channel={"id": PLACE}, message={"ts": lost})
    (moved,) = there.of("chat.update")
    assert (moved["channel"], moved["ts"]) == (PLACE, lost) and "awm_claim" not in json.dumps(moved)
    assert fresh(ask).assignment.holder == edo.key


def test_lines_of_a_call_cannot_be_forged(asked, there, channel, edo_in_slack):
    forged = "small\n2. delete_all\r\n    sure: yes"
    arguments = {"note": forged, "a\nb": "1\nDoes not fit the tool's schema: no"}
    typed = approval(arguments, name="send_reply\n2. delete_all")
    post = drawn(asked(**typed))
    press(post, "awm_answer")
    shown = there.of("chat.postMessage")[0]["blocks"][2], window(there)["blocks"][1]
    for block in shown:
        assert block["text"]["text"].splitlines() == [
            "1. send_reply⟨LF⟩2. delete_all",
            "    note: small",
            "    │ 2. delete_all",
            "    │     sure: yes",
            "    a⟨LF⟩b: 1",
            "    │ Does not fit the tool's schema: no",
        ]


def test_options_have_one_line_each(asked, there, channel, edo_in_slack):
    options = [{"id": "a", "label": "Keep\n- Delete"}, {"id": "b", "label": "Wait"}]
    press(drawn(asked(kind="choice", options=options)), "awm_answer")
    listed = there.of("chat.postMessage")[0]["blocks"][2]["text"]["text"]
    assert listed.splitlines() == ["- Keep⟨LF⟩- Delete", "- Wait"]
    assert "Keep⟨LF⟩- Delete" in json.dumps(window(there), ensure_ascii=False)


def test_rate_limit_keeps_the_newest_state(edo, asked, there, channel):
    drawn(ask := asked())
    there.refuses["chat.update"] = "ratelimited"
    lease = queue.claim(edo, ask.pk)
    drawn(ask)
    advising.answer(edo, lease.assignment_id, lease.lease_token, "mine", "n")
    there.refuses.clear()
    calls = len(there.calls)
    drawn(ask)
    drawn(asked(task="another"))
    assert len(there.calls) == calls, "Slack wants no call of this channel for 30 s"
    SlackChannel.objects.update(paused_until=timezone.now())
    channels.draw_missed()
    assert "edo answered" in last(there) and len(there.of("chat.update")) == 2
    assert len(there.of("chat.postMessage")) == 2


def test_outage_is_tried_again_but_no_ended_ask_is_sent(ada, asked, there, channel, settings):
    settings.AWMWEB_SLACK_URL = "http://127.0.0.1:1"
    post, other = drawn(asked()), drawn(ended := asked(task="another"))
    assert (post.ts, post.attempts) == ("", 1) and post.taken_until > timezone.now()
    closing.cancel(ada, ended.pk)
    settings.AWMWEB_SLACK_URL = there.url
    channels.draw_missed()
    assert not there.calls, "not before its pause ended"
    SlackPost.objects.update(taken_until=timezone.now())
    channels.draw_missed()
    assert len(there.of("chat.postMessage")) == 1
    other.refresh_from_db()
    assert other.is_over and not other.ts


@pytest.mark.parametrize(
    ("code", "words"), [("is_archived", "archived"), ("token_revoked", "token"), ("not_in_channel", "Invite the app")]
)
def test_lost_channel_is_one_sentence_until_it_is_tried_again(ada, edo, asked, there, channel, code, words):
    there.refuses["chat.postMessage"] = code
    post = drawn(ask := asked())
    drawn(asked(task="another"))
    channels.draw_missed()
    assert len(there.calls) == 1 and not post.ts
    client = as_person(ada)
    page = html(client.get("/notifications/"))
    assert words in page and code in page and page.count("not working") == 1
    queue.claim(edo, ask.pk)
    there.refuses.clear()
    assert client.post(f"/notifications/slack-channels/{channel.pk}/again").status_code == 302
    channels.draw_missed()
    assert "Claimed by edo." in json.dumps(there.of("chat.postMessage")) and "not working" not in (
        html(client.get("/notifications/"))
    )


def test_change_during_a_call_is_drawn_by_who_calls(edo, asked, there, channel, monkeypatch):
    ask, call, others = asked(), channels._call, []

    def changed_meanwhile(*work):
        made = call(*work)
        if not others:
            others.append(queue.claim(edo, ask.pk))
            before = len(there.calls)
            channels.draw("ask", ask.pk)
            assert len(there.calls) == before, "another process leaves it to this one"
        return made

    monkeypatch.setattr(channels, "_call", changed_meanwhile)
    drawn(ask)
    assert "Claimed by edo." in last(there) and len(there.of("chat.postMessage")) == 1


def test_post_of_a_process_that_died_is_drawn_later(asked, there, channel):
    ask = asked()
    SlackPost.objects.update(taken_until=timezone.now() + channels.TAKEN_FOR)
    assert not drawn(ask).ts
    SlackPost.objects.update(taken_until=timezone.now())
    assert drawn(ask).ts


def test_only_who_sets_the_desk_sets_channels(ada, edo, max_, there, channel):
    with pytest.raises(Forbidden):
        channels.add(edo, "C0OTHER")
    with pytest.raises(NotFound):
        channels.remove(max_, channel.pk)
    with pytest.raises(Invalid, match="channel ID"):
        channels.add(ada, "#general")
    client = as_person(edo)
    page = html(client.get("/notifications/"))
    assert PLACE in page and "Save channel" not in page
    assert client.post("/notifications/slack-channels", {"target": "C0OTHER"}).status_code == 403
    client = as_person(ada)
    form = {"target": PLACE, "skills": "law", "only_high_risk": "1"}
    assert client.post("/notifications/slack-channels", form).status_code == 302
    assert SlackChannel.objects.get().skills == ["law"] and AuditEntry.objects.filter(target=PLACE).count() == 2
    refused = client.post("/notifications/slack-channels", {"target": "general"})
    assert refused.status_code == 422 and 'value="general"' in html(refused)


def test_removed_channel_takes_no_press(ada, asked, there, channel, edo_in_slack):
    post = drawn(ask := asked())
    channels.remove(ada, channel.pk)
    calls = len(there.calls)
    press(post, "awm_claim")
    replied(post, "Too late.")
    assert not fresh(ask).assignment.holder and not Annotation.objects.exists()
    drawn(ask)
    assert len(there.calls) == calls + 1, "the refusal alone"
    assert channels.add(ada, PLACE).pk != channel.pk


def test_second_look_comes_back_to_the_author_alone(edo, asked, there, channel, edo_in_slack):
    post = drawn(asked())
    found = slack.pressed_by("ask", post.pk, EDO)
    assert isinstance(found.actor, Actor) and found.actor.key == edo.key
    slack.tell(found.channel, found.ts, EDO, "Not sent.", ("Send anyway", "awm_anyway", f"{found.id} 1"))
    ((user, _),) = whispered(there)
    assert user == EDO and len(there.of("chat.postMessage")) == 1
    subscriptions.unsubscribe(edo, edo_in_slack.pk)
    assert slack.pressed_by("ask", post.pk, EDO) is None
