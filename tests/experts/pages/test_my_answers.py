"""A person's own answers, and what became of them."""

from __future__ import annotations

from awmclient.schema import Finish
from episodes.record import ending
from experts.record import advising, closing, queue
from tests.browsing import as_person, html


def answer(actor, ask, text):
    lease = queue.claim(actor, ask.pk)
    advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n")


def mine(actor):
    return html(as_person(actor).get("/my-answers/"))


def test_my_answers_say_what_became_of_each(asked, ada, edo, rita):
    assert "No answers yet." in mine(edo)
    asks = [asked(f"{word}?") for word in ("Alpha", "Beta or gamma", "Delta, epsilon", "Zeta eta theta")]
    for ask in asks[:3]:
        answer(edo, ask, f"Yes, <b>{ask.question}</b>")
    answer(ada, asks[3], "Not mine.")
    advising.edit(edo, asks[0].pk, "Better words.", None)
    closing.consume(ada, asks[0].pk)
    advising.withdraw(edo, asks[1].pk)
    ending.finish(ada, asks[2].episode_id, Finish(stop_reason="done"))
    shown = mine(edo)
    assert "<h1>3 answers, 1 read by agents.</h1>" in shown
    assert "Better words." in shown and "Alpha?&lt;/b&gt;" not in shown and "Not mine." not in shown
    assert "Yes, &lt;b&gt;Delta, epsilon?&lt;/b&gt;" in shown
    for words in ("Read by the agent.", "Withdrawn.", "The episode ended before delivery."):
        assert words in shown
    assert as_person(rita).get("/my-answers/").status_code == 403
