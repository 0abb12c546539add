"""Writes: the turns of a person who acts for the agent of an episode, as a human baseline.

1. The loop asks `PersonPolicy` for its next turn, as it asks a model. 2. The episode waits, and parks as for an ask.
3. The person sends the turn from the page *Act*, and the episode goes on. Its record is that of any agent;
`PersonTurn` keeps who it was. Leaves calls, checks and limits to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from awmclient.errors import Parked
from awmclient.policies import Turn, View
from awmclient.schema import ASK_SPEC, ASK_TOOL
from awmclient.words.toolcalls import Call
from episodes.errors import EpisodeEnded
from episodes.events import episode_topic
from episodes.live.hub import hub
from episodes.models import Episode, EpisodeState, ExpertMode, Origin
from episodes.record import ask_steps, recording
from people.access import Actor, may_advise, scoped, system, visible_or_404
from people.errors import Invalid
from runs.errors import WrongState
from runs.launch.launching import OURS
from runs.models import PersonTurn
from runs.plan.plans import PERSON
from runs.play import parking
from runs.play.local import FIRST_READS_S, RE_READ_S, patiently

WAITS = {EpisodeState.WAITING, EpisodeState.PARKED}
"""States in which a person's episode waits for its next turn, unless an ask of it is open."""
FORGOTTEN = timedelta(days=30)
"""After this time without a turn the person has given up."""
TEXT_MAX = 20_000


class PersonPolicy:
    """The policy of an episode in which a person acts. `episode` is the begun one: its attempt alone can wait."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode

    async def act(self, view: View) -> Turn:
        """Return the person's turn; wait for it. Raises `Parked` after the time of a wait for an answer, and
        `EpisodeEnded` for an attempt that has nothing to wait for any more."""
        clock = asyncio.get_running_loop().time
        began = clock()
        mine = (system(self.episode.project), self.episode.pk, self.episode.attempt, view.turn)
        # listen before the first look: a turn that comes in between wakes this loop
        async with hub().listening(episode_topic(self.episode.pk)) as listener:
            while True:
                turn = await patiently(_said_or_waiting, *mine)
                if turn is not None:
                    return _turn(turn)
                waited = clock() - began
                if await patiently(_park_if_due, *mine, waited):
                    raise Parked("The episode is parked until its player goes on.")
                pause = min(RE_READ_S if waited >= RE_READ_S else FIRST_READS_S, settings.AWMWEB_PARK_AFTER_S - waited)
                try:
                    await asyncio.wait_for(listener.get(), max(pause, 0.2))
                except TimeoutError:
                    continue


def _turn(turn: Mapping[str, Any]) -> Turn:
    call = turn.get("call")
    calls = [Call(call["name"], dict(call["arguments"]))] if call else []
    return Turn(calls=calls, answer=turn.get("answer"), gave_up=bool(turn.get("gave_up")))


@transaction.atomic
def _said_or_waiting(actor: Actor, episode_id: str, attempt: int, number: int) -> dict[str, Any] | None:
    """Return a turn, or record that the episode waits for it. The lock orders this and `say`. Raises `EpisodeEnded`
    also if another attempt has taken over: a wait without an end would hold its thread."""
    if not recording.locked(actor, episode_id, attempt).is_live:
        raise EpisodeEnded
    row = PersonTurn.objects.filter(episode=episode_id, number=number).first()
    if row is None:
        ask_steps.note_waiting(episode_id)
        return None
    return dict(row.said)


def _park_if_due(actor: Actor, episode_id: str, attempt: int, number: int, waited_s: float) -> bool:
    if not parking.is_due(waited_s):
        return False
    with transaction.atomic():
        recording.locked(actor, episode_id, attempt)
        if PersonTurn.objects.filter(episode=episode_id, number=number).exists():
            return False
        return recording.park(episode_id, attempt, "waits for its player")


def is_of_person(episode: Episode) -> bool:
    """Return whether a person acts in this episode."""
    return isinstance(episode.policy, dict) and episode.policy.get(OURS) == PERSON and episode.is_builtin


def to_play(actor: Actor, run_id: str = "") -> QuerySet[Episode]:
    """Return the episodes that wait for a person's turn and that no colleague has begun, those of this person first."""
    may_advise(actor)
    of_person = {"state__in": WAITS, "policy_kind": PERSON, "origin": Origin.BUILTIN}
    rows = scoped(Episode.objects.all(), actor.project).filter(**of_person)
    rows = rows.filter(run=run_id) if run_id else rows
    turns = PersonTurn.objects.filter(episode=OuterRef("pk"))
    rows = rows.exclude(Exists(turns.exclude(author_key=actor.key))).exclude(asks__status="open")
    return rows.order_by(Exists(turns.filter(author_key=actor.key)).desc(), "created_at", "pk")


