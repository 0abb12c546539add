"""Which forks are pairs for training: those of a campaign share one error, as those of a tree do."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from awmclient.schema import NOT_COUNTED
from episodes.models import Episode, Fork, Step, VerifierOutcome
from episodes.stored import trees
from experts.models import Advice, Ask
from exports.select.measured import measured
from runs.models import Campaign, CampaignPoint
from runs.show import forks

pytestmark = pytest.mark.django_db
WINS, KEPT, TRIES = 8, 4, 8


def forked(actor, place, campaign=None, wins=WINS, kept=KEPT):
    """A root with a fork whose question is complete 8 of 8 times, and the recorded choice 4 of 8: p = .028."""
    about = {"scenario": f"kind_{place}", "task_idx": 0, "task": "t", "state": "finished", "key": f"{place}"}
    same = {"project": actor.project, "body_digest": "", "policy_kind": "model", **about}
    root = Episode.objects.create(origin="builtin", **same)
    fork = {"project": actor.project, "parent": root, "seq": 3, "tries": TRIES, "knowledge": "hindsight"}
    fork = Fork.objects.create(grade="exact", change={"ask": {"question": "Which one?"}}, **fork)
    if campaign is not None:
        CampaignPoint.objects.create(campaign=campaign, root=root, share=0, seq=3, fork=fork)
    for arm, complete in (("treated", wins), ("control", kept)):
        for number in range(TRIES):
            branch = {**same, "key": f"{fork.pk}/{arm}/{number}", "branch_arm": arm, "branch_seq": 3, "grade": "exact"}
            row = Episode.every.create(origin="branch", fork=fork, **branch)
            row.outcomes.create(
                source="verifier", reward_type="complete" if number < complete else "others", reward=0.0
            )
    return root


@pytest.fixture
def campaign(ada):
    return launched(ada)


def launched(ada, chosen=1):
    about = {"project": ada.project, "name": "Ask there", "place": "error", "kind": "ask", "tries": TRIES}
    change = {"ask": {"question": "Which one?"}}
    return Campaign.objects.create(
        change=change, matched=2, chosen=chosen, author=ada.name, author_key=ada.key, **about
    )


def test_forks_of_a_campaign_share_one_error_in_pairs(ada, campaign):
    alone = forked(ada, 0)
    (pinned,) = measured(Episode.objects.all())[alone.pk]
    assert (pinned.verdict, pinned.wins, pinned.kept_wins) == ("better", WINS, KEPT)
    first = forked(ada, 1, campaign)
    assert first.pk in measured(Episode.objects.all()), "a campaign of one fork has all of its error"
    Campaign.objects.update(chosen=2)
    assert set(measured(Episode.objects.all())) == {alone.pk}, "also before its second fork is made"
    # also for an export of some of its episodes
    assert measured(Episode.objects.filter(pk=first.pk)) == {}


def sentence_of(actor, root):
    made = Fork.objects.select_related("parent__project").get(parent=root)
    return forks.finding_of(actor, made, list(Episode.every.filter(fork=made))).sentence


def test_page_of_a_fork_says_no_more_than_its_campaign(ada, campaign):
    first = forked(ada, 1, campaign)
    assert ": better." in sentence_of(ada, first)
    Campaign.objects.update(chosen=2)
    share = "This fork and 1 fork of its campaign in other trees share the error of 5%, of which this one has 2%."
    assert f": not shown. {share}" in sentence_of(ada, first)


@pytest.mark.parametrize(
    ("group", "nonce", "is_cached", "verdict"),
    [
        ("one", "", False, ": nothing is shown."),
        ("{}", "press/{}", False, ": nothing is shown."),
        ("{}", "", True, ": nothing is shown."),
        ("{}", "own{}", False, ": better."),
    ],
)
def test_branches_that_read_one_answer_show_nothing(ada, group, nonce, is_cached, verdict):
    """One of a group, of one press, or of the cache."""
    root, earlier = forked(ada, 0), None
    for number, branch in enumerate(Episode.every.filter(fork__parent=root, branch_arm="treated").order_by("pk")[:2]):
        about = {"project": ada.project, "episode": branch, "key": f"a{number}", "seq": 3, "question": "Which one?"}
        ask = Ask.objects.create(deadline_at=timezone.now(), group=group.format(number), **about)
        sent = {"nonce": nonce.format(ask.pk), "author_key": "user:1", "taken_from": earlier}
        ask.accepted = Advice.objects.create(ask=ask, text="The last.", source="human", **sent)
        earlier = ask.accepted if is_cached else None
        ask.status = "answered"
        ask.save()
    assert verdict in sentence_of(ada, root)
    assert bool(measured(Episode.objects.all())) == ("better" in verdict)


@pytest.mark.parametrize("lost", sorted(NOT_COUNTED))
def test_branches_that_a_server_ended_are_no_losses(ada, lost):
    root = forked(ada, 0)
    assert [pinned.verdict for pinned in measured(Episode.objects.all())[root.pk]] == ["better"]
    VerifierOutcome.objects.filter(reward_type="others").update(reward_type=lost)
    assert measured(Episode.objects.all()) == {}, "4 of 4 is no less than 8 of 8"


def test_forks_beside_are_those_of_the_launch(ada):
    roots = [forked(ada, place, launched(ada, 3)) for place in range(2)]
    made = Fork.objects.get(parent=roots[0])
    assert forks.forks_beside([made.pk]) == {made.pk: 2}
    roots[1].delete()
    Campaign.objects.update(points=[0, 50])
    assert forks.forks_beside([made.pk]) == {made.pk: 4}, "nothing that is erased raises a share"
    assert forks.forks_beside([Fork.objects.get(parent=forked(ada, 9)).pk]) == {}


def test_forks_of_the_project_count_whatever_is_chosen(ada):
    """An export of the episodes whose forks show something said that all asked ones show it."""
    root = forked(ada, 0)
    (alone,) = measured(Episode.objects.all())[root.pk]
    for place in range(1, 12):
        forked(ada, place, wins=4, kept=4)
    whole, chosen = measured(Episode.objects.all()), measured(Episode.objects.filter(pk=root.pk))
    assert whole == chosen and [pinned.asked for pinned in chosen[root.pk]] == [12]
    (beside,) = chosen[root.pk]
    assert beside.worth < alone.worth and beside.wrong > alone.wrong and beside.most > alone.wrong
    assert measured(Episode.objects.exclude(pk=root.pk)) == {}
    # what is erased counts no more
    Episode.objects.filter(key="11").delete()
    assert measured(Episode.objects.filter(pk=root.pk))[root.pk][0].asked == 11


def test_more_forks_of_a_project_need_no_more_queries(ada):
    def queries():
        with CaptureQueriesContext(connection) as seen:
            assert measured(Episode.objects.filter(key="0"))
        return len(seen)

    forked(ada, 0)
    few = queries()
    for place in range(1, 8):
        forked(ada, place, wins=place, kept=4)
    assert queries() == few < 20


def test_steps_are_read_of_branches_that_ended_alike(ada, monkeypatch):
    """Only these can have gone on alike, and all steps of a project are many."""
    read = []
    went_on = trees.continuations
    monkeypatch.setattr(trees, "continuations", lambda branches: read.extend(branches) or went_on(branches))
    forked(ada, 0, wins=8, kept=1)
    forked(ada, 1, wins=7, kept=6)
    assert measured(Episode.objects.filter(key="0"))
    assert len(read) == 8 + 7 + 7 + 8, "and not the only ends of their kind"


def test_branches_beside_that_went_on_alike_count_once(ada):
    """Forks of the project said for sure what half of their branches were: copies of each other."""
    root = forked(ada, 0)
    for place in range(1, 12):
        forked(ada, place, wins=5, kept=5)
    (before,) = measured(Episode.objects.all())[root.pk]
    body = json.dumps({"seq": 4, "kind": "message", "role": "assistant", "content": "Done.", "turn": 1})
    beside = Episode.every.filter(fork__isnull=False).exclude(fork__parent=root)
    Step.objects.bulk_create(
        Step(episode=one, seq=4, kind="message", body=body, at=timezone.now())
        for one in beside.filter(outcomes__reward_type="complete")
    )
    (after,) = measured(Episode.objects.all())[root.pk]
    assert (after.wins, after.asked) == (before.wins, 12)
    assert after.wrong != before.wrong, "eight branches of an arm are four draws"
