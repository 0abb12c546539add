"""The list, the live page with its fragments, the replay and the connect page: what is shown when, and to whom."""

from __future__ import annotations

import re

import pytest

from awmclient.schema import STEP, EpisodeStart, Finish, Outcome, RunStart, StepBatch
from episodes.find import in_episode
from episodes.models import Episode, OutcomeHold
from episodes.record import ending, recording
from episodes.stored import packs
from episodes.visible.lens import lens_of
from people import access
from people.record.members import issue_token
from tests.browsing import as_person, html

DIFF = {"tickets": {"changed": [{"key": 7, "before": {"status": "new"}, "after": {"status": "open"}}]}}


def steps(count, start=1):
    body = {"kind": "tool_call", "name": "get_ticket", "arguments": {"id": 7}, "result": {"status": "new"}}
    return [STEP.validate_python({**body, "seq": start + n}) for n in range(count)]


@pytest.fixture
def episode(ada):
    run = recording.start_run(ada, RunStart(name="nightly"))[0]
    plan = EpisodeStart(key="one", task="open ticket seven", scenario="helpdesk_2", task_idx=4, run=run.pk)
    one = recording.start_episode(ada, plan, max_steps=30)[0]
    recording.append_steps(ada, one.pk, steps(3))
    return one


@pytest.fixture
def ended(ada, project, episode):
    ending.finish(ada, episode.pk, Finish(stop_reason="done", final_answer="It is open."))
    found = Outcome(reward_type="others", reward=0.0, details={"missing": "group"}, state_diff=DIFF)
    ending.record_outcome(access.system(project), episode.pk, found, "code")
    return episode


def text(client, url):
    page = client.get(url)
    assert page.status_code == 200
    return html(page)


def test_the_list_counts_filters_and_pages(ada, episode, ended):
    client = as_person(ada)
    assert "0 of 1 outcome is complete. 1 recorded, 0 live." in text(client, "/episodes/")
    assert "helpdesk_2 / 4" in text(client, "/episodes/?state=finished&outcome=others&q=ticket&scenario=helpdesk_2")
    for query in (
        "state=running",
        "outcome=complete",
        "outcome=none",
        "q=nothing",
        "page=99&q=zz",
    ):
        assert "No matching episodes." in text(client, f"/episodes/?{query}"), query


def test_episode_names_the_version_of_its_scenario(ada, client):
    version = packs.scenario_digest("helpdesk_1")
    secret = issue_token(ada, "loop", "agent")[1]
    for key, digest, is_replaced in (("now", version, False), ("old", "d" * 64, True)):
        plan = EpisodeStart(key=key, task="Close it.", scenario="helpdesk_1", task_idx=0, scenario_digest=digest)
        one = recording.start_episode(ada, plan)[0]
        page = text(as_person(ada), f"/episodes/{one.pk}/")
        assert digest in page and ("(replaced)" in page) is is_replaced
        for path in (f"/api/v1/episodes/{one.pk}", f"/api/v1/episodes?key={key}"):
            said = client.get(path, headers={"authorization": f"Bearer {secret}"}).json()
            assert said.get("items", [said])[0]["scenario_digest"] == digest


def test_a_stranger_finds_nothing_of_an_episode(max_, episode):
    client = as_person(max_)
    assert "No episodes yet." in text(client, "/episodes/")
    for path in ("", "steps.html", "replay/", "?raw=1"):
        assert client.get(f"/episodes/{episode.pk}/{path}").status_code == 404
    assert client.post(f"/episodes/{episode.pk}/stop").status_code == 404


def test_the_live_page_keeps_the_verifier_closed_until_the_end(rita, ada, episode):
    outside = text(as_person(rita), f"/episodes/{episode.pk}/")
    assert "This episode has no verifier" in outside and "The verifier runs" not in outside
    Episode.objects.filter(pk=episode.pk).update(origin="builtin")
    page = text(as_person(rita), f"/episodes/{episode.pk}/")
    assert "The agent is working (3 actions so far)." in page and "The verifier runs when the agent finishes" in page
    assert page.count('class="step"') == 4 and 'data-live="yes"' in page


