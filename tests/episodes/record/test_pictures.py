"""Pictures of steps: what is stored of a file, who uploads and who reads, and when the bytes go."""

from __future__ import annotations

import hashlib
import io
import random
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from awmclient.nouns.pictures import pictures_of
from awmclient.schema import EpisodeStart, Finish
from awmweb.erasing.episodes import erase_episode
from awmweb.retention.emptying import empty
from episodes.errors import TooManyPictures
from episodes.models import BranchArm, Episode, Fork, Knowledge, Origin, OutcomeHold, Picture, PictureUse
from episodes.record import branching, ending, pictures, recording
from episodes.stored import decoding
from episodes.stored.decode_picture import (
    FIRST_TO_GO,
    MEMORY_BYTES,
    MOVES,
    NO_PICTURE,
    PIXELS,
    THUMBNAIL_BYTES,
    TOO_LARGE_TO_READ,
    TOO_MANY_PIXELS,
)
from people.errors import Busy, Invalid
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.pictures import HTML, SVG, bomb, chunk, drawn, vast
from tests.reading import steps_read_by

PNG = drawn()


def stored(data):
    return decoding.decoded(data, "test")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_picture_keeps_its_pixels_and_loses_the_rest(kind):
    exif = Image.Exif()
    exif[0x010E] = "GPS of a person"
    data = drawn(kind, exif=exif) + HTML
    read = stored(data)
    assert (read.media_type, read.width, read.height) == (f"image/{kind.lower()}", 640, 400)
    assert HTML not in read.data and b"GPS" not in read.data and HTML not in read.thumbnail
    before, after = (Image.open(io.BytesIO(one)).convert("RGB").tobytes() for one in (data, read.data))
    assert before == after
    # what is kept is kept again as it is, so that a digest is of one picture
    assert stored(read.data) == read
    small = Image.open(io.BytesIO(read.thumbnail))
    assert (small.format, small.size) == ("WEBP", (320, 200)) and len(read.thumbnail) <= THUMBNAIL_BYTES


def test_html_in_a_chunk_of_a_png_is_not_kept():
    data = PNG[:33] + chunk(b"tEXt", b"Comment\0" + HTML) + PNG[33:]
    assert Image.open(io.BytesIO(data)).size == (640, 400)
    assert stored(data).data == stored(PNG).data and HTML not in stored(data).data


@pytest.mark.attack("pictures")
@pytest.mark.parametrize(
    "data",
    [
        *(HTML, SVG, b"", b"GIF89a" + PNG[6:], b"\x89PNG\r\n\x1a\n" + SVG, b"\xff\xd8\xff" + HTML, PNG[:200]),
        *(b"RIFF\xff\xff\xff\xffWEBP" + HTML, PNG[:40] + bytes(40) + PNG[80:], drawn("JPEG")[:300]),
        PNG[:16] + (641).to_bytes(4, "big") + PNG[20:],
    ],
)
def test_what_no_decoder_reads_is_no_picture(data):
    with pytest.raises(Invalid, match=NO_PICTURE):
        stored(data)


@pytest.mark.attack("pictures")
def test_bomb_of_900_million_pixels_is_refused_by_its_header():
    assert len(bomb()) < 200_000
    with pytest.raises(Invalid, match=TOO_MANY_PIXELS):
        stored(bomb())


@pytest.mark.parametrize("side", [96, 320, 1000])
def test_thumbnail_of_noisy_transparency_is_small_too(side):
    noise = Image.frombytes("RGBA", (side, side), random.Random(1).randbytes(side * side * 4))
    written = io.BytesIO()
    noise.save(written, "PNG")
    assert len(stored(written.getvalue()).thumbnail) <= THUMBNAIL_BYTES


def test_text_among_the_pixels_of_a_jpeg_is_never_read_as_a_page(client, loop, episode, ada):
    data = drawn("JPEG")
    hidden = data[:-2] + HTML + data[-2:]
    assert HTML in stored(hidden).data and HTML not in stored(hidden).thumbnail
    part = send(client, loop, episode, hidden).json()
    for address in (f"/api/v1/blobs/{part['blob']}", f"/episodes/{episode.pk}/pictures/{part['blob']}"):
        headers = as_person(ada).get(address).headers
        assert (headers["Content-Type"], headers["X-Content-Type-Options"]) == ("image/jpeg", "nosniff")
        assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


@pytest.mark.attack("pictures")
@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("WEBP", "RGBA", {"lossless": True, "method": 0}),
        ("PNG", "RGBA", {}),
        ("PNG", "LA", {}),
        ("JPEG", "CMYK", {"progressive": True}),
    ],
)
def test_a_few_bytes_of_most_pixels_fit_into_the_memory(kind, mode, options):
    assert stored(vast(kind, mode, PIXELS, **options)).media_type == f"image/{kind.lower()}"


