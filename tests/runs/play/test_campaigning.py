"""The same change in many ended episodes: which are roots, what it takes, and what it says once all have ended."""

from __future__ import annotations

import io
import re

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from episodes.models import Episode, Fork, SavedView
from people.access import system
from people.errors import AppError, Invalid
from runs.errors import NotForkable
from runs.models import Campaign, CampaignPoint
from runs.play import campaigning, playing
from runs.show import campaigns
from tests.browsing import as_person, html
from tests.runs.faulty import WORKER, Faults, plan_of

pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def calls(monkeypatch):
    """The calls of workers for campaigns, with their delay."""
    found = []
    monkeypatch.setattr(campaigning.launching, "campaign_later", lambda pk, delay_s=0: found.append((pk, delay_s)))
    return found


@pytest.fixture
def roots(desk, calls):
    """Two episodes of four turns, complete, and no call of a worker."""
    return [desk.played(plan_of([["a"], ["b"], ["c"]]), Faults())[0] for _ in range(2)]


def start(**said):
    about = {"query": "?outcome=complete", "at": "times", "points": [0, 10, 50], "tries": 1}
    return campaigning.start_of({"change": {"words": "Mind the order."}, **about, **said})


def play_all(campaign):
    for branch in campaigns.branches_of(campaign).live():
        playing.play(branch.pk, WORKER)


def test_campaign_forks_each_root_at_each_time_and_says_it_once(roots, ada, calls):
    plan = campaigning.planned(ada, start())
    assert (plan.matched, plan.roots, len(plan.forks), plan.branches) == (2, 2, 4, 8), "0 and 10% are one turn"
    assert "2 episodes match. 2 can be forked: 6 places, 4 forks, 8 branches: about 24 turns" in plan.words
    assert "Fewer than 8 episodes can show nothing." in plan.words and not Campaign.objects.exists()
    made = campaigning.launch(ada, start(name="Order"))
    assert calls == [(made.pk, 0)] and not Fork.objects.exists()
    assert campaigns.seen(ada, campaigns.visible(ada, made.pk)).sentence.startswith("Its first forks are being made.")
    campaigning.work(made.pk)
    assert Fork.objects.count() == 4 and CampaignPoint.objects.filter(fork__isnull=False).count() == 6
    assert {one.created_by for one in Fork.objects.all()} == {ada.name}
    running = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert (running.state, running.finding) == ("running", None)
    assert running.sentence == "0 of 8 branches have ended. What they show is said once, at the end."
    play_all(made)
    found = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert found.state == "ended" and "A script makes the same choices" in found.sentence
    Episode.every.update(policy_kind="model")
    found = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert found.sentence == (
        "At no time of an episode shown to help or harm on these 2 episodes. That does not prove that it does nothing. "
        "Fewer than 8 episodes can show nothing."
    )
    assert [(one.at, one.roots, one.difference, one.verdict) for one in found.finding.cells] == [
        (0, 2, 0.0, ""), (10, 2, 0.0, ""), (50, 2, 0.0, ""),
    ]  # fmt: skip
    assert Episode.objects.count() == 2, "branches count nowhere"


def test_a_root_that_cannot_be_restored_is_left_out_and_counted(roots, ada):
    one, other = roots
    Episode.objects.filter(pk=one.pk).update(world={**one.world, "base": "0" * 64})
    Episode.objects.filter(pk=other.pk).update(world={})
    with pytest.raises(NotForkable, match="None of 1 episode can be forked. The world was not recorded."):
        campaigning.launch(ada, start(query=f"?id={other.pk}"))
    made = campaigning.launch(ada, start())
    campaigning.work(made.pk)
    found = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert found.progress.roots_left == 2 and sum(found.progress.left_out.values()) == 6
    assert found.progress.left_out["The world was not recorded."] == 3
    assert (found.state, found.sentence) == ("ended", campaigns.NONE) and not Fork.objects.exists()


def test_campaign_stops_at_its_limit_of_live_branches(roots, ada, calls, monkeypatch):
    monkeypatch.setattr(campaigning, "LIVE", 3)
    made = campaigning.launch(ada, start())
    campaigning.work(made.pk)
    assert Fork.objects.count() == 2 and calls[-1] == (made.pk, campaigning.PAUSE_S)
    play_all(made)
    campaigning.work(made.pk)
    assert Fork.objects.count() == 4
    play_all(made)
    campaigning.work(made.pk)
    made.refresh_from_db()
    assert made.made_at is not None


def test_cancelled_campaign_ends_its_branches_and_says_nothing(roots, ada, calls, monkeypatch):
    monkeypatch.setattr(campaigning, "LIVE", 2)
    made = campaigning.launch(ada, start())
    campaigning.work(made.pk)
    campaigning.cancel(ada, made.pk)
    assert not campaigns.branches_of(made).live().exists()
    campaigning.work(made.pk)
    assert Fork.objects.count() == 1
    found = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert (found.state, found.sentence, found.finding) == ("cancelled", campaigns.CANCELLED, None)
    assert found.progress.left_out == {campaigning.CANCELLED: 4}
    with pytest.raises(AppError, match="is cancelled"):
        campaigning.cancel(ada, made.pk)


def test_forgotten_campaign_is_called_again(roots, ada, calls):
    made = campaigning.launch(ada, start())
    assert campaigning.wake_forgotten() == 0
    Campaign.objects.update(worked_at="2026-01-01T00:00:00Z")
    assert campaigning.wake_forgotten() == 1 and calls[-1] == (made.pk, 0)