def player_of(episode: Episode) -> PersonTurn | None:
    """Return the first turn of an episode, whose author acts in it; None before that."""
    return PersonTurn.objects.filter(episode=episode).order_by("number").first()


def turns_of(episode: Episode) -> int:
    return PersonTurn.objects.filter(episode=episode).count()


def is_asking(episode: Episode) -> bool:
    """Return whether the episode waits for an expert, not for its player."""
    return episode.asks.filter(status="open").exists()


def waits_for_turn(episode: Episode) -> bool:
    return episode.state in WAITS and not is_asking(episode)


@transaction.atomic
def say(actor: Actor, episode_id: str, number: int, said: Mapping[str, Any]) -> None:
    """Send a turn: a call, an answer, or that the person gives up. The same turn again changes nothing.

    Raises `WrongState` if the episode does not wait for this turn, another one was sent from a second page, or a
    colleague acts in it.
    """
    may_advise(actor)
    visible_or_404(Episode.objects.all(), actor, episode_id)
    episode = Episode.objects.select_for_update().get(pk=episode_id)
    if not is_of_person(episode):
        raise WrongState("No person acts in this episode.")
    first = player_of(episode)
    if first is not None and not actor.owns(first.author_key):
        raise WrongState(f"{first.author} acts in this episode.")
    sent = PersonTurn.objects.filter(episode=episode, number=number).first()
    if sent is not None:
        if sent.said != _checked(episode, said):
            raise WrongState(f"Turn {number} was sent from another page, and this one was not sent.")
        return
    if number != turns_of(episode) + 1 or not waits_for_turn(episode):
        raise WrongState("This episode does not wait for this turn. Load the page again.")
    _store(actor, episode, number, _checked(episode, said))


def _checked(episode: Episode, turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn as it is stored. Raises `Invalid` for a tool that the episode does not have, or no words."""
    if turn.get("gave_up"):
        return {"gave_up": True, "answer": None}
    if "answer" in turn:
        answer = str(turn["answer"]).strip()
        if not 1 <= len(answer) <= TEXT_MAX:
            raise Invalid(f"answer: 1 to {TEXT_MAX:,} characters.")
        return {"answer": answer}
    call = turn["call"]
    if call["name"] not in {one["name"] for one in tools_of(episode)}:
        raise Invalid("tool: this episode has no such tool.")
    return {"call": {"name": call["name"], "arguments": dict(call["arguments"])}}


def tools_of(episode: Episode) -> list[dict[str, Any]]:
    """Return the tools that the player can call, as an agent has them."""
    asks = [ASK_SPEC.model_dump()] if episode.expert != ExpertMode.OFF else []
    return [one for one in episode.tools or [] if one.get("name") != ASK_TOOL] + asks


def _store(actor: Actor, episode: Episode, number: int, turn: dict[str, Any]) -> None:
    PersonTurn.objects.create(episode=episode, number=number, said=turn, author=actor.name, author_key=actor.key)
    ask_steps.go_on(episode, "its player sent a turn")
    # the wait was the person's: the loop gets its whole silence time from here
    episode.heartbeat_at = timezone.now()
    episode.save(update_fields=["state", "heartbeat_at"])
    recording.announce(episode)


def give_up_forgotten(now: datetime | None = None) -> int:
    """End episodes whose player sent no turn for a long time: everything ends. Called by the periodic sweep."""
    before = (now or timezone.now()) - FORGOTTEN
    parked = Episode.objects.filter(state=EpisodeState.PARKED, policy_kind=PERSON, parked_at__lt=before)
    return sum(_give_up(pk) for pk in parked.values_list("pk", flat=True)[:100])


@transaction.atomic
def _give_up(episode_id: str) -> bool:
    episode = Episode.objects.select_for_update().select_related("project").get(pk=episode_id)
    if episode.state != EpisodeState.PARKED or not waits_for_turn(episode):
        return False
    _store(system(episode.project), episode, turns_of(episode) + 1, {"gave_up": True, "answer": None})
    return True
