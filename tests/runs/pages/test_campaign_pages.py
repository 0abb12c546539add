"""Pages and calls of campaigns: who may launch one, what a blind reviewer sees of it, and what goes with a person."""

from __future__ import annotations

import json
import re

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse

from awmweb.erasing.episodes import erase_episode
from awmweb.erasing.persons import erase_person
from episodes.models import Episode, Erratum, Fork, OutcomeHold, RejudgedEpisode, VerifierOutcome, VerifierVersion
from episodes.record import rejudging
from episodes.record.saved_views import EPISODE_VIEWS
from people.access import person
from people.record.members import ensure_member, issue_token
from runs.models import Campaign, CampaignPoint
from runs.play import campaigning
from runs.show import campaigns, errata, forks
from tests.browsing import as_person, html

pytestmark = pytest.mark.django_db
SECRET = "the words of max"


@pytest.fixture
def campaign(ada):
    """A campaign that has ended: six roots of two kinds at two times, better early, nothing late."""
    made = Campaign.objects.create(
        **{"project": ada.project, "name": "Until when?", "query": "?outcome=others", "place": "times"},
        **{"points": [0, 50], "kind": "words", "change": {"words": SECRET}, "tries": 2, "matched": 8, "chosen": 8},
        **{"author": ada.name, "author_key": ada.key, "made_at": "2026-11-27T00:00:00Z"},
    )
    for place in range(8):
        about = {
            "scenario": f"kind_{place % 2}",
            "task_idx": place,
            "task": "t",
            "state": "finished",
            "key": f"{place}",
        }
        same = {"project": ada.project, "body_digest": "", "policy_kind": "model", **about}
        root = Episode.objects.create(origin="builtin", **same)
        for share in (0, 50):
            fork = {"project": ada.project, "parent": root, "seq": 1 + share, "tries": 2, "knowledge": "hindsight"}
            fork = Fork.objects.create(grade="exact", change=made.change, **fork)
            CampaignPoint.objects.create(campaign=made, root=root, share=share, seq=1 + share, fork=fork)
            for number, arm in enumerate(["treated", "treated", "control", "control"]):
                branch = {**same, "key": f"{fork.pk}/{number}", "branch_arm": arm, "branch_seq": 1 + share}
                row = Episode.every.create(origin="branch", fork=fork, **branch)
                is_complete = arm == "treated" and share == 0
                row.outcomes.create(source="verifier", reward_type="complete" if is_complete else "others", reward=0.0)
    return made


def api(token):
    return Client(headers={"Authorization": f"Bearer {token}"})


def test_page_says_until_when_and_draws_the_curve(campaign, ada):
    page = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    assert "Shown to help at 0% of an episode on these 8 episodes. At 0%: +100 points" in page
    assert "Not shown at 50% of an episode, which does not prove that it is too late." in page
    assert "kind_0: at no time of an episode shown to help or harm on these 4 episodes." in page
    assert "What the change is worth by time: all tasks" in page and SECRET in page
    assert "Shown to help at 0%" in html(as_person(ada).get("/campaigns/"))


def test_pages_say_episode_place_and_fork_and_no_root(campaign, ada):
    for address in (campaign.get_absolute_url(), reverse("campaigns")):
        page = html(as_person(ada).get(address))
        words = " ".join(re.sub(r"<[^>]+>", " ", page[page.index('id="main"') :]).split())
        assert "A place is a step at which" in words and not re.search(r"\broots?\b", words), address


def test_call_returns_cells_and_kinds(campaign, ada):
    found = api(issue_token(ada, "t", "launch")[1]).get(f"/api/v1/campaigns/{campaign.pk}").json()
    assert (found["state"], found["branches"], found["ended"], found["withheld"]) == ("ended", 64, 64, False)
    early, late = [one for one in found["cells"] if one["kind"] == ""]
    assert (early["verdict"], early["roots"], early["difference"]) == ("better", 8, 1.0) and late["verdict"] == ""
    assert len(found["kinds"]) == 2 and found["sentence"].startswith("Shown to help at 0%")


def test_curve_is_drawn_once_where_nothing_is_shown(campaign, ada):
    shown = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    assert shown.count("What the change is worth by time") > 1
    VerifierOutcome.objects.filter(episode__origin="branch").delete()
    for row in Episode.every.filter(origin="branch"):
        row.outcomes.create(source="verifier", reward_type="others", reward=0.0)
    page = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    titles = [part.split("<", 1)[0] for part in page.split("What the change is worth by time: ")[1:]]
    assert {title.strip('" ') for title in titles} == {"all tasks"}
    assert "at no time of an episode shown to help or harm" in page


