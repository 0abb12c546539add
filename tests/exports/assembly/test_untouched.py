"""Tasks that pass untouched are left out, whatever the source of the outcome: an attested one has no own check."""

from __future__ import annotations

import pytest

from awmenv.health import Form, Health
from episodes.models import Episode, VerifierOutcome
from exports.assembly import datasets
from exports.recipe import Recipe
from runs.models import Probe
from runs.taskset import probes
from tests.exports.pages.test_export_pages import episode

UNTOUCHED = Health(code=Form("runs", "complete"))


def attested(actor, key, source="attested", **more):
    one = episode(actor, key, **more)
    Episode.objects.filter(pk=one.pk).update(scenario_digest="v1")
    VerifierOutcome.objects.filter(episode=one).delete()
    VerifierOutcome.objects.create(episode=one, source=source, reward_type="complete", reward=1.0)
    return one


def of_another_episode(ada):
    one = episode(ada, "checked", scenario="shop", task_idx=1)
    Episode.objects.filter(pk=one.pk).update(scenario_digest="v1", split="val")
    VerifierOutcome.objects.filter(episode=one).update(health=UNTOUCHED.wire())
    return "shop", 1


def of_a_probe(ada):
    Probe.objects.create(scenario="shop", task_idx=1, scenario_digest="v1", state="trivial", health=UNTOUCHED.wire())
    return "shop", 1


def of_an_attempt_that_did_nothing(ada):
    attempts = {"empty": {"outcome": "complete", "calls": 0}}
    Probe.objects.create(scenario="shop", task_idx=1, scenario_digest="v1", state="trivial", attempts=attempts)
    return "shop", 1


def of_the_pack(ada):
    return "repairshop_1", 1


def manifest_of(actor, folder, **more):
    folder.mkdir()
    plan = datasets.take_snapshot(actor.project, Recipe.read({"format": "sft", **more}), folder)
    return datasets.build(actor.project, plan, folder, lambda _episodes, _rows: True)


@pytest.mark.parametrize("source", ["attested", "reported"])
@pytest.mark.parametrize("known", [of_another_episode, of_a_probe, of_an_attempt_that_did_nothing, of_the_pack])
def test_outcome_without_a_check_has_that_of_its_task(ada, tmp_path, monkeypatch, source, known):
    monkeypatch.setattr(probes, "_held", lambda *_task: "")
    monkeypatch.setattr(probes.packs, "scenario_digest", lambda _scenario: "v1")
    scenario, number = known(ada)
    attested(ada, "one", source, scenario=scenario, task_idx=number)
    attested(ada, "fine", source, scenario=scenario, task_idx=number + 1, answer="Fine.")
    made = manifest_of(ada, tmp_path / "default", include=["reported"])
    made["left_out"].pop("held_out", None)
    assert (made["rows"], made["left_out"]) == (1, {"passes_untouched": 1})
    assert manifest_of(ada, tmp_path / "all", include=["reported", "passes_untouched"])["rows"] == 2


def test_check_of_another_version_of_the_task_tells_nothing(ada, tmp_path):
    of_another_episode(ada)
    other = attested(ada, "one", scenario="shop", task_idx=1)
    Episode.objects.filter(pk=other.pk).update(scenario_digest="v2")
    assert manifest_of(ada, tmp_path / "made")["rows"] == 1
