"""A task's registry of blockers is shown beside its verifier, to those who may see that, and to no one else."""

from __future__ import annotations

import json
import shutil

import pytest

from episodes.models import Episode
from reviews.record import court
from tests.awmenv.conftest import ROOT
from tests.browsing import as_person, html
from tests.experts.pages.test_answer_page import held

pytestmark = pytest.mark.django_db
FIELDS = ("missing", "holder", "answer", "fact")


@pytest.fixture
def registered(settings, tmp_path):
    """The starter pack with a registry for the task of `asked`, a canary in every field of it."""
    made = shutil.copytree(ROOT / "packs" / "starter", tmp_path / "packs" / "starter")
    one = {"id": "canary-id", **{name: f"canary <i>{name}" for name in FIELDS}}
    one |= {"terms": [["canary term"], ["which"]], "questions": ["canary question?"]}
    row = {"scenario": "helpdesk_1", "task_idx": 4, "blockers": [one]}
    (made / "blockers.jsonl").write_text(json.dumps(row) + "\n")
    settings.PACKS_DIR = made.parent


def test_registry_is_shown_to_those_who_see_verifiers_only(registered, asked, ada, edo, rita):
    blind, informed = asked(), asked(expert="informed")
    Episode.objects.update(scenario="helpdesk_1", task_idx=4)
    client = held(edo, blind)
    assert "canary" not in html(client.get(f"/asks/{blind.pk}/"))
    shown = html(client.get(f"/asks/{informed.pk}/verifier"))
    assert "canary &lt;i&gt;answer" in shown and "<i>" not in shown and "canary-id" in shown
    case = court.doubt(Episode.objects.get(pk=blind.episode_id))
    for address in (f"/reviews/court/{case.pk}/", "/briefings/helpdesk_1/4/"):
        assert "canary &lt;i&gt;missing" in html(as_person(ada).get(address)), address
        for other in (edo, rita):
            assert "canary" not in html(as_person(other).get(address)), address
