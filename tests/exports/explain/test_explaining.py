"""Datasets that answer questions: where a row comes from, why an episode is not in, and what differs between two."""

from __future__ import annotations

import io
import json
import re

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from awmclient.schema import EpisodeStart
from episodes.models import Episode
from episodes.record import pinning, recording
from episodes.stored import packs
from exports.explain import comparing, explaining
from people.access import opaque
from tests.browsing import as_person, html
from tests.exports.pages.test_export_pages import SECRET, built, data_of, episode, store
from tests.people_by_name import token

__all__ = ["store"]


def printed(*arguments):
    out = io.StringIO()
    call_command(*arguments, "--project", "lab", stdout=out)
    return out.getvalue()


@pytest.fixture
def client(ada):
    """A program with an export token."""
    return Client(headers={"Authorization": f"Bearer {token(ada.project, 'export')[1]}"})


def test_row_names_its_episode_step_author_and_answer(ada, store, client):
    one = episode(ada, "a")
    export = built(ada, format="steps")
    page = html(as_person(ada).get(f"/exports/{export.pk}/?row=2"))
    assert f'href="/projects/lab/episodes/{one.pk}/#step-3"' in page and "Into 7." in page and "<b>person-" in page
    assert all(f'data-copy-text="{copied}"' in page for copied in (f"{one.pk}/3", one.pk))
    told = client.get(f"/api/v1/exports/{export.pk}/row?row={one.pk}/3").json()
    assert (told["number"], told["episode"], told["seq"]) == (2, one.pk, 3)
    assert told["outcome"] == "complete (verified), reward 1"
    someone = opaque(ada.project.pk, "ada")
    assert [(a["seq"], a["text"], a["author"]) for a in told["answers"]] == [(2, "Into 7.", someone)]
    said = printed("explain", export.dataset[:8], "--row", "2")
    assert f"Episode {one.pk}, step 3" in said and f"{someone} (human, blind): Into 7." in said
    named = built(ada, format="steps", authors=True)
    assert "ada (human, blind): Into 7." in printed("explain", named.pk, "--row", "2")
    assert "No row 9 in this dataset: it has 2 rows." in html(as_person(ada).get(f"/exports/{export.pk}/?row=9"))
    assert client.get(f"/api/v1/exports/{export.pk}/row?row=9").status_code == 404


def test_episode_that_is_not_in_names_the_rule_or_the_filter(ada, store, client, tmp_path):
    used = episode(ada, "used")
    failed = episode(ada, "failed", reward_type="others")
    held_out = episode(ada, "held", split="val")
    export = built(ada, filter={"arm": ["react"]})
    other_arm = episode(ada, "other")
    Episode.objects.filter(pk=other_arm.pk).update(arm="plan")
    late = episode(ada, "late")
    live, _ = recording.start_episode(ada, EpisodeStart(key="live", task="t"))

    def fate(one):
        told = client.get(f"/api/v1/exports/{export.pk}/episode?episode={one.pk}").json()
        return told["state"], told["reason"]

    assert fate(used) == ("in", "")
    assert fate(failed) == ("left_out", "not_complete") and fate(held_out) == ("left_out", "held_out")
    assert fate(other_arm) == ("not_selected", "arm") and fate(late) == ("not_selected", "later")
    assert fate(live) == ("not_selected", "live")
    page = html(as_person(ada).get(f"/exports/{export.pk}/?episode={failed.pk}"))
    assert "Not in the dataset" in page and "The verifier did not find the task complete." in page
    assert f'data-copy-text="{failed.pk}"' in page
    call_command("export", "--format", "sft", "--project", "lab", "--output", f"{tmp_path}/folder/", verbosity=0)
    assert "filter arm = react" in printed("explain", export.pk, "--episode", other_arm.pk)
    assert "1 row comes from this episode." in printed("explain", f"{tmp_path}/folder", "--episode", used.pk)
    with pytest.raises(CommandError, match="No dataset surprise"):
        printed("explain", "surprise", "--row", "1")


def test_excluded_quotation_is_explained_by_step_and_words(ada, store):
    pack = packs.find_pack("helpdesk_1")
    note = pack.about("helpdesk_1", 1)["expert_note"]
    code = pack.verifier("helpdesk_1", 0, "code").code
    words = " ".join(re.findall(r"[a-z0-9]+", code.casefold())[:12])
    quoting = episode(ada, "q", answer=f"It says: {words}.", scenario="helpdesk_1", task_idx=0)
    noted = episode(ada, "n", answer=f"I was told: {note}", scenario="helpdesk_1", task_idx=1)
    export = built(ada)
    fate = explaining.fate_of(explaining.of_export(export), quoting.pk)
    assert fate.reason == "verifier_text" and "Step 3 has the words: " in fate.why
    assert explaining.fate_of(explaining.of_export(export), noted.pk).state == "in"


