"""Exports as people and scripts make them: a recipe with its preview, a build, its files by ranges, cancel, delete."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from awmclient.schema import AskOpen, EpisodeStart, Finish, Outcome, StepBatch, ToolSpec
from episodes.errors import BlindReview
from episodes.models import Episode, OutcomeHold
from episodes.record import ending, recording
from experts.record import advising, opening, queue
from exports.assembly import datasets, parts, storing
from exports.errors import BadRecipe
from exports.explain import preview as previewing
from exports.formats import FORMATS
from exports.jobs import requesting, working
from exports.models import Export, ExportState
from exports.pages import downloads, exports
from exports.recipe import Recipe
from exports.rules import tokenizing
from people.errors import Forbidden, Invalid, NotFound, Unauthenticated
from people.models import ApiToken, Membership
from people.record import members
from tests.browsing import as_person, html
from tests.exports.rules.test_token_ids import PLAIN, tokenizer_in
from tests.people_by_name import person, token

SECRET = "sk-proj-" + "a1B2c3D4" * 6


@pytest.fixture
def store(settings, tmp_path):
    """Exports stand in a folder of the test's own."""
    settings.VAR = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "exports": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "datasets")},
        },
    }
    return tmp_path


def advised(actor, ask, text):
    lease = queue.claim(actor, ask.pk)
    advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n")


def episode(actor, key, *, reward_type="complete", answer="Done.", **more):
    """A finished, verified episode with one answered ask."""
    tools = [ToolSpec(name="merge", input_schema={"type": "object"})]
    start = EpisodeStart(key=key, task="Merge the duplicates.", tools=tools, expert="plain", arm="react", **more)
    one, _ = recording.start_episode(actor, start)
    said = {"seq": 1, "kind": "message", "role": "user", "content": f"Merge the duplicates. My key is {SECRET}."}
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": [said]}).steps)
    ask, _ = opening.open_ask(
        actor, AskOpen(episode=one.pk, key="1", question=f"Into which, {key}?", deadline_s=60, seq=2)
    )
    advised(actor, ask, "Into 7.")
    last = {"seq": 3, "kind": "message", "role": "assistant", "content": answer}
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": [last]}).steps)
    ending.finish(actor, one.pk, Finish(stop_reason="done"))
    ending.record_outcome(actor, one.pk, Outcome(reward_type=reward_type, reward=1.0))
    return one


def built(actor, **options):
    """The export of this recipe, done."""
    export = requesting.request(actor, Recipe.read({"format": "sft", **options}))
    working.build(export.pk)
    export.refresh_from_db()
    assert export.state == ExportState.DONE, export.problem
    return export


def data_of(export):
    path = export.manifest["files"][0]["path"]
    with storing.open_file(export.project_id, export.dataset, path) as source:
        return source.read()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("policy_kind=scripted", "Unknown filter value: policy_kind=scripted. Episodes have model."),
        ("arm=recat", "Unknown filter value: arm=recat. Episodes have react."),
        ("task_idx=7", "Unknown filter value: task_idx=7. No episode has this task_idx."),
        ("outcome=completed", "Unknown filter value: outcome=completed. Use one of complete, "),
        ("id=abc", "Unknown filter value: id=abc. No episode has this id."),
    ],
)
def test_filter_by_a_wrong_value_is_an_error_by_name(ada, store, tmp_path, said, why):
    episode(ada, "a", policy={"model": "m/1"})
    name, _, value = said.partition("=")
    with pytest.raises(CommandError, match=f"^{re.escape(why)}"):
        call_command("export", "--format=sft", "--project=lab", "--filter", said, "--output", str(tmp_path / "rows"))
    assert why in html(as_person(ada).get(f"/exports/?format=sft&{said}"))
    with pytest.raises(Invalid, match=re.escape(why)):
        requesting.request(ada, Recipe.read({"format": "sft", "filter": {name: [value]}}))
    for known in ("outcome=others", "policy_kind=model"):
        call_command("export", "--format=sft", "--project=lab", "--filter", known, "--output", str(tmp_path / "rows"))


