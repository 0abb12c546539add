"""Pictures of episodes that are recorded in one request: as data, and by the digest of one that the project has."""

from __future__ import annotations

import base64
import hashlib

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from awmclient.schema import EpisodeStart, Finish
from awmweb.erasing.episodes import erase_episode
from episodes.models import Episode, Picture, PictureUse
from episodes.record import ending, pictures, recording, whole_pictures
from people.access import system
from people.errors import Busy
from people.record.members import ensure_project
from tests.people_by_name import token
from tests.pictures import SVG, drawn
from tests.reading import steps_read_by

pytestmark = pytest.mark.django_db
PNG, JPEG = drawn(), drawn("JPEG", exif=b"Exif\0\0canary")


@pytest.fixture
def record(ada, client):
    """A call that records episodes with these steps in one request, and returns the result of each."""
    _, secret = token(ada.project, "agent")

    def send(*episodes):
        bodies = [
            {"episode": {"key": key, "task": "Look."}, "steps": steps, "finish": {"stop_reason": "done"}}
            for key, steps in episodes
        ]
        headers = {"Authorization": f"Bearer {secret}"}
        options = {"content_type": "application/json", "headers": headers}
        reply = client.post("/api/v1/episodes/whole", {"episodes": bodies}, **options)
        assert reply.status_code == 200, reply.content
        return reply.json()["results"]

    return send


def data_of(data, kind="png"):
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode()}"}}


def steps_with(message, result="done"):
    call = {"seq": 2, "kind": "tool_call", "name": "look", "arguments": {}, "result": result}
    return [{"seq": 1, "kind": "message", "role": "user", "content": message}, call]


def code_of(result):
    return (result.get("error") or {}).get("code")


def test_data_in_a_body_is_a_picture_of_its_episode(ada, record):
    mcp = {"content": [{"type": "image", "data": base64.b64encode(JPEG).decode(), "mimeType": "image/jpeg"}]}
    steps = steps_with([{"type": "text", "text": "This?"}, data_of(PNG)], mcp)
    (made,) = record(("a", steps))
    message, call = steps_read_by(ada, made["id"])
    parts = [*message["pictures"], *call["result"]["content"]]
    assert message["content"] == "This?" and [one["media_type"] for one in parts] == ["image/png", "image/jpeg"]
    used = PictureUse.objects.filter(episode=made["id"]).values_list("picture__sha256", flat=True)
    assert sorted(used) == sorted(one["blob"] for one in parts)
    assert b"canary" not in bytes(Picture.objects.get(sha256=parts[1]["blob"]).data)
    (again,) = record(("a", steps))
    assert again == {**made, "known": True} and Picture.objects.count() == 2
    erase_episode(system(ada.project), made["id"])
    assert not Picture.objects.exists()


def test_digest_of_the_project_is_a_picture_of_each_episode(ada, record):
    actor, _ = token(ada.project, "agent")
    first, _ = recording.start_episode(actor, EpisodeStart(key="first", task="Look."))
    row, _ = pictures.upload(actor, first.pk, PNG)
    part = {"type": "image", "blob": row.sha256, "media_type": row.media_type, "width": row.width, "height": row.height}
    made = record(("a", steps_with([part])), ("b", steps_with([part])))
    assert all(PictureUse.objects.filter(episode=one["id"], picture=row).exists() for one in made)


@pytest.mark.attack("pictures")
def test_digest_in_a_result_brings_no_picture(ada, record):
    """An agent writes results, so a digest in one is no claim to another episode's picture."""
    actor, _ = token(ada.project, "agent")
    first, _ = recording.start_episode(actor, EpisodeStart(key="first", task="Look."))
    row, _ = pictures.upload(actor, first.pk, PNG)
    part = {"type": "image", "blob": row.sha256, "media_type": row.media_type, "width": row.width, "height": row.height}
    steps = steps_with("none", [part])
    (made,) = record(("a", steps))
    (again,) = record(("a", steps))
    assert again == {**made, "known": True} and not PictureUse.objects.filter(episode=made["id"]).exists()
    ending.finish(actor, first.pk, Finish(stop_reason="done"))
    erase_episode(system(ada.project), first.pk)
    assert not Picture.objects.exists()


def test_digest_of_another_project_is_missing(ada, record):
    other = system(ensure_project("elsewhere"))
    there, _ = recording.start_episode(other, EpisodeStart(key="there", task="Look."))
    row, _ = pictures.upload(other, there.pk, PNG)
    part = {"type": "image", "blob": row.sha256, "media_type": row.media_type, "width": row.width, "height": row.height}
    refused, words = record(("a", steps_with([part])), ("b", steps_with("none", [part])))
    assert code_of(refused) == "picture_missing" and not Episode.every.filter(key="a").exists()
    assert not PictureUse.objects.filter(episode=words["id"]).exists()


@pytest.mark.attack("pictures")
def test_refused_picture_refuses_its_episode_alone(ada, record):
    bad, large, good = record(
        ("bad", steps_with([data_of(SVG, "svg+xml")])),
        ("large", steps_with([data_of(b"\x89PNG\r\n\x1a\n" + bytes(3000))])),
        ("good", steps_with([data_of(PNG)])),
    )
    assert (code_of(bad), code_of(large)) == ("invalid", "invalid") and not code_of(good)
    assert [one.key for one in Episode.every.all()] == ["good"] and Picture.objects.count() == 1


