"""Reads: earlier answers that can help with an ask: same task, similar question, same scenario.

Owns an ask's *marks*, by which it is found again (`queue.py` writes them once), the ranking of the results, and how
much of a source text an answer kept. An answer written with verifier access is never read for a blind ask.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from episodes.show.step_cards import call_in_words
from episodes.visible import visibility
from experts.find.reading import NOT_LISTED
from experts.models import EARLIER, MODEL, Advice, Ask, AskStatus, Privilege
from experts.rules.routing import likeness
from people.access import Actor, scoped
from people.text.plain_text import with_line_ends

PAIRS = 6
"""Word pairs kept per question: two questions that share half of their pairs share one of these in 98 of 100 cases."""
NEWEST = 150
"""The newest asks that are compared for each kind of mark."""
READ, SHOWN = 60, 12
LIKE, LIKE_ENOUGH = 0.4, 0.2
"""Shares of common words from which a question is similar to one of any task, and of the same scenario."""

MEASURED = 20_000
"""Characters of a text that are measured: as many as an answer can have."""
WORD = re.compile(r"(?:[^\W\u2e80-\U0010ffff]+|\S) ?")
"""A word or a sign with the space after it; in scripts without spaces each character is a word."""


def marks_of(question: str, scenario: str, task_idx: int | None, task: str) -> list[int]:
    """Return the marks of an ask: its task, its scenario, and the word pairs of its question, as numbers."""
    return [*_places(scenario, task_idx, task), *_sketch(question)]


def _places(scenario: str, task_idx: int | None, task: str) -> list[int]:
    """Return the task, and the scenario if there is one."""
    named = (scenario, task_idx) if scenario and task_idx is not None else task
    return [_mark("task", named), *([_mark("scenario", scenario)] if scenario else [])]


def _sketch(question: str) -> list[int]:
    """Return the pairs with the smallest hashes. Similar questions share most of these, whatever else they contain."""
    # the smallest hashes are a sample that depends on the pairs alone (min-hash)
    return sorted({_mark("words", pair) for pair in _pairs(question)})[:PAIRS]


def _pairs(question: str) -> Iterable[tuple[str, str]]:
    words = re.findall(r"\w+", question.casefold())
    # one or two words have too few pairs, so each word is a pair with the one before it
    return zip(["", *words], words, strict=False) if len(words) < 3 else zip(words, words[1:], strict=False)


def _mark(kind: str, value: object) -> int:
    """Return a whole number that fits into four bytes. Different items can collide, so a mark only finds candidates."""
    # crc32 is unsigned, the column is not
    return zlib.crc32(repr((kind, value)).encode()) - 2**31


def origins(began: str) -> tuple[str, str]:
    """Return the source that a form names: the key of a model that drafted it, and the ID of an earlier answer."""
    keys = {kind: key for key in began.split() for kind in (MODEL, EARLIER) if key.startswith(kind)}
    return keys.get(MODEL, ""), keys.get(EARLIER, "").removeprefix(EARLIER)


def began_with(advice: Advice) -> str:
    """Return the source of an answer in the same form, for editing it."""
    model, taken = (
        advice.drafted_by and f"{MODEL}{advice.drafted_by}",
        advice.taken_from_id and f"{EARLIER}{advice.taken_from_id}",
    )
    return " ".join(key for key in (model, taken) if key)


def kept(before: str, text: str) -> float:
    """Return how much of a text and of its source is common to both, 0 to 1.

    Counts characters: the common beginning, the common end, and between them each word that follows the same word in
    both, as often as it does in the text with fewer of them. The share is of both texts together (Dice), so additions
    count against it as deletions do. Any white space counts as one space. Takes linear time, over the first `MEASURED`
    characters of each text.
    """
    source, other = (" ".join(each[:MEASURED].split()) for each in (before, text))
    if not source or not other:
        return float(source == other)
    first = _alike_from(source, other)
    # only behind the common beginning, so that no character counts twice
    last = _alike_from(reversed(source[first:]), reversed(other[first:]))
    left, right = (_word_pairs(part[first : len(part) - last]) for part in (source, other))
    between = sum(count * len(pair[1]) for pair, count in (left & right).items())
    return 2 * (first + last + between) / (len(source) + len(other))


def _alike_from(left: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, other, strict=False)))


def _word_pairs(text: str) -> Counter[tuple[str, str]]:
    """Return each word with its predecessor."""
    return Counter(pairwise(["", *WORD.findall(text)]))


class SimilarAsk(NamedTuple):
    """A candidate for a similar ask, in the order of `COLUMNS`."""

    pk: str
    question: str
    scenario: str
    task_idx: int | None
    task: str


COLUMNS = ("pk", "question", "episode__scenario", "episode__task_idx", "episode__task")


@dataclass
class Earlier:
    """An earlier answer, given to one ask or to several with the same text.

    `ask` is the most similar of them. `verdicts` are the verifier's outcomes of their episodes, where it ran.
    """

    ask: Ask
    said: Advice
    near: str
    alike: int
    given: int = 0
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name of this answer as a source in a form."""
        return f"{EARLIER}{self.said.pk}"

    @property
    def slot(self) -> str:
        """The page element that holds its calls."""
        return f"calls-{self.said.pk}"

    @property
    def complete(self) -> int:
        return sum(word == "complete" for word in self.verdicts.values())

    @property
    def calls(self) -> list[dict[str, Any]]:
        return self.said.tool_calls if isinstance(self.said.tool_calls, list) else []

    @property
    def calls_in_words(self) -> list[str]:
        return [call_in_words(call) for call in self.calls]


