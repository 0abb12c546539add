"""Rows for preference training: pairs (`dpo`) and single actions with a label (`kto`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from exports.formats.columns import JSON_LIST, MESSAGES, SOURCE, TEXT, WHOLE, YES_NO, sha256, source
from exports.rules.leakage import Ground
from exports.rules.pairs import (
    PreferencePair,
    ShapedEpisode,
    from_advice,
    from_corrections,
    from_edits,
    siblings,
)

DPO, KTO = "awmweb.pref/3", "awmweb.kto/2"
DPO_FEATURES: dict[str, Any] = {
    "prompt": MESSAGES,
    "chosen": MESSAGES,
    "rejected": MESSAGES,
    "tools": JSON_LIST,
    "source": TEXT,
    "rejected_episode_id": TEXT,
    "seq": WHOLE,
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


def dpo(episodes: Sequence[ShapedEpisode], ground: Ground) -> Iterator[dict[str, Any]]:
    """Yield at most `pairs_per_task` pairs of one task: corrections first, then edits, then advice, then siblings."""
    seen: set[str] = set()
    for pair in _all_pairs(episodes, has_advice=ground.recipe.has_advice):
        if len(seen) >= ground.recipe.pairs_per_task:
            return
        # several episodes can part at one state by the same actions
        if pair.digest not in seen:
            seen.add(pair.digest)
            yield _pair_row(pair, ground)


def _all_pairs(episodes: Sequence[ShapedEpisode], *, has_advice: bool) -> Iterator[PreferencePair]:
    """Yield all pairs; where advice is cut out, no call that it suggests or edits is learned either."""
    for pairs_of in (from_corrections, *([from_edits, from_advice] if has_advice else [])):
        for episode in episodes:
            yield from pairs_of(episode)
    yield from siblings(episodes)


def _pair_row(pair: PreferencePair, ground: Ground) -> dict[str, Any]:
    prompt = [line.message for line in pair.prompt]
    row = {"prompt": prompt, "chosen": [pair.chosen], "rejected": [pair.rejected], "tools": list(pair.tools)}
    about = {"source": pair.source, "rejected_episode_id": pair.rejected_from.id, "seq": pair.seq}
    return {**row, **about, **source(DPO, pair.chosen_from, ground, prompt), "content_sha256": sha256(row)}


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
