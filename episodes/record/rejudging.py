"""Writes: repaired verifiers, passes of them over stored episodes, and the errata of what they change.

A repaired verifier is a new version, never over an earlier one. A pass stores what it finds beside the outcomes that
count; only its end changes any, all in one transaction. Upper apps register how the numbers of a run and the rows of an
export are read: those that read otherwise after the change get an erratum, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from psycopg.errors import SerializationFailure

from awmenv.attesting import sha256_of
from episodes.errors import AlreadyRejudging, BlindReview
from episodes.models import (
    Episode,
    Erratum,
    RejudgedEpisode,
    Rejudging,
    VerifierOutcome,
    VerifierVersion,
)
from episodes.stored import repairs
from episodes.stored.packs import scenario_digest
from episodes.visible import visibility
from people.access import Actor, may_repair
from people.errors import Invalid
from people.models import Project
from people.record.audit import record
from people.text.plain_text import storable

CODE_MAX, REASON_MAX = 64_000, 20_000
NAME = "verify_task_completion"
SNAPSHOT_TRIES = 5
"""Attempts to end a pass while others write the same rows."""
RUN, EXPORT, CAMPAIGN = "run", "export", "campaign"
Numbers = Mapping[str, Any]
Reading = Callable[[Project, Collection[str]], Mapping[str, Numbers]]
"""The numbers of each run, export or campaign that some of these episodes are in, by its ID, as they read now."""
_readings: dict[str, Reading] = {}
_on_change: list[Callable[[Collection[str]], None]] = []


def on_reading(kind: str, reading: Reading) -> None:
    """Register how the numbers of runs and campaigns, or the rows of exports, are read."""
    _readings[kind] = reading


def on_change(callback: Callable[[Collection[str]], None]) -> None:
    """Register what must happen in the transaction in which episodes get another outcome."""
    _on_change.append(callback)


def add_version(actor: Actor, scenario: str, task_idx: int, code: str, reason: str) -> VerifierVersion:
    """Store a repaired verifier as the next version of its task. The same code again returns the version it has."""
    may_repair(actor)
    text = code.replace("\r\n", "\n").strip("\n") + "\n"
    if not code.strip() or len(code) > CODE_MAX:
        raise Invalid(f"A verifier has from 1 to {CODE_MAX:,} characters.")
    if "\x00" in code or not _is_unicode(code):
        raise Invalid("The verifier has characters that no program holds.")
    if f"def {NAME}" not in code:
        raise Invalid(f"The verifier must define {NAME}(initial_db_path, final_db_path, final_answer=None).")
    if "\x00" in reason or not _is_unicode(reason):
        raise Invalid("The reason has characters that no text holds.")
    if not reason.strip() or len(reason) > REASON_MAX:
        raise Invalid(f"A repair needs a reason of at most {REASON_MAX:,} characters.")
    of_task = repairs.versions_of(actor.project, scenario, task_idx)
    with transaction.atomic():
        # one after another: the next number is that of the one who locked the project, and the same code sent twice at
        # the same time is one version
        Project.objects.select_for_update(no_key=True).get(pk=actor.project.pk)
        now = of_task.order_by("-number").first()
        if text.strip() == (now.code if now else repairs.code_of(None, scenario, task_idx)).strip():
            if now is None:
                raise Invalid("This is the verifier of the pack, unchanged.")
            return now
        version = VerifierVersion.objects.create(
            project=actor.project,
            scenario=scenario,
            task_idx=task_idx,
            number=(now.number if now else 1) + 1,
            code=text,
            sha256=sha256_of(text),
            scenario_digest=scenario_digest(scenario),
            reason=reason,
            created_by=actor.name,
        )
        record(actor, "verifier.repaired", f"{scenario}/{task_idx}", f"version {version.number}: {reason}"[:2000])
    return version


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def begin(actor: Actor, scenario: str, task_idx: int, version: VerifierVersion | None) -> Rejudging:
    """Begin a pass, or return the live one of this version. Raises `AlreadyRejudging` during one of another version."""
    may_repair(actor)
    if visibility.judges_blind(actor, scenario, task_idx):
        raise BlindReview
    place = {"project": actor.project, "scenario": scenario, "task_idx": task_idx}
    live = Rejudging.objects.filter(**place, ended_at__isnull=True).select_related("version").first()
    if live is None:
        try:
            with transaction.atomic():
                live = Rejudging.objects.create(**place, version=version, created_by=actor.name)
                record(actor, "verifier.reverified", f"{scenario}/{task_idx}", str(version or "the pack's"))
        except IntegrityError as raced:
            # another request began one at the same time
            live = Rejudging.objects.filter(**place, ended_at__isnull=True).select_related("version").first()
            if live is None:
                raise AlreadyRejudging from raced
    if live.version_id != (version.pk if version else None):
        raise AlreadyRejudging
    return live


def keep(rows: Iterable[RejudgedEpisode]) -> None:
    """Store what a pass found; an episode that it has judged already stays."""
    RejudgedEpisode.objects.bulk_create(rows, ignore_conflicts=True)


def end(rejudging_id: str) -> Rejudging:
    """End a pass, once. That of a repaired verifier takes effect here, unless it failed on an episode or judged none.

    The pack's own verifier changes nothing: one outcome per episode and version. Both readings for errata are of one
    snapshot, so that what others write meanwhile is in neither."""
    failed = 0
    while True:
        try:
            with transaction.atomic():
                _read_one_snapshot()
                return _end(rejudging_id)
        except OperationalError as error:
            failed += 1
            # another transaction wrote one of these rows after the snapshot
            if failed == SNAPSHOT_TRIES or not isinstance(error.__cause__, SerializationFailure):
                raise


def _read_one_snapshot() -> None:
    """Have all statements of this transaction read what was stored at its first one. Inside another transaction, which
    has read already, the level stays."""
    if not connection.savepoint_ids:
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _end(rejudging_id: str) -> Rejudging:
    rejudging = (
        Rejudging.objects.select_for_update(of=("self",)).select_related("project", "version").get(pk=rejudging_id)
    )
    if rejudging.ended_at is not None:
        return rejudging
    rejudging.ended_at = timezone.now()
    if rejudging.version is not None and not (problem := _problem(rejudging)):
        _take_effect(rejudging, rejudging.version)
    elif rejudging.version is not None:
        rejudging.problem = problem[:2000]
    rejudging.save(update_fields=["ended_at", "problem"])
    return rejudging


def give_up(rejudging_id: str, why: str) -> None:
    """End a pass that could not go on, without any effect."""
    Rejudging.objects.filter(pk=rejudging_id, ended_at__isnull=True).update(
        ended_at=timezone.now(), problem=storable(why)
    )


def _problem(rejudging: Rejudging) -> str:
    """Return why a repaired verifier has no effect; "" if it has."""
    result = RejudgedEpisode.Result
    failed = rejudging.episodes.filter(result=result.FAILED)
    if first := failed.order_by("pk").first():
        return f"The verifier failed on {failed.count():,} of the episodes. {first.why}"
    own = {
        "episode__outcomes__source": VerifierOutcome.Source.VERIFIER,
        "episode__outcomes__version": rejudging.version,
    }
    if again := rejudging.episodes.filter(result=result.CHANGED, **own).count():
        return f"The verifier disagrees with itself on {again:,} of the episodes."
    if not rejudging.episodes.filter(result__in=[result.KEPT, result.CHANGED]).exists():
        return "No stored episode of the task could be judged, so nothing shows that the verifier works."
    return ""


def _take_effect(rejudging: Rejudging, version: VerifierVersion) -> None:
    """Change the outcomes that count, and write an erratum for what reads otherwise then."""
    source = VerifierOutcome.Source
    changed = {row.episode_id: row for row in rejudging.episodes.filter(result=RejudgedEpisode.Result.CHANGED)}
    before = {kind: read(rejudging.project, changed.keys()) for kind, read in _readings.items()}
    counted = VerifierOutcome.objects.filter(episode__in=changed, source=source.VERIFIER)
    earlier = {row.episode_id: row for row in counted}
    # first, because an episode has one outcome that counts
    counted.update(source=source.SUPERSEDED)
    VerifierOutcome.objects.bulk_create(
        VerifierOutcome(
            episode_id=pk,
            source=source.VERIFIER,
            version=version,
            reward_type=row.after,
            reward=row.reward,
            details=row.details,
            state_diff=earlier[pk].state_diff,
            tier=str(row.details.get("tier", ""))[:40],
            partial=earlier[pk].partial,
        )
        for pk, row in changed.items()
        if pk in earlier
    )
    VerifierVersion.objects.filter(pk=version.pk, in_force_at__isnull=True).update(in_force_at=rejudging.ended_at)
    for callback in _on_change:
        callback(changed.keys())
    after = {kind: read(rejudging.project, changed.keys()) for kind, read in _readings.items()}
    Erratum.objects.bulk_create(
        Erratum(
            project=rejudging.project,
            rejudging=rejudging,
            run_id=subject if kind == RUN else None,
            export=subject if kind == EXPORT else "",
            campaign=subject if kind == CAMPAIGN else "",
            before=_other_than(numbers, after[kind].get(subject, {})),
            after=_other_than(after[kind].get(subject, {}), numbers),
        )
        for kind, read in before.items()
        for subject, numbers in read.items()
        if numbers != after[kind].get(subject)
    )


def _other_than(numbers: Numbers, others: Numbers) -> dict[str, Any]:
    """Return the numbers that the others do not have, or not so."""
    return {name: value for name, value in numbers.items() if name not in others or others[name] != value}


def judged_before(rejudging: Rejudging) -> set[str]:
    """Return the episodes that a pass has judged."""
    return set(rejudging.episodes.values_list("episode_id", flat=True))


def to_judge(rejudging: Rejudging) -> list[Episode]:
    """Return the episodes that a pass has yet to judge: all of its task with an outcome of a verifier, branches too."""
    rows = Episode.every.filter(
        project=rejudging.project_id,
        scenario=rejudging.scenario,
        task_idx=rejudging.task_idx,
        outcomes__source=VerifierOutcome.Source.VERIFIER,
    )
    judged = rejudging.episodes.filter(episode=OuterRef("pk"))
    return list(rows.exclude(Exists(judged)).defer("tools").order_by("created_at", "pk"))
