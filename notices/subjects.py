"""The kinds of subjects that apps above register, and the questions that each of them answers.

Owns the protocol between a notification and its subject. A row of `Delivery` stores a kind, a plain ID and the
subject's rank at that time. Everything else is asked of the subject just before sending, so that outdated notifications
are not sent. This app imports no app above: they register their kinds in `AppConfig.ready()`, as `experts` does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

TEST, CODE = "test", "code"
OWN = {TEST: "Test", CODE: "Code"}
"""Kinds of this app, without a subject: a test, and the code that confirms a mailbox."""


@dataclass(frozen=True)
class Relevance:
    """Whether a notification is still wanted: without a reason yes; with one no, or not before `until`."""

    why: str = ""
    until: datetime | None = None

    @property
    def is_wanted(self) -> bool:
        return not self.why


KEEP = Relevance()


def skip(why: str) -> Relevance:
    return Relevance(why)


def put_off(until: datetime, why: str) -> Relevance:
    return Relevance(why, until)


@dataclass(frozen=True)
class SharedView:
    """What a channel of the project shows of a subject: the same for everyone in it, from cleaned texts."""

    title: str
    text: str
    details: Sequence[str]
    state: str
    """Who holds it or how it ended; empty while it waits for someone."""
    expires_at: datetime
    is_free: bool
    """Whether someone can claim it now."""
    is_answerable: bool
    """Whether who holds it can answer it in the channel."""
    is_over: bool
    is_settled: bool
    """Whether its state will not change again."""
    skills: Collection[str]
    is_high_risk: bool
    earlier: str
    """The ID of the subject that it continues; empty without one."""


class Subject(Protocol):
    """The current state of one subject. People are named by the keys of their actors (`user:3`)."""

    @property
    def kind(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def rank(self) -> str:
        """The current stage: it is announced once per rank and person; empty without ranks."""

    @property
    def group(self) -> str:
        """The key of equal subjects: only one open subject of a group is announced, and browsers show the newest."""

    @property
    def expires_at(self) -> datetime | None:
        """When the notification is no longer useful."""

    @property
    def text(self) -> str:
        """The untrusted text; only its first line is sent."""

    def title(self, open_count: int) -> str:
        """Return the title, with the number of open subjects of its kind."""

    def recipients(self, now: datetime) -> Collection[str]:
        """Return everyone to notify."""

    def standing(self, rank: str, now: datetime) -> Relevance:
        """Return whether it is still wanted, for any person; `rank` is the notification's. Cheap."""

    def standing_for(self, person: str, now: datetime) -> Relevance:
        """Return whether this person still wants it."""

    @property
    def is_over(self) -> bool:
        """Return whether its state will not change again."""

    def state_for(self, person: str, now: datetime) -> str:
        """Return who holds it or how it ended, for messages that can be changed; empty while it waits for someone."""

    def is_held_by(self, person: str, now: datetime) -> bool:
        """Return whether this person holds it."""

    def answer_path(self, person: str) -> str:
        """Return the address with which this person answers it without a session; empty if there is none."""

    def shared(self, now: datetime) -> SharedView | None:
        """Return what a channel of the project shows of it; None for what is for single persons."""


class Kind(Protocol):
    """The questions about all subjects of one kind."""

    @property
    def name(self) -> str:
        """One short word, for rows, webhooks and pages."""

    @property
    def label(self) -> str:
        """The name for people."""

    def path(self, subject_id: str) -> str:
        """Return its page. `static/sw.js` opens only addresses that it knows."""

    def read(self, ids: Collection[str]) -> Mapping[str, Subject]:
        """Return the existing ones of these, by ID."""

    def open_among(self, ids: Collection[str]) -> set[str]:
        """Return those of these that no one has claimed."""

    def open_count(self, project_id: str, now: datetime) -> int:
        """Return how many of the project can be claimed now."""


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Register a kind of subject."""
    if kind.name in OWN or kind.name in _kinds:
        raise ValueError(f"the kind {kind.name!r} is taken")
    _kinds[kind.name] = kind


def kind_of(name: str) -> Kind | None:
    return _kinds.get(name)


def label(name: str) -> str:
    kind = _kinds.get(name)
    return kind.label if kind is not None else OWN.get(name, name)


def path(name: str, subject_id: str) -> str:
    """Return the page of a subject, or an empty text."""
    kind = _kinds.get(name)
    return kind.path(subject_id) if kind is not None and subject_id else ""


def read(keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Subject]:
    """Return the existing subjects of these kinds and IDs."""
    ids: dict[str, list[str]] = {}
    for name, subject_id in keys:
        ids.setdefault(name, []).append(subject_id)
    groups = [(name, _kinds[name].read(of_kind)) for name, of_kind in ids.items() if name in _kinds]
    return {(name, subject_id): found for name, subjects in groups for subject_id, found in subjects.items()}


def open_count(name: str, project_id: str, now: datetime) -> int:
    """Return how many subjects of this kind are open; for a kind of this app, of all kinds."""
    asked = [_kinds[name]] if name in _kinds else list(_kinds.values())
    return sum(kind.open_count(project_id, now) for kind in asked)
