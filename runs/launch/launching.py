"""Writes: a run = tasks x arms -> queued episodes, through `recording`, and the call that wakes a rollouts worker.

Owns the contents of a built-in run, including the demo. Leaves running it to `playing.py` in the worker. The database
is the record: `wake_forgotten` calls again for episodes whose wake-up was lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.text import slugify

from awmclient.schema import EpisodeStart, ExpertMode, RunStart
from awmenv.errors import PackError
from awmenv.packs import Pack, load_pack
from episodes.models import Episode, EpisodeState, Origin, Run
from episodes.record import recording
from episodes.stored.packs import VERSION_LENGTH, find_pack, loaded_folder, packs, scenario_digest, version_folder
from people.access import Actor, may_launch, scoped, visible_or_404
from people.models import long_ago
from people.record import jobs
from people.record.audit import record
from people.text.in_words import count
from runs.errors import (
    BadPack,
    DatabasesUnchecked,
    LoadedAlready,
    NoEndpoint,
    NotBroken,
    NoWorker,
    OtherVersion,
    UnknownPolicy,
    UnknownTask,
)
from runs.models import PlanState
from runs.plan import teachers
from runs.plan.limits import FIRST
from runs.plan.plans import PERSON
from runs.taskset import checking

OURS = "awmweb"
OF_TEACHER = ("script", "digest", "function", "pace_s")
OF_POLICY = (OURS, *OF_TEACHER, "model", "endpoint", "reasoning", "reasoning_field", "options")
"""The fields of a policy that its name decides; the others are limits of its episode."""
DEMO_RUN = "demo"
DEMO_PACE_S = 3.0
DEMO_ASKING_PACE_S = 1.8  # the stuck episode reaches its ask while a new user still looks around
DEMO_DEADLINE_S = 600
DEMO_STAGGER_S = 6
DEMO_EACH = 3  # tasks per scenario: the demo shows every business, and all of it starts within a minute
MAX_STEPS = 30
PLAN = {
    *("task", "scenario", "task_idx", "scenario_digest", "environment", "arm", "seed", "split", "policy"),
    *("training_step", "checkpoint", "group_key", "expert"),
}
"""The fields of a stored episode that are its plan, beside its run."""
WAKE_AFTER = timedelta(minutes=3)
AGAIN_S = 5
"""The delay before an episode is retried when an environment server did not answer."""


@dataclass(frozen=True)
class LaunchRequest:
    """One episode to run: a task, a policy, and the help that is offered."""

    scenario: str
    task_idx: int
    task: str
    policy: dict[str, Any]
    expert: ExpertMode = "off"
    arm: str = ""
    delay_s: int = 0
    max_steps: int = MAX_STEPS
    extra: dict[str, Any] = field(default_factory=dict)


def take_in(
    folder: Path,
    name: str,
    on_built: Callable[[int, int], object] = lambda done, total: None,
    *,
    replace: bool = False,
) -> Pack:
    """Load a folder of rows: build its databases in the sandbox, and copy its row files to the packs, completely or not
    at all. With `replace`, the new version takes the place of the loaded one in one step.

    `on_built` gets the number of built databases and the total. Raises `LoadedAlready` if the pack is loaded in this
    version, and `BadPack` if nothing can run, if the name is loaded and `replace` is not given, or if a scenario is of
    another pack.

    """
    try:
        pack = load_pack(folder)
    except PackError as error:
        raise BadPack(str(error)) from error
    # once before the databases are built, and again under the lock
    _refuse_second_version(pack, slugify(name), replace=replace)
    try:
        for done, total in checking.databases([pack]):
            on_built(done, total)
    except DatabasesUnchecked as error:
        pack.report.remark("warning", "sql_unchecked", f"The SQL was not checked. {error.message}")
    if not pack.scenarios:
        reasons = "; ".join(finding.message for finding in pack.report.errors[:3])
        raise BadPack(f"No scenario in {folder} can run. {reasons}".strip())
    loaded_folder().mkdir(mode=0o755, parents=True, exist_ok=True)
    with _one_change_at_a_time():
        # another command can have taken the name while this one was building
        _refuse_second_version(pack, slugify(name), replace=replace)
        target = _keep_version(folder, slugify(name), pack.digest)
        _point(slugify(name), target)
    taken = load_pack(loaded_folder() / slugify(name), cache=settings.VAR / "cache")
    taken.report, taken.known, taken.builds = pack.report, pack.known, pack.builds
    taken.keep_builds(settings.VAR / "cache")
    return taken


def _refuse_second_version(intake: Pack, name: str, *, replace: bool) -> None:
    """Raise `BadPack` if the loaded packs have this name or one of these scenarios already."""
    new = intake.digest[:VERSION_LENGTH]
    if (settings.PACKS_DIR / name).exists():
        raise BadPack(f"The pack {name!r} exists: it comes with awmweb and cannot be replaced. Pass another --name.")
    loaded = {pack.name: pack for pack in packs()}
    here = loaded.pop(name, None)
    if here is not None and here.digest == intake.digest:
        raise LoadedAlready(f"A pack named {name!r} exists in this version, {new}.")
    if here is not None and not replace:
        raise BadPack(
            f"A pack named {name!r} exists in version {here.digest[:VERSION_LENGTH]}; this folder is version {new}. "
            "Pass --replace to replace it."
        )
    if here is None and replace:
        raise BadPack(f"No pack named {name!r} is loaded. Leave out --replace.")
    for pack in loaded.values():
        if shared := sorted(intake.known.keys() & pack.known.keys()):
            key = shared[0]
            raise BadPack(
                f"{count(len(shared), 'scenario')} of this folder, such as {key}, belong to the pack {pack.name!r}: it "
                f"has {key} in version {pack.digests[key][:VERSION_LENGTH]}, this folder has version "
                f"{intake.digests[key][:VERSION_LENGTH]}. Pass --name {pack.name} --replace, or unload that pack first."
            )


@contextlib.contextmanager
def _one_change_at_a_time() -> Iterator[None]:
    """Hold the lock of the loaded packs: two commands would otherwise both find a name free."""
    with (loaded_folder() / ".lock").open("w") as lock:
        # the system releases this lock with the file, also of a command that is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep_version(folder: Path, name: str, digest: str) -> Path:
    """Copy the rows to the folder of their version, which keeps them after a replacement."""
    target = version_folder(name, digest)
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not target.exists():
        # beside the target, so that the rename stays on one file system and is one step
        with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
            draft = Path(unfinished) / "pack"
            draft.mkdir(mode=0o755)
            for file in sorted(folder.glob("*.jsonl")):
                shutil.copy2(file, draft / file.name)
            draft.rename(target)
    return target


def _point(name: str, version: Path) -> None:
    """Let a pack's name mean a version, in one step."""
    link, fresh = loaded_folder() / name, loaded_folder() / f".{name}.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(version.relative_to(loaded_folder()))
    _make_version(link)
    # replaces the link in one step: a reader gets the old version or the new one, never none
    fresh.replace(link)


