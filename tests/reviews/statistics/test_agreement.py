"""Agreement figures against values computed by hand, and which judges a queue compares."""

from __future__ import annotations

import random
import re

import krippendorff
import pytest

from bench.planted.beside import PlantedCase, alpha_covers, alpha_of_tasks_covers
from reviews.models import Annotation, Review, Verdict
from reviews.record import schemas
from reviews.statistics import agreement, reports
from reviews.statistics.agreement import (
    alpha,
    fleiss,
    kappa,
    share,
)
from tests.browsing import as_person
from tests.reviews.conftest import ended

OBSERVERS = ("1233214121..", "1233224125.3", ".33322412513", "12332441251.")
"""Four judges, twelve items, with gaps; made for this test."""


def pairs(a: str, b: str) -> list[dict[str, str]]:
    return [{"a": x, "b": y} for x, y in zip(a, b, strict=True)]


def test_alpha_and_kappa_of_two_judges_by_hand():
    """By hand: a = 1111111100, b = 1111111010: the judges agree on 8 of 10. Of 20 values 16 are 1 and 4 are 0, so
    Do = 4/20 = .2, De = 2 * 16 * 4 / (20 * 19) = .336842, alpha = 1 - .2 / .336842 = .40625; both judges say 1 in .8,
    chance is .64 + .04 = .68, kappa = (.8 - .68) / .32 = .375.
    """
    items = pairs("1111111100", "1111111010")
    assert alpha(items) == pytest.approx(0.40625)
    assert kappa([(one["a"], one["b"]) for one in items]) == pytest.approx(0.375)
    found = agreement.agreement(items)
    assert (found.items, found.pairs, found.percent, found.judges) == (10, 10, 0.8, 2)
    assert (found.alpha_low, found.alpha_high) == (None, None)  # too few items


def test_alpha_of_opposites_is_negative_by_hand():
    """Two items, 1 and 0 against 0 and 1: Do = 1, De = 2 * 2 * 2 / (4 * 3) = 2/3, alpha = -.5."""
    assert alpha(pairs("10", "01")) == pytest.approx(-0.5)


def test_alpha_of_one_label_is_undefined():
    assert alpha(pairs("111", "111")) is None
    assert kappa([("1", "1")]) is None and alpha([]) is None and alpha([{"a": "1"}]) is None


def test_alpha_with_gaps_is_that_of_the_reference():
    items = [{str(n): row[at] for n, row in enumerate(OBSERVERS) if row[at] != "."} for at in range(12)]
    counts = [[list(one.values()).count(label) for label in "12345"] for one in items]
    known = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    assert alpha(items) == pytest.approx(known) and 0 < known < 1


def judged(*rows: str) -> list[dict[str, str]]:
    return [{str(n): value for n, value in enumerate(row)} for row in rows]


def test_fleiss_kappa_of_three_judges_by_hand():
    """Pairs that agree: 1, 1/3, 1/3, 1, so 2/3; each label is half of all, chance is .5, kappa = (2/3 - .5) / .5."""
    items = judged("aaa", "aab", "abb", "bbb")
    assert fleiss(items) == pytest.approx(1 / 3) == agreement.agreement(items).fleiss
    assert agreement.agreement(items).kappa is None


def test_fleiss_kappa_counts_items_alike_by_hand():
    """Of aaa all pairs agree, of ab none: .5. Label a has shares 1 and .5, so .75; chance is .625, kappa = -1/3."""
    assert fleiss(judged("aaa", "ab", "b")) == pytest.approx(-1 / 3)


def test_fleiss_kappa_is_undefined_where_all_say_one():
    assert fleiss(judged("aaa", "aaa")) is None and fleiss([]) is None and fleiss(judged("a")) is None
    assert agreement.agreement(judged("ab", "aa")).fleiss is None  # two judges have Cohen's kappa


def test_interval_holds_alpha_and_follows_from_its_seed():
    items = pairs("1101001101" * 4, "1101001001" * 4)
    found = agreement.agreement(items)
    assert found.alpha_low < found.alpha < found.alpha_high < 1.0
    assert found == agreement.agreement(items)


def test_rare_label_has_counts_instead_of_an_interval():
    """Of 20 items with 95% accepted, intervals covered 50%; two labels of 9 and 10 uses are the edge."""
    nine, ten = pairs("1" * 16 + "0000", "1" * 15 + "00000"), pairs("1" * 15 + "00000", "1" * 15 + "00000")
    few, more = agreement.agreement(nine), agreement.agreement(ten)
    assert (few.alpha_low, few.why_no_interval) == (None, "too few uses of the second label (9 of 10)")
    assert more.alpha_low is not None and not more.why_no_interval
    small = agreement.agreement(pairs("1101", "1011"))
    assert small.why_no_interval == "too few items (4 of 20)"
    assert not agreement.agreement(pairs("1" * 30, "1" * 30)).why_no_interval, "alpha itself is undefined"


def test_few_tasks_have_a_reason_instead_of_an_interval():
    items = pairs("1100" * 15, "1010" * 15)
    few = agreement.agreement(items, [f"{n % 5}" for n in range(60)])
    assert few.why_no_interval == "too few tasks, or most items in a few of them (as 5.0 of 6)"
    lopsided = agreement.agreement(items, [f"{max(0, n - 30)}" for n in range(60)])
    assert (lopsided.tasks < 6, lopsided.alpha_low) == (True, None)
    assert agreement.agreement(items, [f"{n % 6}" for n in range(60)]).alpha_low is not None
    once = agreement.agreement(pairs("1" * 70, "1" * 60 + "0" * 10), [f"{n // 10}" for n in range(70)])
    assert once.why_no_interval == "the second label is in too few tasks"