def test_missing_recipe_is_named_not_the_output(ada, tmp_path):
    with pytest.raises(CommandError, match=r"^Cannot read the recipe .*none\.yaml: "):
        call_command("export", "--recipe", str(tmp_path / "none.yaml"), "--output", str(tmp_path / "rows"))


@pytest.mark.parametrize("shape", ["sft", "dpo", "raw"])
def test_redactions_of_the_manifest_are_those_of_the_file(ada, store, shape):
    episode(ada, "a", answer="Done. Write to ada@example.org or ada@example.org.")
    episode(ada, "b", answer="No. Write to edo@example.org.", reward_type="others")
    export = built(ada, format=shape, redact="personal")
    counts = Counter(re.findall(rb"\[redacted:([a-z_]+)", data_of(export)))
    assert export.manifest["redacted"] == {kind.decode(): count for kind, count in sorted(counts.items())}
    assert export.manifest["redacted"].get("email", 0) == {"sft": 2, "dpo": 0, "raw": 3}[shape]


def test_page_previews_a_recipe_and_shares_it_by_its_address(ada, store):
    one = episode(ada, "a")
    episode(ada, "b", reward_type="others")
    page = html(as_person(ada).get("/exports/?format=sft&arm=react"))
    assert "1 row from 1 of 2 episodes" in page and "Not complete" in page
    assert one.pk in page and "Into 7." in page and "learn" in page
    assert SECRET not in page and "[redacted:" in page


def test_preview_counts_over_the_selection_or_names_its_sample(ada, store, monkeypatch):
    """Newer episodes that give no row must not hide those that do."""
    for key in ("a", "b"):
        episode(ada, key, answer=f"Done with {key}.")
    for key in ("c", "d", "e"):
        episode(ada, key, reward_type="others")
    monkeypatch.setattr(previewing, "EPISODES", 3)
    page = html(as_person(ada).get("/exports/"))
    assert "2 rows from 2 of 5 episodes" in page and "No outcome to use" in page
    monkeypatch.setattr(previewing, "EPISODES", 1)
    page = " ".join(html(as_person(ada).get("/exports/")).split())
    assert (
        "Sample: 1 row from the newest 1 of 2 episodes" in page
        and "A build reads all 2 that have an outcome to use, of 5 that match." in page
    )
    assert "No rows from 3 episodes" in html(as_person(ada).get("/exports/?outcome=others"))


def test_outcome_filter_shows_labels_and_sends_wire_names(ada, store):
    page = html(as_person(ada).get("/exports/"))
    assert re.search(r'<option value="others"\s*>\s*Not complete\s*</option>', page)


def test_preview_alone_says_the_address_of_the_page(ada, store):
    episode(ada, "a")
    answer = as_person(ada).get("/exports/preview?format=dpo&arm=&redact=off")
    assert answer.headers["HX-Replace-Url"] == "/projects/lab/exports/?format=dpo&redact=off"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("format=surprise", "format"),
        ("run=nobody", "No run has this name or id"),
        ("task_idx=x", "Use a whole number"),
        ("origin=moon", "Use one of"),
    ],
)
def test_page_names_what_is_wrong_in_a_recipe(ada, store, query, words):
    answer = as_person(ada).get(f"/exports/?{query}")
    assert answer.status_code == 422 and words in html(answer)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"filter": {"foo": "1"}}, "Unknown filter: foo. Use one of run, arm, "),
        ({"filter": [1]}, "filter: an object of names and values"),
        ({"tokenizer": "plain"}, "tokenizer: only format tokens accepts one"),
        ({"patterns": [{"name": "a", "regex": "((("}]}, "patterns.0.regex: not a regular expression: "),
        ({"include": ["evaluation"], "advice": "no"}, "advice: Input should be "),
    ],
)
def test_recipe_error_has_no_prefix_of_pydantic(more, words):
    with pytest.raises(BadRecipe) as refused:
        Recipe.read({"format": "sft", **more})
    assert refused.value.message.startswith(words) and "Value error" not in refused.value.message