def test_told_held_out_task_is_explained_by_step_and_redacted(ada, store):
    pinning.pin(ada, "s", unit="task", seed=1, train=[], val=["helpdesk_1/0"])
    task = packs.find_pack("helpdesk_1").tasks("helpdesk_1")[0]
    one = episode(ada, "q", answer=f"It was: {SECRET} {task}")
    export = built(ada)
    assert export.manifest["left_out"] == {"held_out_text": 1}
    fate = explaining.fate_of(explaining.of_export(export), one.pk)
    assert "Step 3 has the words of helpdesk_1/0: " in fate.why and SECRET not in fate.why
    raw = built(ada, format="raw")
    assert json.loads(data_of(raw))["not_for_training"] == "held_out_text"


def test_episode_without_a_row_says_why(ada, store):
    one = episode(ada, "a")
    Episode.objects.filter(pk=one.pk).update(expert="off")
    export = built(ada, format="ask_decision")
    assert export.manifest["left_out"] == {"no_row: it had no expert to ask": 1}
    fate = explaining.fate_of(explaining.of_export(export), one.pk)
    assert fate.why == "The format makes no row of it. Reason: it had no expert to ask."


def test_rejected_side_of_a_pair_is_in_the_dataset(ada, store, client):
    episode(ada, "a", scenario="s", task_idx=0)
    worse = episode(ada, "b", reward_type="others", answer="Not done.", scenario="s", task_idx=0)
    export = built(ada, format="dpo")
    told = client.get(f"/api/v1/exports/{export.pk}/episode?episode={worse.pk}").json()
    assert (export.rows, told["state"], told["first_row"]) == (1, "in", 1)


def test_two_datasets_are_compared_by_row_with_reasons(ada, store, client, rita):
    kept, changed = episode(ada, "kept"), episode(ada, "changed")
    gone = episode(ada, "gone", answer="I merged them.")
    old = built(ada, include=["reported"])
    outcome = changed.outcomes.get()
    type(outcome).objects.filter(pk=outcome.pk).update(reward=0.5)
    Episode.objects.filter(pk=gone.pk).update(arm="plan")
    added = episode(ada, "added")
    new = built(ada, filter={"arm": ["react"]})
    told = client.get(f"/api/v1/exports/{new.pk}/compare?older={old.pk}").json()
    assert {name: told[name]["count"] for name in ("added", "removed", "changed")} == dict.fromkeys(
        ("added", "removed", "changed"), 1
    )
    assert told["same"] == 1 and [row["episode"] for row in told["added"]["rows"]] == [added.pk]
    assert told["added"]["rows"][0]["why"] == "It matches now, but ended after this dataset was made."
    assert told["removed"]["rows"][0] == {
        "key": f"{gone.pk}/0", "number": told["removed"]["rows"][0]["number"], "episode": gone.pk,
        "why": "It does not match the recipe's filter arm = react.",
    }  # fmt: skip
    assert "reward 1 to complete (verified), reward 0.5" in told["changed"]["rows"][0]["why"]
    assert ["filter", "none", "arm=react"] in told["recipe"]
    address = f"/exports/{new.pk}/compare?with={old.pk}"
    page = html(as_person(ada).get(address))
    assert "1 added, 1 removed, 1 changed, 1 unchanged" in page and gone.pk in page and kept.pk not in page
    assert f'data-copy-text="{gone.pk}/0"' in page
    assert as_person(rita).get(address).status_code == 403
    assert f"Row {kept.pk}" not in printed("diff", old.pk, new.pk, "--rows")
    assert "1 removed: It does not match" in printed("diff", old.pk, new.pk)


def test_comparison_names_the_rule_that_took_a_row(ada, store):
    one = episode(ada, "a")
    old = built(ada)
    new = built(ada, advice="drop")
    change = comparing.compare(explaining.of_export(old), explaining.of_export(new)).removed
    assert [(row.episode, row.why) for row in change.rows] == [
        (one.pk, "The agent asked an expert, and the recipe drops such episodes.")
    ]
