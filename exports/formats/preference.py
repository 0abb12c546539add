"""Rows for preference training: pairs (`dpo`) and single actions with a label (`kto`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from exports.formats.columns import JSON_LIST, MESSAGES, NUMBER, SOURCE, TEXT, WHOLE, YES_NO, sha256, source
from exports.record import LeftOut
from exports.rules.leakage import Ground
from exports.rules.pairs import (
    PreferencePair,
    ShapedEpisode,
    from_advice,
    from_compared,
    from_corrections,
    from_edits,
    from_forks,
    siblings,
)

DPO, KTO = "awmweb.pref/6", "awmweb.kto/4"
DPO_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "chosen": MESSAGES,
    "rejected": MESSAGES,
    "tools": JSON_LIST,
    "source": TEXT,
    "rejected_episode_id": TEXT,
    "seq": WHOLE,
    "fork_id": TEXT,
    "chosen_wins": WHOLE,
    "chosen_tries": WHOLE,
    "rejected_wins": WHOLE,
    "rejected_tries": WHOLE,
    "worth": NUMBER,
    "worth_low": NUMBER,
    "worth_high": NUMBER,
    "grade": TEXT,
    "privilege": TEXT,
    "weight": NUMBER,
    "votes_chosen": WHOLE,
    "votes_rejected": WHOLE,
    "votes_tied": WHOLE,
    **SOURCE,
}
KTO_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "completion": MESSAGES,
    "label": YES_NO,
    "tools": JSON_LIST,
    "seq": WHOLE,
    **SOURCE,
}


def dpo(episodes: Sequence[ShapedEpisode], ground: Ground) -> Iterator[dict[str, Any] | LeftOut]:
    """Yield at most `pairs_per_task` pairs of one task: of forks first, then corrections, edits, advice,
    those that people compared, siblings.

    What a fork measured overrules the others. With weights by worth, pairs that nothing measured are left out.
    """
    seen: set[str] = set()
    for pair in _all_pairs(episodes, has_advice=ground.recipe.has_advice):
        if len(seen) >= ground.recipe.pairs_per_task:
            return
        # several episodes can part at one state by the same actions
        if pair.digest in seen or pair.reverse in seen:
            continue
        if pair.measured is not None and pair.measured["privilege"] == "sees_verifier":
            yield LeftOut("informed")
        elif pair.is_contradicted:
            yield LeftOut("contradicted")
        elif pair.measured is None and ground.recipe.weights == "worth":
            yield LeftOut("unmeasured")
        else:
            seen.add(pair.digest)
            yield _pair_row(pair, ground)


def _all_pairs(episodes: Sequence[ShapedEpisode], *, has_advice: bool) -> Iterator[PreferencePair]:
    """Yield all pairs; where advice is cut out, no call that it suggests or edits is learned either."""
    for episode in episodes:
        yield from from_forks(episode, has_advice=has_advice)
    for pairs_of in (from_corrections, *([from_edits, from_advice] if has_advice else [])):
        for episode in episodes:
            yield from pairs_of(episode)
    yield from from_compared(episodes)
    yield from siblings(episodes)


def _pair_row(pair: PreferencePair, ground: Ground) -> dict[str, Any]:
    prompt = [line.message for line in pair.prompt]
    row = {"prompt": prompt, "chosen": [pair.chosen], "rejected": [pair.rejected], "tools": list(pair.tools)}
    about = {"source": pair.source, "rejected_episode_id": pair.rejected_from.id, "seq": pair.seq}
    about |= dict(zip(("votes_chosen", "votes_rejected", "votes_tied"), pair.votes, strict=True))
    about |= _measured(pair, by_worth=ground.recipe.weights == "worth")
    return {**row, **about, **source(DPO, pair.chosen_from, ground, prompt), "content_sha256": sha256(row)}


def _measured(pair: PreferencePair, *, by_worth: bool) -> dict[str, Any]:
    """Return what a fork or siblings measured of a pair, as chosen minus rejected; of other pairs there is nothing."""
    measures = pair.measured
    about: dict[str, Any] = {"fork_id": "", "grade": "", "privilege": "", "weight": 1.0}
    for side in ("chosen", "rejected"):
        about |= {f"{side}_wins": 0, f"{side}_tries": 0}
    about |= {"worth": None, "worth_low": None, "worth_high": None}
    if measures is None or pair.worth is None:
        return about
    treated, kept = (measures["wins"], measures["tries"]), (measures["kept_wins"], measures["kept_tries"])
    is_better = measures["verdict"] == "better"
    for side, (wins, tries) in zip(
        ("chosen", "rejected"), (treated, kept) if is_better else (kept, treated), strict=True
    ):
        about |= {f"{side}_wins": wins, f"{side}_tries": tries}
    low, high = (measures["low"], measures["high"]) if is_better else (-measures["high"], -measures["low"])
    worth = round(pair.worth, 4)
    about |= {"worth": worth, "worth_low": low, "worth_high": high, "weight": worth if by_worth else 1.0}
    return about | {"fork_id": measures["fork"], "grade": measures["grade"], "privilege": measures["privilege"]}


def kto(episodes: Sequence[ShapedEpisode], ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield one row per turn with loss; its label is true if the episode was complete."""
    for episode in episodes:
        messages, tools = episode.shaped.messages, list(episode.shaped.tools)
        about = source(KTO, episode.record, ground, messages)
        for place, line in enumerate(episode.shaped.lines):
            # without `place`, there would be no prompt
            if line.loss and place:
                row = {"prompt": messages[:place], "completion": [line.message], "label": episode.is_complete}
                more = {"tools": tools, "seq": line.said.seqs[-1] if line.said.seqs else 0}
                yield {**row, **more, **about, "content_sha256": sha256([row, tools])}