def test_reported_outcome_has_the_label_of_the_style(rita, ada, episode):
    told = {"stop_reason": "done", "outcome": {"reward_type": "others", "reward": 0.0}}
    ending.finish(ada, episode.pk, Finish.model_validate(told))
    page = text(as_person(rita), f"/episodes/{episode.pk}/")
    assert "Reported by the loop" in page and "Not complete, reward" in page and "others, reward" not in page


def test_side_says_how_many_calls_have_unknown_changes(rita, ada, episode):
    assert "Unknown: 3 calls did not report their changes." in text(as_person(rita), f"/episodes/{episode.pk}/")
    one, _ = recording.start_episode(ada, EpisodeStart(key="reads", task="t"))
    assert "No rows." in text(as_person(rita), f"/episodes/{one.pk}/")
    read = STEP.validate_python({"kind": "tool_call", "name": "look", "arguments": {}, "result": 1, "seq": 1})
    recording.append_steps(ada, one.pk, [read])
    assert "Unknown: 1 call did not report its changes." in text(as_person(rita), f"/episodes/{one.pk}/")


def test_after_the_end_the_page_shows_outcome_answer_and_changes(rita, ended):
    page = text(as_person(rita), f"/episodes/{ended.pk}/")
    assert "The task is not complete, after 3 actions." in page and "Not complete" in page and "It is open." in page
    assert "Changed between start and end" in page and "<del>new</del>" in page and "<ins>open</ins>" in page
    assert 'data-live="no"' in page


def test_fragments_hold_only_the_steps_that_are_asked_for(ada, episode):
    client = as_person(ada)
    page = text(client, f"/episodes/{episode.pk}/steps.html?since=2")
    assert re.findall(r'data-seq="(\d+)"', page) == ["3"]
    assert set(re.findall(r'data-part="([\w-]+)"', page)) == {"now", "strap", "side", "people"}
    assert re.findall(r'data-seq="(\d+)"', text(client, f"/episodes/{episode.pk}/steps.html?since=zz")) == [
        "1",
        "2",
        "3",
    ]


def test_replay_tells_tables_at_a_step(rita, max_, ada, episode):
    diff = {"tickets": {"changed": [{"key": {"id": 7}, "before": {"by": "<b>"}, "after": {"by": "Edo"}}]}}
    call = {"kind": "tool_call", "name": "close", "arguments": {}, "result": 1, "state_diff": diff}
    recording.append_steps(ada, episode.pk, StepBatch.model_validate({"steps": [{"seq": 4, **call}]}).steps)
    address = f"/episodes/{episode.pk}/replay/tables"
    before = text(as_person(rita), f"{address}?step=3")
    assert "as they stood after step 3" in before and "&lt;b&gt;" in before and "Edo" not in before
    assert "<ins>Edo</ins>" in text(as_person(rita), f"{address}?step=4")
    assert "as they stood after step 1" in text(as_person(rita), f"{address}?step=x")
    assert as_person(max_).get(address).status_code == 404


def test_replay_opens_the_step_in_the_url(rita, ended):
    client = as_person(rita)
    for query, at in (
        ("step=2", 2),
        ("", 1),
        ("step=999", 4),
        ("step=x", 1),
        ("step=0", 1),
        ("step=99999999999999", 1),
    ):
        page = text(client, f"/episodes/{ended.pk}/replay/?{query}")
        assert re.findall(r'id="step-(\d+)"[^>]*aria-current="step"', page) == [str(at)], query


def test_a_step_comes_raw_as_plain_text(rita, ended):
    raw = as_person(rita).get(f"/episodes/{ended.pk}/?raw=2")
    assert raw["Content-Type"].startswith("text/plain") and '"seq": 2' in html(raw)
    assert as_person(rita).get(f"/episodes/{ended.pk}/?raw=77").status_code == 404