def test_empty_project_says_that_nothing_matches(ada, store):
    assert "No matching finished episodes." in html(as_person(ada).get("/exports/"))


def test_page_builds_an_export_and_shows_its_files(ada, store):
    episode(ada, "a")
    person = as_person(ada)
    answer = person.post("/exports/", {"format": "sft", "arm": "react"})
    export = Export.objects.get()
    assert answer.status_code == 302 and answer.headers["Location"] == f"/projects/lab/exports/{export.pk}/"
    waiting = html(person.get(f"/exports/{export.pk}/"))
    assert "Queued: SFT" in waiting and "No worker has started it yet." in waiting and "Building" not in waiting
    Export.objects.update(state="building")
    assert "Building SFT" in html(person.get(f"/exports/{export.pk}/"))
    Export.objects.update(state="queued")
    working.build(export.pk)
    page = html(person.get(f"/exports/{export.pk}/"))
    assert "1 row" in page and "data/train.jsonl" in page and "README.md" in page and "format: sft" in page
    listed = html(person.get("/exports/"))
    assert f"/exports/{export.pk}/" in listed


def test_file_comes_whole_and_by_ranges(ada, store):
    episode(ada, "a")
    export = built(ada)
    person, address, whole = as_person(ada), f"/exports/{export.pk}/download", data_of(export)

    def got(header=None):
        answer = person.get(address, headers={"Range": header} if header else {})
        return answer, b"".join(answer.streaming_content) if answer.streaming else answer.content

    answer, body = got()
    assert (answer.status_code, body) == (200, whole) and answer.headers["Accept-Ranges"] == "bytes"
    answer, body = got("bytes=5-9")
    assert (answer.status_code, body) == (206, whole[5:10])
    assert answer.headers["Content-Range"] == f"bytes 5-9/{len(whole)}"
    assert got("bytes=-4")[1] == whole[-4:] and got("bytes=7-")[1] == whole[7:]
    assert got(f"bytes={len(whole)}-")[0].status_code == 416
    assert person.get(address, {"path": "../../secret_key"}).status_code == 404


def test_same_episodes_and_recipe_give_the_same_files(ada, store):
    for key in "abc":
        episode(ada, key)
    first, second = built(ada), built(ada)
    assert first.dataset == second.dataset and data_of(first) == data_of(second)
    episode(ada, "d")
    third = built(ada)
    assert third.dataset != first.dataset and third.rows == 4


def test_command_writes_what_the_page_builds(ada, store, tmp_path, capsys):
    episode(ada, "a")
    target = tmp_path / "out.jsonl"
    call_command("export", "--format", "sft", "--project", "lab", "--output", str(target), verbosity=0)
    assert f"Wrote 1 row from 1 of 1 finished episode to {target}" in capsys.readouterr().out
    assert target.read_bytes() == data_of(built(ada)) != b""
    manifest = json.loads((tmp_path / "out.jsonl.manifest.json").read_text())
    assert manifest["rows"] == 1 and manifest["features"]["messages"]
    with pytest.raises(CommandError, match=r"^Unknown filter: surprise\. Use one of run, arm, "):
        call_command("export", "--format", "sft", "--filter", "surprise=1", "--output", str(target))


def test_export_takes_attested_outcomes_not_reported_ones(ada, store):
    for key, source in (("said", "reported"), ("proved", "attested")):
        one, _ = recording.start_episode(ada, EpisodeStart(key=key, task=key))
        steps = [{"seq": 1, "kind": "message", "role": "assistant", "content": key}]
        recording.append_steps(ada, one.pk, StepBatch.model_validate({"steps": steps}).steps)
        ending.finish(ada, one.pk, Finish(stop_reason="done", outcome={"reward_type": "complete", "reward": 1.0}))
        if source == "attested":
            ending.record_outcome(ada, one.pk, Outcome(reward_type="complete", reward=1.0, source="attested"))
    rows = [json.loads(line) for line in data_of(built(ada)).splitlines()]
    assert [(row["episode_id"], row["outcome_word"]) for row in rows] == [(one.pk, "attested")]