def _make_version(link: Path) -> Path:
    """Move a pack that an earlier awmweb loaded, a plain folder, to the folder of its version. Return that folder."""
    # a link is a version already
    if link.is_symlink():
        return link.resolve()
    if not link.exists():
        return link
    before = version_folder(link.name, load_pack(link).digest)
    before.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    return link.rename(before)


@dataclass(frozen=True)
class Unloaded:
    """A pack that was taken out, and where its rows stay."""

    name: str
    scenarios: int
    version: str
    folder: Path


def take_out(name: str) -> Unloaded:
    """Unload a pack. Raises `BadPack` for one that is not loaded, or that comes with awmweb."""
    link = loaded_folder() / name
    by_name = {pack.name: pack for pack in packs()}
    if (settings.PACKS_DIR / name).exists():
        raise BadPack(f"The pack {name!r} comes with awmweb and cannot be unloaded.")
    # a name with a slash would point outside of the folder
    if name not in by_name or link.parent != loaded_folder():
        raise BadPack(f"No pack named {name!r} is loaded; loaded packs: {', '.join(sorted(by_name)) or 'none'}.")
    with _one_change_at_a_time():
        version = _make_version(link)
        link.unlink(missing_ok=True)
    return Unloaded(name, len(by_name[name].scenarios), by_name[name].digest[:VERSION_LENGTH], version)