def test_web_pod_has_room_for_one_child():
    chart = yaml.safe_load((Path(__file__).resolve().parents[3] / "deploy/helm/awmweb/values.yaml").read_text())
    assert int(chart["web"]["resources"]["limits"]["memory"].removesuffix("Mi")) * 2**20 > MEMORY_BYTES + 2**30


@pytest.mark.attack("pictures")
def test_child_that_ends_by_its_limit_says_too_large(tmp_path, monkeypatch):
    data, source = vast("PNG", "RGBA", 9_000_000), decoding.CHILD.read_text()
    killed = "import os\nos.kill(os.getpid(), 9)  # as the kernel does at a limit\n"
    small = source.replace(f"{MEMORY_BYTES:_}", "60_000_000")
    for text in (small, source.replace("import io\n", killed)):
        assert text != source
        monkeypatch.setattr(decoding, "CHILD", tmp_path / "child.py")
        decoding.CHILD.write_text(text)
        with pytest.raises(Invalid, match=TOO_LARGE_TO_READ):
            stored(data)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_child_is_ended_before_its_web_process(tmp_path, monkeypatch):
    source = decoding.CHILD.read_text()
    own = "    problem = Path('/proc/self/oom_score_adj').read_text()\n    raise NotTaken(problem)\n"
    monkeypatch.setattr(decoding, "CHILD", tmp_path / "child.py")
    decoding.CHILD.write_text(source.replace("    kind, kept, size = stripped(data)\n", own))
    with pytest.raises(Invalid, match=FIRST_TO_GO):
        stored(PNG)


@pytest.mark.attack("pictures")
def test_one_child_at_a_time_reads_a_picture(monkeypatch):
    monkeypatch.setattr(decoding, "WAIT_S", 0.01)
    with decoding._one_child, pytest.raises(Busy):
        stored(PNG)
    monkeypatch.undo()
    assert stored(PNG).width == 640


@pytest.mark.parametrize("kind", ["WEBP", "PNG"])
def test_moving_picture_is_refused(kind):
    frames = [Image.new("RGB", (20, 20), color) for color in ("red", "blue")]
    written = io.BytesIO()
    frames[0].save(written, kind, save_all=True, append_images=frames[1:])
    with pytest.raises(Invalid, match=MOVES):
        stored(written.getvalue())


def test_thumbnail_of_noise_is_small_too():
    written = io.BytesIO()
    Image.effect_noise((900, 900), 120).save(written, "JPEG")
    assert len(stored(written.getvalue()).thumbnail) <= THUMBNAIL_BYTES


def test_sender_with_two_uploads_gets_no_third_at_once(monkeypatch):
    monkeypatch.setitem(decoding._running, "test", decoding.OF_A_SENDER)
    with pytest.raises(Busy):
        stored(PNG)
    assert decoding.decoded(PNG, "another").width == 640


@pytest.fixture
def loop(project):
    return token(project, "agent")


@pytest.fixture
def episode(loop):
    return recording.start_episode(loop[0], EpisodeStart(key="shown", task="look", expert="plain"))[0]


def send(client, loop, episode, data=PNG):
    headers = {"Authorization": f"Bearer {loop[1]}"}
    address = f"/api/v1/episodes/{episode.pk}/blobs"
    return client.post(address, data, content_type="application/octet-stream", headers=headers)


def test_picture_is_stored_once_and_read_by_its_project(client, loop, episode, ada, max_):
    made = send(client, loop, episode)
    digest = hashlib.sha256(stored(PNG).data).hexdigest()
    part = {"type": "image", "blob": digest, "media_type": "image/png", "width": 640, "height": 400}
    assert (made.status_code, made.json()) == (201, part)
    again = send(client, loop, episode, PNG + HTML)
    assert (again.status_code, again.json(), Picture.objects.count()) == (200, part, 1)
    reply = as_person(ada).get(f"/api/v1/blobs/{digest}")
    assert bytes(reply.content) == stored(PNG).data
    headers = {name: reply.headers[name] for name in ("Content-Type", "X-Content-Type-Options", "Cache-Control")}
    assert headers == {
        "Content-Type": "image/png",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=86400, immutable",
    }
    assert reply.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    small = as_person(ada).get(f"/api/v1/blobs/{digest}?thumbnail=1")
    assert (small.headers["Content-Type"], bytes(small.content)) == ("image/webp", stored(PNG).thumbnail)
    assert as_person(max_).get(f"/api/v1/blobs/{digest}").status_code == 404
    assert client.get(f"/api/v1/blobs/{digest}").status_code == 401
    assert as_person(ada).get("/api/v1/blobs/" + "0" * 64).status_code == 404