def test_build_that_stopped_goes_on_from_its_parts(ada, store, monkeypatch, settings):
    for key in "abc":
        episode(ada, key, scenario=f"{key}_1", task_idx=0)
    whole = data_of(built(ada))
    monkeypatch.setattr(parts, "PART_STEPS", 1)
    settings.EXPORT_PROCESSES = 1
    export = requesting.request(ada, Recipe.read({"format": "sft"}))
    Export.objects.exclude(pk=export.pk).delete()
    storing.delete(export.project_id, Export(dataset=first_dataset(ada)).dataset)
    folder = storing.work_folder(export.pk)
    plan = datasets.take_snapshot(export.project, Recipe.read(export.recipe), folder)
    done = []
    with pytest.raises(datasets.Stopped):
        datasets.build(export.project, plan, folder, lambda episodes, rows: done.append(episodes) or len(done) < 3)
    assert [path.name for path in sorted((folder / "parts").glob("*.json"))] == ["00000.json", "00001.json"]
    working.build(export.pk)
    export.refresh_from_db()
    assert export.state == ExportState.DONE and data_of(export) == whole


def first_dataset(actor):
    """The dataset that the plain recipe gives now."""
    folder = storing.work_folder("probe")
    plan = datasets.take_snapshot(actor.project, Recipe.read({"format": "sft"}), folder)
    storing.forget_work("probe")
    return plan.id


def test_cancelled_export_is_built_by_nobody(ada, store):
    episode(ada, "a")
    export = requesting.request(ada, Recipe.read({"format": "sft"}))
    as_person(ada).post(f"/exports/{export.pk}/cancel")
    assert not working.build(export.pk)
    export.refresh_from_db()
    assert export.state == ExportState.CANCELLED


def test_deleted_export_removes_files_unless_shared(ada, store, django_capture_on_commit_callbacks):
    episode(ada, "a")
    first, second = built(ada), built(ada)
    person = as_person(ada)
    page = html(person.get(f"/exports/{first.pk}/"))
    dialog = page[page.index('<dialog id="delete-export"') : page.index("</dialog>")]
    assert f'action="/projects/lab/exports/{first.pk}/delete"' in dialog
    assert page.count('/delete"') == 1 and 'data-opens="delete-export"' in page
    with django_capture_on_commit_callbacks(execute=True):
        person.post(f"/exports/{first.pk}/delete")
    assert data_of(second) != b""
    with django_capture_on_commit_callbacks(execute=True):
        person.post(f"/exports/{second.pk}/delete")
    assert not storing.is_kept(second.project_id, second.dataset)


def test_deleted_export_keeps_no_files_for_another_project(ada, max_, store, django_capture_on_commit_callbacks):
    """An export of nothing is the same dataset in every project."""
    mine, other = built(ada), built(max_)
    assert mine.dataset == other.dataset
    with django_capture_on_commit_callbacks(execute=True):
        as_person(ada).post(f"/exports/{mine.pk}/delete")
    kept = [storing.is_kept(one.project_id, one.dataset) for one in (mine, other)]
    assert kept == [False, True]


def test_export_token_exports_over_http(ada, store):
    episode(ada, "a")
    _, secret = token(ada.project, "export")
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    asked = client.post("/api/v1/exports", {"format": "sft"}, content_type="application/json")
    assert asked.status_code == 202, asked.content
    working.build(asked.json()["id"])
    shown = client.get(f"/api/v1/exports/{asked.json()['id']}").json()
    assert (shown["state"], shown["rows"], shown["counts"]["episodes"]) == ("done", 1, 1)
    got = client.get(f"/api/v1/exports/{asked.json()['id']}/download")
    assert json.loads(b"".join(got.streaming_content))["arm"] == "react"