@pytest.mark.parametrize(("tasks", "each", "clear"), [(6, 10, 0.5), (12, 10, 0.8), (20, 10, 0.9)])
def test_interval_of_alpha_takes_items_of_a_task_as_one(tasks, each, clear):
    """Judges are right in some tasks and guess in others: of single items it held the truth in 68%."""
    case = PlantedCase("alpha", "", alpha_of_tasks_covers(tasks, each, clear), covers=True)
    covered, printed = case.counted(60)
    assert printed > 50 and case.holds(covered, printed)


def test_items_of_one_judge_are_counted():
    found = agreement.agreement([*pairs("11", "10"), {"a": "1"}, {"b": "0"}, {}])
    assert (found.items, found.alone) == (2, 2)


@pytest.mark.parametrize(("items", "accepted"), [(20, 0.5), (20, 0.95), (40, 0.95)])
def test_intervals_of_a_rare_label_cover_where_they_are_printed(items, accepted):
    case = PlantedCase("alpha", "", alpha_covers(items, accepted, 0.9 if accepted == 0.5 else 0.98), covers=True)
    covered, printed = case.counted(60)
    assert printed > 50 if accepted == 0.5 else printed < 10, "with few uses there are counts"
    assert case.holds(covered, printed)


def test_share_has_a_wilson_interval():
    """8 of 10 by hand: center (.8 + 3.8415/20) / 1.38415 = .71674, half width .22660."""
    found = share(8, 10)
    assert (found.low, found.high) == (pytest.approx(0.49016, abs=1e-4), pytest.approx(0.94331, abs=1e-4))
    assert share(0, 0).rate is None and share(0, 0).low is None


@pytest.mark.django_db
def test_agreement_leaves_out_the_judge_of_a_dispute(ada, queue):
    """Of sixty episodes two judges of an accuracy of .8 judge each, and a third one those on which they differ. Alpha
    of all three would be larger than that of the two who judged independently."""
    dice = random.Random(7)
    independent, everyone = [], []
    for number in range(60):
        review = Review.objects.create(queue=queue, episode=ended(ada, f"episode {number}", task_idx=number), worth=0)
        truth = dice.choice(["accept", "reject"])
        other = {"accept": "reject", "reject": "accept"}[truth]
        said = {name: truth if dice.random() < 0.8 else other for name in ("one", "two")}
        independent.append(said)
        called = {"three": truth} if said["one"] != said["two"] else {}
        everyone.append(said | called)
        for name, decision in (said | called).items():
            Verdict.objects.create(
                review=review,
                episode=review.episode,
                decision=decision,
                author=name,
                author_key=name,
                author_kind="human",
                adjudicates=name == "three",
            )
    found = next(one for one in reports.lines(ada, queue) if one.title == "People, verdict")
    assert found.figures == agreement.agreement(independent) and found.figures.judges == 2
    assert agreement.agreement(everyone).alpha > found.figures.alpha + 0.02
    assert {row["one"] for row in reports.judged(ada, queue).values()} == {"accept", "reject"}


@pytest.mark.django_db
def test_labels_of_two_asks_of_a_step_are_two_places(ada, queue):
    """Both were one place: of two judges, one for each ask, the page said that they differ."""
    label = schemas.define(ada, "cause", "Cause", "single", ["Tool", "Task"])
    type(queue).objects.filter(pk=queue.pk).update(schemas=[label.pk])
    queue.refresh_from_db()
    one = ended(ada, "one")
    review = Review.objects.create(queue=queue, episode=one, worth=0)
    about = {"review": review, "episode": one, "decision": "accept", "author_kind": "human"}
    Verdict.objects.create(author="ada", author_key=ada.key, **about)
    labels = {"episode": one, "seq": 1, "label": "cause", "schema": label}
    for author, ask, text in (("rita", "a1", "tool"), ("ron", "a2", "task")):
        Annotation.objects.create(ask_id=ask, text=text, author=author, author_key=author, **labels)
    (line,) = [each for each in reports.lines(ada, queue) if each.title == "Label Cause"]
    assert (line.figures.items, line.figures.alone) == (0, 2)
    page = as_person(ada).get(f"/reviews/agreement/?queue={queue.pk}", follow=True)
    cells = re.findall(r'<td class="n">\s*(\w+)', page.content.decode().partition("Label Cause")[2])
    assert cells[:2] == ["0", "2"], "a label of single judges has a line"


@pytest.mark.django_db
def test_ties_against_the_verifier_are_counted(ada, queue):
    """Two people who differ have no majority: their episode was left out without a word."""
    for number, decisions in enumerate((("accept", "accept"), ("accept", "reject"))):
        one = ended(ada, f"episode {number}", task_idx=number)
        review = Review.objects.create(queue=queue, episode=one, worth=0)
        for name, decision in zip(("one", "two"), decisions, strict=True):
            about = {"review": review, "episode": one, "decision": decision, "author_kind": "human"}
            Verdict.objects.create(author=name, author_key=name, **about)
    lines = {line.title: line for line in reports.lines(ada, queue)}
    line = lines["People and verifier, verdict"]
    assert (line.figures.items, line.tied, lines["People, verdict"].tied) == (1, 1, 0)
    assert "1 tied" in as_person(ada).get(f"/reviews/agreement/?queue={queue.pk}", follow=True).content.decode()


def test_gold_items_of_one_task_are_one_unit():
    flags = [(task % 2 == 0, f"t{task}") for task in range(4) for _ in range(8)]
    line = agreement.share_of_tasks(flags)
    assert (line.part, line.of, line.low, line.high) == (16, 32, share(2, 4).low, share(2, 4).high)
    assert agreement.share_of_tasks(flags[:8]).low is None and agreement.share_of_tasks([]).low is None
