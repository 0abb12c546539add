"""The pictures that steps ready to be stored name, by digest. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable

from awmclient.nouns.pictures import pictures_of
from episodes.models import StepKind
from episodes.stored.entries import StepEntry, read


def names_pictures(entry: StepEntry) -> bool:
    """Return whether a step can have pictures of its own; a result that only looks so is not read for it."""
    return entry.kind in (StepKind.MESSAGE, StepKind.ASK) and '"pictures":' in entry.text


def named_pictures(entries: Iterable[StepEntry], came: Container[str]) -> set[str]:
    """Return the digests of an episode's pictures. An agent writes results, so one in a result is no claim: there only
    what `came` as data counts."""
    own = set[str]()
    for entry in entries:
        if '"blob"' not in entry.text:
            continue
        step = read(entry.text)
        own |= {part["blob"] for part in pictures_of(step) if part["blob"] in came}
        own |= {part["blob"] for part in step.get("pictures") or ()} if names_pictures(entry) else set()
    return own
