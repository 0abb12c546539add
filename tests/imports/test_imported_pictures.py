"""Pictures of imported files: as data in their rows, beside them, and by the digest of one that the project has."""

from __future__ import annotations

import base64
import io
import json
import zipfile

import pytest

from episodes.models import Episode, Picture, PictureUse
from episodes.visible.trajectory import steps_of
from imports import readers
from imports.readers import found
from imports.record import importing, picturing
from tests.imports.files import ABOUT, ATIF, AWM, CODEX, HEAD, MESSAGES, OPENAI, RECORD, TASK, TRIAL, trial_files
from tests.pictures import SVG, drawn

pytestmark = pytest.mark.django_db
PNG, WEBP = drawn(), drawn("WEBP", shade=9)
LOOK = {"type": "text", "text": TASK}


def address(data, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def openai(data, kind="png"):
    return {"type": "image_url", "image_url": {"url": address(data, kind)}}


def anthropic(data, kind="png"):
    return {"type": "image", "source": {"type": "base64", "media_type": f"image/{kind}", "data": b64(data)}}


def b64(data):
    return base64.b64encode(data).decode()


def messages(asked, came):
    return [{"role": "user", "content": asked}, MESSAGES[2], {**MESSAGES[3], "content": came}, MESSAGES[4]]


def claude(asked, came):
    turn = {"id": "m1", "role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": came}
    beside = {"type": "image", "file": {"base64": came[0]["source"]["data"]}}
    return [
        {**ABOUT, "type": "user", "message": {"role": "user", "content": asked}},
        {**ABOUT, "type": "assistant", "message": turn},
        {**ABOUT, "type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": beside},
    ]


def codex(asked, came):
    call = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "c1"}
    items = [
        {"type": "message", "role": "user", "content": asked},
        call,
        {"type": "function_call_output", "call_id": "c1", "output": came},
    ]
    return [CODEX[0], *({"type": "response_item", "timestamp": "2026-03-01T12:00:00Z", "payload": it} for it in items)]


def inspect(asked, came):
    sample = {"id": 1, "input": TASK, "uuid": "u1", "messages": messages(asked, came)}
    return {**HEAD, "samples": [{**sample, "attachments": {"d1": address(PNG), "d2": address(WEBP, "webp")}}]}


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


INPUT = [{"type": "input_text", "text": TASK}, {"type": "input_image", "image_url": address(PNG)}]
ATTACHED = [[LOOK, {"type": "image", "image": "attachment://d1"}], [{"type": "image", "image": "attachment://d2"}]]
SEEN = {"action": {"type": "call_tool", "tool_name": "look", "arguments": {}}}
MCP = {"content": [{"type": "image", "data": b64(WEBP), "mimeType": "image/webp"}]}
FILES = {
    "openai": lines([{**OPENAI, "messages": messages([LOOK, openai(PNG)], [openai(WEBP, "webp")])}]),
    "claude-code": lines(claude([LOOK, anthropic(PNG)], [anthropic(WEBP, "webp")])),
    "codex": lines(codex(INPUT, [{"type": "input_image", "image_url": address(WEBP, "webp")}])),
    "inspect": json.dumps(inspect(*ATTACHED)).encode(),
}


@pytest.fixture
def taken(ada, tmp_path):
    """A call that imports a file with this content, and returns the import."""

    def take(content, name="file", kind=""):
        path = tmp_path / name
        path.write_bytes(content)
        return importing.take(ada, path, kind)

    return take


def trial(pictures, path="images/step_1.png"):
    """Return a job of Harbor as a ZIP: one trial, whose trajectory names a picture by its path."""
    part = {"type": "image", "source": {"media_type": "image/png", "path": path}}
    first = {"step_id": 1, "source": "user", "message": [{"type": "text", "text": TASK}, part]}
    files = trial_files({**TRIAL, "trajectory": {**ATIF, "steps": [first]}})
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as packed:
        for name, content in {**files, **pictures}.items():
            packed.writestr(f"job/merge/{name}", content)
    return written.getvalue()


def shown(episode):
    """Return the pictures of an episode's steps: of messages, and of results."""
    steps = steps_of(episode)
    own = [part for step in steps for part in step.get("pictures") or []]
    came = [part for step in steps for part in step.get("result") or [] if isinstance(part, dict)]
    return [part["media_type"] for part in own], [part["media_type"] for part in came]


@pytest.mark.parametrize("name", FILES)
def test_data_of_a_file_becomes_pictures_of_its_episode(taken, name):
    job = taken(FILES[name])
    assert (job.format, job.state, "parts of messages that are not text" in job.lost) == (name, "done", False)
    episode = Episode.objects.get()
    assert shown(episode) == (["image/png"], ["image/webp"])
    assert episode.task == TASK
    assert sorted(use.picture.media_type for use in PictureUse.objects.all()) == ["image/png", "image/webp"]
    # the bytes are in no step, and in no fact beside one
    assert b64(WEBP)[-80:] not in json.dumps(steps_of(episode))


def test_result_of_a_tool_server_becomes_a_part(taken):
    taken(json.dumps({**AWM, "steps": [{**SEEN, "observation": {"tool_result": MCP}}]}).encode())
    (step,) = steps_of(Episode.objects.get())
    assert step["result"]["content"][0]["media_type"] == "image/webp"
    assert Picture.objects.get().uses.count() == 1


def test_trajectory_of_a_trial_names_a_picture_by_its_path(ada, taken, tmp_path):
    packed = trial({"agent/images/step_1.png": PNG})
    assert taken(packed).lost.get("pictures that cannot be read") is None
    assert shown(Episode.objects.get()) == (["image/png"], [])
    with zipfile.ZipFile(io.BytesIO(packed)) as files:
        files.extractall(tmp_path / "folder")
    # the same rows, so the same episode
    assert importing.take(ada, tmp_path / "folder").known == 1


