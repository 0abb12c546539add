"""Imports by command, page and API: whole or not at all, once, marked as imported for ever."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from episodes.find import lists
from episodes.models import Episode
from episodes.stored import outcomes
from episodes.stored.entries import entries_of
from episodes.visible import trajectory
from imports import readers, spooling, tasks
from imports.errors import FileRefused
from imports.models import Import
from imports.record import importing
from people.errors import Forbidden, Invalid, WrongScope
from tests.browsing import as_person, html
from tests.imports.files import ATIF, OPENAI, RECORD, ROWS, TASK, VERIFICATION, text_of
from tests.people_by_name import token

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.VAR = tmp_path
    return tmp_path


@pytest.fixture
def file_of(tmp_path):
    def write(*rows, name="rows.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        return path

    return write


def asked(content, number):
    return {**OPENAI, "messages": [{"role": "user", "content": f"{content} {number}"}, *OPENAI["messages"][2:]]}


@pytest.mark.parametrize("name", ROWS)
def test_file_of_every_format_becomes_an_episode(ada, tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(text_of(name))
    given = importing.take(ada, path)
    (one,) = Episode.objects.all()
    assert (given.state, given.format, given.episodes, given.steps) == ("done", name, 1, one.last_seq)
    assert (one.origin, one.state, one.task, one.strip != "") == ("import", "finished", TASK, True)
    assert len(trajectory.steps_of(one)) == one.last_seq == len(one.strip)
    assert one.events.get().verb == "imported"
    assert one.imported.of == given


def test_outcome_of_a_file_is_only_reported(ada, file_of):
    importing.take(ada, file_of({**RECORD, "steps": [*RECORD["steps"], VERIFICATION]}))
    one = Episode.objects.get()
    assert outcomes.of_episode(one) is None
    said = outcomes.of_episodes([one.pk]).get()
    assert (said.reward_type, said.details) == ("complete", {"claimed_source": "verifier"})
    assert "verification" not in {step["kind"] for step in trajectory.steps_of(one)}
    assert not one.is_builtin


def test_same_file_twice_makes_one_episode(ada, file_of):
    path = file_of(OPENAI, OPENAI, RECORD)
    with pytest.raises(FileRefused, match="line 3: It is not OpenAI-style messages"):
        importing.take(ada, path)
    path = file_of(OPENAI, OPENAI)
    first, again = importing.take(ada, path), importing.take(ada, path)
    assert (first.episodes, first.known, again.episodes, again.known) == (1, 1, 0, 2)
    assert Episode.objects.count() == 1


def test_nothing_is_stored_of_a_file_with_one_bad_row(ada, file_of):
    bad = {"messages": [{"role": "assistant", "content": "x"}]}
    with pytest.raises(FileRefused, match="line 2: It has no task.* Nothing was imported"):
        importing.take(ada, file_of(asked("a", 1), bad, asked("a", 2), bad))
    given = Import.objects.get()
    assert (given.state, given.rows, given.refused, [row for row, _ in given.refusals]) == (
        "refused", 4, 2, ["line 2", "line 4"],
    )  # fmt: skip
    assert not Episode.objects.exists()


def test_nothing_is_stored_when_storing_breaks(ada, file_of, monkeypatch):
    monkeypatch.setattr(spooling, "BATCH_ROWS", 1)
    real, calls = importing.admitting.admit, []

    def admit(actor, arrivals, sent):
        calls.append(arrivals)
        if len(calls) == 2:
            raise Invalid("step 9 is too large")
        return real(actor, arrivals, sent=sent)

    monkeypatch.setattr(importing.admitting, "admit", admit)
    with pytest.raises(FileRefused, match="too large"):
        importing.take(ada, file_of(asked("a", 1), asked("a", 2)))
    assert len(calls) == 2 and not Episode.objects.exists()
    assert Import.objects.get().state == "refused"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state": "running"}, "has not ended"),
        ({"stop_reason": "bored"}, "Unknown stop reason 'bored'"),
        ({"fault": "gremlin"}, "Unknown fault"),
        ({"outcome": {"reward_type": "", "reward": 1.0, "source": "verified"}}, "type of its outcome"),
    ],
)
def test_record_that_no_episode_can_be_is_refused(ada, file_of, change, why):
    with pytest.raises(FileRefused, match=why):
        importing.take(ada, file_of({**RECORD, **change}))


def test_lossy_import_says_what_was_lost(ada, file_of):
    given = importing.take(ada, file_of(ATIF))
    assert given.lost == {"parts of messages that are not text": 1, "links to subagents": 1}
    assert "Not imported: links to subagents (1)" in Episode.objects.get().events.get().reason


def test_lost_fields_of_any_name_are_stored(ada, file_of, monkeypatch):
    monkeypatch.setattr(importing, "KINDS_MAX", 2)
    given = importing.take(
        ada, file_of({**asked("a", 1), "id": "row\x00 9", "x\x00\ud800": 1}, asked("a", 2) | {"y": 1, "z": 1})
    )
    assert given.lost == {"field x??": 1, "field y": 1, "further kinds": 1}
    reasons = [one.events.get().reason for one in Episode.objects.order_by("task")]
    assert "line 1, format openai, ID row? 9. Not imported: field x?? (1)" in reasons[0] and ", ID" not in reasons[1]


def test_imported_copy_is_no_training_row_by_default(ada, file_of, tmp_path):
    importing.take(ada, file_of(RECORD))
    rows = tmp_path / "out.jsonl"
    for more, count in ([], 0), (["--include", "reported", "--include", "informed"], 1):
        call_command("export", "--format", "sft", "--project", "lab", "--output", str(rows), *more)
        assert len(rows.read_text().splitlines()) == count
    assert json.loads(rows.read_text())["origin"] == "import"


@pytest.mark.parametrize("who", ["rita", "edo"])
def test_person_without_the_right_cannot_import(who, request, file_of):
    actor = request.getfixturevalue(who)
    with pytest.raises(Forbidden):
        importing.take(actor, file_of(OPENAI))
    with pytest.raises(Forbidden):
        importing.request(actor, "x", "", [b"{}"])
    assert as_person(actor).get("/imports/").status_code == 403


def test_agent_token_cannot_import(project, file_of):
    actor, _ = token(project, "agent")
    with pytest.raises(WrongScope):
        importing.request(actor, "x", "", [b"{}"])


def test_command_imports_and_says_what_it_did(ada, file_of, capsys):
    call_command("import", str(file_of(ATIF, name="one.json")), "--project", "lab")
    said = capsys.readouterr().out
    assert "Imported 1 episode from" in said and "(ATIF v1.0 to v1.8)." in said
    assert "  Not imported: links to subagents (1)" in said


def test_command_fails_with_the_reason_and_takes_the_rest(ada, file_of, capsys):
    bad, good = file_of({"parent": ATIF}, name="bad.json"), file_of(ATIF, name="good.json")
    with pytest.raises(CommandError, match="1 of 2 files was refused"):
        call_command("import", str(bad), str(good), "--project", "lab")
    assert "bad.json: document: Unknown format. Use one of raw, " in capsys.readouterr().err
    assert Episode.objects.count() == 1


def test_command_takes_a_format_by_force(ada, file_of):
    with pytest.raises(CommandError):
        call_command("import", str(file_of(ATIF)), "--project", "lab", "--format", "openai")
    with pytest.raises(CommandError):
        call_command("import", str(file_of(ATIF)), "--project", "nowhere")


def test_page_takes_a_file_and_shows_what_came_of_it(ada, django_capture_on_commit_callbacks):
    client = as_person(ada)
    with django_capture_on_commit_callbacks():
        answer = client.post("/imports/", {"file": SimpleUploadedFile("a.json", json.dumps(ATIF).encode())})
    given = Import.objects.get()
    assert answer.url == "/projects/lab" + given.get_absolute_url()
    waiting = html(client.get(answer.url))
    assert 'hx-trigger="every 1s"' in waiting and "<h1>Queued: a.json</h1>" in waiting
    assert "No worker has started it yet." in waiting and "Reading" not in waiting
    assert importing.carry_out(given.pk) and not importing.carry_out(given.pk)
    page = html(client.get(answer.url))
    assert "1 episode imported from a.json" in page and "links to subagents (1)" in page and "every 1s" not in page
    assert Episode.objects.get().get_absolute_url() in page
    assert not importing.path_of(given.pk).exists()
    listed = html(client.get("/imports/"))
    assert given.get_absolute_url() in listed and "<h1>1 episode imported from 1 file.</h1>" in listed


def test_file_of_a_killed_import_is_removed_later(ada, settings, tmp_path, monkeypatch):
    settings.VAR = tmp_path
    ended = importing.request(ada, "a.json", "", [json.dumps(ATIF).encode()])
    waits = importing.request(ada, "b.json", "", [json.dumps(ATIF).encode()])
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        importing.carry_out(ended.pk)
    ended.refresh_from_db()
    unnamed = importing.path_of("unnamed")
    unnamed.write_bytes(b"an upload whose process was killed")
    assert ended.state == "done" and importing.path_of(ended.pk).exists()
    tasks.wake()
    assert unnamed.exists()
    monkeypatch.setattr(importing, "LEFT_S", -1)
    tasks.wake()
    assert [path.name for path in importing.folder().iterdir()] == [waits.pk]


def test_page_shows_refused_rows(ada):
    given = importing.request(ada, "x.jsonl", "", [json.dumps(OPENAI).encode(), b"\n<script>\n"])
    importing.carry_out(given.pk)
    page = html(as_person(ada).get(given.get_absolute_url()))
    assert "1 of 2 rows of x.jsonl refused. Nothing was imported." in page and "line 2" in page


def test_page_says_that_a_read_file_is_being_stored(ada, monkeypatch):
    given = importing.request(ada, "x.jsonl", "", [b"\n".join(json.dumps(OPENAI | {"id": n}).encode() for n in (1, 2))])
    client, shown, store = as_person(ada), [], importing._store

    def stored(*arguments):
        shown.append(html(client.get(given.get_absolute_url())))
        return store(*arguments)

    monkeypatch.setattr(importing, "_store", stored)
    importing.carry_out(given.pk)
    [page] = shown
    assert (
        "<h1>Storing x.jsonl</h1>" in page
        and "Storing 2 rows, all or none." in page
        and "value=" not in page.split("<progress")[1].split(">")[0]
    )


def test_headline_counts_files_that_came_in(ada):
    for name, text in (("good.jsonl", json.dumps(OPENAI).encode()), ("bad.jsonl", b"{oh")):
        importing.carry_out(importing.request(ada, name, "", [text]).pk)
    assert "<h1>1 episode imported from 1 file.</h1>" in html(as_person(ada).get("/imports/"))


def test_page_names_a_problem_of_the_form(ada):
    assert "Choose a file." in html(as_person(ada).post("/imports/", {}))


def test_stranger_finds_no_import(ada, max_):
    given = importing.request(ada, "x", "", [b"{}"])
    assert as_person(max_).get(given.get_absolute_url()).status_code == 404


def test_api_takes_a_file_with_a_launch_token(project):
    _, secret = token(project, "launch")
    door = {"headers": {"Authorization": f"Bearer {secret}"}}
    file = SimpleUploadedFile("rows.jsonl", json.dumps(OPENAI).encode())
    answer = Client().post("/api/v1/imports", {"file": file, "format": "openai"}, **door)
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    importing.carry_out(answer.json()["id"])
    told = Client().get(f"/api/v1/imports/{answer.json()['id']}", **door).json()
    assert (told["state"], told["episodes"], told["steps"], told["refusals"]) == ("done", 1, 4, [])
    assert [one["id"] for one in Client().get("/api/v1/imports", **door).json()["imports"]] == [told["id"]]


def test_api_refuses_agents_and_unknown_formats(project):
    doors = [{"headers": {"Authorization": f"Bearer {token(project, scope)[1]}"}} for scope in ("agent", "launch")]
    for door, status in zip(doors, (403, 422), strict=True):
        file = SimpleUploadedFile("rows.jsonl", b"{}")
        answer = Client().post("/api/v1/imports", {"file": file, "format": "csv"}, **door)
        assert answer.status_code == status
    assert not Import.objects.exists()


def test_page_takes_several_files_and_names_the_refused(ada, monkeypatch):
    monkeypatch.setattr(importing, "UPLOAD_MAX", 10)
    files = [SimpleUploadedFile(name, b"x" * size) for name, size in (("a", 2), ("big", 11), ("b", 3))]
    page = as_person(ada).post("/imports/", {"file": files})
    assert page.status_code == 422 and "big: A file has at most 10 B here." in html(page)
    assert set(Import.objects.values_list("name", flat=True)) == {"a", "b"}
    assert as_person(ada).post("/imports/", {"file": files[:1]})["Location"].startswith("/projects/lab/imports/1")
    assert as_person(ada).post("/imports/", {"file": [files[0], files[2]]})["Location"] == "/projects/lab/imports/"


def test_largest_upload_is_one_figure(ada):
    assert "At most 24.0 MB together" in html(as_person(ada).get("/imports/"))
    assert "Page and API accept 24 MB" in (settings.BASE_DIR / "docs" / "import.md").read_text()


def test_large_upload_is_refused_and_leaves_no_file(ada, monkeypatch):
    monkeypatch.setattr(importing, "UPLOAD_MAX", 10)
    page = as_person(ada).post("/imports/", {"file": SimpleUploadedFile("x", b"x" * 11)})
    assert page.status_code == 422 and not Import.objects.exists()
    assert not list(importing.path_of("x").parent.iterdir())


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_one_file_at_once_make_one_episode(ada, file_of):
    path, failures = file_of(*(asked("a", number) for number in range(20))), []

    def take():
        try:
            importing.take(ada, path)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failures
    assert sorted((one.episodes, one.known) for one in Import.objects.all()) == [(0, 20), (20, 0)]
    assert Episode.objects.count() == 20


HOSTILE = [
    *("\\N", "\\.", "a\tb\nc\\", "\x00 \x7f \x85 \u2028 \ud800 \U0001f600", "x\\" * 40_000),
    *(123456789012345678901234567890, 1.0, 5e-324, True, None, {"b": [1], "a": {"\\": "\t"}}),
]


@pytest.mark.parametrize("name", [*ROWS, "hostile"])
def test_stored_steps_are_what_a_recording_stores(ada, tmp_path, name):
    path = tmp_path / "file"
    call = {"seq": 1, "kind": "tool_call", "name": "\\N", "arguments": {"x": HOSTILE}, "turn": 1.0}
    advice = {
        "privilege": "blind",
        "source": "llm",
        "text": "\ud800",
        "tool_calls": [{"arguments": {"b": 1}, "name": "x"}],
    }
    steps = [
        *({**call, "seq": seq, "result": one} for seq, one in enumerate(HOSTILE, 1)),
        {"seq": 12, "kind": "ask", "question": "?", "at": "2026-03-01T12:00:00.123+02:00", "advice": advice},
    ]
    path.write_bytes(json.dumps({**RECORD, "steps": steps}).encode() if name == "hostile" else text_of(name))
    (found,) = readers.read(path)
    importing.take(ada, path)
    one, entries = Episode.objects.get(), entries_of(found.trajectory.steps)
    stored = [(step.seq, step.kind, step.body, step.cut) for step in one.steps.order_by("seq")]
    assert stored == [(entry.seq, entry.kind, entry.text, entry.cut) for entry in entries]
    assert one.strip == "".join(entry.code for entry in entries)
    times = {step.seq: step.at for step in one.steps.all()}
    assert all(times[entry.seq] == entry.at for entry in entries if '"at":' in entry.text)
    assert (one.started_at, one.ended_at) == (min(times.values()), max(times.values()))
    [listed] = lists.episodes(ada, {}, "", 10).items
    assert (listed.started_at, listed.ended_at) == (one.started_at, one.ended_at)


def test_step_that_is_too_large_is_refused_with_its_row(ada, file_of, monkeypatch):
    monkeypatch.setattr("episodes.stored.entries.MAX_STEP_BYTES", 5000)
    with pytest.raises(FileRefused, match="line 2: A step can have at most 8 MB. Nothing was imported"):
        importing.take(ada, file_of(asked("a", 1), asked("x" * 6000, 2)))
    assert not Episode.objects.exists()


def test_rows_are_stored_in_small_batches_and_in_order(ada, file_of, monkeypatch):
    monkeypatch.setattr(spooling, "BATCH_BYTES", 1000)
    real, sizes = importing.admitting.admit, []

    def admit(actor, some, sent):
        sizes.append(len(some))
        real(actor, some, sent=sent)

    monkeypatch.setattr(importing.admitting, "admit", admit)
    rows = [asked("a", number) for number in range(7)]
    given = importing.take(ada, file_of(*rows, *rows))
    assert (given.episodes, given.known) == (7, 7)
    assert max(sizes) <= 2
    assert list(given.made.order_by("pk").values_list("place", flat=True)) == [f"line {n}" for n in range(1, 8)]


def test_what_waits_is_bounded_and_leaves_no_file(ada, file_of, monkeypatch, folder):
    seen = []
    monkeypatch.setattr(spooling, "BYTES_MAX", 3000)
    real = spooling.Spool.add
    monkeypatch.setattr(
        spooling.Spool, "add", lambda self, row: seen.extend((folder / "imports").iterdir()) or real(self, row)
    )
    with pytest.raises(FileRefused, match="GB of steps"):
        importing.take(ada, file_of(*(asked("a", number) for number in range(9))))
    assert seen == [] and not Episode.objects.exists()
    importing.take(ada, file_of(asked("a", 1)))
    assert not list((folder / "imports").iterdir())


def test_attempt_that_another_took_over_stores_nothing(ada, monkeypatch):
    given = importing.request(ada, "x.jsonl", "", [json.dumps(OPENAI).encode()])
    real = readers.read

    def read(path, *options):
        yield from real(path, *options)
        if Import.objects.filter(pk=given.pk, attempt=1).update(heartbeat_at=None):
            assert importing.carry_out(given.pk)  # the worker of before was thought to be lost

    monkeypatch.setattr(importing.readers, "read", read)
    assert importing.carry_out(given.pk)
    given.refresh_from_db()
    assert (given.state, given.attempt, given.episodes, Episode.objects.count()) == ("done", 2, 1, 1)


def test_page_of_an_imported_episode_says_so(ada, file_of):
    importing.take(ada, file_of(ROWS["openenv"]))
    page = html(as_person(ada).get(Episode.objects.get().get_absolute_url()))
    assert "Imported: only the outcome in its file is available." in page and "Reported by the file" in page
    assert "origin <b>imported</b>" in page and "took <b>" not in page
    assert 'class="arm' not in page + html(as_person(ada).get("/episodes/")), "no file said that no expert was there"


def test_imported_episode_with_an_arm_or_an_expert_shows_it(ada, file_of):
    importing.take(ada, file_of(RECORD))
    assert 'class="arm e"' in html(as_person(ada).get(Episode.objects.get().get_absolute_url()))
