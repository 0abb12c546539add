"""Writes: take the words out of the steps of ended episodes, in the caller's transaction.

What is left is valid and counts the same: numbers, kinds, roles, tools, times, tokens, and who answered. Such an
episode is in no new dataset, and its world cannot be made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from awmweb.erasing.episodes import forget_worlds
from awmweb.erasing.persons import without_words
from awmweb.erasing.written import WORD
from episodes.models import Episode, EpisodeWords, PictureUse, Step, StepKind, StepWords, WheelOrder
from episodes.record import pictures
from episodes.stored.entries import WRITER, read
from episodes.stored.strip import is_cancelled
from experts.models import ERASED, Advice, Ask, Draft
from runs.models import PersonTurn

KEPT = ("seq", "kind", "at", "turn", "acted_by", "reward", "done", "role", "name", "reward_type", "ask", "thread")
OF_ANSWERS = ("source", "author", "privilege", "reason", "by", "behind", "local")
OF_BRIEFINGS = ("source", "author", "privilege")
READ_AT_A_TIME = 500
_WRITE = """
    UPDATE episodes_step AS s SET body = said.body, cut = NULL
    FROM unnest(%s::bigint[], %s::text[]) AS said(id, body) WHERE s.id = said.id
"""


def empty(members: Collection[str]) -> Counter[str]:
    """Take the words out of the steps of these episodes, which the caller has locked; return counts by what they were
    in."""
    ids = sorted(members)
    counts = Counter({"episodes.Step: words": _empty_steps(ids)})
    counts["episodes.StepWords"] = StepWords.objects.filter(episode__in=ids)._raw_delete("default")
    counts["episodes.EpisodeWords"] = EpisodeWords.objects.filter(episode__in=ids)._raw_delete("default")
    shown = pictures.pictures_used(ids)
    counts["episodes.PictureUse"] = PictureUse.objects.filter(episode__in=ids)._raw_delete("default")
    counts["episodes.Picture"] = pictures.drop_unused(shown)
    counts["episodes.WheelOrder: words"] = WheelOrder.objects.filter(episode__in=ids).update(said={})
    counts["runs.PersonTurn: words"] = PersonTurn.objects.filter(episode__in=ids).update(said={})
    counts += empty_outputs(Q(ask__episode__in=ids), with_delivered=True)
    counts["databases of interrupted worlds"] = forget_worlds(ids)
    rows = Episode.every.filter(pk__in=ids)
    rows.exclude(final_answer=None).update(final_answer=WORD)
    rows.update(steps_erased_at=timezone.now(), world={}, fault_detail="")
    return +counts


def outputs_of(of: Q, *, with_delivered: bool) -> tuple[QuerySet[Draft], QuerySet[Advice]]:
    """Return drafts of models, and their answers that have words; also those that an agent got, if asked for."""
    drafts = Draft.objects.filter(of, author_key__startswith="model:")
    answers = Advice.objects.filter(of, source="llm").exclude(reason=ERASED)
    delivered = Ask.objects.filter(accepted=OuterRef("pk"))
    return drafts, answers if with_delivered else answers.exclude(Exists(delivered))


def empty_outputs(of: Q, *, with_delivered: bool) -> Counter[str]:
    """Delete drafts of models, and take the words out of their answers; return the counts."""
    drafts, answers = outputs_of(of, with_delivered=with_delivered)
    counts = Counter({"experts.Draft": drafts._raw_delete("default")})
    for answer in answers.order_by("pk"):
        words = {"text": WORD, "tool_calls": None, "decision": without_words(answer.decision), "overruled": ""}
        counts["experts.Advice: words"] += Advice.objects.filter(pk=answer.pk).update(**words, reason=ERASED)
    return +counts


def _empty_steps(ids: Collection[str]) -> int:
    rows = Step.objects.filter(episode__in=ids).exclude(kind=StepKind.VERIFICATION).order_by("pk")
    done, after = 0, 0
    while page := list(rows.filter(pk__gt=after).values_list("pk", "body")[:READ_AT_A_TIME]):
        after, done = page[-1][0], done + len(page)
        bodies = [WRITER.encode(dict(sorted(emptied(read(body)).items()))) for _, body in page]
        with connection.cursor() as cursor:
            cursor.execute(_WRITE, [[pk for pk, _ in page], bodies])
    return done


def emptied(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step without its words. Pure; a step that was emptied before stays as it is."""
    kept = {name: body[name] for name in KEPT if name in body}
    if isinstance(usage := body.get("usage"), Mapping):
        kept["usage"] = {name: one for name, one in usage.items() if isinstance(one, int | float)}
    return kept | _OF_KIND.get(str(body.get("kind")), _erased_content)(body)


def _erased_content(_body: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": WORD}


def _called(body: Mapping[str, Any]) -> dict[str, Any]:
    left: dict[str, Any] = {"arguments": {}, **({"error": WORD} if body.get("error") is not None else {"result": WORD})}
    if isinstance(approval := body.get("approval"), Mapping):
        left["approval"] = {name: approval[name] for name in ("verdict", "by") if name in approval}
    return left


def _acted(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"action": {}, **({"error": WORD} if body.get("error") is not None else {})}


def _briefed(body: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": WORD, **{name: body[name] for name in OF_BRIEFINGS if name in body}}


def _asked(body: Mapping[str, Any]) -> dict[str, Any]:
    advice = body.get("advice")
    if not isinstance(advice, Mapping):
        # how it closed is a mark on the strip
        return {"question": WORD, **({"meta": {"closed": "cancelled"}} if is_cancelled(body) else {})}
    kept = {name: advice[name] for name in OF_ANSWERS if name in advice}
    decision = without_words(advice.get("decision"))
    # an absent answer has an empty text, and stays absent
    kept |= {"text": WORD if advice.get("text") else "", **({"decision": decision} if decision is not None else {})}
    return {"question": WORD, "advice": kept}


_OF_KIND = {"tool_call": _called, "action": _acted, "briefing": _briefed, "ask": _asked}
