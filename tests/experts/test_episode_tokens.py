"""Tokens for one episode alone: who gets one, what it opens, and when it ends."""

from __future__ import annotations

import pytest
from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish
from episodes.errors import EpisodeEnded
from episodes.models import Episode
from episodes.record import ending, recording
from experts.find import episode_tokens
from experts.mcp import sessions, tasks
from people.errors import Forbidden, Invalid, NotFound, Unauthenticated, WrongScope
from people.models import ApiToken
from tests.people_by_name import token

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "probe", "version": "1"}}


@pytest.fixture
def agent(project):
    return token(project, "agent")[0]


def started(agent, key="one"):
    return recording.start_episode(agent, EpisodeStart(key=key, task="Fix it", expert="plain"))[0]


@pytest.fixture
def episode(agent):
    return started(agent)


@pytest.fixture
def asker(agent, episode):
    return episode_tokens.asker(episode_tokens.issue(agent, episode.pk))


def ask(asker, episode, number=1, question="Which one?"):
    key = sessions.PendingCall.of({"id": number, "params": {"arguments": {"question": question}}}).key
    return sessions.open_ask(asker, sessions.enter(asker, episode.pk), key, {"question": question})


def test_every_session_is_the_episode(asker, episode):
    assert [sessions.begin(asker, HELLO, ""), sessions.begin(asker, HELLO, "token=x")] == [episode.pk, episode.pk]
    assert ask(asker, episode).episode_id == episode.pk and Episode.objects.count() == 1


def test_address_with_another_parameter_is_refused(asker):
    with pytest.raises(Invalid, match="the address may say token, and says task"):
        sessions.begin(asker, HELLO, "task=Another&token=x")


def test_other_episodes_of_the_same_token_are_not_found(agent, asker):
    other = started(agent, "other")
    with pytest.raises(NotFound):
        sessions.enter(asker, other.pk)
    of_mcp = sessions.begin(agent, HELLO, "")
    with pytest.raises(NotFound):
        sessions.enter(asker, of_mcp)


def test_tasks_of_other_episodes_are_not_found(agent, asker, episode):
    theirs = tasks.begin(agent, sessions.begin(agent, HELLO, ""), "mcp:1:1", {"question": "Who?"}, "ask_expert")
    mine = tasks.begin(asker, episode.pk, "mcp:2:2", {"question": "Which?"}, "ask_expert")
    assert [one.first.pk for one in tasks.listed(asker, None)[0]] == [mine.first.pk]
    with pytest.raises(NotFound):
        tasks.look(asker, theirs.first.pk)


def test_a_token_is_for_who_started_the_episode(project, episode, ada, elsewhere):
    with pytest.raises(NotFound):
        episode_tokens.issue(token(project, "agent")[0], episode.pk)
    with pytest.raises(NotFound):
        episode_tokens.issue(token(elsewhere, "agent")[0], episode.pk)
    with pytest.raises(WrongScope):
        episode_tokens.issue(token(project, "expert")[0], episode.pk)
    with pytest.raises((WrongScope, Forbidden)):
        episode_tokens.issue(ada, episode.pk)


def test_it_ends_with_the_episode(agent, asker, episode):
    ending.finish(agent, episode.pk, Finish(stop_reason="done"))
    with pytest.raises(NotFound, match="has ended"):
        sessions.begin(asker, HELLO, "")
    with pytest.raises(EpisodeEnded):
        episode_tokens.issue(agent, episode.pk)


def test_it_ends_with_the_token_that_started_the_episode(agent, episode):
    secret = episode_tokens.issue(agent, episode.pk)
    ApiToken.objects.filter(pk=agent.token.pk).update(revoked_at=timezone.now())
    with pytest.raises(Unauthenticated):
        episode_tokens.asker(secret)


def test_token_of_another_episode_cannot_be_made_from_one(agent, episode):
    secret, other = episode_tokens.issue(agent, episode.pk), started(agent, "other")
    with pytest.raises(Unauthenticated):
        episode_tokens.asker(secret.replace(episode.pk, other.pk))


def test_twice_is_the_same_token(agent, episode):
    assert episode_tokens.issue(agent, episode.pk) == episode_tokens.issue(agent, episode.pk)