def test_call_lists_every_place_by_pages(campaign, ada):
    CampaignPoint.objects.filter(share=50).update(fork=None, reason="The world differs.")
    token, path, seen = api(issue_token(ada, "t", "launch")[1]), f"/api/v1/campaigns/{campaign.pk}/places", []
    cursor = ""
    while cursor is not None:
        page = token.get(path, {"limit": 5, **({"cursor": cursor} if cursor else {})}).json()
        seen, cursor = seen + page["items"], page["next"]
    stored = CampaignPoint.objects.filter(campaign=campaign).order_by("pk")
    assert [(one["episode"], one["share"], one["step"]) for one in seen] == [
        *stored.values_list("root", "share", "seq")
    ]
    assert {(one["grade"], one["reason"]) for one in seen} == {("exact", None), (None, "The world differs.")}
    Campaign.objects.update(place="error")
    assert token.get(path).json()["items"][0]["share"] is None
    assert token.get(path, {"cursor": "x"}).status_code == 422


def test_page_names_the_call_for_more_places(campaign, ada, monkeypatch):
    monkeypatch.setattr("runs.pages.campaigns.ROOTS", 15)
    page = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    assert f"1 more place: <code>GET /api/v1/campaigns/{campaign.pk}/places</code>" in page


def test_blind_reviewer_sees_no_outcome_and_not_which_episodes(campaign, ada):
    root = CampaignPoint.objects.filter(campaign=campaign).first().root
    ensure_member(ada.project, "rae", "researcher")
    rae = person(ada.project.memberships.get(user__username="rae"))
    OutcomeHold.objects.create(episode=root, actor_key=rae.key, by="queue")
    for path in (f"/campaigns/{campaign.pk}/", "/campaigns/"):
        page = html(as_person(rae).get(path))
        assert campaigns.WITHHELD in page
        assert "Shown to help" not in page and root.pk not in page
    found = campaigns.seen(rae, campaigns.visible(rae, campaign.pk))
    assert (found.is_withheld, found.finding, found.points) == (True, None, [])
    assert campaigns.places(rae, campaigns.visible(rae, campaign.pk), 0, 50) == []
    assert "Shown to help" in html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))


def test_agents_neither_launch_nor_read_campaigns(campaign, ada):
    agent = api(issue_token(ada, "a", "agent")[1])
    body = json.dumps({"change": {"words": "x"}})
    for path in ("campaigns", "campaigns/estimate", f"campaigns/{campaign.pk}/cancel"):
        sent = "" if path.endswith("cancel") else body
        assert agent.post(f"/api/v1/{path}", sent, content_type="application/json").status_code == 403, path
    for path in ("campaigns", f"campaigns/{campaign.pk}", f"campaigns/{campaign.pk}/places"):
        assert agent.get(f"/api/v1/{path}").status_code == 403, path
    launch = api(issue_token(ada, "l", "launch")[1])
    listed = launch.get("/api/v1/campaigns").json()["items"]
    assert [one["id"] for one in listed] == [campaign.pk] and "sentence" not in listed[0]
    answer = launch.post("/api/v1/campaigns", json.dumps({"change": {}}), content_type="application/json")
    assert answer.status_code == 422 and "a campaign changes one of" in answer.json()["error"]["message"]


def test_viewer_reads_and_launches_nothing(campaign, ada):
    ensure_member(ada.project, "vi", "viewer")
    vi = as_person(person(ada.project.memberships.get(user__username="vi")))
    page = vi.get("/campaigns/")
    assert page.status_code == 403 or "Launch a campaign</h2>" not in html(page)
    assert vi.post("/projects/lab/campaigns/", {"do": "launch", "words": "x"}).status_code == 403
    assert vi.post(f"/projects/lab/campaigns/{campaign.pk}/cancel").status_code == 403


def test_erased_person_leaves_no_words_in_campaigns(campaign, ada):
    erase_person(ada.person.username)
    campaign.refresh_from_db()
    assert (campaign.change, campaign.name) == ({}, "[erased]")
    assert SECRET not in html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))


def test_campaign_in_work_says_nothing_of_its_branches(campaign, ada):
    Campaign.objects.update(made_at=None)
    found = campaigns.seen(ada, campaigns.visible(ada, campaign.pk))
    assert (found.state, found.finding) == ("forking", None) and "once, at the end" in found.sentence
    campaigning.cancel(ada, campaign.pk)
    assert campaigns.seen(ada, campaigns.visible(ada, campaign.pk)).sentence == campaigns.CANCELLED


