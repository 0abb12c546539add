"""Tokens that ask for one episode alone, at `/mcp`: for an agent in a sandbox, which gets no token of the project.

No row has one. It names the token that started the episode and the episode, signed, so it ends with either of them.
Every other address refuses it as unknown. Called by the API, which issues it, and by `experts.mcp`.
"""

from __future__ import annotations

from dataclasses import replace

from django.core.signing import BadSignature, Signer
from django.utils import timezone

from episodes.errors import EpisodeEnded
from episodes.models import Episode
from people.access import Actor, bearer, may_record, visible_or_404
from people.errors import Unauthenticated, WrongScope
from people.models import ApiToken

PREFIX = "episode-"
_SIGNER = Signer(salt="experts.episode_tokens", sep=".")


def issue(actor: Actor, episode_id: str) -> str:
    """Return the token of a live episode, for the token that started it. Twice it is the same one."""
    may_record(actor)
    if actor.token is None:
        raise WrongScope("A token of an episode is made by the token that started it.")
    episode = visible_or_404(Episode.objects.filter(token=actor.token.pk), actor, episode_id)
    if not episode.is_live:
        raise EpisodeEnded
    return PREFIX + _SIGNER.sign(f"{actor.token.pk}-{episode.pk}")


def is_episode_token(secret: str) -> bool:
    return secret.startswith(PREFIX)


def asker(secret: str) -> Actor:
    """Return the actor of such a token: the token that started the episode, for this episode alone.

    Raises `Unauthenticated` if it was not issued here, or that token does not work anymore.
    """
    try:
        issuer, _, episode_id = _SIGNER.unsign(secret.removeprefix(PREFIX)).partition("-")
    except BadSignature:
        raise Unauthenticated from None
    token = ApiToken.objects.select_related("project", "issued_by").filter(pk=issuer).first()
    if token is None or not token.is_current(timezone.now()) or not token.has_owner():
        raise Unauthenticated
    return replace(bearer(token), episode=episode_id)
