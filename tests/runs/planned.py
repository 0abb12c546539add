"""Planned runs for tests, and the end of their episodes without a worker: outcomes are stored as rows."""

from __future__ import annotations

from django.utils import timezone

from awmclient.schema import EpisodeStart, Finish, Outcome, RunStart
from episodes.models import Episode, EpisodeState, VerifierOutcome
from episodes.record import ending, noting, queueing, recording
from people.access import system
from runs.launch import feeding, planning
from runs.models import Arm, Plan, PlannedTry, PlanState
from runs.plan.plans import plan_of

ARMS = [{"name": "baseline"}, {"name": "expert", "expert": "plain"}]


def document(**said):
    return plan_of({"name": "trial", "tasks": {"limit": 6}, "arms": ARMS, "policy": "script:oracle", **said})


def launched(actor, **said):
    return planning.launch(actor, document(**said))[0]


def end(episode_id, complete=True):
    """Play a queued episode to its outcome, as the worker would."""
    episode = Episode.objects.select_related("project").get(pk=episode_id)
    actor = system(episode.project)
    assert recording.begin(episode.pk, "w")
    ending.finish(actor, episode.pk, Finish(stop_reason="done"))
    outcome = Outcome(reward_type="complete" if complete else "others", reward=float(complete))
    ending.record_outcome(actor, episode.pk, outcome)
    feeding.verified(episode)


def end_unverified(episode_id):
    """Finish an episode at work, whose task has no verifier."""
    episode = Episode.objects.select_related("project").get(pk=episode_id)
    ending.finish(system(episode.project), episode.pk, Finish(stop_reason="done"))
    noting.note_unverified(system(episode.project), episode.pk, "The task has no verifier.")
    feeding.verified(episode)


def rows_of_run(actor, tasks, scenarios=10, seeds=1, arms=ARMS):
    """A running run of tasks that no pack has, written as rows, so that a test can decide how each episode ends.

    Task names stand in the planned order already: whoever draws outcomes by name has shuffled them.
    """
    names = [(f"planted_{place % scenarios}", place) for place in range(tasks)]
    said = plan_of({"name": "planted", "tasks": [f"{name}/{idx}" for name, idx in names], "arms": arms, "seeds": seeds})
    plan = Plan.objects.create(
        run=recording.start_run(actor, RunStart(name=said.name, expert="plain"))[0],
        document=said.model_dump(),
        digest=said.digest,
        control=said.control,
        seeds=seeds,
        parallel=said.parallel,
        state=PlanState.RUNNING,
        started_at=timezone.now(),
    )
    rows = [
        Arm(plan=plan, name=arm.name, place=place, expert=arm.expert, policy=said.policy)
        for place, arm in enumerate(said.arms)
    ]
    Arm.objects.bulk_create(rows)
    cells = [(arm, *task, seed) for task in names for seed in range(seeds) for arm in rows]
    starts = [
        EpisodeStart(
            key=f"{plan.pk}/{arm.place}/{idx}/{seed}",
            task=f"Task {idx}",
            scenario=name,
            task_idx=idx,
            arm=arm.name,
            seed=seed,
            expert=arm.expert,
        )
        for arm, name, idx, seed in cells
    ]
    episodes = queueing.queue_many(actor, plan.run, starts, said.max_steps)
    PlannedTry.objects.bulk_create(
        (
            PlannedTry(plan=plan, arm=arm, scenario=name, task_idx=idx, seed=seed, position=idx, episode=episode)
            for (arm, name, idx, seed), episode in zip(cells, episodes, strict=True)
        ),
        batch_size=queueing.BATCH,
    )
    return plan


def ended_rows(outcomes):
    """End episodes in two statements; `outcomes` says by id which are complete."""
    now = timezone.now()
    Episode.objects.filter(pk__in=list(outcomes)).update(state=EpisodeState.FINISHED, stop_reason="done", ended_at=now)
    VerifierOutcome.objects.bulk_create(
        VerifierOutcome(
            episode_id=pk,
            source="verifier",
            reward_type="complete" if complete else "others",
            reward=float(complete),
        )
        for pk, complete in outcomes.items()
    )
