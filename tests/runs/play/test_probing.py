"""Probes tell tasks that pass without work from the others, and what counts tasks leaves such tasks out."""

from __future__ import annotations

import json
import shutil

import pytest
from django.core.management import CommandError, call_command

from people.access import system
from reviews.models import CourtCase
from reviews.record import court
from runs.launch import preflight, selecting
from runs.models import Probe
from runs.show.comparison import tries_of
from runs.taskset import probes
from tests.awmenv.conftest import TINY, OpenFolders, start_server
from tests.browsing import as_person, html
from tests.runs.planned import document, end, rows_of_run

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n"
CODES = {
    2: "    return {'result': 'complete' if 'flowers' in (final_answer or '') else 'others'}\n",
    3: "    raise KeyError('nothing \\x1b[2J here \\ud800')\n",
    4: "    return {'result': 'complete'}\n",
}
STATES = ["clean", "answer_only", "answer_only", "unverifiable", "trivial", "unverifiable"]


@pytest.fixture(scope="module")
def folder():
    """The tiny pack with more tasks of the notebook; the last has no verifier."""
    folders = OpenFolders()
    made = shutil.copytree(TINY, folders.mktemp("packs") / "probed")
    tasks = ["Write a note titled 'Milk' and change nothing else.", "How many notes are there?", "Water the flowers."]
    rows = [{"scenario": "notes_1", "tasks": [*tasks, "Fail.", "Do nothing.", "Guess."]}]
    rows.append({"scenario": "lamps_1", "tasks": ["Switch all lamps off."]})
    (made / "gen_tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (made / "gen_verifier.pure_code.jsonl").open("a") as file:
        for idx, code in CODES.items():
            row = {"scenario": "notes_1", "task_idx": idx, "task": "", "verification": {"code": HEAD + code}}
            file.write(json.dumps(row) + "\n")
    yield made
    folders.remove()


@pytest.fixture(scope="module")
def server(folder):
    folders = OpenFolders()
    running = start_server(folders.mktemp("awmenv"), folder, own_zygotes=False)
    yield running
    running.stop()
    folders.remove()


@pytest.fixture(autouse=True)
def pack(folder, settings):
    settings.PACKS_DIR = folder.parent


@pytest.fixture
def environment(server, settings):
    settings.AWMENV_URL = server.url


def probe(idx, state, **more):
    verifier = probes.digest(probes.packs.find_pack("notes_1"), "notes_1", idx)
    return Probe.objects.create(scenario="notes_1", task_idx=idx, state=state, verifier=verifier, **more)


def test_probe_finds_tasks_that_pass_without_work(environment, ada, tmp_path, capsys):
    report = tmp_path / "report.jsonl"
    call_command("probe", scenario="notes_1", report=report)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [row["state"] for row in rows] == STATES
    assert [sorted(name for name, one in row["attempts"].items() if one["outcome"] == "complete") for row in rows] == [
        [], ["read_only"], ["echo_task"], [], ["echo_task", "empty", "read_only"], [],
    ]  # fmt: skip
    assert rows[0]["health"]["code"] == {"state": "runs", "says": "others", "error": "", "judged": False}
    assert rows[3]["health"]["code"]["state"] == "fails" and rows[5]["health"] == {}
    assert rows[0]["attempts"]["read_only"]["calls"] > 0 and "nothing" in rows[3]["reason"]
    said = capsys.readouterr().out
    assert "nothing" in said and "\x1b" not in said
    assert "  notes_1/4 trivial: Complete by echo_task, empty, read_only." in said
    assert "Probed 6 tasks: 1 clean, 1 trivial, 2 answer only, 2 unverifiable." in said
    assert set(probes.unfit(ada.project)) == {f"notes_1/{idx}" for idx in range(1, 6)}
    page = html(as_person(ada).get("/environment/"))
    assert "The code form does not run on the unmodified database." in page
    plan = document(tasks=[f"notes_1/{idx}" for idx in range(6)])
    said = preflight.checked(ada, plan, selecting.tasks_of(ada, plan))
    assert (
        "Verifiers: 3 of 6 tasks healthy; 1: the code form does not run on the unmodified database; "
        "1: returns complete on the unmodified database; 1 not checked."
    ) in said
    assert "1 of 6 probed tasks is clean" in page and "notes_1/4" in page and "Passes without work" in page


def test_probe_without_server_or_with_unknown_scenario_says_so(settings, ada):
    settings.AWMENV_URL = "http://127.0.0.1:9"
    with pytest.raises(CommandError, match="Cannot reach the environment server"):
        call_command("probe", scenario="notes_1")
    with pytest.raises(CommandError, match="No loaded pack contains"):
        call_command("probe", scenario="nowhere_1")
    assert not Probe.objects.exists()


def test_probe_of_another_verifier_or_a_fault_does_not_count(ada):
    Probe.objects.create(scenario="notes_1", task_idx=0, state="trivial", verifier="0" * 64)
    Probe.objects.create(scenario="gone_1", task_idx=0, state="trivial", verifier="")
    probe(1, "trivial")
    Probe.objects.filter(task_idx=1).update(scenario_digest="f" * 64)
    assert probes.unfit(ada.project) == {} and probes.overview().tasks == 0
    probe(1, "error")
    assert probes.unfit(ada.project) == {} and probes.overview().tasks == 1
    probe(1, "trivial")
    assert list(probes.unfit(ada.project)) == ["notes_1/1"]
    probe(1, "clean")
    assert probes.unfit(ada.project) == {}


def test_comparison_leaves_out_what_an_earlier_probe_passed(ada):
    plan = rows_of_run(system(ada.project), tasks=2, arms=[{"name": "only"}])
    first, second = plan.tries.all()
    for one in (first, second):
        end(one.episode_id)
    Probe.objects.all().delete()
    probe(0, "trivial")
    plan.tries.filter(pk=first.pk).update(scenario="notes_1", task_idx=0)
    assert [one.excluded for one in tries_of(plan)[0]] == ["", ""]
    Probe.objects.update(at=plan.run.created_at.replace(year=2020))
    assert [one.excluded for one in tries_of(plan)[0]] == ["passes without work, by probe", ""]


def test_doubts_name_probed_tasks_and_a_ruling_goes_first(ada):
    probe(1, "answer_only")
    plan = document(tasks=["notes_1/0", "notes_1/1"])
    found = preflight.doubts(ada, plan, selecting.tasks_of(ada, plan))
    assert "1 task of 2 cannot show a difference: passes on an answer alone, by probe." in found
    episode = rows_of_run(system(ada.project), tasks=1, arms=[{"name": "only"}]).tries.get().episode
    type(episode).objects.filter(pk=episode.pk).update(scenario="notes_1", task_idx=1, state="finished")
    episode.refresh_from_db()
    court.rule(ada, court.doubt(episode).pk, "too_lenient", "Any 3 passes.")
    assert probes.unfit(ada.project) == {"notes_1/1": "ruled too lenient"}
    court.rule(ada, episode_case(episode), "sound", "It only asks, and a dump of all rows is an answer.")
    assert probes.unfit(ada.project) == {}


def episode_case(episode):
    return CourtCase.objects.get(task_key=f"{episode.scenario}/{episode.task_idx}").pk
