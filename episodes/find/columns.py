"""Columns of the list of episodes that tell what other apps know: time waited for people, tokens, verdicts.

Owns their names. Each app registers its own in `AppConfig.ready()`. A page asks each column once for all its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from people.access import Actor

Cells = Callable[[Actor, Sequence[str]], Mapping[str, str]]
"""Returns the words of a column for some episodes; none of an episode that has none, or that the actor cannot see."""
COLUMNS = {"waited": "Waited", "tokens": "Tokens", "verdict": "Verdict"}
_sources: dict[str, Cells] = {}


def register(name: str, cells: Cells) -> None:
    """Register the source of a column of `COLUMNS`."""
    _sources[name] = cells


def cells(actor: Actor, names: Collection[str], ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the words of these columns by episode."""
    by_episode: dict[str, dict[str, str]] = {pk: {} for pk in ids}
    for name in COLUMNS:
        for pk, words in _sources[name](actor, ids).items() if name in names else ():
            by_episode[pk][name] = words
    return by_episode
