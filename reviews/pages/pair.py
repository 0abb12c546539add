"""The page of a pair: two episodes of one task side by side as A and B, and the questions about them.

Owns HTTP status and form texts of pairs. `one.py` decides which page a review has, and runs the commands. Before
they are open, neither arm, outcome nor a prompt of one side alone is on the page. The order is of `visible/pairs.py`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString, mark_safe

from episodes.models import Episode, Step
from episodes.show import windows
from episodes.show.html_cache import picture_of
from episodes.visible import visibility
from episodes.visible.lens import lens_of
from people.access import Actor, MemberRequest, holds, may_review, visible_or_404
from people.errors import AppError
from people.requests.forms import text_of
from reviews.errors import NothingToReview
from reviews.models import Preference, Review
from reviews.record import assigning, preferring
from reviews.visible.pairs import (
    WORDS,
    answers_of,
    content_of,
    letter_of,
    prompts_among,
    questions_of,
    shown_choice,
    sides,
)

STEPS = 400
"""Steps of each side that the page has; the rest is named."""


@dataclass(frozen=True)
class PairSide:
    """One episode of a pair: its steps from the first that differs on, and those before."""

    letter: str
    episode: Episode
    before: list[SafeString]
    steps: list[SafeString]
    cut: int
    outcome: Any = None


def pair_page(request: MemberRequest, review: Review, common: dict[str, Any], *, status: int) -> HttpResponse:
    """Show a pair; `common` is what pages of reviews have in common."""
    actor = request.actor
    mine = Preference.objects.counted().filter(review=review, author_key__in=actor.keys).first()
    context = {
        **common,
        "sides": _sides(actor, review, has_answered=mine is not None),
        "questions": _questions(request, review),
        "letters": WORDS.items(),
        "nonce": text_of(request.POST, "nonce") or secrets.token_urlsafe(12),
        "answer": mine,
        "answered": _answered(mine),
        "others": _others(actor, review) if mine is not None else [],
        "may_review": holds(actor, may_review),
        "newest": preferring.newest_of(actor, review.queue),
    }
    return render(request, "reviews/pair.html", context, status=status)


def _sides(actor: Actor, review: Review, *, has_answered: bool) -> list[PairSide]:
    pair = sides(actor, review)
    outcomes = [visibility.of_episode(actor, one) if has_answered else None for one in pair]
    rows = [_rows(actor, one) for one in pair]
    if not any(outcomes):
        rows = _without_prompts(*rows)
    same = _same(*rows)
    return [
        PairSide(
            letter=letter,
            episode=episode,
            before=[_picture(row, letter) for row in steps[:same]],
            steps=[_picture(row, letter) for row in steps[same:]],
            cut=max(0, episode.last_seq - STEPS),
            outcome=outcome,
        )
        for letter, episode, steps, outcome in zip("AB", pair, rows, outcomes, strict=True)
    ]


def _rows(actor: Actor, episode: Episode) -> list[windows.ShownStep]:
    rows = Step.objects.filter(episode=episode, seq__lte=episode.last_seq).exclude(kind="verification")
    return windows.shown(lens_of(actor, episode), rows, STEPS)


def _without_prompts(*sides: list[windows.ShownStep]) -> list[list[windows.ShownStep]]:
    """Return the steps of both sides without prompts that only one of them has: they show its arm."""
    steps = [[row.wire() for row in rows] for rows in sides]
    prompts = [
        {content_of(step) for step, is_prompt in zip(each, prompts_among(each), strict=True) if is_prompt}
        for each in steps
    ]
    hidden = prompts[0] ^ prompts[1]
    return [
        [row for row, step in zip(rows, each, strict=True) if content_of(step) not in hidden]
        for rows, each in zip(sides, steps, strict=True)
    ]


def _same(left: list[windows.ShownStep], right: list[windows.ShownStep]) -> int:
    """Return how many steps at the beginning are the same on both sides."""
    same = 0
    for step, other in zip(left, right, strict=False):
        if content_of(step.wire()) != content_of(other.wire()):
            break
        same += 1
    return same


def _picture(row: windows.ShownStep, letter: str) -> SafeString:
    """Return the fragment of a step, with an ID of its own: both sides have a step 1."""
    html = picture_of(row, False, True)
    # quotes in what agents wrote are escaped, so these are attributes of the fragment
    html = html.replace('id="step-', f'id="{letter}-step-').replace('href="#step-', f'href="#{letter}-step-')
    return mark_safe(html)


def _questions(request: MemberRequest, review: Review) -> list[tuple[int, str, str]]:
    """Return the questions with their numbers, and what a refused form answered."""
    asked = questions_of(review.queue.rubric)
    return [(n, one, text_of(request.POST, f"answer-{n}")) for n, one in enumerate(asked)]


def _answered(answer: Preference | None) -> list[tuple[str, str]]:
    if answer is None:
        return []
    by_question = answers_of(answer).items()
    return [(question, WORDS[letter_of(choice, answer.is_swapped)]) for question, choice in by_question]


def _others(actor: Actor, review: Review) -> list[tuple[str, str]]:
    """Return the answers of others by this person's A and B, once the outcomes are open to them."""
    if any(visibility.is_withheld(actor, one) for one in sides(actor, review)):
        return []
    swapped = sides(actor, review)[0].pk != review.episode_id
    rows = Preference.objects.counted().filter(review=review).exclude(author_key__in=actor.keys)
    return [(one.author, WORDS[letter_of(one.choice, swapped)]) for one in rows.order_by("created_at")]


def prefer(request: MemberRequest, pk: str) -> HttpResponse:
    """Give an answer, and go to the next pair or stay."""
    review = visible_or_404(Review.objects.select_related("queue"), request.actor, pk, "queue__project")
    answers = {question: letter for _, question, letter in _questions(request, review) if letter}
    token, nonce = text_of(request.POST, "lease_token"), text_of(request.POST, "nonce")[:200]
    answer = preferring.prefer(request.actor, pk, token, answers, nonce=nonce)
    if text_of(request.POST, "then") == "stay":
        return redirect("review", pk)
    try:
        following = assigning.pull(request.actor, review.queue_id).review_id
    except NothingToReview:
        messages.success(request, f"Last pair: {shown_choice(answer)}. No pair is left for you.")
        return redirect("review_queue", review.queue_id)
    messages.success(request, f"Last pair: {shown_choice(answer)}.")
    return redirect("review", following)


def undo(request: MemberRequest, pk: str) -> HttpResponse:
    """Undo the answer that the form names, the newest in the queue of this review, and show its pair again."""
    review = visible_or_404(Review.objects.all(), request.actor, pk, "queue__project")
    try:
        lease = preferring.undo(request.actor, review.queue_id, text_of(request.POST, "answer"))
    except AppError as refused:
        messages.error(request, refused.message)
        return redirect("review", pk)
    messages.success(request, "Undone. Answer again.")
    return redirect("review", lease.review_id)