def pack_with(scenario: str) -> Pack:
    pack = find_pack(scenario)
    if pack is None:
        raise UnknownTask(f"No loaded pack contains the scenario {scenario!r}.")
    return pack


def refuse_other_version(episode: Episode) -> None:
    """Raise `OtherVersion` if the pack of an episode's scenario was replaced since it was planned."""
    if problem := other_version(episode, scenario_digest(episode.scenario)):
        raise OtherVersion(problem)


def other_version(episode: Episode, now: str) -> str:
    """Return what differs between the version of a scenario and the one of an episode; "" for equal or unknown ones."""
    planned = episode.scenario_digest
    if not planned or not now or planned == now:
        return ""
    return (
        f"The pack of {episode.scenario} was replaced: the episode was planned with version "
        f"{planned[:VERSION_LENGTH]}, and {now[:VERSION_LENGTH]} is loaded."
    )


def task_text(scenario: str, task_idx: int) -> str:
    try:
        tasks = pack_with(scenario).tasks(scenario)
    except PackError as error:
        raise UnknownTask(str(error)) from error
    if not 0 <= task_idx < len(tasks):
        raise UnknownTask(f"{scenario} has tasks 0 to {len(tasks) - 1}.")
    return tasks[task_idx]


def policy_named(name: str, pace_s: float = 0.0, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the policy of a name: `script:NAME` runs a script of the pack, `model` the agent endpoint, `model:NAME`
    another endpoint, `file:NAME` and `python:NAME` an operator's, and `person` waits for a person's turns. `options`
    of a model replace those of its endpoint.

    Raises `UnknownPolicy` or `NoEndpoint`.

    """
    kind, _, which = name.partition(":")
    if name == PERSON:
        return {OURS: PERSON}
    if kind == "script" and which:
        return {OURS: "script", "script": which, "pace_s": pace_s}
    if kind in (teachers.FILE, teachers.PYTHON) and which:
        return {OURS: kind, **teachers.described(kind, which)}
    if kind == "model":
        endpoint = settings.AGENT_ENDPOINTS.get(which or FIRST)
        if endpoint is None:
            raise NoEndpoint(f"AWMWEB_AGENTS names no agent model {which!r}." if which else "")
        sent = {"reasoning": endpoint.reasoning, "reasoning_field": endpoint.reasoning_field}
        kept: dict[str, Any] = {name: value for name, value in sent.items() if value not in ("", "none")}
        drawn = {**endpoint.options, **(options or {})}
        kept |= {"options": drawn} if drawn else {}
        return {OURS: "model", "model": endpoint.model, **({"endpoint": which} if which else {}), **kept}
    raise UnknownPolicy(
        "A policy is `model`, `model:NAME`, `script:NAME`, such as `script:oracle`, `file:NAME` or `python:NAME`."
    )


def model_names() -> list[str]:
    """Return the names of policies that are models."""
    return ["model" if name == FIRST else f"model:{name}" for name in settings.AGENT_ENDPOINTS]


def playable(scenario: str, task_idx: int, policy: dict[str, Any]) -> dict[str, Any]:
    """Return the policy if it can run this task: a script must be one of the task's own."""
    if policy[OURS] == teachers.FILE:
        teachers.turns_for(policy, scenario, task_idx)
    if policy[OURS] in (teachers.FILE, teachers.PYTHON):
        return policy
    scripts = pack_with(scenario).scripts(scenario, task_idx) if policy[OURS] == "script" else {}
    if policy[OURS] == "script" and policy["script"] not in scripts:
        names = ", ".join(sorted(scripts)) or "none"
        raise UnknownPolicy(f"{scenario}/{task_idx} has no script {policy['script']!r}; it has: {names}.")
    return policy


@transaction.atomic
def launch(actor: Actor, name: str, starts: Sequence[LaunchRequest], arm: str = "") -> Run:
    """Launch a run: 1. check the right, 2. the run, 3. a queued episode for each start, 4. wake a worker after the
    commit."""
    may_launch(actor)
    run = recording.start_run(actor, RunStart(name=name, arm=arm or None))[0]
    for number, start in enumerate(starts):
        episode, _ = recording.start_episode(
            actor,
            _plan(run, number, start),
            state=EpisodeState.QUEUED,
            max_steps=start.max_steps,
            origin=Origin.BUILTIN,
        )
        _wake_later(episode.pk, start.delay_s)
    record(actor, "run.launched", run.pk, name)
    return run


@transaction.atomic
def rerun(actor: Actor, episode_id: str) -> Episode:
    """Queue a rerun of a failed built-in episode, with the same plan and run. Idempotent: a second call returns the
    same episode."""
    may_launch(actor)
    broken = visible_or_404(Episode.every.all(), actor, episode_id)
    # from its start it would be no branch
    if not broken.is_builtin or broken.is_branch or broken.state != EpisodeState.FAILED:
        raise NotBroken
    refuse_other_version(broken)
    policy = playable(broken.scenario, broken.task_idx or 0, broken.policy)
    if policy[OURS] == "model":
        policy_named(f"model:{policy.get('endpoint', '')}")
    # an empty column is a field that was left out
    fields = {name: value for name in PLAN if (value := getattr(broken, name)) not in (None, "")}
    plan = EpisodeStart(key=broken.again_key, run=broken.run_id, **fields)
    again, is_new = recording.start_episode(
        actor, plan, state=EpisodeState.QUEUED, max_steps=broken.max_steps, origin=Origin.BUILTIN
    )
    if is_new:
        record(actor, "episode.rerun", again.pk, f"after {broken.pk}")
        _wake_later(again.pk, 0)
    return again


def _plan(run: Run, number: int, start: LaunchRequest) -> EpisodeStart:
    return EpisodeStart(
        key=f"{run.pk}/{number}",
        task=start.task,
        scenario=start.scenario,
        task_idx=start.task_idx,
        scenario_digest=scenario_digest(start.scenario) or None,
        run=run.pk,
        arm=start.arm or None,
        policy=start.policy,
        expert=start.expert,
        **start.extra,
    )


def _wake_later(episode_id: str, delay_s: int) -> None:
    transaction.on_commit(functools.partial(wake_worker, episode_id, delay_s))


def wake_worker(episode_id: str, delay_s: int = 0) -> None:
    """Notify a worker. A lost call costs a delay: the episode is in the database, and `wake_forgotten` calls again."""
    jobs.call_worker("runs.tasks.play", episode_id, queue="rollouts", delay_s=delay_s)


def judge_later(episode_id: str, delay_s: int = 0) -> None:
    """Call a worker for a verdict that was lost."""
    jobs.call_worker("runs.tasks.judge", episode_id, queue="rollouts", delay_s=delay_s)


def certify_later(episode_id: str) -> None:
    """Call a worker to replay an episode. Raises `NoWorker` if none can be called."""
    if not jobs.call_worker("runs.tasks.certify", episode_id, queue="rollouts"):
        raise NoWorker


def reverify_later(rejudging_id: str) -> None:
    """Call a worker to judge stored episodes again. Raises `NoWorker` if none can be called."""
    if not jobs.call_worker("runs.tasks.reverify", rejudging_id, queue="rollouts"):
        raise NoWorker


def campaign_later(campaign_id: str, delay_s: int = 0) -> None:
    """Call a worker for the next forks of a campaign. A lost call costs a delay: `campaigning.wake_forgotten` repeats
    it."""
    jobs.call_worker("runs.tasks.campaign", campaign_id, queue="rollouts", delay_s=delay_s)


def wake_again(episode: Episode) -> None:
    """Call for an episode that could not begin, unless it is old: `wake_forgotten` calls for those."""
    if episode.created_at > timezone.now() - WAKE_AFTER:
        wake_worker(episode.pk, AGAIN_S)


def wake_forgotten(after: timedelta = WAKE_AFTER) -> int:
    """Call again for episodes that have been queued for this long, because a lost message must cost only a delay. A
    parked episode is queued since its ask was closed, however old it is."""
    moment = timezone.now() - after
    queued = Episode.every.filter(state=EpisodeState.QUEUED).exclude(origin=Origin.EXTERNAL)
    old = queued.filter(long_ago("created_at", moment)).exclude(parked_at__isnull=False, heartbeat_at__gte=moment)
    # a planned try without a call waits for `feed`, not for a worker
    old = old.filter(Q(planned=None) | Q(planned__called_at__isnull=False, planned__plan__state=PlanState.RUNNING))
    # the next sweep takes the rest
    forgotten = list(old.order_by("created_at").values_list("pk", flat=True)[:100])
    for episode_id in forgotten:
        wake_worker(episode_id)
    return len(forgotten)


def demo_starts() -> list[LaunchRequest]:
    """Return the starts of the demo: the first tasks with a demo script of each complete scenario, without an expert.

    In addition the first one that asks, with people as experts, and again with a model if one is configured.

    """
    helped: list[LaunchRequest] = []
    alone: list[LaunchRequest] = []
    for pack in packs():
        for scenario in (name for name, known in pack.scenarios.items() if not known.partial):
            for task_idx, turns in _demos(pack, scenario)[:DEMO_EACH]:
                task = (scenario, task_idx, pack.tasks(scenario)[task_idx])
                _add_demo(helped, alone, task, turns, pack.about(scenario, task_idx).get("expert_note", ""))
    return [*helped, *(_delayed(start, place) for place, start in enumerate(alone, 1))]


def _demos(pack: Pack, scenario: str) -> list[tuple[int, list[dict[str, Any]]]]:
    scripts = [pack.scripts(scenario, task_idx) for task_idx in range(pack.scenario(scenario).task_count)]
    return [(task_idx, script["demo"]) for task_idx, script in enumerate(scripts) if script.get("demo")]


def _add_demo(
    helped: list[LaunchRequest],
    alone: list[LaunchRequest],
    task: tuple[str, int, str],
    turns: list[dict[str, Any]],
    note: str,
) -> None:
    asks = any("ask" in turn for turn in turns)
    policy = policy_named("script:demo", DEMO_PACE_S) | {"ask_deadline_s": DEMO_DEADLINE_S}
    if asks and not helped:
        asking = policy | {"pace_s": DEMO_ASKING_PACE_S, "house_note": note}
        helped.append(LaunchRequest(*task, policy=asking, expert="plain", arm="expert"))
        if settings.EXPERT_ENDPOINTS:
            helped.append(
                LaunchRequest(*task, policy=policy | {"experts": "models"}, expert="plain", arm="model expert")
            )
    alone.append(LaunchRequest(*task, policy=policy, arm="baseline"))


def _delayed(start: LaunchRequest, place: int) -> LaunchRequest:
    """Delay all but the first three, one after another, so that some are always running while a user watches."""
    return LaunchRequest(**{**vars(start), "delay_s": max(0, place - 3) * DEMO_STAGGER_S})


def start_demo(actor: Actor) -> Run:
    """Run the demo, again if it ran before."""
    number = scoped(Run.objects.filter(name__startswith=DEMO_RUN), actor.project).count()
    return launch(actor, f"{DEMO_RUN} {number + 1}" if number else DEMO_RUN, demo_starts())
