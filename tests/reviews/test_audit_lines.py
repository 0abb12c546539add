"""The audit trail names who makes a queue, a label, a gold item, a run, seeds or a certificate."""

from __future__ import annotations

from episodes.models import Episode
from people.models import AuditEntry
from reviews.record import assigning, schemas
from runs.launch import planning
from runs.play import certifying
from tests.exports.pages.test_export_pages import episode
from tests.runs.planned import launched


def lines():
    return list(AuditEntry.objects.order_by("pk").values_list("verb", "reason"))


def test_reviews_are_audited(ada):
    one = episode(ada, "a")
    schemas.define(ada, "tone", "Tone", "single", ["good", "bad"])
    queue = assigning.create_queue(ada, "march", is_blind=True)
    assigning.add_gold(ada, queue.pk, one.pk, "accept")
    assigning.add_gold(ada, queue.pk, one.pk, "accept")
    two = Episode.every.filter(pk=episode(ada, "b").pk)
    for _ in range(2):
        assigning.fill(ada, queue.pk, two)
    assigning.close_queue(ada, queue.pk)
    said = [("label.defined", "tone, version 1"), ("queue.created", "march, blind"), ("gold.added", "march: accept")]
    filled = ("queue.filled", "march: 1 episodes, chosen")
    assert lines() == [*said, filled, ("queue.closed", "march")]


def test_runs_and_certificates_are_audited(ada, monkeypatch):
    monkeypatch.setattr("runs.launch.launching.call", lambda *_call: None, raising=False)
    plan = launched(ada, parallel=1)
    planning.add_seeds(ada, plan.run_id, 2)
    for _ in range(2):
        planning.pause(ada, plan.run_id)
    for _ in range(2):
        planning.resume(ada, plan.run_id)
    planning.cancel(ada, plan.run_id)
    monkeypatch.setattr("runs.launch.launching.certify_later", lambda _episode: None)
    certifying.request(ada, episode(ada, "a").pk)
    verbs = [verb for verb, _ in lines() if verb.startswith(("run.", "certificate."))]
    changes = ["run.launched", "run.seeds_added", "run.paused", "run.resumed", "run.cancelled"]
    assert verbs == [*changes, "certificate.requested"]
