"""Record the demo that a new project shows: `python -m tools.record_demo` writes `awmweb/demo/recorded.jsonl.xz`.

Starts a product of its own and uses it as a team would: a run with and without an expert, a training run, a review
queue. The agents are scripts of the starter pack, and the two people are scripted, too: they take seconds to answer
from the pack's notes. The losses are made up; everything else is what the product recorded.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.running import ROOT, product

if TYPE_CHECKING:
    from episodes.models import Run
    from people.access import Actor

SEED = 7
STEPS, ROLLOUTS, HELPED = 12, 6, 2
ANSWER_S = (6.0, 28.0)
JUDGED, IN_QUEUE = 2, 8


def record() -> None:
    """Use the running product whose settings this process has, and write the file."""
    import django

    django.setup()
    from django.utils import timezone

    from awmweb.demo import rows
    from people import access
    from people.models import Role
    from people.record import members

    since = timezone.now()
    project = access.project_named("demo")
    owner = access.system(project)
    names = {"Mina (demo)": "demo:Mina", "Tomas (demo)": "demo:Tomas"}
    experts = [access.person(members.invite(owner, name, Role.EXPERT)[0]) for name in names]
    lots = random.Random(SEED)
    _compare(owner, experts, lots)
    run = _train(owner, experts, lots)
    _review(owner, experts, run)
    people = {one.key: key for one, key in zip(experts, names.values(), strict=True)}
    count = rows.write(project, rows.FILE, since, people)
    print(f"{rows.FILE}: {count} rows, {rows.FILE.stat().st_size // 1000} kB")


def _compare(owner: Actor, experts: list[Actor], lots: random.Random) -> None:
    from awmweb.demo import rows
    from runs.launch import benchmarking, planning
    from runs.models import Plan
    from runs.show.comparison import is_settled

    document = benchmarking.plan_for().model_copy(update={"name": "demo: does an expert help?"})
    plan, _ = planning.launch(owner, document, rows.ARMS)
    _answer_until(experts, plan.run, lots, lambda: is_settled(Plan.objects.get(pk=plan.pk)))


def _train(owner: Actor, experts: list[Actor], lots: random.Random) -> Run:
    """Train: each step runs scripts that complete a task or fail it, more and more that complete it."""
    from awmclient.schema import EpisodeStart, RunStart, TrainingStepReport
    from awmweb.demo import rows
    from curriculum.record import training
    from episodes.models import Episode, EpisodeState, Origin
    from episodes.record import recording
    from episodes.stored import settled
    from episodes.stored.packs import packs
    from runs.launch import launching

    metadata = {"curriculum": {"strategy": "adaptive", "group_size": ROLLOUTS}, "demo": "scripted"}
    run, _ = recording.start_run(owner, RunStart(name="demo: training", key=rows.TRAINING, metadata=metadata))
    [pack] = packs()
    tasks = [
        (scenario, idx, pack.tasks(scenario)[idx])
        for scenario in sorted(pack.scenarios)
        for idx in range(pack.scenario(scenario).task_count)
        if pack.about(scenario, idx).get("needs_expert") and "demo" in pack.scripts(scenario, idx)
    ]
    for step in range(1, STEPS + 1):
        scenario, idx, text = tasks[lots.randrange(len(tasks))]
        skill = 0.1 + 0.75 * step / STEPS
        for number in range(ROLLOUTS):
            is_helped = number < HELPED and step <= STEPS * 2 // 3
            script = "oracle" if not is_helped and lots.random() < skill else "demo"
            start = EpisodeStart(
                key=f"{run.pk}/{step}/{number}", run=run.pk, task=text, scenario=scenario, task_idx=idx,
                policy=launching.policy_named(f"script:{script}") | {"name": "demo-policy"},
                expert="plain" if is_helped else "off", training_step=step, group_key=f"{scenario}/{idx}",
                checkpoint=f"step-{step - 1}",
            )  # fmt: skip
            episode, _ = recording.start_episode(
                owner, start, state=EpisodeState.QUEUED, max_steps=launching.MAX_STEPS, origin=Origin.BUILTIN
            )
            launching.wake_worker(episode.pk)
        mine = Episode.objects.filter(run=run, training_step=step)
        _answer_until(
            experts, run, lots, lambda mine=mine: settled.settled().filter(pk__in=mine).count() == ROLLOUTS, hurry=4
        )
        solved = mine.filter(outcomes__reward_type="complete").count() / ROLLOUTS
        losses = {"policy": round(0.9 * 0.86**step + lots.uniform(0, 0.05), 4), "kl": round(0.004 * step, 4)}
        said = TrainingStepReport(
            training_step=step, losses=losses, components={"outcome": round(solved, 4)}, checkpoint=f"step-{step}"
        )
        training.report(owner, run.pk, said)
    return run


def _answer_until(
    experts: list[Actor], run: Run, lots: random.Random, is_done: Callable[[], bool], hurry: float = 1
) -> None:
    """Answer the asks of a run from the pack's notes, each some seconds after its claim."""
    from experts.models import Ask
    from experts.record import advising, queue
    from runs.launch.benchmarking import note_of

    at_work: dict[str, tuple[float, queue.AskClaim, Ask]] = {}
    while not is_done():
        for who in experts:
            known = at_work.get(who.key)
            if known is None:
                claimed = [ask.pk for _, _, ask in at_work.values()]
                waiting = Ask.objects.open().filter(episode__run=run).exclude(pk__in=claimed).select_related("episode")
                if (ask := waiting.order_by("deadline_at").first()) is not None:
                    until = time.monotonic() + lots.uniform(*ANSWER_S) / hurry
                    at_work[who.key] = (until, queue.claim(who, ask.pk), ask)
            elif known[0] <= time.monotonic():
                _, claim, ask = at_work.pop(who.key)
                note = note_of(ask.episode.scenario, ask.episode.task_idx)
                advising.answer(who, claim.assignment_id, claim.lease_token, note, f"note-{ask.pk}")
        time.sleep(0.2)


def _review(owner: Actor, experts: list[Actor], run: Run) -> None:
    """Fill a queue, and judge two of its episodes by both people. They differ about one."""
    from awmweb.demo import rows
    from episodes.models import Episode
    from reviews.record import assigning, deciding

    queue = assigning.create_queue(
        owner, rows.QUEUE, reviews_required=2, rubric=["Did what was asked", "Changed nothing else"]
    )
    assigning.fill(owner, queue.pk, Episode.objects.filter(run=run), sample=IN_QUEUE, seed=SEED)
    reviews = list(queue.reviews.order_by("pk").select_related("episode")[:JUDGED])
    for number, review in enumerate(reviews):
        for place, who in enumerate(experts):
            claim = assigning.claim(who, review.pk)
            accepts = review.episode.outcomes.filter(reward_type="complete").exists() or (number, place) == (1, 1)
            wanted = deciding.Wanted("accept" if accepts else "reject", "" if accepts else "missed_step")
            deciding.decide(who, review.pk, claim.lease_token, wanted)


def main() -> None:
    if "--inside" in sys.argv:
        record()
        return
    with product(AWMWEB_DEMO="0") as web:
        command = [sys.executable, "-m", "tools.record_demo", "--inside"]
        environment = {**web.environment, "DJANGO_SETTINGS_MODULE": "awmweb.settings"}
        subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True)


if __name__ == "__main__":
    main()
