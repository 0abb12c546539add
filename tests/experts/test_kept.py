"""How much of a draft is left in an answer: what is counted, that it takes no time, and that nothing waits for it."""

from __future__ import annotations

import time

import pytest
from django.db import connection

from experts.find.similar import MEASURED, kept
from experts.models import Advice
from experts.record import advising, desk, queue
from people.access import expert_model

MODEL = "small"


@pytest.mark.parametrize(
    ("before", "text", "share"),
    [
        ("Take the oldest.", "Take the oldest.", 1.0),
        ("Take the oldest.", "Take the oldest one.", 2 * 16 / (16 + 20)),  # 15 from the start, 1 from the end
        ("Take the oldest.", "Leave it open", 0.0),
        ("", "", 1.0),
        ("", "Take it.", 0.0),
        (" \n", "Take it.", 0.0),
        ("one two three four nine", "xx two three four yy", 2 * len("three four ") / (23 + 20)),
        ("no no no x", "no y", 2 * 3 / (10 + 4)),  # from the start only: as often as in the shorter one
        ("Take\n\n  the oldest.", "Take the oldest.", 1.0),
        ("把工单合并到旧的。", "请把工单合并到旧的", 2 * len("工单合并到旧的") / (9 + 9)),  # a word each
    ],
)
def test_kept_counts_ends_and_words_that_follow_the_same_word(before, text, share):
    assert kept(before, text) == pytest.approx(share)
    assert kept(text, before) == pytest.approx(share)


LONG = 100_000
WORST = {
    "one letter": ("a" * LONG, "b" + "a" * (LONG - 2) + "c"),
    "two letters": ("ab" * (LONG // 2), "ba" * (LONG // 2)),
    "words": ("a b " * (LONG // 4), "b a " * (LONG // 4)),
    "signs": ("!a" * (LONG // 2), "a!" * (LONG // 2)),
    "spaces": ("x" + " " * LONG, " x" * (LONG // 2)),
    "odd spaces": ("\u2003x" * (LONG // 2), "x\u3000\n" * (LONG // 3)),
    "nearly alike": ("abacabad" * (LONG // 8), "abacabae" * (LONG // 8)),
    "fibonacci": ("abaababaabaab" * (LONG // 13), "abaababaabaaa" * (LONG // 13)),
}


@pytest.mark.parametrize("name", WORST)
def test_kept_takes_a_moment_for_texts_made_to_be_slow(name):
    before, text = WORST[name]
    times = []
    for _ in range(5):
        started = time.process_time()
        kept(before, text)
        times.append(time.process_time() - started)
    assert min(times) < 0.05


def test_kept_measures_as_much_as_an_answer_can_have():
    assert kept("a" * MEASURED + "b" * MEASURED, "a" * MEASURED) == 1.0


@pytest.mark.django_db(transaction=True)
def test_kept_is_measured_before_anything_is_locked(asked, ada, edo, project, models, monkeypatch):
    """A long draft and a long answer must hold up nobody who waits for the ask or its episode."""
    locked = []

    def measured(before: str, text: str) -> float:
        locked.append(connection.in_atomic_block)
        return kept(before, text)

    monkeypatch.setattr(advising, "kept", measured)
    first, second = asked(), asked()
    model = expert_model(project, MODEL)
    desk.want_draft(edo, first.pk)
    assert desk.begin_draft(model).pk == first.pk
    desk.keep_model_draft(model, first, "Take the oldest.")
    lease = queue.claim(edo, first.pk)
    words = ("Take the oldest one.", "n", None)
    advising.answer(edo, lease.assignment_id, lease.lease_token, *words, drafted_by=model.key)
    chosen = advising.answer_group(edo, first, words[0], None, "n", [second.pk], drafted_by=model.key)
    assert chosen == {second.pk: ""}
    advising.edit(edo, first.pk, "Take the very oldest.", None, "m")
    assert locked == [False, False, False]
    assert [0.8 < one.draft_kept < 0.95 for one in Advice.objects.all()] == [True] * 3
    assert {one.drafted_by for one in Advice.objects.all()} == {MODEL}
