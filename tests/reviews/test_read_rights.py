"""Pages that only read stay open in an archived project, and to who may no longer write."""

from __future__ import annotations

import pytest

from imports.models import Import
from people.models import Membership, Role
from people.record import projects
from reviews.models import COMMENT, Annotation, Verdict
from reviews.record import annotating, assigning, deciding
from reviews.record.deciding import Wanted
from reviews.visible.places import Place
from tests.browsing import as_person, html


@pytest.fixture
def judged(rita, review):
    lease = assigning.claim(rita, review.pk)
    deciding.decide(rita, review.pk, lease.lease_token, Wanted("accept"))
    return review


def test_read_pages_answer_in_an_archived_project(ada, rita, judged):
    comment = annotating.annotate(ada, judged.episode, Place(2), COMMENT, "@rita, look")
    given = Import.objects.create(project=ada.project, name="rows.jsonl", requested_by="ada")
    projects.archive(ada)
    episode, queue = judged.episode_id, judged.queue_id
    pages = ["/", "/episodes/", f"/episodes/{episode}/", f"/episodes/{episode}/replay/", f"/reviews/said/{episode}/"]
    pages += ["/queue/", "/runs/", "/metrics/", "/reviews/", "/reviews/court/", "/reviews/agreement/"]
    pages += [f"/reviews/queues/{queue}/", f"/reviews/{judged.pk}/", "/notifications/", "/notifications/log"]
    pages += ["/reviews/mentions/", f"/reviews/mentions/{comment.pk}/"]
    for actor, more in ((rita, []), (ada, ["/imports/", f"/imports/{given.pk}/", "/exports/", "/api/v1/imports"])):
        for page in [*pages, *more]:
            assert as_person(actor).get(page).status_code == 200, page
    client, address = as_person(rita), f"/reviews/mentions/{comment.pk}/"
    page = html(client.get(f"/reviews/{judged.pk}/"))
    assert "Your verdict differs" in page and "data-reasons" not in page and "data-change" not in page
    assert ">Comment</button>" not in html(client.get(address))
    assert client.post(address, {"value": "Done"}).status_code == 409 and Annotation.objects.count() == 1
    assert "Import file" not in html(as_person(ada).get("/imports/"))
    assert as_person(ada).post("/imports/", {}).status_code == 422
    assert client.post(f"/reviews/{judged.pk}/explain", {"explanation": "i_was_wrong"}).status_code == 409
    assert not hasattr(Verdict.objects.get(), "disagreement")


def test_reviewer_reads_their_verdict_as_a_viewer(rita, judged):
    Membership.objects.filter(user=rita.person).update(role=Role.VIEWER)
    client = as_person(rita)
    assert "Your verdict differs" in html(client.get(f"/reviews/{judged.pk}/"))
    assert client.get("/reviews/mentions/").status_code == 200
    assert client.post(f"/reviews/{judged.pk}/explain", {"explanation": "i_was_wrong"}).status_code == 403