def test_campaigns_of_the_same_steps_share_the_error(campaign, ada):
    again = Campaign.objects.get(pk=campaign.pk)
    again.pk = None
    again.save(force_insert=True)
    for one in CampaignPoint.objects.filter(campaign=campaign):
        CampaignPoint.objects.create(campaign=again, root=one.root, share=one.share, seq=one.seq, reason="left out")
    assert campaigns.asking_too(campaign).count() == 2
    assert "Shown to help" not in campaigns.seen(ada, campaign).sentence
    CampaignPoint.objects.filter(campaign=again).update(seq=F("seq") + 1)
    assert campaigns.asking_too(campaign).count() == 2, "the same words a turn further"
    Campaign.objects.filter(pk=again.pk).update(kind="ask")
    assert campaigns.asking_too(campaign).count() == 1
    CampaignPoint.objects.filter(campaign=again).update(seq=F("seq") - 1)
    assert campaigns.asking_too(campaign).count() == 2, "another change at the same steps"


def nothing_differs(campaign):
    """Make the change do nothing: a half of the branches of each arm is complete."""
    for fork in Fork.objects.all():
        for arm in ("treated", "control"):
            pks = Episode.every.filter(fork=fork, branch_arm=arm).order_by("key").values_list("pk", flat=True)
            for pk, reward_type in zip(pks, ("complete", "others"), strict=True):
                VerifierOutcome.objects.filter(episode=pk).update(reward_type=reward_type)


def failed_branches(arm):
    return Episode.every.filter(branch_arm=arm, outcomes__reward_type="others").values_list("pk", flat=True)


def test_erased_failures_of_branches_show_nothing(campaign, ada):
    """The treated branches that failed are erased, as an admin can: all that are left are complete."""
    nothing_differs(campaign)
    for pk in failed_branches("treated"):
        erase_episode(ada, pk)
    found = campaigns.seen(ada, campaigns.visible(ada, campaign.pk))
    assert {one.verdict for one in found.finding.cells} == {""}
    assert (found.progress.erased, found.finding.cells[0].lost) == (16, 8)
    assert found.sentence.startswith("At no time of an episode shown to help or harm")
    assert found.sentence.endswith(" 16 branches were erased since the launch.")


def test_erased_roots_withhold_what_a_campaign_says(campaign, ada):
    assert "Shown to help" in campaigns.seen(ada, campaign).sentence
    erase_episode(ada, CampaignPoint.objects.first().root_id)
    found = campaigns.seen(ada, campaigns.visible(ada, campaign.pk))
    assert (found.sentence, found.finding) == ("Withheld: 1 of 8 episodes was erased since the launch.", None)
    page = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    assert found.sentence in page and "Shown to help" not in page
    for root in set(CampaignPoint.objects.values_list("root", flat=True)):
        erase_episode(ada, root)
    assert campaigns.seen(ada, campaign).sentence == "Withheld: 8 of 8 episodes were erased since the launch."


def test_campaign_without_branches_names_their_erasure(campaign, ada):
    Episode.every.filter(origin="branch").delete()
    assert campaigns.seen(ada, campaign).sentence == campaigns.ALL_ERASED
    CampaignPoint.objects.update(fork=None, reason="The world differs.")
    assert campaigns.seen(ada, campaign).sentence == campaigns.NONE


def repaired(campaign, actor):
    """Have a repaired verifier find the early treated branches complete, which were not before."""
    early = Episode.every.filter(origin="branch", branch_arm="treated", branch_seq=1)
    Episode.every.update(scenario="helpdesk_1", task_idx=0)
    VerifierOutcome.objects.filter(episode__in=early).update(reward_type="others")
    about = {"project": actor.project, "scenario": "helpdesk_1", "task_idx": 0, "number": 2, "reason": "too strict"}
    version = VerifierVersion.objects.create(**about, code="x", sha256="y", created_by=actor.name)
    done = rejudging.begin(actor, "helpdesk_1", 0, version)
    changed = {"result": "changed", "before": "others", "after": "complete"}
    rejudging.keep(RejudgedEpisode(rejudging=done, episode=one, **changed) for one in early)
    return rejudging.end(done.pk)


