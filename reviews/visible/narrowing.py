"""Reads: verdicts and labels as filters of the list of episodes, with counts, and the words of labels and comments for
its search. Registered with `episodes.find.narrowing`.

To a reader who judges an episode blind it has no verdicts, no filter by verdict finds it, and its only labels are their
own.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from django.db.models import Avg, Case, Exists, FloatField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Lower, StrIndex
from django.db.models.lookups import GreaterThan

from episodes.find.search import WORDS_MAX, Hit
from episodes.find.search_text import excerpt_of, matches, terms_of
from episodes.find.selection import among
from episodes.find.sorting import Beside
from episodes.visible import visibility
from people.access import Actor, scoped, sees_outcomes
from people.errors import Invalid
from people.models import Project
from people.text.plain_text import clean
from reviews.models import COMMENT, Annotation, LabelSchema, SchemaKind, Verdict, VerdictDecision

NO_VERDICT = "none"
VERDICTS = {**dict(VerdictDecision.choices), NO_VERDICT: "No verdict"}
READ = 5_000
"""The most labels and comments that a search reads as possible matches, newest first."""
_PLAIN = re.compile(r"[a-z0-9]+")


class ReviewFilters:
    """The filters `verdict`, `label` (its name) and `label_value` (`name:value`)."""

    def condition(self, actor: Actor, name: str, values: Collection[str]) -> Q:
        # PostgreSQL answers U+0000 with an error
        if any("\x00" in value for value in values):
            raise Invalid(f"Unknown filter value: {name}.")
        if name == "verdict":
            return _by_verdict(actor, values)
        labels = _labels(actor).filter(episode=OuterRef("pk"))
        if name == "label":
            return Q(Exists(labels.filter(label__in=values)))
        any_label = Q()
        for value in values:
            any_label |= _has_value(value)
        return Q(Exists(labels.filter(any_label)))

    def counts(self, actor: Actor, name: str, episodes: Collection[str]) -> Counter[str]:
        if name == "verdict":
            # counted as the filter finds them: withheld episodes have no verdict
            open_to = set(episodes) - visibility.held(actor)
            # a set, because two reviewers with one decision are one episode
            decisions = set(_verdicts().filter(episode__in=among(open_to)).values_list("episode_id", "decision"))
            without = len(open_to - {episode for episode, _ in decisions})
            # an episode with both decisions is counted under both, as either filter finds it
            return Counter(decision for _, decision in decisions) + Counter({NO_VERDICT: without})
        labels = _labels(actor).filter(episode__in=among(episodes))
        if name == "label":
            return Counter(label for _, label in set(labels.values_list("episode_id", "label")))
        rows = labels.filter(schema__kind__in=SchemaKind.counted()).values_list("episode_id", "label", "text")
        return Counter(said for _, said in {(pk, f"{label}:{one}") for pk, label, text in rows for one in _each(text)})

    def words(self, project: Project, name: str) -> Mapping[str, str]:
        if name == "verdict":
            return VERDICTS
        words = {COMMENT: "Comment"} if name == "label" else {}
        # ascending, so the words of the newest version win
        for schema in LabelSchema.objects.filter(project=project).order_by("version"):
            if name == "label":
                words[schema.name] = schema.title
            elif SchemaKind(schema.kind).has_options:
                words |= {f"{schema.name}:{one['value']}": f"{one['label']} ({schema.title})" for one in schema.options}
        return words

    def with_words(self, actor: Actor, search: str) -> Collection[str]:
        return {episode for episode, *_ in _saying(actor, search, _labels(actor))}

    def hits(self, actor: Actor, search: str, episodes: Collection[str]) -> Mapping[str, Hit]:
        by_episode: dict[str, Hit] = {}
        for episode, seq, label, text in _saying(actor, search, _labels(actor).filter(episode__in=episodes)):
            # rows are newest first, so the first of an episode is its newest
            if episode not in by_episode:
                name = "Comment" if label == COMMENT else "Label"
                parts = [(clean(part), marked) for part, marked in excerpt_of(text, search[:WORDS_MAX])]
                by_episode[episode] = Hit(seq, name, parts, 0)
        return by_episode


def carried(actor: Actor) -> Counter[str]:
    """Return how many episodes carry each label, as far as the actor sees."""
    return Counter(label for _, label in set(_labels(actor).values_list("episode_id", "label")))


def verdicts_in(actor: Actor, episodes: Sequence[str]) -> dict[str, str]:
    """Return the decisions on each of these episodes in words, each with its number if there are several."""
    if not sees_outcomes(actor):
        return {}
    open_to = set(episodes) - visibility.held(actor)
    tallies: dict[str, Counter[str]] = {}
    for episode, decision in _verdicts().filter(episode__in=open_to).values_list("episode_id", "decision"):
        tallies.setdefault(episode, Counter())[decision] += 1
    return {episode: _in_words(counts) for episode, counts in tallies.items()}


def by_verdict(actor: Actor) -> Beside:
    """Return the share of accepting verdicts of episodes, to sort by, without those that a reader cannot see."""
    rows = _verdicts().exclude(episode__in=visibility.held(actor)) if sees_outcomes(actor) else Verdict.objects.none()
    accepts = Case(When(decision=VerdictDecision.ACCEPT, then=1.0), default=0.0)
    return Beside(rows.order_by(), Avg(accepts, output_field=FloatField()))


def _in_words(counts: Counter[str]) -> str:
    several = counts.total() > 1
    return ", ".join(
        f"{counts[name]} {words.lower()}" if several else words
        for name, words in VerdictDecision.choices
        if counts[name]
    )


def _verdicts() -> QuerySet[Verdict]:
    return Verdict.objects.counted()


def _by_verdict(actor: Actor, values: Collection[str]) -> Q:
    if unknown := sorted(set(values) - set(VERDICTS)):
        raise Invalid(f"Unknown filter value: verdict={unknown[0]}. Use one of {', '.join(VERDICTS)}.")
    mine = _verdicts().filter(episode=OuterRef("pk"))
    condition = Q(Exists(mine.filter(decision__in=values)))
    if NO_VERDICT in values:
        condition |= ~Q(Exists(mine))
    # else the filter would show which withheld episodes have a verdict
    return condition & ~Q(pk__in=visibility.held(actor))


def _labels(actor: Actor) -> QuerySet[Annotation]:
    """Return the current labels that this actor can read now, as `annotated.seen_by` does for one episode."""
    rows = Annotation.objects.filter(superseded_by__isnull=True, withdrawn=False)
    if not sees_outcomes(actor):
        return rows.filter(author_key=actor.key)
    # one's own labels stay readable, because they reveal nothing new
    return rows.filter(Q(author_key=actor.key) | ~Q(episode__in=visibility.held(actor)))


def _has_value(pair: str) -> Q:
    """Read `name:value`; the value of a score is a number."""
    label, colon, value = pair.partition(":")
    if not colon or not label:
        raise Invalid(f"Unknown filter value: label_value={pair}. Use a label and a value, as in cause:wrong_tool.")
    chosen = json.dumps(value)  # with its quotes, so that a value does not match a part of a longer one
    single = Q(schema__kind=SchemaKind.SINGLE, text=value) | Q(schema__kind=SchemaKind.MULTI, text__contains=chosen)
    number = _number(value)
    # an empty list of IDs matches nothing
    score = Q(schema__kind=SchemaKind.SCORE, text=number) if number is not None else Q(pk__in=[])
    return Q(label=label) & (single | score)


def _number(text: str) -> float | None:
    """Read a number as a score prints it; None for other texts."""
    # whole numbers first: a score is stored as 5, not as 5.0
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def _each(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _saying(actor: Actor, search: str, rows: QuerySet[Annotation]) -> Iterator[tuple[str, int | None, str, str]]:
    """Yield the labels and comments that contain the words of a search, newest first: episode, step, name, and text.

    A value is stored as ASCII text of JSON, so PostgreSQL searches for the ASCII letters of each word and Python for
    all.

    """
    search = search[:WORDS_MAX]
    words = [word for is_wanted, said in terms_of(search) if is_wanted for word in said.lower().split()]
    if not words:
        return
    schemas = {one.pk: one for one in LabelSchema.objects.filter(project=actor.project)}
    rows = scoped(rows, actor.project, "episode__project").order_by("-created_at", "-pk")
    # the longest run of ASCII letters narrows most; a word without any is left to `matches`
    for letters in {max(_PLAIN.findall(word), key=len, default="") for word in words} - {""}:
        named = [pk for pk, schema in schemas.items() if letters in _words_of(schema).lower()]
        parts = (StrIndex(Lower(name), Value(letters)) for name in ("text", "label"))
        rows = rows.filter(
            functools.reduce(operator.or_, (Q(GreaterThan(one, 0)) for one in parts), Q(schema__in=named))
        )
    # bounded, because `matches` reads each in Python
    for episode, seq, label, value, schema in rows.values_list("episode_id", "seq", "label", "text", "schema_id")[
        :READ
    ]:
        text = _text_of(label, value, schemas.get(schema or ""))
        if matches(text, search):
            yield episode, seq, label, text


def _words_of(schema: LabelSchema) -> str:
    return " ".join([schema.title, *_called(schema).values()])


def _called(schema: LabelSchema) -> dict[str, str]:
    """Return what pages call the values of a label with options."""
    options = schema.options if SchemaKind(schema.kind).has_options else []
    return {one["value"]: str(one["label"]) for one in options}


def _text_of(label: str, value: object, schema: LabelSchema | None) -> str:
    """Return a comment as it was written, and a label as its names and those of its values."""
    if label == COMMENT or schema is None:
        joined = ", ".join(_each(value))
        return joined if label == COMMENT else f"{label}: {joined}"
    called = _called(schema)
    values = [f"{called[one]} ({one})" if one in called else one for one in _each(value)]
    return f"{schema.title} ({label}): {', '.join(values)}"