def test_only_the_recorder_of_an_episode_uploads(client, loop, episode, edo, project, max_):
    for scope in ("expert", "export"):
        assert send(client, token(project, scope), episode).status_code == 403
    with pytest.raises(Exception, match="Not found"):
        pictures.upload(max_, episode.pk, PNG)
    Episode.every.filter(pk=episode.pk).update(origin=Origin.BUILTIN)
    assert send(client, loop, episode).json()["error"]["code"] == "other_loop"
    Episode.every.filter(pk=episode.pk).update(origin=Origin.EXTERNAL)
    ending.finish(loop[0], episode.pk, Finish(stop_reason="done"))
    assert send(client, loop, episode).json()["error"]["code"] == "episode_ended"
    assert not Picture.objects.exists()


def test_eight_megabytes_and_the_episode_are_the_bounds(client, loop, episode, monkeypatch):
    large = send(client, loop, episode, b"\x89PNG\r\n\x1a\n" + bytes(8 * 1024 * 1024))
    assert (large.status_code, large.json()["error"]["message"]) == (413, pictures.TOO_LARGE)
    monkeypatch.setattr(pictures, "MOST_PICTURES", 1)
    assert send(client, loop, episode).status_code == 201
    with pytest.raises(TooManyPictures):
        pictures.upload(loop[0], episode.pk, drawn(shade=9))
    assert pictures.upload(loop[0], episode.pk, PNG)[1] is False


def append(client, loop, episode, *steps):
    headers = {"Authorization": f"Bearer {loop[1]}"}
    body = {"steps": [{"seq": seq, **step} for seq, step in enumerate(steps, 1)]}
    address = f"/api/v1/episodes/{episode.pk}/steps"
    return client.post(address, body, content_type="application/json", headers=headers)


def test_message_and_result_refer_to_pictures(client, loop, episode, ada):
    part = send(client, loop, episode).json()
    content = [{"type": "text", "text": "Look"}, {**part, "alt": "the form"}]
    message = {"kind": "message", "role": "user", "content": content}
    call = {"kind": "tool_call", "name": "shot", "result": {"content": [{"type": "text", "text": "ok"}, part]}}
    assert append(client, loop, episode, message, call).status_code == 200
    assert append(client, loop, episode, message, call).status_code == 200  # a repeat is no conflict
    asked, came = steps_read_by(ada, episode.pk)
    assert (asked["content"], asked["pictures"]) == ("Look", [{**part, "alt": "the form"}])
    assert pictures_of(asked) == asked["pictures"] and pictures_of(came) == [part]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "image", "blob": "../../etc"},
    ],
)
def test_part_without_a_digest_is_refused_with_the_way(client, loop, episode, part):
    refused = append(client, loop, episode, {"kind": "message", "role": "user", "content": [part]})
    assert refused.status_code == 422
    assert "blob" in refused.json()["error"]["message"]


def test_part_without_its_type_is_refused_not_left_unshown(client, loop, episode):
    part = send(client, loop, episode).json()
    untyped = {name: value for name, value in part.items() if name != "type"}
    message = {"kind": "message", "role": "user", "content": "Look", "pictures": [untyped]}
    for step in (message, {**message, "content": [untyped]}):
        refused = append(client, loop, episode, step)
        assert refused.status_code == 422 and "type" in refused.json()["error"]["message"]


@pytest.mark.attack("pictures")
@pytest.mark.parametrize("own", [5, 0, True, "", "part", {}, {"type": "image"}, [5], [[]]])
def test_pictures_that_are_no_list_are_refused_everywhere(client, loop, episode, own):
    part = send(client, loop, episode).json()
    message = {"seq": 1, "kind": "message", "role": "user", "content": [part], "pictures": own}
    whole = {"episode": {"key": "w", "task": "t"}, "steps": [message], "finish": {"stop_reason": "done"}}
    bodies = {
        f"episodes/{episode.pk}/steps": {"steps": [message]},
        "episodes/whole": {"episodes": [whole]},
        "asks": {"key": "q", "episode": episode.pk, "seq": 1, "question": [part], "pictures": own},
    }
    for address, body in bodies.items():
        headers = {"Authorization": f"Bearer {loop[1]}"}
        reply = client.post(f"/api/v1/{address}", body, content_type="application/json", headers=headers)
        (answer,) = reply.json().get("results", [reply.json()])  # each whole episode has an answer of its own
        assert answer["error"]["code"] == "invalid" and "pictures" in answer["error"]["message"], address
        assert reply.status_code == 422 or address == "episodes/whole"


