"""Which forks are pairs for training: those of a campaign share one error, as those of a tree do."""

from __future__ import annotations

import pytest

from awmclient.schema import NOT_COUNTED
from episodes.models import Episode, Fork, VerifierOutcome
from exports.select.measured import measured
from runs.models import Campaign, CampaignPoint
from runs.show import campaigns

pytestmark = pytest.mark.django_db
WINS, KEPT, TRIES = 8, 4, 8


def forked(actor, place, campaign=None):
    """A root with a fork whose question is complete 8 of 8 times, and the recorded choice 4 of 8: p = .028."""
    about = {"scenario": f"kind_{place}", "task_idx": 0, "task": "t", "state": "finished", "key": f"{place}"}
    same = {"project": actor.project, "body_digest": "", "policy_kind": "model", **about}
    root = Episode.objects.create(origin="builtin", **same)
    fork = {"project": actor.project, "parent": root, "seq": 3, "tries": TRIES, "knowledge": "hindsight"}
    fork = Fork.objects.create(grade="exact", change={"ask": {"question": "Which one?"}}, **fork)
    if campaign is not None:
        CampaignPoint.objects.create(campaign=campaign, root=root, share=0, seq=3, fork=fork)
    for arm, wins in (("treated", WINS), ("control", KEPT)):
        for number in range(TRIES):
            branch = {**same, "key": f"{fork.pk}/{arm}/{number}", "branch_arm": arm, "branch_seq": 3, "grade": "exact"}
            row = Episode.every.create(origin="branch", fork=fork, **branch)
            row.outcomes.create(source="verifier", reward_type="complete" if number < wins else "others", reward=0.0)
    return root


@pytest.fixture
def campaign(ada):
    about = {"project": ada.project, "name": "Ask there", "place": "error", "kind": "ask", "tries": TRIES}
    change = {"ask": {"question": "Which one?"}}
    return Campaign.objects.create(change=change, matched=2, chosen=2, author=ada.name, author_key=ada.key, **about)


def test_forks_of_a_campaign_share_one_error_in_pairs(ada, campaign):
    alone = forked(ada, 0)
    (pinned,) = measured(Episode.objects.all())[alone.pk]
    assert (pinned.verdict, pinned.wins, pinned.kept_wins) == ("better", WINS, KEPT)
    first = forked(ada, 1, campaign)
    assert first.pk in measured(Episode.objects.all()), "a campaign of one fork has all of its error"
    forked(ada, 2, campaign)
    assert set(measured(Episode.objects.all())) == {alone.pk}
    # also for an export of some of its episodes
    assert measured(Episode.objects.filter(pk=first.pk)) == {}


@pytest.mark.parametrize("lost", sorted(NOT_COUNTED))
def test_branches_that_a_server_ended_are_no_losses(ada, lost):
    root = forked(ada, 0)
    assert [pinned.verdict for pinned in measured(Episode.objects.all())[root.pk]] == ["better"]
    VerifierOutcome.objects.filter(reward_type="others").update(reward_type=lost)
    assert measured(Episode.objects.all()) == {}, "4 of 4 is no less than 8 of 8"


def test_forks_beside_count_each_fork_of_a_campaign_once(ada, campaign):
    roots = [forked(ada, place, campaign) for place in range(3)]
    made = list(Fork.objects.order_by("created_at", "pk"))
    CampaignPoint.objects.create(campaign=campaign, root=roots[0], share=50, seq=3, fork=made[0])
    CampaignPoint.objects.create(campaign=campaign, root=roots[0], share=75, reason="The world differs.")
    assert campaigns.forks_beside([one.pk for one in made]) == {one.pk: 2 for one in made}
    assert campaigns.forks_beside([forked(ada, 9).pk]) == {}