def test_repaired_outcomes_alone_show_nothing(campaign, ada):
    """No branch of an arm was complete before the repair."""
    repaired(campaign, ada)
    found = campaigns.seen(ada, campaigns.visible(ada, campaign.pk))
    assert found.sentence.startswith("Withheld after an erratum. On the corrected outcomes alone: Shown to help at 0%")
    assert [(one.verdict, one.withheld) for one in found.finding.cells] == [("", "better"), ("", "")]
    assert found.finding.cells[0].words.endswith(": withheld after an erratum.")


def test_campaign_that_reads_otherwise_gets_an_erratum(campaign, ada):
    done = repaired(campaign, ada)
    erratum = Erratum.objects.get()
    assert (erratum.campaign, erratum.run, erratum.export) == (campaign.pk, None, "")
    page = html(as_person(ada).get(f"/campaigns/{campaign.pk}/"))
    assert "Erratum</h2>" in page and "too strict" in page and "What the campaign says" in page
    token = api(issue_token(ada, "t", "launch")[1])
    [listed] = token.get(f"/api/v1/campaigns/{campaign.pk}").json()["errata"]
    assert listed["campaign"] == campaign.pk and listed["changes"][0]["before"].startswith("At no time of an episode")
    [same] = token.get(f"/api/v1/verifiers/reverify/{done.pk}").json()["errata"]
    assert same == listed
    assert "campaign Until when?" in html(as_person(ada).get("/verifiers/helpdesk_1/0/"))


def test_blind_reviewer_reads_no_numbers_of_a_campaign_in_a_pass(campaign, ada):
    done = repaired(campaign, ada)
    ensure_member(ada.project, "rae", "researcher")
    rae = person(ada.project.memberships.get(user__username="rae"))
    OutcomeHold.objects.create(episode=CampaignPoint.objects.first().root, actor_key=rae.key, by="queue")
    assert [len(one.changes) > 0 for one in errata.of_pass(ada, done)] == [True]
    assert [one.changes for one in errata.of_pass(rae, done)] == [[]]


def test_forks_of_a_campaign_are_asked_at_its_launch(campaign):
    root = CampaignPoint.objects.first().root_id
    Campaign.objects.update(created_at="2026-11-20T00:00:00Z")
    assert {str(one.made_at.date()) for one in forks.asked_in([root])[root]} == {"2026-11-20"}


def test_a_fork_whose_branches_were_erased_stays_read(campaign):
    """Else the forks after it would share its part of the error again."""
    fork = Fork.objects.order_by("created_at").first()
    CampaignPoint.objects.all().delete()
    Episode.every.filter(fork=fork).delete()
    [read_at] = [one.read_at for one in forks.asked_in([fork.parent_id])[fork.parent_id] if one.pk == fork.pk]
    assert read_at == fork.created_at


def test_form_of_episodes_chooses_and_counts_the_roots(campaign, ada, rita):
    for row in Episode.objects.all():
        row.outcomes.create(source="verifier", reward_type="others", reward=0.0)
    EPISODE_VIEWS.save(ada, "one kind", "?scenario=kind_1&sort=length", shared=False)
    page = html(as_person(ada).get("/campaigns/"))
    assert "<b>8 episodes match.</b>" in page and "Outcome: Not complete" in page
    assert '<input type="hidden" name="query" value="?outcome=others" form="launch">' in page
    assert "kind_1</span> <small>4</small>" in page
    assert 'href="?scenario=kind_1&amp;sort=length">one kind</a>' in page
    narrow = html(as_person(ada).get("/campaigns/?scenario=kind_1&sort=length"))
    assert "<b>4 episodes match.</b>" in narrow and 'value="?scenario=kind_1" form="launch"' in narrow
    refused = html(as_person(ada).post("/campaigns/", {"do": "estimate", "query": "?scenario=kind_0"}))
    assert "<b>4 episodes match.</b>" in refused and 'value="?scenario=kind_0" form="launch"' in refused
    assert "No episode has this outcome." in html(as_person(ada).get("/campaigns/?outcome=never"))
    assert as_person(rita).get("/campaigns/").status_code == 403


def test_refusal_of_the_form_names_its_label(campaign, ada):
    for row in Episode.objects.all():
        row.outcomes.create(source="verifier", reward_type="others", reward=0.0)
    for fields, words in [
        ({"kind": "words"}, "Words: enter some text."),
        ({"kind": "ask"}, "Question: enter some text."),
        ({"words": "Wait.", "tries": "many"}, "Branches per arm: use whole numbers."),
    ]:
        page = html(as_person(ada).post("/campaigns/", {"do": "estimate", **fields}))
        assert f'role="alert">{words}</p>' in page