def test_strangers_and_reviewers_export_nothing(ada, rita, max_, store):
    episode(ada, "a")
    export = built(ada)
    assert as_person(rita).get("/exports/").status_code == 403
    assert as_person(max_).get(f"/exports/{export.pk}/download").status_code == 404
    assert as_person(max_).post(f"/exports/{export.pk}/delete").status_code == 404
    with pytest.raises(Forbidden):
        requesting.request(rita, Recipe.read({"format": "sft"}))
    with pytest.raises(Invalid):
        requesting.request(ada, Recipe.read({"format": "sft", "filter": {"task_idx": "x"}}))


def test_download_breaks_off_when_its_reader_leaves(ada, store, monkeypatch):
    episode(ada, "a")
    export, ron = built(ada), person(ada.project, "ron", "researcher")
    monkeypatch.setattr(storing, "BLOCK", 100)
    monkeypatch.setattr(downloads, "CHECKED_S", 0.0)
    monkeypatch.setattr(downloads, "close_old_connections", lambda: None)  # that of the test is in a transaction
    member, (_, secret) = as_person(ron), token(ada.project, "export")
    answers = [member.get(f"/exports/{export.pk}/download")]
    answers += [Client().get(f"/api/v1/exports/{export.pk}/download", headers={"Authorization": f"Bearer {secret}"})]
    parts = [iter(answer.streaming_content) for answer in answers]
    assert [len(next(part)) for part in parts] == [100, 100] and [len(next(part)) for part in parts] == [100, 100]
    members.remove_member(ada, Membership.objects.get(user=ron.person, project=ada.project).pk)
    members.revoke_token(ada, ApiToken.objects.get(digest=members.digest(secret)).pk)
    for part, refusal in zip(parts, (NotFound, Unauthenticated), strict=True):
        with pytest.raises(refusal):
            next(part)


def test_parquet_and_lines_hold_the_same_rows(ada, store, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import pyarrow.parquet

    episode(ada, "a")
    lines = [json.loads(line) for line in data_of(built(ada)).splitlines()]
    export = built(ada, parquet=True)
    (tmp_path / "x.parquet").write_bytes(data_of(export))
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["episode_id"] for row in table] == [row["episode_id"] for row in lines]
    assert [row["loss"] for row in table] == [row["loss"] for row in lines]


def unpacked(export, path):
    """The bytes of a file, those of its members if it is a container."""
    with storing.open_file(export.project_id, export.dataset, path) as source:
        if not path.endswith(".eval"):
            return source.read()
        with zipfile.ZipFile(source) as log:
            return b"".join(log.read(name) for name in log.namelist())


def decoded(store, lines):
    tokens = tokenizing.load(store / "tokenizers", "plain").tokens
    return "".join(tokens.decode(json.loads(one)["input_ids"]) for one in lines.splitlines())


def test_token_ids_name_their_tokenizer_everywhere(ada, store, tmp_path):
    episode(ada, "a")
    person = as_person(ada)
    assert 'name="tokenizer"' not in html(person.get("/exports/")), "no tokenizer is there to choose"
    with pytest.raises(BadRecipe, match="No tokenizer"):
        built(ada, format="tokens", tokenizer="plain")
    tokenizer_in(store / "tokenizers" / "plain", PLAIN)
    assert "1 row from 1 of 1 episode" in html(person.get("/exports/?format=tokens&tokenizer=plain"))
    first = built(ada, format="tokens", tokenizer="plain")
    assert "Into 7." in decoded(store, data_of(first)) and first.manifest["tokenizer_sha256"]
    target = tmp_path / "out.jsonl"
    call_command("export", "--format", "tokens", "--tokenizer", "plain", "--project", "lab", "--output", str(target))
    assert target.read_bytes() == data_of(first)
    template = store / "tokenizers" / "plain" / "chat_template.jinja"
    template.write_text(PLAIN + "\n")
    assert built(ada, format="tokens", tokenizer="plain").dataset != first.dataset
    assert "tokenizer=plain" in html(person.get(f"/exports/{first.pk}/"))


