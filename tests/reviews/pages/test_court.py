"""The page of a case shows the verifiers of its task to those who rule, and leads to their repair."""

from __future__ import annotations

import json
import shutil

import pytest
from django.utils import timezone

from episodes.models import Episode, Fork, VerifierVersion
from reviews.models import CourtCase, Word
from reviews.record import assigning, court, deciding
from reviews.record.deciding import Wanted
from tests.awmenv.conftest import ROOT
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db
REPAIR = "/verifiers/helpdesk_1/4/"


@pytest.fixture
def case(ada, episode):
    Episode.objects.filter(pk=episode.pk).update(scenario="helpdesk_1", task_idx=4)
    return court.doubt(Episode.objects.get(pk=episode.pk))


def shown(person, case):
    return html(as_person(person).get(f"/reviews/court/{case.pk}/"))


def test_case_shows_the_packs_verifier_and_the_one_in_force(case, ada, rita):
    about = {"scenario": "helpdesk_1", "task_idx": 4, "number": 2, "sha256": "", "reason": "r", "created_by": "ada"}
    version = VerifierVersion.objects.create(project=ada.project, code="# the <b>repaired one", **about)
    before = shown(ada, case)
    assert "def verify" in before and "repaired one" not in before, "it has no effect yet"
    VerifierVersion.objects.filter(pk=version.pk).update(in_force_at=timezone.now())
    both = shown(ada, case)
    assert "# the &lt;b&gt;repaired one" in both and "def verify" in both and "no longer in force" in both
    assert "repaired one" not in shown(rita, case), "who does not rule sees no verifier"


def test_court_lists_question_and_doubts(ada, rita, review):
    for who, why in ((rita, "verifier_wrong"), (ada, "task_ambiguous")):
        lease = assigning.claim(who, review.pk)
        verdict = deciding.decide(who, review.pk, lease.lease_token, Wanted("accept"))
        deciding.explain(who, verdict.pk, why)
    page = html(as_person(ada).get("/reviews/court/"))
    assert "Shut ticket 7" in page and "The verifier is wrong" in page and "The task is ambiguous" in page
    case = html(as_person(ada).get(f"/reviews/court/{CourtCase.objects.get().pk}/"))
    assert case.count("data-ruling-cap") == len(Word.values) and "data-rulings" in case
    assert "data-rulings" not in html(as_person(rita).get(f"/reviews/court/{CourtCase.objects.get().pk}/"))


def test_task_with_a_verifier_in_sql_mode_can_be_repaired(case, ada, rita, settings, tmp_path):
    made = shutil.copytree(ROOT / "packs" / "starter", tmp_path / "packs" / "starter")
    file = made / "gen_verifier.pure_code.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [row for row in rows if (row["scenario"], row["task_idx"]) != ("helpdesk_1", 4)]
    assert len(kept) == len(rows) - 1
    file.write_text("".join(json.dumps(row) + "\n" for row in kept))
    settings.PACKS_DIR = made.parent
    assert REPAIR in shown(ada, case) and REPAIR not in shown(rita, case)
    ruled = as_person(ada).post(f"/reviews/court/{case.pk}/", {"word": "too_strict", "reason": "It wants a comma."})
    assert ruled.url.endswith(REPAIR) and as_person(ada).get(ruled.url).status_code == 200
    Episode.objects.update(task_idx=999)
    assert "Repair the verifier" not in shown(ada, court.doubt(Episode.objects.get())), "no pack has this task"


def test_case_leads_to_forks_of_its_episodes(case, ada, rita):
    about = {"origin": "builtin", "strip": "trwrt", "last_seq": 5}
    Episode.objects.update(**about)
    one = Episode.objects.get()
    form, tree = f"/episodes/{one.pk}/fork?step=3", f"/episodes/{one.pk}/tree"
    page = shown(ada, case)
    assert form in page and tree not in page, "its last write, and no branches yet"
    assert form not in shown(rita, case), "who cannot launch cannot fork"
    Fork.objects.create(project=ada.project, parent=one, seq=3, tries=1, knowledge="blind", grade="exact")
    assert tree in shown(ada, case) and tree in shown(rita, case)
    for other in ({"origin": "external"}, {"strip": "tt"}):
        Episode.objects.update(**{**about, **other})
        assert "Fork from step" not in shown(ada, case), other
