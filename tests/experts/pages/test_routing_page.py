"""The page Desk: everybody reads it, those who run the place change it, and nothing that was typed is lost."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace

import pytest
from django.db import connection

from experts.errors import PolicyRefused
from experts.models import Desk, ModelCall
from experts.pages import routing
from experts.record import desk
from people.errors import Invalid, NotFound
from people.models import AuditEntry, Membership
from people.record.members import ensure_member, set_skills
from tests.awmclient.openai_server import OpenAIServer, answering, tool_call
from tests.browsing import as_person, html


def form(actor):
    """What the form would send as it stands."""
    page = html(as_person(actor).get("/routing/"))
    fields = dict(re.findall(r'<input id="k-[^"]+" name="([^"]+)" value="([^"]*)"', page))
    fields |= dict(re.findall(r'<textarea id="k-[^"]+" name="([^"]+)".*?>(.*?)</textarea>', page, re.S))
    fields |= dict.fromkeys(re.findall(r'<input id="k-[^"]+" type="checkbox" name="([^"]+)"[^>]* checked', page), "on")
    for name, options in re.findall(r'<select id="k-[^"]+" name="([^"]+)".*?>(.*?)</select>', page, re.S):
        chosen = re.search(r'value="([^"]*)" selected', options)
        fields[name] = chosen[1] if chosen else ""
    was = re.search(r'name="was" value="([^"]*)"', page)[1].replace("&quot;", '"')
    return {**fields, "was": was}


def test_every_value_of_the_desk_has_its_place_in_the_form():
    columns = {field.name for field in Desk._meta.get_fields()} - {"id", "project"}
    assert set(routing.KNOBS) == columns


def test_values_are_saved_and_the_trail_says_who_changed_what(ada, edo, project):
    senior = Membership.objects.get(user=edo.person)
    body = {**form(ada), "model_first": "on", "audit_share": "0,2", "per_hour": "30", "senior": str(senior.pk)}
    seen = html(as_person(ada).post("/routing/", body, follow=True))
    row = Desk.objects.get(project=project)
    assert (row.model_first, row.audit_share, row.per_hour, row.senior_id) == (True, 0.2, 30, senior.pk)
    assert "Saved: model answers first, audit share, budget per hour, senior expert." in seen
    said = AuditEntry.objects.get(verb="desk.changed").reason
    assert said == "audit_share: 0.05 to 0.2; model_first: off to on; per_hour: none to 30; senior: none to edo"
    assert (
        "Audit share: 0.05 to 0.2; Model answers first: off to on; Budget per hour: none to 30; Senior expert: none to"
        in seen
    )


def test_changes_name_settings_as_the_form_and_keep_values(ada):
    body = form(ada)
    for second_look in ("high_risk: x => No.", "seed: 1 => No."):
        seen = html(as_person(ada).post("/routing/", {**body, "second_look": second_look}, follow=True))
        body = form(ada)
    assert "Second look: high_risk: x =&gt; No. to seed: 1 =&gt; No." in seen
    as_person(ada).post("/routing/", {**body, "high_risk": "drop*"}, follow=True)
    history = html(as_person(ada).get("/routing/")).split('id="h-changes"')[1]
    assert "High-risk tools: delete*" in history and "high_risk: delete" not in history


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("audit_share", "1.5", "Enter a share from 0 to 1, for example"),
        ("audit_share", "nan", "Enter a share from 0 to 1, for example"),
        ("low_confidence", "much", "Enter a share from 0 to 1."),
        ("large_group", "1", "Enter a whole number from 2 to 1,000."),
        ("capacity", "0", "Enter a whole number from 1 to 100."),
        ("capacity", "", "Enter a whole number."),
        ("per_hour", "-1", "Enter a whole number from 0 to 1,000,000, or leave it empty."),
        ("per_training_step", "2.5", "Enter a whole number."),
        ("wait_limit_s", "0", "Enter a whole number from 1 to 86,400, or leave it empty."),
        ("model_tokens_per_hour", "9" * 30, "Enter a whole number from 0 to 2"),
        ("seed", "-4", "Enter a whole number from 0 to 2"),
        ("cache", "sometimes", "Choose one of the options."),
        ("senior", "12345678", "Choose a member of this project"),
    ],
)
def test_bad_form_value_shows_an_error_and_keeps_the_input(ada, name, text, words):
    refused = as_person(ada).post("/routing/", {**form(ada), "capacity": "7", name: text})
    page = html(refused)
    assert refused.status_code == 422 and words in page and "Not saved. Fix 1 value." in page
    assert name in ("cache", "senior") or f'name="{name}" value="{text}"' in page
    assert name == "capacity" or 'name="capacity" value="7"' in page
    assert not Desk.objects.exists() and not AuditEntry.objects.filter(verb="desk.changed").exists()


def test_two_bad_values_are_named_at_once(ada):
    page = html(as_person(ada).post("/routing/", {**form(ada), "seed": "x", "audit_share": "7"}))
    assert "Not saved. Fix 2 values." in page and page.count('aria-invalid="true"') == 2


def test_who_saves_an_older_form_undoes_nothing_of_others(ada, project):
    older = form(ada)
    desk.set_policy(ada, capacity=9)
    as_person(ada).post("/routing/", {**older, "seed": "5"})
    row = Desk.objects.get(project=project)
    assert (row.capacity, row.seed) == (9, 5)


def test_saving_the_form_as_it_stands_changes_nothing(ada):
    assert "No changes." in html(as_person(ada).post("/routing/", form(ada), follow=True))
    assert not AuditEntry.objects.filter(verb="desk.changed").exists()


def test_others_read_and_may_not_change(ada, edo, rita, max_):
    body = form(ada)
    for who in (edo, rita):
        page = html(as_person(who).get("/routing/"))
        assert '<fieldset class="sheet knobs" disabled>' in page
        assert "Only admins and researchers can change these." in page
        assert as_person(who).post("/routing/", {**body, "capacity": "9"}).status_code == 403
    as_person(max_).post("/routing/", {**body, "capacity": "9"})
    assert list(Desk.objects.values_list("project__slug", "capacity")) == [("elsewhere", 9)]


def test_only_project_experts_can_become_senior(ada, rita, max_):
    for who in (rita, max_):
        with pytest.raises(PolicyRefused, match="senior"):
            desk.set_policy(ada, senior=Membership.objects.get(user=who.person))


@pytest.mark.django_db(transaction=True)
def test_two_who_save_first_at_once_both_succeed(project, ada):
    failed = []

    def save(name):
        try:
            desk.set_policy(ada, **{name: 11})
        except Exception as error:  # noqa: BLE001  the test names whatever it is
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=save, args=(name,)) for name in ("capacity", "seed")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = Desk.objects.get(project=project)
    assert failed == [] and (row.capacity, row.seed) == (11, 11)


def test_models_page_shows_status_and_tests_each(ada, edo, settings, project):
    server = OpenAIServer(lambda body: "ready")
    with answering(server):
        settings.EXPERT_ENDPOINTS = {
            "small": replace(endpoint(server.base_url), options={"seed": 7}),
            "big": endpoint("http://127.0.0.1:9/v1"),
        }
        ModelCall.objects.create(
            project=project, model_key="model:big", purpose="answer", fault="401 no <key>", duration_s=1
        )
        page = html(as_person(ada).get("/routing/"))
        assert (
            "<b>small</b>" in page
            and "(seed 7)</span>" in page
            and "not called yet" in page
            and "401 no &lt;key&gt;" in page
        )
        assert "Test passed." in html(as_person(ada).post("/routing/models/small/test"))
        assert "Test failed" in html(as_person(ada).post("/routing/models/big/test"))
        assert as_person(ada).post("/routing/models/none/test").status_code == 404
        assert as_person(edo).post("/routing/models/small/test").status_code == 403
        page = html(as_person(ada).get("/models/"))
        assert page.index("AWMWEB_EXPERT_BASE_URL") < page.index("AWMWEB_EXPERT_SMALL_BASE_URL")
        assert (
            'hx-post="/projects/lab/routing/models/small/test"' in page
            and 'hx-post="/projects/lab/routing/models/big/test"' in page
        )


def test_models_page_tests_further_agent_models(ada, settings):
    server = OpenAIServer(lambda body: tool_call("ready", {"word": "yes"}))
    with answering(server):
        settings.AGENT_ENDPOINTS = {"tuned": replace(endpoint(server.base_url), options={"top_p": 0.5})}
        page = html(as_person(ada).get("/models/"))
        assert "AWMWEB_AGENT_TUNED_OPTIONS" in page and "{&quot;top_p&quot;: 0.5}" in page
        assert "AWMWEB_AGENT_TUNED_BASE_URL" in page and 'hx-post="/projects/lab/models/agent:tuned/test"' in page
        assert "Runs tasks with policy model:tuned." in page
        assert "Test passed." in html(as_person(ada).post("/models/agent:tuned/test"))
        assert "Set AWMWEB_AGENT_BASE_URL" in html(as_person(ada).post("/models/agent/test"))
        for unknown in ("agent:none", "expert:tuned", "other"):
            assert as_person(ada).post(f"/models/{unknown}/test").status_code == 404


def endpoint(base_url):
    from awmclient.choosing.chat import EndpointConfig

    return EndpointConfig.from_environment("X_", {"X_BASE_URL": base_url, "X_MODEL": "m"})


def test_an_admin_names_skills_and_the_trail_keeps_them(ada, edo, rita, max_, elsewhere):
    mine = Membership.objects.get(user=edo.person)
    seen = as_person(ada).post(
        "/members/", {"do": "skills", "membership": mine.pk, "skills": " refunds,  two  words ,,refunds"}, follow=True
    )
    mine.refresh_from_db()
    assert mine.skills == ["refunds", "two words"] and "edo: refunds, two words." in html(seen)
    assert AuditEntry.objects.get(verb="set the skills of").reason == "none to refunds, two words"
    for who in (edo, rita):
        assert as_person(who).post("/members/", {"do": "skills", "membership": mine.pk}).status_code == 422
    with pytest.raises(NotFound):
        set_skills(max_, mine.pk, ["mine"])
    with pytest.raises(Invalid, match="At most 30 skills"):
        set_skills(ada, mine.pk, ["x" * 61])
    mine.refresh_from_db()
    assert mine.skills == ["refunds", "two words"]


def test_the_seniors_are_those_who_may_answer(ada, edo, rita, project):
    ensure_member(project, "lena", "researcher")
    options = re.search(r'name="senior".*?</select>', html(as_person(ada).get("/routing/")), re.S)[0]
    assert re.findall(r">([^<]+)</option>", options) == ["No one", "ada", "edo", "lena"]
    assert json.loads(form(ada)["was"])["senior"] == ""
