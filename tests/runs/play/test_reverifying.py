"""A repaired verifier judges stored episodes again in their restored worlds, and takes effect as a whole or not."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone

from episodes.errors import AlreadyRejudging
from episodes.models import Episode, Erratum, RejudgedEpisode, Rejudging, VerifierOutcome, VerifierVersion
from episodes.record import rejudging
from episodes.stored import repairs
from people.errors import AppError
from people.models import AuditEntry
from people.record.members import issue_token
from runs import tasks
from runs.errors import NoServer
from runs.launch import launching
from runs.play import reverifying
from tests.awmenv.conftest import OpenFolders, start_server
from tests.runs.faulty import VERIFIER, Faults, pack, plan_of

time_machine = pytest.importorskip("time_machine")
pytestmark = pytest.mark.django_db(transaction=True)
KEY = "k" * 40
FAULTY = VERIFIER.replace('if " ".join', 'if "z" not in words and " ".join')
"""The planted fault: an episode that wrote z is never complete."""
REPAIRED = VERIFIER.replace("import sqlite3", "import sqlite3  # z is a word like any other")
BROKEN = 'def verify_task_completion(initial_db_path, final_db_path):\n    raise ValueError("no such column")\n'


@pytest.fixture(scope="module")
def words():
    """A server that shares a key, with the pack of words and a faulty verifier."""
    folders = OpenFolders()
    folder, run = folders.mktemp("var"), folders.mktemp("awmenv")
    (run / "key").write_text(KEY)
    rows = pack(folder / "packs" / "words")
    verifier = {"scenario": "words_1", "task_idx": 0, "verification": {"code": FAULTY}}
    (rows / "gen_verifier.pure_code.jsonl").write_text(json.dumps(verifier) + "\n")
    running = start_server(run, rows, own_zygotes=False, AWMENV_ATTEST_KEY_FILE=str(run / "key"))
    yield running, folder
    running.stop()
    folders.remove()


@pytest.fixture
def stored(desk, settings):
    """Episodes of two plans: the first wrote no z, the second did."""
    settings.ATTEST_KEY = KEY
    made = [desk.played(plan_of(turns), Faults())[0] for turns in ([["a", "b"], ["c"]], [["a", "z"], ["?"]])]
    assert [one.outcomes.get().reward_type for one in made] == ["complete", "others"]
    return made


def reverified(project, capsys, *more):
    call_command("reverify", "--scenario", "words_1", "--task-idx", "0", "--project", project.slug, *more)
    return capsys.readouterr().out


def counted(episode):
    return episode.outcomes.get(source="verifier")


def test_repair_changes_what_was_judged_wrong_alone(stored, desk, ada, tmp_path, capsys):
    right, wrong = stored
    assert "Judged 2 by the verifier of the pack: 2 kept, 0 changed, 0 not restorable" in reverified(
        ada.project, capsys
    )
    assert not VerifierVersion.objects.exists(), "the verifier of the pack is no version of its own"
    unrecorded = Episode.objects.create(
        project=ada.project, key="k", body_digest="", task="t", scenario="words_1", task_idx=0, state="finished"
    )
    VerifierOutcome.objects.create(episode=unrecorded, source="verifier", reward_type="others")
    # monotonic clocks are in no record, so a replay writes another row
    drifted, _ = desk.played(plan_of([["a", "drift"]]), Faults())
    file = tmp_path / "repaired.py"
    file.write_text(REPAIRED)
    said = reverified(ada.project, capsys, "--verifier", str(file))
    assert "Judged 4 by version 2: 1 kept, 1 changed, 2 not restorable" in said, said
    assert f"{wrong.pk} changed: others -> complete" in said and f"erratum of run {wrong.run.name}" in said
    assert (counted(wrong).reward_type, counted(wrong).reward, counted(wrong).version.number) == ("complete", 1.0, 2)
    earlier = wrong.outcomes.get(source="superseded")
    assert (earlier.reward_type, earlier.version) == ("others", None), "both stay"
    assert counted(wrong).state_diff == earlier.state_diff != {}
    for one in (right, drifted, unrecorded):
        assert one.outcomes.get().version is None, "no other outcome was touched"
    lost = {one.episode_id: one.why for one in RejudgedEpisode.objects.filter(result="lost")}
    assert lost[unrecorded.pk] == "The world was not recorded." and "drift, call 2, leaves another" in lost[drifted.pk]
    assert [one.run for one in Erratum.objects.all()] == [wrong.run]
    # the same code is the same version, and one more pass changes nothing
    again = reverified(ada.project, capsys, "--verifier", str(file))
    assert "by version 2: 2 kept, 0 changed" in again and VerifierVersion.objects.count() == 1
    new, _ = desk.played(plan_of([["z"]]), Faults())
    outcome = new.outcomes.get()
    assert (outcome.reward_type, outcome.version.number, outcome.health) == ("complete", 2, {})
    assert outcome.state_diff, "what changed is still told"


def test_verifier_that_fails_changes_nothing(stored, desk, ada, tmp_path, capsys):
    file = tmp_path / "broken.py"
    refused = {"x = 1": "must define", FAULTY: "unchanged", REPAIRED + "#" * 64_000: "64,000", " ": "is empty"}
    for text, why in refused.items():
        file.write_text(text)
        with pytest.raises(CommandError, match=why):
            reverified(ada.project, capsys, "--verifier", str(file))
    assert not VerifierVersion.objects.exists()
    file.write_text(BROKEN)
    with pytest.raises(CommandError, match="No outcome was changed. The verifier failed on 2 of the episodes.*no such"):
        reverified(ada.project, capsys, "--verifier", str(file))
    assert "2 failed" in capsys.readouterr().out
    assert VerifierVersion.objects.get().in_force_at is None and not Erratum.objects.exists()
    assert [counted(one).reward_type for one in stored] == ["complete", "others"]
    new, _ = desk.played(plan_of([["z"]]), Faults())
    assert new.outcomes.get().version is None, "new episodes are judged by the pack's verifier"


def test_reverify_by_api_needs_a_right_and_a_server(stored, ada, client, monkeypatch, settings):
    called = []
    monkeypatch.setattr(launching, "reverify_later", called.append)
    secret = {scope: issue_token(ada, scope, scope)[1] for scope in ("agent", "export", "review", "launch")}

    def asked(scope, **more):
        body = {"scenario": "words_1", "task_idx": 0, **more}
        headers = {"authorization": f"Bearer {secret[scope]}"}
        return client.post("/api/v1/verifiers/reverify", body, content_type="application/json", headers=headers)

    assert [asked(scope).status_code for scope in ("agent", "export")] == [403, 403] and not called
    assert asked("launch", verifier=REPAIRED).status_code == 422, "a repair needs a reason"
    assert asked("launch", verifier=REPAIRED, reason="z\0").status_code == 422
    first = asked("review", verifier=REPAIRED, reason="z is a word, too.")
    assert (first.status_code, first.json()["state"], first.json()["version"]) == (202, "running", 2)
    assert called == [first.json()["id"]]
    other = asked("launch", verifier=REPAIRED + "\n# once more", reason="Style.")
    assert (other.status_code, other.json()["error"]["code"]) == (409, "already_rejudging")
    assert VerifierVersion.objects.count() == 1, "a refused repair leaves no version"
    assert AuditEntry.objects.filter(verb="verifier.repaired").count() == 1
    where, key = settings.AWMENV_URL, settings.ATTEST_KEY
    settings.ATTEST_KEY = ""
    with pytest.raises(NoServer, match="shares no key"):
        reverifying.judge_all(called[0])
    settings.ATTEST_KEY, settings.AWMENV_URL = key, "http://127.0.0.1:9"
    with pytest.raises(NoServer):
        reverifying.judge_all(called[0])
    assert not RejudgedEpisode.objects.exists(), "a server that is away makes no world impossible"
    settings.AWMENV_URL = where
    tasks.reverify.apply([called[0]], throw=True)
    path = f"/api/v1/verifiers/reverify/{called[0]}"
    assert client.get(path, headers={"authorization": f"Bearer {secret['agent']}"}).status_code == 403
    found = client.get(path, headers={"authorization": f"Bearer {secret['launch']}"}).json()
    assert (found["state"], found["kept"], found["changed"], found["not_restorable"]) == ("ended", 1, 1, 0)
    run = stored[1].run
    assert [(one["run"], one["why"]) for one in found["errata"]] == [(run.pk, "z is a word, too.")]
    assert found["errata"][0]["changes"] == [{"what": "Complete in all", "before": "0 of 1", "after": "1 of 1"}]
    shown = {
        scope: client.get(f"/api/v1/runs/{run.pk}", headers={"authorization": f"Bearer {secret[scope]}"}).json()
        for scope in ("agent", "launch")
    }
    assert shown["agent"]["errata"] == [] and len(shown["launch"]["errata"]) == 1


def test_pass_goes_on_after_a_lost_worker(stored, ada, monkeypatch):
    version = rejudging.add_version(ada, "words_1", 0, REPAIRED, "z is a word.")
    one = rejudging.begin(ada, "words_1", 0, version)
    judged = reverifying._judged
    monkeypatch.setattr(reverifying, "BATCH", 1)

    async def killed(work, episode):
        if episode == stored[1]:
            raise KeyboardInterrupt
        return await judged(work, episode)

    monkeypatch.setattr(reverifying, "_judged", killed)
    with pytest.raises(KeyboardInterrupt):
        reverifying.judge_all(one.pk)
    assert [row.episode for row in one.episodes.all()] == [stored[0]]
    assert counted(stored[1]).reward_type == "others" and rejudging.begin(ada, "words_1", 0, version) == one
    monkeypatch.setattr(reverifying, "_judged", judged)
    called = []
    monkeypatch.setattr(launching, "reverify_later", called.append)
    # without code it is the live pass that goes on, though its version is not in force yet
    assert reverifying.request(ada, "words_1", 0) == one and called == [one.pk]
    later = timezone.now() + timedelta(seconds=reverifying.FORGOTTEN_S + 1)
    for moment, calls in ((timezone.now(), 0), (later, 1), (later + timedelta(seconds=30), 0)):
        with time_machine.travel(moment, tick=False):
            assert reverifying.wake_forgotten() == calls, moment
    assert reverifying.judge_all(one.pk).ended_at is not None
    assert counted(stored[1]).reward_type == "complete" and one.episodes.count() == 2
    assert Rejudging.objects.count() == 1


def test_pass_with_an_error_ends_and_bars_no_other(stored, ada, monkeypatch):
    version = rejudging.add_version(ada, "words_1", 0, REPAIRED, "z is a word.")
    one = rejudging.begin(ada, "words_1", 0, version)

    async def raised(work, episode):
        raise ValueError("no such thing")

    monkeypatch.setattr(reverifying, "_judged", raised)
    assert tasks.reverify.apply([one.pk]).failed()
    one.refresh_from_db()
    assert one.ended_at is not None and "no such thing" in one.problem
    assert rejudging.begin(ada, "words_1", 0, version) != one


def test_verifier_that_disagrees_with_itself_changes_nothing(stored, desk, ada, tmp_path, capsys):
    file = tmp_path / "fickle.py"
    file.write_text(REPAIRED)
    reverified(ada.project, capsys, "--verifier", str(file))
    version = VerifierVersion.objects.get()
    VerifierVersion.objects.filter(pk=version.pk).update(code=REPAIRED.replace('"complete"', '"others"'))
    with pytest.raises(CommandError, match="disagrees with itself on 1 of the episodes"):
        reverified(ada.project, capsys)
    assert [counted(one).reward_type for one in stored] == ["complete", "complete"]


def test_another_version_of_the_pack_has_its_own_verifier(stored, ada, tmp_path, capsys):
    file = tmp_path / "repaired.py"
    file.write_text(REPAIRED)
    reverified(ada.project, capsys, "--verifier", str(file))
    assert repairs.in_force(ada.project, "words_1", 0) is not None
    VerifierVersion.objects.update(scenario_digest="0" * 64)
    assert repairs.in_force(ada.project, "words_1", 0) is None


def together(*calls):
    """Return what calls return or raise that all began before one of them went on."""
    ready = threading.Barrier(len(calls))

    def one(call):
        try:
            ready.wait(30)
            return call()
        except AppError as refused:
            return refused
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


def test_the_same_repair_sent_twice_together_is_one_pass(stored, ada, monkeypatch):
    monkeypatch.setattr(launching, "reverify_later", lambda pk: None)
    for code in (REPAIRED, ""):
        sent = [lambda code=code: reverifying.request(ada, "words_1", 0, code, "z is a word")] * 6
        passes = together(*sent)
        assert len({one.pk for one in passes}) == 1, passes
        Rejudging.objects.update(ended_at=timezone.now())
    assert [one.number for one in VerifierVersion.objects.all()] == [2]


def test_two_repairs_at_the_same_moment_leave_one_version(stored, ada, monkeypatch):
    monkeypatch.setattr(launching, "reverify_later", lambda pk: None)
    codes = [REPAIRED, REPAIRED.replace("z is", "also z is")]
    found = together(*(lambda code=code: reverifying.request(ada, "words_1", 0, code, "z") for code in codes))
    [begun] = [one for one in found if isinstance(one, Rejudging)]
    assert VerifierVersion.objects.get() == begun.version and AlreadyRejudging in map(type, found)
    tasks.reverify(begun.pk)
    assert {one.reward_type for one in VerifierOutcome.objects.filter(source="verifier")} == {"complete"}
    assert VerifierOutcome.objects.filter(source="superseded").count() == 1