@pytest.mark.parametrize("path", ["../result.json", "/etc/hostname", "images/none.png", "../../x/agent/a.png"])
def test_path_out_of_the_agents_folder_reads_nothing(taken, path):
    job = taken(trial({"agent/images/step_1.png": PNG}, path))
    assert job.lost["parts of messages that are not text"] == 1
    assert not Picture.objects.exists()


def test_file_too_large_for_a_picture_refuses_no_trial(taken):
    job = taken(trial({"agent/images/step_1.png": b"\0" * 70_000_000}))
    assert (job.state, job.lost["parts of messages that are not text"]) == ("done", 1)


def test_files_beside_a_row_are_read_so_often_only(taken, monkeypatch):
    monkeypatch.setattr(found, "LOOKS_BESIDE", 0)
    taken(trial({"agent/images/step_1.png": PNG}))
    assert not Picture.objects.exists()


def test_link_out_of_a_trial_is_not_followed(ada, tmp_path):
    (tmp_path / "secret.png").write_bytes(PNG)
    with zipfile.ZipFile(io.BytesIO(trial({}, "link.png"))) as files:
        files.extractall(tmp_path / "folder")
    (tmp_path / "folder/job/merge/agent/link.png").symlink_to(tmp_path / "secret.png")
    assert importing.take(ada, tmp_path / "folder").lost["parts of messages that are not text"] == 1
    assert not Picture.objects.exists()


def test_what_is_no_picture_is_counted_and_refuses_nothing(taken):
    asked = [LOOK, openai(SVG), openai(PNG)]
    job = taken(lines([{**OPENAI, "messages": messages(asked, "done")}]))
    assert (job.state, job.lost["pictures that cannot be read"]) == ("done", 1)
    assert shown(Episode.objects.get())[0] == ["image/png"]


def test_picture_of_many_rows_is_read_and_kept_once(taken, monkeypatch):
    plain, calls = picturing.decoded, []
    monkeypatch.setattr(picturing, "decoded", lambda *call: calls.append(1) or plain(*call))
    rows = [{**OPENAI, "id": str(n), "messages": messages([LOOK, openai(PNG)], f"done {n}")} for n in range(3)]
    taken(lines(rows))
    assert (len(calls), Picture.objects.count(), PictureUse.objects.count()) == (1, 1, 3)


def test_row_that_is_there_brings_no_picture_again(taken):
    rows = lines([{**OPENAI, "messages": messages([LOOK, openai(PNG)], "done")}])
    taken(rows)
    PictureUse.objects.all().delete()
    Picture.objects.all().delete()
    assert taken(rows).known == 1
    assert not Picture.objects.exists()


def test_pictures_beyond_a_bound_are_counted(taken, monkeypatch):
    monkeypatch.setattr(picturing, "FILE_PICTURES", 1)
    job = taken(lines([{**OPENAI, "messages": messages([LOOK, openai(PNG), openai(WEBP, "webp")], "done")}]))
    assert job.lost["pictures that cannot be read"] == 1
    assert shown(Episode.objects.get())[0] == ["image/png"]


def test_bytes_of_a_rows_pictures_are_bounded(taken, monkeypatch):
    monkeypatch.setattr(picturing, "MOST_PICTURES", 1)
    rows = [{**OPENAI, "messages": messages([LOOK, openai(PNG), openai(WEBP, "webp")], f"done {n}")} for n in (1, 2)]
    assert taken(lines(rows)).lost["pictures that cannot be read"] == 2
    assert PictureUse.objects.count() == 2


def test_message_keeps_its_first_twenty_pictures(taken):
    asked = [LOOK, *[openai(PNG)] * 21]
    job = taken(lines([{**OPENAI, "messages": messages(asked, "done")}]))
    assert job.lost["pictures of a message after the first 20"] == 1
    assert len(shown(Episode.objects.get())[0]) == 20


def test_record_names_pictures_that_its_project_has(taken):
    taken(FILES["openai"])
    there = PictureUse.objects.get(picture__media_type="image/png").picture
    part = {"type": "image", "media_type": "image/png", "width": 640, "height": 400}
    own = [{**part, "blob": there.sha256}, {**part, "blob": "0" * 64}]
    first, *rest = RECORD["steps"]
    job = taken(json.dumps({**RECORD, "steps": [{**first, "pictures": own}, *rest]}).encode(), "record")
    assert job.lost["pictures that the project does not have"] == 1
    assert there.uses.count() == 2


def test_sft_row_names_its_images_in_their_order(taken):
    taken(FILES["openai"])
    digests = {use.picture.media_type: use.picture.sha256 for use in PictureUse.objects.all()}
    images = [f"images/{digests['image/webp']}.webp", address(PNG), f"images/{'0' * 64}.png", "images/late.png"]
    ask = {"role": "user", "content": [LOOK, {"type": "image"}, {"type": "image"}]}
    seen = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Seen."}]}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Merged."}]}
    row = {"schema_version": "awmweb.sft/7", "messages": [ask, seen, said], "images": images, "tools": []}
    job = taken(lines([row]), "train.jsonl")
    steps = steps_of(Episode.objects.order_by("-pk").first())
    assert [[part["media_type"] for part in step.get("pictures") or ()] for step in steps] == [
        ["image/webp", "image/png"], [], [],
    ]  # fmt: skip
    assert job.lost["parts of messages that are not text"] == job.lost["images without a part"] == 1
    assert Picture.objects.get(media_type="image/webp").uses.count() == 2


def test_reader_without_a_project_counts_pictures_as_lost(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(FILES["openai"])
    (found,) = readers.read(path)
    assert found.lost["pictures that cannot be read"] == 2