def test_request_reads_so_many_pictures(ada, record, monkeypatch):
    monkeypatch.setattr(whole_pictures, "WHOLE_PICTURES", 2)
    two = steps_with([data_of(drawn(shade=1)), data_of(drawn(shade=2))])
    first, second, none = record(("a", two), ("b", steps_with([data_of(PNG)])), ("c", steps_with("none")))
    assert (code_of(first), code_of(second), code_of(none)) == (None, "too_many_pictures", None)
    assert hashlib.sha256(PNG).hexdigest() not in Picture.objects.values_list("sha256", flat=True)


def mcp_of(data, kind="png"):
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": f"image/{kind}"}


def test_unread_picture_of_a_result_stays_as_it_came(ada, record):
    result = [mcp_of(SVG, "svg+xml"), mcp_of(drawn("GIF"), "gif"), mcp_of(b""), mcp_of(PNG)]
    steps = steps_with("Look.", result)
    (made,) = record(("a", steps))
    stored = steps_read_by(ada, made["id"])[1]["result"]
    assert stored[:3] == result[:3] and stored[3]["blob"] in Picture.objects.values_list("sha256", flat=True)
    (again,) = record(("a", steps))
    assert again == {**made, "known": True}


def test_results_beyond_the_limit_stay_as_they_came(ada, record, monkeypatch):
    monkeypatch.setattr(whole_pictures, "WHOLE_PICTURES", 2)
    result = [mcp_of(drawn(shade=1)), mcp_of(drawn(shade=2))]
    (made,) = record(("a", steps_with([data_of(PNG)], result)))
    message, call = steps_read_by(ada, made["id"])
    assert message["pictures"] and "blob" in call["result"][0] and call["result"][1] == result[1]


@pytest.mark.attack("pictures")
def test_children_of_a_request_are_bounded(record, monkeypatch):
    """What no decoder reads costs a child, too."""
    read, plain = [], whole_pictures.decoded
    monkeypatch.setattr(whole_pictures, "WHOLE_PICTURES", 2)
    monkeypatch.setattr(whole_pictures, "decoded", lambda *call: read.append(call) or plain(*call))
    bad, other, words = [steps_with([data_of(b"no %d" % n)]) for n in (1, 2)], steps_with([data_of(PNG)]), "none"
    results = record(("a", bad[0]), ("b", bad[1]), ("c", other), ("d", steps_with(words, [mcp_of(JPEG)])))
    assert [code_of(one) for one in results] == ["invalid", "invalid", "too_many_pictures", None] and len(read) == 2


def test_busy_decoder_refuses_only_what_it_has_not_read(record, monkeypatch):
    plain, calls = whole_pictures.decoded, []

    def busy(data, sender):
        calls.append(data)
        if data != PNG:
            raise Busy
        return plain(data, sender)

    monkeypatch.setattr(whole_pictures, "decoded", busy)
    unread = steps_with("none", [mcp_of(JPEG)])
    results = record(("a", steps_with([data_of(PNG)])), ("b", unread), ("c", unread), ("d", steps_with([data_of(PNG)])))
    assert [code_of(one) for one in results] == [None, "busy", "busy", None] and calls == [PNG, JPEG]


def test_known_episode_has_no_more_pictures_than_any(ada, record, monkeypatch):
    monkeypatch.setattr(pictures, "MOST_PICTURES", 1)
    actor, _ = token(ada.project, "agent")
    recording.start_episode(actor, EpisodeStart(key="a", task="Look."))
    many = steps_with([data_of(drawn(shade=1)), data_of(drawn(shade=2))])
    live, new = record(("a", many), ("b", many))
    assert (code_of(live), code_of(new)) == ("too_many_pictures", "too_many_pictures")
    assert not Picture.objects.exists()
    steps = steps_with([data_of(PNG)])
    (made,) = record(("a", steps))
    (again,) = record(("a", steps))
    assert made["known"] and again == made and PictureUse.objects.count() == 1


def test_pictures_of_a_batch_are_locked_in_one_statement(record):
    parts = [data_of(drawn(shade=n)) for n in range(4)]
    with CaptureQueriesContext(connection) as seen:
        made = record(("a", steps_with([parts[3], parts[0]])), ("b", steps_with([parts[1], parts[2]])))
    assert not any(map(code_of, made))
    locks = [one["sql"] for one in seen if "FOR NO KEY UPDATE" in one["sql"]]
    (rows,) = [sql for sql in locks if 'FROM "episodes_picture"' in sql]
    assert '"episodes_picture"."id" AS "pk"' in rows and "ORDER BY 2 ASC" in rows


def test_picture_that_ends_meanwhile_refuses_its_episode_alone(ada, record, monkeypatch):
    """Between the look and the lock another transaction can erase the last episode of a picture."""
    insert = pictures.insert_pictures
    lost = hashlib.sha256(whole_pictures.decoded(PNG, "").data).hexdigest()
    monkeypatch.setattr(
        whole_pictures,
        "insert_pictures",
        lambda actor, read: insert(actor, {k: v for k, v in read.items() if k != lost}),
    )
    bad, good = record(("a", steps_with([data_of(PNG)])), ("b", steps_with([data_of(JPEG)])))
    assert (code_of(bad), code_of(good)) == ("busy", None)
