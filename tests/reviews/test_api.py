"""The calls of the contract, from a program and from a person's session."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from episodes.models import Episode, VerifierVersion
from episodes.record import rejudging
from episodes.record.saved_views import EPISODE_VIEWS
from reviews.models import Annotation, CourtCase, Preference, ReviewQueue, Verdict
from reviews.record import annotating, assigning, correcting, court, schemas
from reviews.visible.places import Place
from tests.browsing import as_person, html
from tests.people_by_name import person, token
from tests.reviews.conftest import ended


@pytest.fixture
def program(project):
    _, secret = token(project, "review")
    client = Client(headers={"Authorization": f"Bearer {secret}"})

    def send(path, body=None):
        return client.post(f"/api/v1{path}", body or {}, content_type="application/json")

    send.get = lambda path: client.get(f"/api/v1{path}")
    return send


def test_program_reviews_by_the_calls_of_the_contract(program, queue, review, episode):
    [listed] = program.get(f"/reviews?queue={queue.name}").json()["reviews"]
    assert listed["id"] == review.pk and not listed["held"]
    lease = program(f"/reviews/{review.pk}/claim").json()
    assert set(lease) == {"assignment", "lease_token", "lease_until"}
    held = {"lease_token": lease["lease_token"]}
    assert program(f"/reviews/{review.pk}/renew", held).status_code == 200
    assert program.get(f"/episodes/{episode.pk}/steps/3").status_code == 404
    said = program(f"/reviews/{review.pk}/verdict", {**held, "verdict": "accept", "model": "judge-1"})
    assert said.status_code == 200, said.content
    found = said.json()
    assert (found["outcome"], found["differs"], found["blind"]) == ("others", True, True)
    assert program(f"/reviews/{review.pk}/explanation", {"explanation": "verifier_wrong"}).status_code == 200
    assert CourtCase.objects.get().task_key == "desk_1/3" and Verdict.objects.get().author_kind == "model"


def test_lost_lease_and_closed_reviews_are_refused_by_code(program, review):
    assert program(f"/reviews/{review.pk}/claim").status_code == 200
    refused = program(f"/reviews/{review.pk}/verdict", {"lease_token": "other", "verdict": "reject", "note": "kept"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "lease_lost")
    assert Verdict.objects.get().note == "kept"
    assert program("/reviews/nothing/claim").status_code == 404


@pytest.mark.parametrize("odd", ["a\x00", "\ud800"])
def test_unstorable_text_of_a_call_is_refused(program, review, episode, odd):
    lease = program(f"/reviews/{review.pk}/claim").json()["lease_token"]
    for name in ("nonce", "model", "failure_type"):
        refused = program(f"/reviews/{review.pk}/verdict", {"lease_token": lease, "verdict": "accept", name: odd})
        assert refused.status_code == 422 and name in refused.json()["error"]["message"]
    noted = {"label": "note", "seq": 2, "review": odd}
    assert program(f"/episodes/{episode.pk}/annotations", noted).status_code == 422
    assert program.get("/reviews?queue=%00").status_code == 404
    assert not Verdict.objects.exists()


def test_refusal_under_a_key_keeps_what_it_keeps_without_one(program, review):
    assert program(f"/reviews/{review.pk}/claim", {"key": "c"}).status_code == 200
    late = {"lease_token": "other", "verdict": "reject", "note": "kept", "key": "v"}
    for _ in range(2):
        assert program(f"/reviews/{review.pk}/verdict", late).json()["error"]["code"] == "lease_lost"
    assert Verdict.objects.get().note == "kept"


def test_agents_and_exporters_cannot_review(project, review):
    for scope in ("agent", "export", "expert"):
        _, secret = token(project, scope)
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        assert client.post(f"/api/v1/reviews/{review.pk}/claim").json()["error"]["code"] == "scope"


def test_label_by_version_and_correction_by_call(ada, rita, program, episode):
    schemas.define(ada, "quality", "Quality", "single", ["Good", "Bad"])
    body = {"label": "quality", "value": "bad", "seq": 2, "version": 1}
    made = program(f"/episodes/{episode.pk}/annotations", body)
    assert made.status_code == 201 and made.json()["version"] == 1
    schemas.define(ada, "quality", "Quality", "single", ["Good", "Wrong"])
    ended = program(f"/episodes/{episode.pk}/annotations", {**body, "value": "good"})
    assert (ended.status_code, ended.json()["error"]["code"]) == (409, "schema_ended")
    assert Annotation.objects.get().text == "bad"
    newest = {"label": "quality", "value": "bad", "seq": 1}
    assert program(f"/episodes/{episode.pk}/annotations", newest).status_code == 422, "no option of the newest version"
    newest["value"] = "wrong"
    assert program(f"/episodes/{episode.pk}/annotations", newest).json()["version"] == 2
    assert program(f"/annotations/{made.json()['id']}/undo").status_code == 200
    call = {"seq": 2, "kind": "call", "name": "update", "arguments": {"id": 7, "status": "shut"}}
    said = program(f"/episodes/{episode.pk}/corrections", call).json()
    assert said["state"] == "unverified"
    assert program(f"/corrections/{said['id']}/undo").status_code == 200 and correcting.current(episode) == []
    call["arguments"] = {"id": "x"}
    assert program(f"/episodes/{episode.pk}/corrections", call).status_code == 422


def test_pages_carry_a_review_from_claim_to_ruling(ada, rita, queue, review):
    client = as_person(rita)
    assert client.post(f"/reviews/queues/{queue.pk}/next").headers["Location"] == f"/projects/lab/reviews/{review.pk}/"
    page = client.get(f"/reviews/{review.pk}/")
    assert "open after your verdict" in html(page)
    bad = {"seq": "2", "kind": "call", "name": "update", "arguments": '{"id": "x"}', "why": "my words"}
    refused = client.post(f"/reviews/{review.pk}/correct", bad)
    assert refused.status_code == 422 and "my words" in html(refused) and "update: id" in html(refused)
    given = {"lease_token": page.context["lease_token"], "decision": "accept", "nonce": page.context["nonce"]}
    assert client.post(f"/reviews/{review.pk}/verdict", given).status_code == 302
    shown = html(client.get(f"/reviews/{review.pk}/"))
    assert "data-reasons" in shown and "Not complete" in shown and "differs from the verifier" in shown
    assert client.post(f"/reviews/{review.pk}/explain", {"explanation": "verifier_wrong"}).status_code == 302
    case = CourtCase.objects.get()
    shown = html(client.get(f"/reviews/court/{case.pk}/"))
    assert "<h1>desk_1/3: 1 doubt.</h1>" in shown
    assert shown.count(f"· {review.episode_id[-6:]}<") == 2, "a verdict and its episode have the same mark"
    assert "<h1>People and verifier agree on the verdict in 0 of 1 pair.</h1>" in html(
        client.get("/reviews/agreement/")
    )
    assert client.post(f"/reviews/court/{case.pk}/", {"word": "too_strict", "reason": "x"}).status_code == 422
    judge = as_person(ada)
    ruled = judge.post(f"/reviews/court/{case.pk}/", {"word": "too_strict", "reason": "It wants a comma."})
    assert ruled.status_code == 302
    after = html(judge.get(f"/reviews/court/{case.pk}/"))
    assert "<h1>desk_1/3: 1 doubt, ruled.</h1>" in after and "Ruling given: The verifier is too strict." in after
    case.refresh_from_db()
    assert not case.is_open and "too strict" in html(client.get(f"/reviews/{review.pk}/"))
    [ruling] = judge.get("/reviews/court.json").json()["rulings"]
    assert (ruling["task"], ruling["ruling"], ruling["doubts"]) == ("desk_1/3", "too_strict", 1)


def test_headline_of_a_queue_counts_what_is_open(ada, queue, review):
    empty = assigning.create_queue(ada, "Later")
    client = as_person(ada)
    assert "<h1>Later has no episodes yet.</h1>" in html(client.get(f"/reviews/queues/{empty.pk}/"))
    said = html(client.get(f"/reviews/queues/{queue.pk}/"))
    assert "<h1>2 of 2 reviews are open in First look.</h1>" in said and "per episode, blind." in said


def test_gold_is_added_by_link_and_measures_a_reviewer(ada, rita, episode):
    queue = assigning.create_queue(ada, "With gold", gold_share=0.5)
    judge, reviewer = as_person(ada), as_person(rita)
    address = f"/reviews/queues/{queue.pk}/gold"
    link = f"https://desk.example/episodes/{episode.pk}/"
    assert judge.post(address, {"episode": link, "answer": "reject"}).status_code == 302
    assert "Gold item added" in html(judge.get(f"/reviews/queues/{queue.pk}/"))
    judge.post(address, {"episode": "nothing", "answer": "reject"})
    assert "There is no episode nothing" in html(judge.get(f"/reviews/queues/{queue.pk}/"))
    assert reviewer.post(address, {"episode": episode.pk, "answer": "accept"}).status_code == 403
    assert "gold item" not in html(reviewer.get(f"/reviews/queues/{queue.pk}/")).replace("with gold items", "")
    assert queue.reviews.get().gold == "reject"


def test_selected_episodes_are_queued_in_an_old_or_new_queue(ada, rita, queue, episode):
    other = ended(ada, "two", task_idx=4)
    judge = as_person(ada)
    assert 'value="review"' in html(judge.get("/episodes/")) and 'value="review"' not in html(
        as_person(rita).get("/episodes/")
    )
    chosen = {"act": "review", "episode": [episode.pk, other.pk]}
    address = judge.post("/episodes/selected", chosen).headers["Location"]
    assert as_person(rita).post("/episodes/selected", chosen).status_code == 403
    assigning.fill(ada, queue.pk, Episode.objects.filter(pk=episode.pk))
    page = html(judge.get(address))
    assert "Queue 2 episodes for review" in page and "1 of 2 is already in it: 1 is added." in page
    added = judge.post("/reviews/add/", {"queue": queue.pk, "episode": [episode.pk, other.pk, "x"]}, follow=True)
    assert "Added 1 episode to First look. 1 episode was already in it." in html(added)
    ended(ada, "three", task_idx=5)
    for nothing in ({"episode": ["x"]}, {}):  # no longer there: never the filter "all"
        judge.post("/reviews/add/", {"queue": queue.pk, **nothing})
        assert queue.reviews.count() == 2
    everything = {"act": "review", "all": "1", "query": "?scenario=desk_1"}
    assert "1 is added." in html(judge.post("/episodes/selected", everything, follow=True))
    assert as_person(rita).get("/reviews/add/", {"episode": episode.pk}).status_code == 403
    link = f'href="/projects/lab/reviews/add/?episode={episode.pk}"'
    pages = [html(as_person(who).get(f"/episodes/{episode.pk}/")) for who in (ada, rita)]
    assert link in pages[0] and link not in pages[1]
    judge.post("/reviews/", {"name": "Second look", "reviews_required": "1", "episode": [other.pk]})
    made = ReviewQueue.objects.get(name="Second look")
    assert [one.episode_id for one in made.reviews.all()] == [other.pk]
    assert "Added 1 episode to Second look." in html(judge.get(f"/reviews/queues/{made.pk}/"))


def test_queue_is_filled_from_a_saved_view(ada, rita, max_, queue, episode):
    other = ended(ada, "two", task_idx=4)
    ended(ada, "three", task_idx=5)
    view = EPISODE_VIEWS.save(ada, "Doubtful", "?key=two&key=one&label=comment", shared=False)
    foreign = EPISODE_VIEWS.save(max_, "Foreign", "?key=one", shared=True)
    private = EPISODE_VIEWS.save(rita, "Private", "?key=one", shared=False)
    judge, address = as_person(ada), f"/reviews/queues/{queue.pk}/"
    page = html(judge.get(address))
    assert f'<option value="{view.pk}">Doubtful</option>' in page and "Foreign" not in page and "Private" not in page
    judge.post(f"{address}fill", {"view": view.pk})
    assert not queue.reviews.exists()
    for one in (episode, other):
        annotating.annotate(ada, one, Place(), "comment", "Look at this")
    judge.post(f"{address}fill", {"view": view.pk, "scenario": "desk_2"})
    assert not queue.reviews.exists()
    judge.post(f"{address}fill", {"view": view.pk, "scenario": "desk_1", "sample": "1"})
    assert queue.reviews.get().in_sample
    judge.post(f"{address}fill", {"view": view.pk})
    assert {one.episode_id for one in queue.reviews.all()} == {episode.pk, other.pk}
    assert "Added 1 episode." in html(judge.get(address))
    for stranger in (foreign, private):
        assert judge.post(f"{address}fill", {"view": stranger.pk}).status_code == 404


def test_rulings_hold_repaired_code_for_those_who_rule(ada, project):
    with transaction.atomic():
        case = court.doubt(ended(ada, "one"))
    court.rule(ada, case.pk, "too_strict", "It wants a comma.")
    code = "def verify_task_completion(initial_db_path, final_db_path):\n    return {'result': 'complete'}\n"
    version = rejudging.add_version(ada, "desk_1", 3, code, "No comma is needed.")
    [before] = as_person(ada).get("/reviews/court.json").json()["rulings"]
    assert "repaired" not in before, "it is not in force"
    VerifierVersion.objects.filter(pk=version.pk).update(in_force_at=timezone.now())
    [said] = as_person(ada).get("/reviews/court.json").json()["rulings"]
    assert (said["repaired"]["version"], said["repaired"]["code"]) == (2, code)
    viewer = person(project, "vera", "viewer")
    assert "repaired" not in as_person(viewer).get("/reviews/court.json").json()["rulings"][0]
    assert as_person(viewer).get("/verifiers/helpdesk_1/0/").status_code == 403
    shown = html(as_person(ada).get("/verifiers/helpdesk_1/0/"))
    assert "is judged by the verifier of its pack." in shown and "def verify_task_completion" in shown


def test_program_compares_a_pair_as_it_was_listed(program, ada, episode):
    ended(ada, "two", row=8)
    queue = assigning.create_queue(ada, "Pairs", kind="pairwise", rubric=["Which is clearer?"])
    assigning.fill(ada, queue.pk, Episode.objects.all())
    [listed] = program.get(f"/reviews?queue={queue.pk}").json()["reviews"]
    assert {listed["episode"], listed["other"]} == set(queue.reviews.get().episode_ids)
    lease = program(f"/reviews/{listed['id']}/claim").json()["lease_token"]
    said = {"lease_token": lease, "choice": "b", "answers": {"Which is clearer?": "equal"}}
    assert program(f"/reviews/{listed['id']}/preference", {**said, "choice": "c"}).status_code == 422
    answer = program(f"/reviews/{listed['id']}/preference", said).json()
    row = Preference.objects.get()
    assert (answer["choice"], answer["blind"], row.author_kind) == ("b", True, "code")
    assert (row.choice == "second") == (listed["other"] == row.review.other_id)
