"""What notifications are about: the kinds that apps above register, and what each of them is asked.

Owns the protocol between a notification and its subject. A row of `Delivery` holds a kind, a plain id and the subject's
rank at that time; everything else is asked of the subject when the notification is about to leave, so what is no longer
wanted is not sent. Nothing above is imported here: an app registers its kinds in `AppConfig.ready()`, as `experts` does
with asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

TEST, CODE = "test", "code"
OWN = {TEST: "Test", CODE: "Code"}
"""Kinds of this app itself, about nothing: a test, and the code that confirms a mailbox."""


@dataclass(frozen=True)
class Standing:
    """Whether a notification is still wanted: without a reason it is; with one it is not, or not before `until`."""

    why: str = ""
    until: datetime | None = None

    @property
    def is_wanted(self) -> bool:
        return not self.why


KEEP = Standing()


def skip(why: str) -> Standing:
    return Standing(why)


def put_off(until: datetime, why: str) -> Standing:
    return Standing(why, until)


class Subject(Protocol):
    """One thing as it stands now. People are named by the keys of their actors (`user:3`)."""

    @property
    def kind(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def rank(self) -> str:
        """Where it stands: it is announced once at each rank to each person; empty where there are no ranks."""

    @property
    def group(self) -> str:
        """What stands for the same: of one group only one open thing is announced, and browsers show the newest."""

    @property
    def expires_at(self) -> datetime | None:
        """When nobody needs to hear of it any more."""

    @property
    def text(self) -> str:
        """What a stranger wrote, whole; only its first line leaves."""

    def title(self, open_count: int) -> str:
        """Return our own words, with how many things of its kind are open."""

    def recipients(self, now: datetime) -> Collection[str]:
        """Return all who are to hear of it."""

    def standing(self, rank: str, now: datetime) -> Standing:
        """Return whether it is wanted still, whoever the person; `rank` is that of the notification. Cheap."""

    def standing_for(self, person: str, now: datetime) -> Standing:
        """Return whether this person still wants it."""


class Kind(Protocol):
    """What is asked of all things of one kind."""

    @property
    def name(self) -> str:
        """As rows, webhooks and pages have it: one short word."""

    @property
    def label(self) -> str:
        """As people read it."""

    def path(self, subject_id: str) -> str:
        """Return its page. `static/sw.js` opens only addresses that it knows."""

    def read(self, ids: Collection[str]) -> Mapping[str, Subject]:
        """Return those of these that exist, by id."""

    def open_among(self, ids: Collection[str]) -> set[str]:
        """Return which of these still wait for someone."""

    def open_count(self, project_id: str, now: datetime) -> int:
        """Return how many of the project somebody could take now."""


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Let notifications be about things of this kind."""
    if kind.name in OWN or kind.name in _kinds:
        raise ValueError(f"the kind {kind.name!r} is taken")
    _kinds[kind.name] = kind


def kind_of(name: str) -> Kind | None:
    return _kinds.get(name)


def label(name: str) -> str:
    kind = _kinds.get(name)
    return kind.label if kind is not None else OWN.get(name, name)


def path(name: str, subject_id: str) -> str:
    """Return the page of a subject; empty where there is none."""
    kind = _kinds.get(name)
    return kind.path(subject_id) if kind is not None and subject_id else ""


def read(wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], Subject]:
    """Return the subjects of these kinds and ids that exist."""
    ids: dict[str, list[str]] = {}
    for name, subject_id in wanted:
        ids.setdefault(name, []).append(subject_id)
    known = [(name, _kinds[name].read(of_kind)) for name, of_kind in ids.items() if name in _kinds]
    return {(name, subject_id): found for name, subjects in known for subject_id, found in subjects.items()}


def open_count(name: str, project_id: str, now: datetime) -> int:
    """Return how many things of this kind are open; for a kind of our own, of all kinds."""
    asked = [_kinds[name]] if name in _kinds else list(_kinds.values())
    return sum(kind.open_count(project_id, now) for kind in asked)