def earlier(actor: Actor, ask: Ask) -> list[Earlier]:
    """Return earlier answers.

    1. Find candidates by their marks, the newest of each kind. 2. Rank them by similarity. 3. Return one row for the
    same text.
    """
    ranked = sorted(_near(ask, _candidates(actor, ask)), reverse=True)
    near = {pk: (words, alike) for _, pk, words, alike in ranked[:READ]}
    asks = Ask.objects.filter(pk__in=near, accepted__isnull=False).select_related("accepted", "episode")
    rows = asks.defer("context", *NOT_LISTED).in_bulk()
    return _gathered(actor, [(rows[pk], *how) for pk, how in near.items() if pk in rows and _may_see(ask, rows[pk])])[
        :SHOWN
    ]


def _candidates(actor: Actor, ask: Ask) -> Iterable[SimilarAsk]:
    episode = ask.episode
    places = _places(episode.scenario, episode.task_idx, episode.task)
    kinds = [*([place] for place in places), _sketch(ask.question)]
    # an ask that several marks find is one candidate
    return {one.pk: one for marks in kinds for one in _marked(actor, ask, marks)}.values()


def _marked(actor: Actor, ask: Ask, marks: list[int]) -> list[SimilarAsk]:
    """Return the newest answered asks with one of these marks."""
    asks = scoped(Ask.objects.filter(status=AskStatus.ANSWERED, marks__overlap=marks), actor.project)
    if ask.privilege == Privilege.BLIND:
        asks = asks.filter(privilege=Privilege.BLIND)
    newest = asks.exclude(pk=ask.pk).order_by("-created_at")[:NEWEST]
    return [SimilarAsk._make(row) for row in newest.values_list(*COLUMNS)]


def _may_see(ask: Ask, other: Ask) -> bool:
    """Return whether the actor can see the advice, by its stored privilege."""
    return ask.privilege != Privilege.BLIND or (
        other.accepted is not None and other.accepted.privilege == ask.privilege
    )


def _near(ask: Ask, candidates: Iterable[SimilarAsk]) -> Iterator[tuple[float, str, str, int]]:
    """Return rank, ID, shared words and similarity in percent of the candidates that are similar enough."""
    episode = ask.episode
    task, *_ = _places(episode.scenario, episode.task_idx, episode.task)
    for candidate in candidates:
        alike = likeness(candidate.question, ask.question)
        if _places(candidate.scenario, candidate.task_idx, candidate.task)[0] == task:
            # the addends only rank: the percentage shown is that of the words
            yield alike + 0.5, candidate.pk, "same task", round(100 * alike)
        elif alike >= LIKE_ENOUGH and candidate.scenario and candidate.scenario == episode.scenario:
            yield alike + 0.2, candidate.pk, "same scenario", round(100 * alike)
        elif alike >= LIKE:
            yield alike, candidate.pk, "different task", round(100 * alike)


def _gathered(actor: Actor, rows: list[tuple[Ask, str, int]]) -> list[Earlier]:
    """Return the most similar ask for each group with the same text and calls."""
    verdicts = visibility.verdict_types(actor, [ask.episode_id for ask, *_ in rows])
    by_words: dict[str, Earlier] = {}
    for ask, near, alike in rows:
        advice = ask.accepted
        if advice is None:
            continue
        group = by_words.setdefault(
            repr((with_line_ends(advice.text).strip(), advice.tool_calls)), Earlier(ask, advice, near, alike)
        )
        group.given += 1
        if ask.episode_id in verdicts:
            group.verdicts[ask.episode_id] = verdicts[ask.episode_id]
    return list(by_words.values())