def test_inspect_command_writes_the_chosen_form(ada, store, tmp_path):
    episode(ada, "a")
    episode(ada, "b", reward_type="others", answer="I do not know.")
    export = built(ada, format="inspect")
    paths = [one["path"] for one in export.manifest["files"]]
    assert paths == ["data/train.eval", "data/train.json", "rows.jsonl", "left_out.jsonl"]
    assert export.rows == 2 and "configs" not in unpacked(export, "README.md").decode().split("---")[1]
    for name, path in (("out.eval", paths[0]), ("out.json", paths[1]), ("out", paths[0])):
        target = tmp_path / name
        call_command("export", "--format", "inspect", "--project", "lab", "--output", str(target), verbosity=0)
        with storing.open_file(export.project_id, export.dataset, path) as source:
            assert target.read_bytes() == source.read()
    scores = [
        one["scores"]["awm_verifier"]["value"] for one in json.loads((tmp_path / "out.json").read_text())["samples"]
    ]
    assert sorted(scores) == [0.0, 1.0]


def test_openenvs_collector_finds_its_file_by_name(ada, store):
    episode(ada, "a")
    export = built(ada, format="openenv")
    assert export.manifest["files"][0]["path"] == "data/results.jsonl"
    assert json.loads(data_of(export))["task"]["task"] == "Merge the duplicates."


def test_preview_renders_a_chat_template_with_loss_mask(ada, store):
    episode(ada, "a")
    tokenizer_in(store / "tokenizers" / "plain", PLAIN)
    person = as_person(ada)
    assert "Chat template of plain" in html(person.get("/exports/"))
    for shape in ("sft", "openai", "steps", "kto", "tokens&tokenizer=plain"):
        page = html(person.get(f"/exports/preview?format={shape}&template=plain"))
        assert "assistant" in page and "Done." in page, shape
        learned = "".join(re.findall(r'<span class="learn">(.*?)</span>', page))
        assert "Merge the duplicates" not in learned and "Into 7." not in learned, shape
        assert "Done." in learned or shape in ("steps", "kto"), shape
    assert "not rendered with chat templates" in html(person.get("/exports/preview?format=atif&template=plain"))
    assert "No tokenizer" in html(person.get("/exports/preview?format=sft&template=none"))


def test_recipe_in_yaml_fills_the_form_and_loses_nothing(ada, store):
    episode(ada, "a")
    Episode.objects.filter(pk=episode(ada, "b").pk).update(arm="plan")
    Episode.objects.filter(task="Merge the duplicates.").update(scenario="desk")
    recipe = Recipe.read({
        "format": "dpo", "filter": {"arm": ["react", "plan"], "scenario": ["desk"], "since": ["2020-01-01"]},
        "include": ["reported", "ungrounded"], "authors": True, "pairs_per_task": 7, "license": "cc-by-4.0",
        "patterns": [{"name": "ticket", "regex": "T-[0-9]+"}], "advice": "drop", "parquet": True,
    })  # fmt: skip
    person = as_person(ada)
    for body in ({"yaml": recipe.as_yaml()}, {"file": SimpleUploadedFile("r.yaml", recipe.as_yaml().encode())}):
        answer = person.post("/exports/recipe", body)
        assert answer.status_code == 302
        query = QueryDict(answer.headers["Location"].partition("?")[2])
        assert exports.recipe_of(query) == recipe and query["scenario"] == "desk"
    page = html(person.get(answer.headers["Location"]))
    assert "pairs_per_task: 7" in page and "checked" in page
    built_one = person.post("/exports/", query.dict() | {"include": query.getlist("include")})
    assert Recipe.read(Export.objects.get().recipe) == recipe and built_one.status_code == 302


@pytest.mark.parametrize(
    ("text", "words"),
    [("format: [", "not YAML"), ("format: sft\nadvice: maybe", "advice"), ("just words", "recipe: "), ("", "recipe: ")],
)
def test_wrong_yaml_is_named_and_stays_in_its_field(ada, store, text, words):
    answer = as_person(ada).post("/exports/recipe", {"yaml": text})
    page = html(answer)
    assert answer.status_code == 422 and words in page and text.partition("\n")[0] in page
    assert as_person(ada).get("/exports/?more=authors%3A%20[").status_code == 422


