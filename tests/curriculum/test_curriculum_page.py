"""The page Curriculum: its finding, its parts, and decisions by form."""

from __future__ import annotations

import re

import pytest

from awmclient.schema import EpisodeStart, RunStart
from curriculum.models import Decision
from episodes.models import OutcomeHold
from episodes.record import recording
from tests.browsing import as_person, html
from tests.curriculum.trainer import Trainer

pytestmark = pytest.mark.usefixtures("shop")


def page(actor, **query):
    return html(as_person(actor).get("/curriculum/", query))


def form(train, **said):
    return {"run": train.run.pk, "kind": "pin", "reason": "Its verifier is new.", "until": "undone", **said}


def test_page_without_training_says_so(ada):
    assert "No run has reported a training step." in page(ada)


def test_page_leads_with_phase_and_its_reason(train, ada):
    for number in range(10):
        train.play(1, "shop/0", calls=[] if number < 6 else [{}])
    train.report(1)
    seen = page(ada)
    why = "60% of step 1 were format errors, not yet enough for Balanced"
    assert f"<h1>Scaffold: 6 of 8 rollouts get an expert; {why}.</h1>" in seen
    assert "Step 1: 6 of 10 rollouts, 60%." in seen and "Scaffold now" in seen


def test_list_of_runs_leads_to_a_trainers_curriculum(train, ada):
    assert "/curriculum/?run=" not in html(as_person(ada).get("/runs/"))
    train.play(7)
    assert f'href="/projects/lab/curriculum/?run={train.run.pk}"' in html(as_person(ada).get("/runs/"))
    assert as_person(ada).get("/curriculum/", {"run": train.run.name}).status_code == 200
    assert as_person(ada).get("/curriculum/", {"run": "no such run"}).status_code == 404


def test_page_links_to_pages_of_the_web_alone(train, ada):
    train.report(1)
    train.run.metadata = {"links": {"<W&B>": "https://wandb.test/x?a=1&b=2", "bad": "javascript:alert(1)", "odd": 7}}
    train.run.save()
    seen = page(ada)
    assert '<a href="https://wandb.test/x?a=1&amp;b=2" rel="noreferrer">&lt;W&amp;B&gt;</a>' in seen
    assert "javascript:" not in seen
    train.run.metadata = {"links": ["no"]}
    train.run.save()
    assert "Next tasks by" in page(ada)


def test_page_lists_tasks_by_state(train, ada):
    train.report(1)
    assert "shop/11" in page(ada) and "shop/12" not in page(ada)
    held = page(ada, show="held_out")
    assert "shop/12" in held and "shop/11" not in held and "Held out 2" in held


def test_row_opens_only_episodes_that_are_there(train, ada):
    train.play(1, "shop/0")
    train.report(1)
    recording.start_episode(ada, EpisodeStart(key="other", task="t", scenario="shop", task_idx=1))
    rows = dict(re.findall(r'<tr data-key="(shop/\d+)">(.*?)</th>', page(ada), re.DOTALL))
    assert f'/episodes/?run={train.run.pk}&amp;scenario=shop&amp;task_idx=0"' in rows["shop/0"]
    assert '/episodes/?scenario=shop&amp;task_idx=1"' in rows["shop/1"] and "in other runs" in rows["shop/1"]
    assert "href" not in rows["shop/2"]
    client = as_person(ada)
    for row in ("shop/0", "shop/1"):
        address = re.search(r'href="([^"]+)"', rows[row])[1].replace("&amp;", "&")
        assert "No episodes match" not in html(client.get(address))


def test_page_opens_unless_its_own_outcomes_are_withheld(train, ada, rita):
    theirs = train.play(1, "shop/0")
    train.report(1)
    apart, reference = (recording.start_run(ada, RunStart(name=name))[0] for name in ("apart", "reference"))
    others = [
        recording.start_episode(ada, EpisodeStart(key=run.name, task="t", run=run.pk))[0] for run in (apart, reference)
    ]
    train.run.metadata = {"curriculum": {"reference": reference.pk}}
    train.run.save()
    opened = []
    for held in (*others, theirs):
        hold = OutcomeHold.objects.create(actor_key=rita.key, episode=held)
        answers = [
            as_person(rita).get(path, {"run": train.run.pk}) for path in ("/curriculum/", "/curriculum/turns.jsonl")
        ]
        opened.append([one.status_code == 200 for one in answers])
        hold.delete()
    assert opened == [[True, True], [False, False], [False, False]]


def test_page_takes_a_decision_and_undoes_it(train, ada):
    train.report(1)
    client = as_person(ada)
    assert client.post("/curriculum/decide", form(train, task="shop/7")).status_code == 302
    decision = Decision.objects.get()
    assert (decision.kind, decision.subject, decision.made_by) == ("pin", "shop/7", ada.name)
    assert "Its verifier is new." in page(ada) and "Pinned" in page(ada)
    assert client.post(f"/curriculum/decisions/{decision.pk}/undo").status_code == 302
    decision.refresh_from_db()
    assert decision.undone_at and "Pinned" not in page(ada) and "Undone by ada" in page(ada)


def test_page_holds_a_phase_until_a_step(train, ada):
    train.report(1)
    said = form(train, kind="override:independence", until="step", until_step="3", reason="It can call tools.")
    as_person(ada).post("/curriculum/decide", said)
    assert f"Independence, held by {ada.name}: 2 of 8 rollouts get an expert." in page(ada)
    for step in (2, 3):
        train.report(step)
    assert f"held by {ada.name}:" not in page(ada)


def test_page_keeps_what_was_typed_when_refused(train, ada):
    train.report(1)
    answer = as_person(ada).post("/curriculum/decide", form(train, task="shop/12", reason="Because it is."))
    assert answer.status_code == 422 and "shop/12 is not a training task" in html(answer)
    assert "Because it is.</textarea>" in html(answer) and Decision.objects.count() == 0


def test_page_lets_no_reviewer_or_stranger_decide(train, rita, max_):
    train.report(1)
    assert as_person(rita).post("/curriculum/decide", form(train, task="shop/7")).status_code == 403
    assert as_person(max_).post("/curriculum/decide", form(train, task="shop/7")).status_code == 404
    assert "Only admins and researchers can decide." in page(rita)
    assert as_person(max_).get("/curriculum/", {"run": train.run.pk}).status_code == 404


def test_page_shows_hostile_names_as_text(project, ada):
    trainer = Trainer(project)
    type(trainer.run).objects.filter(pk=trainer.run.pk).update(name="<script>x</script>")
    trainer.report(1)
    assert "<script>x" not in page(ada) and "&lt;script&gt;x" in page(ada)