def test_used_up_budget_leaves_the_rest_out(roots, ada, monkeypatch):
    made = campaigning.launch(ada, start(budget=10))
    monkeypatch.setattr(campaigning.spending.Spent, "tokens", 11)
    campaigning.work(made.pk)
    found = campaigns.seen(ada, campaigns.visible(ada, made.pk))
    assert found.progress.left_out == {campaigning.SPENT: 6} and not Fork.objects.exists()


def test_what_fits_no_campaign_is_refused(roots, ada):
    for said, why in [
        ({"change": {}}, "a campaign changes one of"),
        ({"change": {"call": {"name": "add_row", "arguments": {}}}}, "a campaign changes one of"),
        ({"change": {"words": "a", "policy": "model"}}, "a fork changes one thing"),
        ({"query": "?scenario=none_1"}, "no episode matches"),
        ({"query": "?origin=branch"}, "a campaign forks no branches"),
        ({"tries": 11}, "64 branches"),
        ({"view": "a"}, "not both"),
        ({"points": [100]}, "points"),
        ({"change": {"words": ""}}, r"change\.words: Value should have at least 1 character\."),
    ]:
        with pytest.raises(Invalid, match=why):
            campaigning.planned(ada, start(**said))
    with pytest.raises(AppError):
        campaigning.planned(ada, start(query="", view="none"))


def test_first_error_is_the_turn_that_made_it():
    steps = [
        {"seq": 1, "kind": "message", "role": "assistant", "turn": 1},
        {"seq": 2, "kind": "tool_call", "turn": 1},
        {"seq": 3, "kind": "message", "role": "assistant", "turn": 2},
        {"seq": 4, "kind": "tool_call", "turn": 2},
        {"seq": 5, "kind": "tool_call", "turn": 2, "error": "no such row"},
        {"seq": 6, "kind": "tool_call", "turn": 3, "error": "again"},
    ]
    assert campaigning.first_error(steps) == 5 and campaigning.first_error(steps[:2]) == 0
    assert campaigning._seqs(steps, start(at="error")) == {0: 3}
    assert campaigning._seqs(steps[:4], start(at="error")) == {}


@given(st.lists(st.integers(1, 3), min_size=1, max_size=9), st.data())
def test_every_place_begins_a_turn_and_later_shares_come_later(sizes, data):
    """Whatever the turns are: the places of an episode are first steps of its turns, in the order of the shares."""
    turns = [turn for turn, size in enumerate(sizes, 1) for _ in range(size)]
    steps = [{"seq": seq, "kind": "tool_call", "turn": turn} for seq, turn in enumerate(turns, 1)]
    firsts = {turn: turns.index(turn) + 1 for turn in turns}
    shares = data.draw(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
    seqs = campaigning._seqs(steps, start(points=shares))
    assert list(seqs) == sorted(shares) and set(seqs.values()) <= set(firsts.values())
    assert list(seqs.values()) == sorted(seqs.values()) and seqs.get(0, 1) == 1
    bad = data.draw(st.sampled_from(steps))
    bad["error"] = "no such row"
    assert campaigning._seqs(steps, start(at="error")) == {0: firsts[bad["turn"]]}


def test_command_launches_from_a_view_and_prints_what_it_shows(roots, ada, tmp_path):
    SavedView.objects.create(
        project=ada.project, author_key=ada.key, author="ada", name="Mine", query="?outcome=complete"
    )
    file, out = tmp_path / "change.yaml", io.StringIO()
    file.write_text("words: Mind the order.\n")
    about = {"project": ada.project.slug, "view": "Mine", "at": "times", "points": "0,50", "tries": 1, "stdout": out}
    call_command("campaign", change=file, estimate=True, **about)
    assert (
        "2 episodes match. 2 can be forked: 4 places, 4 forks, 8 branches" in out.getvalue()
        and not Campaign.objects.exists()
    )
    call_command("campaign", change=file, **about)
    made = Campaign.objects.get()
    assert made.view == "Mine" and made.query == "?outcome=complete" and made.get_absolute_url() in out.getvalue()
    campaigning.work(made.pk)
    play_all(made)
    call_command("campaign", show=made.pk, project=ada.project.slug, stdout=out)
    assert (
        "ended: A script makes the same choices" in out.getvalue() and "all tasks at 50%: 2 episodes" in out.getvalue()
    )
    with pytest.raises(CommandError, match="has ended"):
        call_command("campaign", cancel=made.pk, project=ada.project.slug)


def test_erased_words_stop_a_campaign(roots, ada):
    made = campaigning.launch(system(ada.project), start())
    Campaign.objects.update(change={})
    campaigning.work(made.pk)
    assert campaigns.seen(ada, campaigns.visible(ada, made.pk)).progress.left_out == {campaigning.ERASED: 6}


def test_campaign_goes_with_its_roots(roots, ada):
    made = campaigning.launch(ada, start())
    campaigning.work(made.pk)
    Fork.objects.all().delete()
    assert not CampaignPoint.objects.exists() and Campaign.objects.filter(pk=made.pk).exists()


def test_a_form_that_is_sent_twice_launches_once(roots, ada):
    page = as_person(ada)
    sent = re.search(r'name="form" value="(\w{20})"', html(page.get("/campaigns/")))[1]
    form = {"at": "times", "points": "0", "kind": "words", "words": "Look.", "tries": "1", "do": "launch", "form": sent}
    form |= {"query": "?state=finished"}
    first = page.post("/campaigns/", form)
    assert first.status_code == 302 and page.post("/campaigns/", form).url == first.url
    assert Campaign.objects.get().pk == sent
    with pytest.raises(Invalid, match="Open the form again"):
        campaigning.launch(system(ada.project), start(query="?state=finished"), sent)
