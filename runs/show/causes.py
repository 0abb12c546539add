"""Why episodes of a run failed, wait or have no outcome, grouped: nineteen that cannot reach one server are one line.

Of a run with a plan only the tries that count are read, so a cause goes once they are retried. Called by the page of a
run, its report and the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Count, F, Max
from django.db.models.functions import Left

from episodes.models import Episode, EpisodeEvent, EpisodeState, Run
from episodes.stored.settled import NO_SERVER, NOT_VERIFIED
from episodes.visible import visibility
from people.access import Actor
from people.text.in_words import count
from people.text.plain_text import clean, first_line
from runs.models import Plan

SHOWN = 10
"""The most causes that are listed, the most frequent first."""
GROUPED = 1_000
"""The most different texts that are read of each kind."""
WORDS = 400
UNANSWERED = {
    "cut_off": "The model's last two turns were cut off at a limit of their length. Counted as the verifier judged.",
    "empty": "The model's last two turns were empty. Counted as the verifier judged.",
}
"""Words of the stop reasons that say that a model gave no answer."""
# what differs between two episodes of one cause: IDs of requests and sessions, and times. Status codes and ports stay
VARIES = re.compile(r"\b(?=\w*\d)\w{12,}\b|\b\d+(\.\d+)?(?= ?m?s\b)")


@dataclass(frozen=True)
class Cause:
    """One cause: `state` is that of its episodes, `newest` one of them. `fault` is empty unless they failed. `stop` is
    empty unless a model's last turns were no answer; such episodes are judged all the same."""

    state: str
    fault: str
    words: str
    episodes: int
    newest: str
    stop: str = ""

    @property
    def line(self) -> str:
        if self.stop:
            return f"{count(self.episodes, 'episode')} ended without an answer"
        what = {
            EpisodeState.QUEUED: "queued",
            EpisodeState.FINISHED: "finished without an outcome",
        }.get(EpisodeState(self.state), f"failed, fault {self.fault}" if self.fault else "failed")
        return f"{count(self.episodes, 'episode')} {what}"


@dataclass(frozen=True)
class Causes:
    """The most frequent causes of a run, and how many episodes have others."""

    shown: list[Cause]
    more: int


def causes_of(actor: Actor, run: Run) -> Causes:
    """Return the causes of a run, the most frequent first."""
    by_key: dict[tuple[str, str, str], Cause] = {}
    for cause in _read_causes(actor, run):
        key = cause.state, cause.fault, VARIES.sub("", cause.words)
        same = by_key.get(key)
        # of texts that differ in an ID alone, that of the newest episode is shown
        newest = cause if same is None or cause.newest > same.newest else same
        by_key[key] = replace(newest, episodes=cause.episodes + (same.episodes if same else 0))
    ordered = sorted(by_key.values(), key=lambda group: (-group.episodes, group.words))
    return Causes(ordered[:SHOWN], sum(one.episodes for one in ordered[SHOWN:]))


def _read_causes(actor: Actor, run: Run) -> Iterator[Cause]:
    """Yield each different text once, with the number of its episodes."""
    mine = Episode.objects.filter(run=run)
    if Plan.objects.filter(run=run).exists():
        mine = mine.filter(planned__isnull=False)
    failed = mine.filter(state=EpisodeState.FAILED).annotate(words=Left("fault_detail", WORDS), of=F("pk"))
    noted = EpisodeEvent.objects.annotate(words=Left("reason", WORDS), of=F("episode"))
    ended = visibility.with_open_outcome(actor, mine.filter(state=EpisodeState.FINISHED))
    queued = noted.filter(verb=NO_SERVER, episode__in=mine.filter(state=EpisodeState.QUEUED))
    unverified = noted.filter(verb=NOT_VERIFIED, episode__in=ended)
    for state, rows, fault in (
        (EpisodeState.FAILED, failed, ("fault",)),
        (EpisodeState.QUEUED, queued, ()),
        (EpisodeState.FINISHED, unverified, ()),
    ):
        texts = rows.order_by().values("words", *fault).annotate(episodes=Count("of", distinct=True), newest=Max("of"))
        for row in texts.order_by("-episodes")[:GROUPED]:
            words = clean(first_line(row["words"], WORDS)) or "No reason was stored."
            yield Cause(str(state), row.get("fault", ""), words, row["episodes"], row["newest"])
    unanswered = mine.filter(stop_reason__in=UNANSWERED).order_by().values("state", "stop_reason")
    for row in unanswered.annotate(episodes=Count("pk"), newest=Max("pk")):
        words = UNANSWERED[row["stop_reason"]]
        yield Cause(row["state"], "", words, row["episodes"], row["newest"], row["stop_reason"])
