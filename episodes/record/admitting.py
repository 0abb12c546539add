"""Writes: episodes that were recorded elsewhere, complete and ended, each with its steps and its outcome.

Owns the rules of an admitted episode: its origin is *import*, or *external* for one that its own process sent. Its
outcome is *reported* whatever it says, because no verifier here has seen it. An episode is prepared without a database
(`arrival_of`), so that a file can be read to its end before any of it is stored. Leaves reading files to `imports`.
Called inside the transaction of an import.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from types import MappingProxyType

from django.db import connection
from django.db.models import AutoField, F, Model, Value
from django.db.models.functions import Concat

from episodes.errors import StepsErased
from episodes.models import Episode, EpisodeEvent, EpisodeState, Origin, VerifierOutcome
from episodes.record.whole_pictures import Pictured, Sent, attach
from episodes.stored.arrivals import Arrival
from people.access import Actor, may_launch, may_record, scoped

NONE_SENT: Sent = MappingProxyType({})
IMPORTED, RECEIVED, LATE = "imported", "received", "late"
# A batch has many steps: model instances would cost several times what the database needs for the rows.
STEPS = "COPY episodes_step (episode_id, seq, kind, body, cut, at) FROM STDIN"


def known_keys(actor: Actor, keys: Collection[str]) -> dict[str, str]:
    """Return the IDs of the project's episodes with these keys, by key."""
    rows = scoped(Episode.every.filter(key__in=keys), actor.project)
    return dict(rows.values_list("key", "pk"))


def admit(actor: Actor, arrivals: Sequence[Arrival], *, sent: Sent = NONE_SENT, origin: Origin = Origin.IMPORT) -> None:
    """Store episodes none of which exists yet, with their pictures, of which `sent` came with them. The caller must be
    in a transaction."""
    is_own = origin == Origin.EXTERNAL
    (may_record if is_own else may_launch)(actor)
    verb = RECEIVED if is_own else IMPORTED
    reported = VerifierOutcome.Source.REPORTED
    episodes = [_episode(actor, one, origin) for one in arrivals]
    both = list(zip(episodes, arrivals, strict=True))
    # first the rows that the others refer to
    _copy(Episode, episodes)
    with connection.cursor() as cursor, cursor.copy(STEPS) as copy:
        copy.write(b"".join(one.steps for one in arrivals))
    attach(actor, [Pictured(episode, one.pictures, sent) for episode, one in both])
    outcomes = (VerifierOutcome(episode=one, source=reported, **said.outcome) for one, said in both if said.outcome)
    _copy(VerifierOutcome, outcomes)
    events = (EpisodeEvent(episode=one, verb=verb, actor=actor.name, reason=said.about) for one, said in both)
    _copy(EpisodeEvent, events)


def _copy(model: type[Model], rows: Iterable[Model]) -> None:
    """Insert rows with their defaults. `bulk_create` sends arrays, which cost a microsecond per quote in a text: more
    than all other work for episodes with many tools."""
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, AutoField)]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    with connection.cursor() as cursor, cursor.copy(f"COPY {model._meta.db_table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            # `pre_save` sets the times that Django sets on insert
            copy.write_row([field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields])


def add_late(
    actor: Actor,
    episode: Episode,
    letters: str,
    lines: bytes,
    about: str,
    pictures: Sequence[str] = (),
    sent: Sent = NONE_SENT,
) -> None:
    """Append steps to an episode that was admitted and has ended, as lines for `COPY` with their letters on the strip,
    and their pictures. The caller must have locked it."""
    may_record(actor)
    if episode.steps_erased_at is not None:
        raise StepsErased
    attach(actor, [Pictured(episode, pictures, sent)])
    with connection.cursor() as cursor, cursor.copy(STEPS) as copy:
        copy.write(lines)
    Episode.every.filter(pk=episode.pk).update(
        last_seq=F("last_seq") + len(letters), strip=Concat("strip", Value(letters))
    )
    EpisodeEvent.objects.create(episode=episode, verb=LATE, actor=actor.name, reason=about)


def _episode(actor: Actor, arrival: Arrival, origin: Origin) -> Episode:
    fields = arrival.episode
    times = {name: datetime.fromisoformat(fields[name]) for name in ("started_at", "ended_at")}
    return Episode(
        project=actor.project,
        body_digest="",
        origin=origin,
        started_by=actor.name,
        token=actor.token.pk if actor.token else "",
        **{**fields, **times, "state": EpisodeState(fields["state"])},
    )