def test_time_left_comes_from_the_speed_of_this_attempt(ada, store):
    export = requesting.request(ada, Recipe.read({"format": "sft"}))
    assert export.seconds_left is None
    now = timezone.now()
    measured = {"measured_at": now - timedelta(seconds=10), "measured_episodes": 40, "heartbeat_at": now}
    Export.objects.update(state="building", episodes=100, episodes_done=60, **measured)
    export.refresh_from_db()
    assert export.seconds_left == 20
    assert "60 of 100 episodes, 0 rows, about 0:20 left" in html(as_person(ada).get(f"/exports/{export.pk}/"))
    Export.objects.update(episodes_done=40)
    assert "left" not in html(as_person(ada).get(f"/exports/{export.pk}/")).partition("60 of")[2]
    requesting.claim(export.pk)
    Export.objects.update(heartbeat_at=None)
    assert requesting.claim(export.pk).seconds_left is None, "another attempt measures for itself"


@pytest.mark.parametrize("shape", ["atif", "openenv", "inspect"])
def test_page_previews_formats_of_others(ada, store, shape):
    episode(ada, "a")
    page = html(as_person(ada).get(f"/exports/?format={shape}"))
    assert "1 row from 1 of 1 episode" in page and "Into 7." in page and SECRET not in page
    assert "ask_expert" in page and "Into which, a?" in page
    assert page.count('class="learn"') == 2, "the question and the answer"


def test_poisoned_episodes_leave_no_canary_in_a_default_export(ada, store):
    """One canary each: a nudge stays and is not learned; the others reach no byte."""
    held = episode(ada, "held", answer="canary-held-out", split="val")
    informed, _ = recording.start_episode(ada, EpisodeStart(key="i", task="t", expert="informed"))
    ask, _ = opening.open_ask(ada, AskOpen(episode=informed.pk, key="1", question="q", deadline_s=60, seq=1))
    advised(ada, ask, "canary-informed")
    last = {"seq": 2, "kind": "message", "role": "assistant", "content": "ok"}
    recording.append_steps(ada, informed.pk, StepBatch.model_validate({"steps": [last]}).steps)
    ending.finish(ada, informed.pk, Finish(stop_reason="done"))
    outcome = Outcome(reward_type="complete", reward=1.0, details={"found": "canary-verifier"})
    ending.record_outcome(ada, informed.pk, outcome)
    episode(ada, "good")
    tokenizer_in(store / "tokenizers" / "plain", PLAIN)
    for shape in set(FORMATS) - {"curriculum"}:  # rows of tasks, which hold nothing that an episode said
        export = built(ada, format=shape, **({"tokenizer": "plain"} if shape == "tokens" else {}))
        files = [path for path, _ in storing.files_of(export.project_id, export.dataset)]
        everything = b"".join(unpacked(export, path) for path in files)
        if shape == "tokens":
            everything += decoded(store, data_of(export)).encode()
            assert b"Into 7." in everything
        assert b"canary-verifier" not in everything and SECRET.encode() not in everything, shape
        for canary, mark in ((b"canary-held-out", b"held_out"), (b"canary-informed", b"informed")):
            if FORMATS[shape].kind.trains:
                assert canary not in everything, (shape, canary)
            else:
                assert canary in everything and mark in everything, (shape, canary)
        assert b"ada" not in [line for line in everything.splitlines() if b'"author"' in line]
    assert held.pk


def test_export_page_says_why_no_build_is_possible_now(ada):
    page, judged = as_person(ada), episode(ada, "judged")
    assert "disabled" not in button_of(page)
    OutcomeHold.objects.create(episode=judged, actor_key=ada.key, by="review")
    refused = page.post("/exports/", {"format": "sft"})
    assert refused.status_code == 409
    assert "disabled" in button_of(page) and BlindReview().message in page.get("/exports/").content.decode()


def button_of(page):
    shown = page.get("/exports/").content.decode()
    return re.search(r'<button[^>]*data-act="build"[^>]*>', shown)[0]
