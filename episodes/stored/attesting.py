"""Reads: whether a signed statement of the environment server proves an episode's outcome.

Owns the comparison with the record: task, verifier, final answer, calls and results. A constraint of `VerifierOutcome`
ensures that a session counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from awmclient.schema import Outcome
from awmenv.attesting import NotAttested, Trail, is_loops_own, opened, sha256_of
from awmenv.errors import PackError
from episodes.models import Episode, Step
from episodes.stored import outcomes
from episodes.stored.entries import read
from episodes.stored.packs import find_version

BATCH = 20
"""Steps that are in memory together."""


def attested(episode: Episode, final_answer: str | None, attestation: Mapping[str, Any]) -> tuple[Outcome, str]:
    """Return the outcome that a statement proves, and its session. Raises `NotAttested`, which names the difference."""
    statement = opened(settings.ATTEST_KEY, attestation)
    if (statement["scenario"], statement["task_idx"]) != (episode.scenario, episode.task_idx):
        raise NotAttested("the statement is about another task")
    if statement["task_sha256"] != _task(episode):
        raise NotAttested("the task is not the one of this dashboard's pack")
    if statement["verifier_sha256"] != _verifier(episode, str(statement.get("mode", "code"))):
        raise NotAttested("the verifier is not the one of this dashboard's pack")
    if statement.get("final_answer_sha256") != sha256_of(final_answer):
        raise NotAttested("the final answer is not the one that was verified")
    # two possible trails, see `_trails`
    if statement["trail_sha256"] not in _trails(episode):
        raise NotAttested("the recorded calls and results are not those of the session")
    if outcomes.has_session(statement["session"]):
        raise NotAttested("the session was used for another episode")
    names = ("mode", "calls", "verifier_sha256", "database_sha256", "trail_sha256", "session")
    details = {"attested": {name: statement.get(name) for name in names}}
    reward, reward_type = statement.get("reward"), str(statement["reward_type"])
    return Outcome(reward_type=reward_type, reward=reward, details=details, source="attested"), statement["session"]


def _task(episode: Episode) -> str | None:
    """Return the digest of the task's text in a loaded pack; None if no pack holds it."""
    pack = find_version(episode.scenario, episode.scenario_digest) if episode.scenario else None
    if pack is None or episode.task_idx is None:
        return None
    tasks = pack.tasks(episode.scenario)
    return sha256_of(tasks[episode.task_idx]) if 0 <= episode.task_idx < len(tasks) else None


def _verifier(episode: Episode, mode: str) -> str | None:
    """Return the digest of the task's verifier in a loaded pack; None if no pack holds one."""
    pack = find_version(episode.scenario, episode.scenario_digest) if episode.scenario else None
    if pack is None or episode.task_idx is None or mode not in ("code", "sql"):
        return None
    try:
        verifier = pack.verifier(episode.scenario, episode.task_idx, "code" if mode == "code" else "sql")
    except PackError:
        return None
    return sha256_of(verifier.code) if verifier is not None else None


def _trails(episode: Episode) -> set[str]:
    """Return the hashes over the recorded calls that a server may have made: two, because loops differ in one point.

    Our loops answer a call like `" Verify "` themselves, other loops pass it on. A server counts each call that it
    gets, so neither hash hides a call from it. Steps are read in batches: an episode can have hundreds of megabytes.
    """
    passed_on, answered = Trail(), Trail()
    bodies = Step.objects.filter(episode=episode, kind="tool_call").order_by("seq").values_list("body", flat=True)
    for body in bodies.iterator(chunk_size=BATCH):
        step = read(body)
        call = str(step.get("name", "")), step.get("arguments") or {}, step.get("result"), step.get("error")
        passed_on.add(*call)
        if not is_loops_own(call[0], call[3]):
            answered.add(*call)
    return {passed_on.sha256(), answered.sha256()}
