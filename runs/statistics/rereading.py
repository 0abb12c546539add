"""What may be said of a run, a fork or a campaign whose outcomes a repaired verifier corrected: what both readings
show, and nothing else.

The claims of a run are read again with the error that the launch gave them, those of a fork with that of its tree. A
statement that needs the first reading, too, is never said more often than that reading says it, for any repair and any
reason for it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from runs.statistics import campaigned, deciding, forked, offers, prices, sentences
from runs.statistics.campaigned import CampaignCell, CampaignFinding
from runs.statistics.contrast import Contrast, Running, UnitResult
from runs.statistics.forked import ForkFinding
from runs.statistics.offers import Anytime, Effect
from runs.statistics.paired import hull
from runs.statistics.prices import Price
from runs.statistics.worth import ChangePrior, ChangeWorth, learned, worth_of

InWords = Callable[[Contrast, UnitResult], str]
Said = TypeVar("Said", Running, Anytime)


def contrast(now: Contrast, first: Contrast, corrected: Mapping[str, int] | None = None) -> Contrast:
    """Return a contrast of corrected outcomes without what the first outcomes did not show, and without ruling out what
    they did not rule out. `corrected` counts the outcomes of each arm that were corrected."""
    arms = {arm: (corrected or {}).get(arm, 0) for arm in (now.arm, now.control)}
    read = replace(
        now,
        tasks_scope=_both(now, now.tasks_scope, first.tasks_scope, sentences.of_tasks, arms),
        scenarios_scope=_both(now, now.scenarios_scope, first.scenarios_scope, sentences.of_scenarios, arms),
        running=_timeless(now.running, first.running),
        price=_price(now.price, first.price),
    )
    if read == now:
        return now
    return replace(read, sentence=sentences.headline(read))


def effect(now: Effect, first: Effect) -> Effect:
    """Return the effect of an offer without what the first outcomes did not show, with intervals that hold both."""
    now = replace(now, price=_price(now.price, first.price))
    span, running = hull(now.interval, first.interval), hull(now.running.interval, first.running.interval)
    wide = now
    if running is not None and (span, running) != (now.interval, now.running.interval):
        wide = offers.widened(now, span, running)
    running_now = _timeless(now.running, first.running)
    # what the corrected outcomes say alone has their interval in its sentence
    look = wide.running if running_now == now.running else replace(running_now, interval=wide.running.interval)
    corrected = replace(wide, running=look)
    if not _is_new(now.verdict, first.verdict):
        return corrected if corrected == wide else replace(corrected, sentence=corrected.running.sentence)
    return replace(corrected, verdict="withheld", sentence=sentences.reread(now.sentence))


def fork(now: ForkFinding, first: ForkFinding) -> ForkFinding:
    """Return what a fork shows without what the first outcomes of its branches did not show, with an interval that
    holds both."""
    span = hull(now.interval, first.interval)
    if (now.treated, now.control) != (first.treated, first.control):
        now = replace(now, first=(first.treated, first.control), first_once=first.once)
    if _is_new(now.verdict, first.verdict):
        return replace(now, verdict="", interval=span, sentence=sentences.reread(now.sentence, "fork"))
    return now if span is None or span == now.interval else forked.widened(now, span)


def priors(forks: Sequence[ForkFinding]) -> tuple[ChangePrior, ChangePrior]:
    """Return what these forks say of changes like theirs, by the outcomes that count and by the first ones. Branches
    that went on alike count once."""
    now = learned([one.draws for one in forks])
    return now, learned([one.first_draws for one in forks]) if any(one.first for one in forks) else now


def worth(fork: ForkFinding, prior: ChangePrior, first_prior: ChangePrior) -> ChangeWorth:
    """Return what the change of a fork is worth: the smallest worth of all the ways in which its branches can be
    counted and, after an erratum, of their first outcomes, with an interval that holds all of these. Who repairs or
    erases what an arm lost would raise it."""
    counted = [worth_of(*arms, prior) for arms in ((fork.treated, fork.control), *fork.ways)]
    changes = counted if fork.first is None else [*counted, worth_of(*fork.first, first_prior)]
    smallest = min(changes, key=lambda change: abs(change.mean))
    low, high = min(change.low for change in changes), max(change.high for change in changes)
    least, most = min(change.least for change in changes), max(change.most for change in changes)
    wrong = max(change.wrong for change in changes)
    return replace(smallest, low=low, high=high, wrong=wrong, least=least, most=most)


def campaign(now: CampaignFinding, first: CampaignFinding) -> CampaignFinding:
    """Return what a campaign shows without what the first outcomes of its branches did not show, with intervals that
    hold both. Both have the same roots, kinds and places."""
    before = {(one.kind, one.at): one for one in first.cells}
    both = [(cell, before.get((cell.kind, cell.at), cell)) for cell in now.cells]
    wide = [
        replace(cell, interval=hull(cell.interval, old.interval), together=hull(cell.together, old.together))
        for cell, old in both
    ]
    cells = [
        replace(cell, verdict="", withheld=cell.verdict) if _is_new(cell.verdict, old.verdict) else cell
        for cell, (_, old) in zip(wide, both, strict=True)
    ]
    if cells == now.cells:
        return now
    read = campaigned.of_cells(cells, now.least, fixed=now.is_fixed, lost=now.lost)
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    texts = [_of_kind(read.of(kind), *both) for kind, *both in zip(kinds, read.sentences, now.sentences, strict=True)]
    return replace(read, sentences=texts)


def _of_kind(cells: Sequence[CampaignCell], both: str, corrected: str) -> str:
    """Return what both readings say of a kind; what the corrected outcomes say alone, where all of that is withheld."""
    if any(cell.withheld for cell in cells) and not any(cell.verdict for cell in cells):
        return sentences.reread(corrected, "campaign")
    return f"{both} {sentences.WIDENED}"


def _both(
    whole: Contrast, now: UnitResult | None, first: UnitResult | None, words: InWords, arms: Mapping[str, int]
) -> UnitResult | None:
    """Return a scope with the interval that holds those of both readings: the people who chose what to repair had seen
    the outcomes, so that of the corrected ones alone can miss."""
    if now is None:
        return None
    wide = replace(now, interval=hull(now.interval, first.interval if first is not None else None))
    if _is_new(now.verdict, first.verdict if first is not None else ""):
        return replace(wide, verdict="withheld", sentence=sentences.reread(now.sentence))
    if wide == now:
        return now
    return replace(wide, sentence=f"{words(whole, wide)} {sentences.of_both_readings(arms)}")


def _price(now: Price | None, first: Price | None) -> Price | None:
    """Return a price that both readings allow: with the interval that holds both, and without a ratio."""
    if now is None or now == first:
        return now
    lead = prices.costs(now.minutes)
    lows = [each.interval[0] if each.interval else each.least for each in (now, first) if each is not None]
    bounds = [low for low in lows if low is not None]
    if len(bounds) < 2:
        return Price(now.minutes, None, None, f"{lead}, so no price per success.")
    span = None if first is None or first.interval is None else hull(now.interval, first.interval)
    if not all(each.per_success for each in (now, first) if each is not None):
        lead += "; extra successes are not shown"
    if span is None:
        words = f"{lead}. An extra success, if any, costs at least {min(bounds):.1f} minutes. {sentences.WIDENED}"
        return Price(now.minutes, None, None, words, min(bounds))
    words = f"{lead}. An extra success costs {span[0]:.1f} to {span[1]:.1f} minutes. {sentences.WIDENED}"
    return Price(now.minutes, None, span, words)


def _timeless(now: Said, first: Said) -> Said:
    if not _is_new(now.verdict, first.verdict):
        return now
    return replace(now, verdict="withheld", since=None, sentence=sentences.reread(now.sentence))


def _is_new(now: str, first: str) -> bool:
    return now in deciding.SHOWN and now != first
