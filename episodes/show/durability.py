"""Reads: the texts on pages about parked, resumed or replayed episodes, and which scenarios replay exactly."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime

from episodes.models import Certificate, Episode, EpisodeState, Wheel
from episodes.stored import packs
from people.text.in_words import ago
from people.text.plain_text import clean

Grade = Certificate.Grade


def chips(episode: Episode, now: datetime) -> list[tuple[str, str]]:
    """Return the chips of an episode: CSS class and text."""
    pairs = []
    if episode.state == EpisodeState.PARKED and episode.parked_at is not None:
        pairs.append(("ask", f"parked {ago(episode.parked_at, now).removesuffix(' ago')}, waits for a person"))
    if episode.state == EpisodeState.QUEUED and episode.parked_at is not None and not episode.is_builtin:
        pairs.append(("ask", "answered, waits for its loop"))
    if episode.steered and (wheel := Wheel.objects.filter(episode=episode).first()) and wheel.is_held(now):
        pairs.append(("act", f"{clean(wheel.holder_name)} has the wheel"))
    if episode.assisted:
        pairs.append(("ask", "assisted, counts in no rate"))
    if episode.is_continued:
        pairs.append(("ask", "continued from a prompt, counts in no rate"))
    if episode.attempt > 1:
        pairs.append(("", f"resumed, attempt {episode.attempt}"))
    if episode.clocks == "real":
        pairs.append(("", "real clocks"))
    certificate = episode.certificates.order_by("-pk").first()
    if certificate is not None:
        pairs.append(_certified(certificate))
    return pairs


def _certified(certificate: Certificate) -> tuple[str, str]:
    if certificate.grade == Grade.REFUSED:
        return "bad", f"differs from step {certificate.differs_at}" if certificate.checked else "cannot be replayed"
    rows = {Grade.CONTENT: ", same rows", Grade.DATABASE: ", rows put back"}.get(Grade(certificate.grade), "")
    return "good", f"certified, {certificate.checked} of {certificate.calls} calls{rows}"


@dataclass(frozen=True)
class Replays:
    """The newest certificates of oracles: the number of tasks, of exact ones, and the inexact ones."""

    tasks: int
    exact: int
    others: list[Certificate]


def replays() -> Replays:
    """Return the results of the loaded packs' oracles when they were last certified."""
    of_oracles = Certificate.objects.filter(source=Certificate.Source.ORACLE)
    certificates = of_oracles.order_by("scenario", "task_idx", "-pk").distinct("scenario", "task_idx")
    now = functools.cache(packs.scenario_digest)
    # a certificate of a version that was replaced or unloaded says nothing about the loaded one
    newest = [one for one in certificates if one.scenario_digest in ("", now(one.scenario))]
    others = [one for one in newest if one.grade != Grade.EXACT]
    return Replays(len(newest), len(newest) - len(others), others[:200])
