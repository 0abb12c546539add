"""Agreement figures against values computed by hand, and which judges a queue compares."""

from __future__ import annotations

import random

import krippendorff
import pytest

from bench.planted.beside import PlantedCase, alpha_covers
from reviews.models import Review, Verdict
from reviews.statistics import agreement, reports
from reviews.statistics.agreement import (
    alpha,
    fleiss,
    kappa,
    share,
)
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
        review = Review.objects.create(queue=queue, episode=ended(ada, f"episode {number}"), worth=0)
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