def test_who_may_launch_may_stop_and_others_may_not(ada, rita, episode):
    assert as_person(rita).post(f"/episodes/{episode.pk}/stop", {"reason": "x"}).status_code == 403
    page = html(as_person(ada).post(f"/episodes/{episode.pk}/stop", {"reason": "wrong task"}, follow=True))
    assert "Stopped after 3 actions." in page and "wrong task" in page


def test_a_fault_is_shown_as_a_fault_and_not_as_a_failed_task(rita, ada, episode):
    ending.fail(ada, episode.pk, "environment", "1011 keepalive <ping>")
    page = text(as_person(rita), f"/episodes/{episode.pk}/")
    assert "Failed with fault environment after 3 actions. Not counted as a failed task." in page
    assert "1011 keepalive &lt;ping&gt;" in page


def test_fault_of_the_policy_is_said_to_count(rita, ada, episode):
    ending.fail(ada, episode.pk, "policy", "exceeds the context size")
    page = text(as_person(rita), f"/episodes/{episode.pk}/")
    assert "Failed with fault policy after 3 actions. Counts as not complete." in page
    assert "Not counted as a failed task." not in page


def test_connect_page_shows_loop_and_first_event(ada, rita, settings):
    client = as_person(ada)
    page = html(client.post("/connect/", {"name": "trainer"}))
    secret = re.search(r'id="secret" readonly value="(awm_[\w-]+)"', page)[1]
    assert f"{settings.AWMWEB_PUBLIC_URL}/mcp" in page and page.count(secret) == 4
    status = re.search(r'hx-get="([^"]+)"', page)[1]
    assert "Waiting for the first event" in text(client, status)
    from people.record.members import token_of

    recording.start_episode(access.bearer(token_of(secret)), EpisodeStart(key="k", task="greet"))
    green = text(client, status)
    assert "Connected." in green and "hx-get" not in green
    assert as_person(rita).post("/connect/", {"name": "mine"}).status_code == 422


def test_the_light_of_another_projects_token_is_not_there(max_, ada):
    token, _ = issue_token(ada, "trainer", "agent")
    assert as_person(max_).get(f"/connect/status?token_id={token.pk}").status_code == 404


def test_the_vocabulary_draws_every_mark(rita):
    page = text(as_person(rita), "/legend/")
    for symbol in ("e-queued", "a-leased", "v-judge", "p-sees", "k-now"):
        assert f'href="#{symbol}"' in page
    modes = re.findall(r'class="arm [^"]*"><b[^>]*>(\w)</b>([\w ]+)<', page)
    assert {("B", "baseline"), ("E", "expert"), ("I", "informed expert")} <= set(modes)


def test_episode_and_run_ids_can_be_copied(ada):
    run, _ = recording.start_run(ada, RunStart(name="nightly"))
    episode, _ = recording.start_episode(ada, EpisodeStart(key="copy", task="t", run=run.pk))
    client = as_person(ada)
    for path in (f"/episodes/{episode.pk}/", f"/episodes/{episode.pk}/replay/"):
        assert f'data-copy-text="{episode.pk}"' in html(client.get(path))
    assert f'data-copy-text="{run.pk}"' in html(client.get(f"/episodes/{episode.pk}/"))


def test_blind_find_counts_what_matches_beyond_rewards(rita, ada, episode):
    action = {"kind": "action", "action": {"go": "on"}, "observation": {"at": 1}, "reward": 0.4375}
    said = [{**action, "seq": seq} for seq in range(4, 9)] + [
        {"seq": seq, "kind": "note", "content": "0.4375"} for seq in (9, 10, 11)
    ]
    recording.append_steps(ada, episode.pk, [STEP.validate_python(one) for one in said])
    OutcomeHold.objects.create(actor_key=rita.key, episode=episode, by="review")
    assert in_episode.holding(lens_of(rita, episode), episode, "0.4375", limit=2) == ([9, 10], True)
    assert in_episode.holding(lens_of(rita, episode), episode, "0.4375", limit=3) == ([9, 10, 11], False)
    assert in_episode.holding(lens_of(ada, episode), episode, "0.4375", limit=2) == ([4, 5], True)