def test_picture_of_another_episode_is_missing_here(client, loop, episode, ada):
    other, _ = recording.start_episode(loop[0], EpisodeStart(key="other", task="look"))
    part = send(client, loop, other).json()
    message = {"kind": "message", "role": "user", "content": [part]}
    refused = append(client, loop, episode, message)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "picture_missing")
    too_many = append(client, loop, other, {**message, "content": [part] * 21})
    assert too_many.status_code == 422
    assert not steps_read_by(ada, episode.pk) and not steps_read_by(ada, other.pk)


def test_question_refers_to_a_picture(client, loop, episode, ada):
    part, headers = send(client, loop, episode).json(), {"Authorization": f"Bearer {loop[1]}"}
    body = {"key": "q", "episode": episode.pk, "seq": 1, "question": [{"type": "text", "text": "Which one?"}, part]}

    def ask(body):
        return client.post("/api/v1/asks", body, content_type="application/json", headers=headers)

    first = ask(body)
    assert first.status_code == 201 and ask(body).json()["id"] == first.json()["id"]
    (step,) = steps_read_by(ada, episode.pk)
    assert (step["question"], step["pictures"]) == ("Which one?", [part])
    conflict = ask({**body, "question": "Which one?"})
    assert conflict.status_code == 409 and "pictures" in conflict.json()["error"]["message"]


def test_blind_reviewer_sees_pictures_and_no_outcome(client, loop, episode, rita):
    part = send(client, loop, episode).json()
    append(client, loop, episode, {"kind": "message", "role": "user", "content": [part]})
    finish = Finish.model_validate({"stop_reason": "done", "outcome": {"reward_type": "secret_match", "reward": 1.0}})
    ending.finish(loop[0], episode.pk, finish)
    OutcomeHold.objects.create(episode=episode, actor_key=rita.key, by="review")
    reply = as_person(rita).get(f"/api/v1/blobs/{part['blob']}")
    assert bytes(reply.content) == stored(PNG).data
    headers = str(dict(reply.headers))
    assert "secret" not in headers and episode.pk not in headers


def test_picture_goes_with_the_last_episode_that_has_it(client, loop, episode, ada):
    other, _ = recording.start_episode(loop[0], EpisodeStart(key="other", task="look"))
    digest = [send(client, loop, one).json()["blob"] for one in (episode, other)][0]
    for each in (episode, other):
        ending.finish(loop[0], each.pk, Finish(stop_reason="done"))
    erase_episode(ada, episode.pk)
    assert as_person(ada).get(f"/api/v1/blobs/{digest}").status_code == 200
    fell = erase_episode(ada, other.pk).fell
    assert (fell["episodes.Picture"], Picture.objects.count(), PictureUse.objects.count()) == (1, 0, 0)
    assert as_person(ada).get(f"/api/v1/blobs/{digest}").status_code == 404


def test_rule_that_empties_steps_drops_their_pictures(client, loop, episode):
    send(client, loop, episode)
    ending.finish(loop[0], episode.pk, Finish(stop_reason="done"))
    assert empty([episode.pk])["episodes.Picture"] == 1
    assert not Picture.objects.exists()


def test_branch_has_the_pictures_of_its_parent(client, loop, episode, ada):
    part = send(client, loop, episode).json()
    append(client, loop, episode, {"kind": "message", "role": "user", "content": [part]})
    ending.finish(loop[0], episode.pk, Finish(stop_reason="done"))
    made = Fork(project=ada.project, parent=episode, seq=1, tries=1, knowledge="blind", grade="exact")
    (branch,) = branching.fork(ada, made, 2, [branching.ArmPlan(BranchArm.TREATED, [], Knowledge.BLIND)])
    page = as_person(ada).get(f"/episodes/{branch.pk}/pictures/{part['blob']}?small=1")
    assert (page.status_code, page.headers["Content-Type"]) == (200, "image/webp")
    shown = html(as_person(ada).get(f"/episodes/{branch.pk}/replay/"))
    assert f'src="/episodes/{branch.pk}/pictures/{part["blob"]}?small=1"' in shown
    other, _ = recording.start_episode(loop[0], EpisodeStart(key="other", task="look"))
    assert as_person(ada).get(f"/episodes/{other.pk}/pictures/{part['blob']}").status_code == 404


def test_page_of_a_picture_is_closed_to_strangers(client, loop, episode, max_):
    part = send(client, loop, episode).json()
    address = f"/episodes/{episode.pk}/pictures/{part['blob']}"
    assert as_person(max_).get(address).status_code == 404
    assert client.get(address).status_code == 302  # to the sign-in page
