"""Files of asks and answers: which types and sizes pass, who attaches and who reads them, and how they are served."""

from __future__ import annotations

import hashlib

import pytest
from django.utils import timezone

from experts.errors import LeaseLost, TooLate, TooManyFiles
from experts.models import Ask, Attachment
from experts.record import advising, attaching, closing, queue
from experts.rules.file_types import MOST_BYTES, media_type_of
from people.errors import NotFound
from tests.asking import picture
from tests.browsing import as_person, html
from tests.people_by_name import person, token
from tests.reading import steps_read_by

PNG = picture()
POLYGLOT = PNG + b"<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (PNG, "image/png"),
        (POLYGLOT, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a rest", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", ""),
        (b"%PDF-1.7\nrest", "application/pdf"),
        ("a,b\n1,é\n".encode(), "text/plain"),
        (b'{"a": 1}', "text/plain"),
        ("\ufeffwith a mark".encode(), "text/plain"),
        (b"<!DOCTYPE html><p>x", ""),
        (b"\xef\xbb\xbf \n<html>", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", ""),
        (b"<?xml version='1.0'?><svg/>", ""),
        (b"text with \x00 in it", ""),
        (b"\xff\xfe<\x00h\x00", ""),
        (b"MZ\x90\x00", ""),
        (b"", ""),
        (b" \n", ""),
    ],
)
def test_media_type_is_decided_by_bytes_alone(data, found):
    assert media_type_of(data) == found


@pytest.fixture
def loop(project):
    return token(project, "agent")


def send(client_or_headers, client, ask, data=PNG, name="shot.png", **more):
    address = f"/api/v1/asks/{ask.pk}/attachments?name={name}"
    return client.post(address, data, content_type="application/octet-stream", headers=client_or_headers, **more)


def claimed(actor, ask):
    return queue.claim(actor, ask.pk)


def answered(actor, lease, text="See the picture."):
    return advising.answer(actor, lease.assignment_id, lease.lease_token, text, "n")


def test_files_go_both_ways_and_into_the_record(ada, edo, loop, asked, client):
    ask, bearer = asked(), {"Authorization": f"Bearer {loop[1]}"}
    made = send(bearer, client, ask, name="C:\\shots\\..\\er%E2%80%AEror.png")
    assert made.status_code == 201
    own = made.json()
    assert own == {
        "id": own["id"],
        "name": "er⟨U+202E⟩ror.png",
        "media_type": "image/png",
        "size": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest(),
        "side": "ask",
    }
    # a repeated call attaches it once
    assert send(bearer, client, ask, name="C:\\shots\\..\\er%E2%80%AEror.png").json() == own
    lease = claimed(edo, ask)
    theirs, _ = attaching.attach(edo, ask.pk, "notes.txt", b"Into 7.")
    # like a draft: neither the agent nor another member sees it before it is sent
    listed = f"/api/v1/asks/{ask.pk}/attachments"
    assert [one["id"] for one in client.get(listed, headers=bearer).json()["files"]] == [own["id"]]
    assert client.get(f"/api/v1/attachments/{theirs.pk}", headers=bearer).status_code == 404
    assert as_person(ada).get(f"/api/v1/attachments/{theirs.pk}").status_code == 404
    said = answered(edo, lease)
    ref = theirs.ref().model_dump()
    assert said.value().observation()["files"] == [ref]
    assert [one["id"] for one in client.get(listed, headers=bearer).json()["files"]] == [own["id"], theirs.pk]
    assert client.get(f"/api/v1/attachments/{theirs.pk}", headers=bearer).content == b"Into 7."
    [step] = steps_read_by(ada, ask.episode_id)
    assert step["advice"]["files"] == [ref]
    assert step["files"] == [{name: value for name, value in own.items() if name != "side"}]
    page = html(as_person(ada).get(f"/episodes/{ask.episode_id}/"))
    assert "notes.txt" in page and f"api/v1/attachments/{own['id']}" in page
    shown = html(as_person(ada).get(f"/asks/{ask.pk}/"))
    assert f'<img src="/projects/{ask.project.slug}/api/v1/attachments/{own["id"]}"' in " ".join(shown.split())
    Ask.objects.filter(pk=ask.pk).update(accepted=None, status="open")
    Ask.objects.get(pk=ask.pk).delete()
    assert not Attachment.objects.exists()


def test_files_are_refused_by_type_size_count_and_state(ada, edo, loop, asked, client):
    ask, (agent, secret) = asked(), loop
    bearer = {"Authorization": f"Bearer {secret}"}
    for data in (b"<html><script>alert(1)</script>", b"<svg onload='alert(1)'/>"):
        refused = send(bearer, client, ask, data, "harmless.png")
        assert refused.status_code == 422 and "PNG" in refused.json()["error"]["message"]
    refused = send(bearer, client, ask, PNG + bytes(MOST_BYTES))
    assert refused.status_code == 413 and "5 MB" in refused.json()["error"]["message"]
    for shade in range(5):
        attaching.attach(agent, ask.pk, "a.png", picture(shade))
    with pytest.raises(TooManyFiles):
        attaching.attach(agent, ask.pk, "a.png", picture(99))
    # the other side has a count of its own
    claimed(edo, ask)
    mine, _ = attaching.attach(edo, ask.pk, "a.png", PNG)
    with pytest.raises(NotFound):
        attaching.remove(ada, mine.pk)
    attaching.remove(edo, mine.pk)
    assert not Attachment.objects.filter(side="answer").exists()
    closing.cancel(agent, ask.pk)
    assert send(bearer, client, ask, picture(7)).status_code == 409
    with pytest.raises(TooLate):
        attaching.attach(edo, ask.pk, "a.png", PNG)


def test_files_are_for_those_who_can_see_the_ask(ada, edo, loop, asked, client, elsewhere):
    ask, (agent, _) = asked(), loop
    row, _ = attaching.attach(agent, ask.pk, "a.png", PNG)
    paths = (f"/api/v1/asks/{ask.pk}/attachments", f"/api/v1/attachments/{row.pk}")
    for scope, reads, writes in [
        ("agent", 200, 201),
        ("expert", 200, 409),
        ("review", 200, 403),
        ("export", 200, 403),
        ("launch", 200, 403),
    ]:
        headers = {"Authorization": f"Bearer {token(ask.project, scope)[1]}"}
        assert {client.get(path, headers=headers).status_code for path in paths} == {reads}
        assert send(headers, client, ask, name=f"{scope}.png").status_code == writes
        headers = {"Authorization": f"Bearer {token(elsewhere, scope)[1]}"}
        assert {client.get(path, headers=headers).status_code for path in paths} == {404}
        assert send(headers, client, ask).status_code == (404 if scope in ("agent", "expert") else 403)
    viewer = as_person(person(ask.project, "vic", "viewer"))
    assert {viewer.get(path).status_code for path in paths} == {200}
    assert send({}, viewer, ask).status_code == 403
    assert {client.get(path).status_code for path in paths} == {401}


def test_file_needs_the_claim_that_another_took_over(ada, edo, project, asked):
    ask = asked()
    claimed(edo, ask)
    kept, _ = attaching.attach(edo, ask.pk, "a.png", PNG)
    lapsed = timezone.now()
    ask.assignment.__class__.objects.filter(ask=ask).update(lease_until=lapsed)
    # an expired claim that no one else took still counts, as for the text
    attaching.attach(edo, ask.pk, "b.png", PNG)
    nora = person(project, "nora", "expert")
    lease = claimed(nora, ask)
    with pytest.raises(LeaseLost):
        attaching.attach(edo, ask.pk, "c.png", PNG)
    # hers alone go with her answer
    hers, _ = attaching.attach(nora, ask.pk, "hers.txt", b"Into 7.")
    said = answered(nora, lease)
    assert [one.id for one in said.value().files] == [hers.pk]
    assert Attachment.objects.get(pk=kept.pk).advice_id is None


def test_files_stay_with_an_answer_that_is_edited_or_withdrawn(edo, asked):
    ask = asked()
    lease = claimed(edo, ask)
    row, _ = attaching.attach(edo, ask.pk, "a.png", PNG)
    answered(edo, lease)
    with pytest.raises(TooLate):
        attaching.remove(edo, row.pk)
    edited = advising.edit(edo, ask.pk, "Look at it.", None, "m")
    assert [one.id for one in edited.value().files] == [row.pk]
    lease = advising.withdraw(edo, ask.pk)
    attaching.remove(edo, row.pk)
    again = advising.answer(edo, lease.assignment_id, lease.lease_token, "Without.", "o")
    assert again.value().files is None and "files" not in again.value().observation()


def test_one_answer_for_a_group_has_its_files_everywhere(ada, edo, asked):
    first, second = asked("Same question?"), asked("Same question?")
    lease = claimed(edo, first)
    row, _ = attaching.attach(edo, first.pk, "a.png", PNG)
    answered(edo, lease)
    first = Ask.objects.get(pk=first.pk)
    assert advising.answer_group(edo, first, "See the picture.", None, "n", [second.pk]) == {second.pk: ""}
    [copied] = Ask.objects.get(pk=second.pk).accepted.value().files
    assert (copied.sha256, copied.id == row.pk) == (row.sha256, False)
    assert bytes(Attachment.objects.get(pk=copied.id).data) == PNG


@pytest.mark.parametrize(
    ("data", "kind", "how"),
    [
        (POLYGLOT, "image/png", 'inline; filename="a\\"b.html.png"'),
        (b"%PDF-1.7", "application/pdf", 'attachment; filename="a\\"b.html.pdf"'),
        (b"hello <script>alert(1)</script>", "text/plain; charset=utf-8", 'attachment; filename="a\\"b.html.txt"'),
    ],
)
def test_file_is_served_as_its_type_and_never_as_a_page(data, kind, how, ada, loop, asked):
    row, _ = attaching.attach(loop[0], asked().pk, 'a"b.html', data)
    served = as_person(ada).get(f"/api/v1/attachments/{row.pk}")
    assert served.content == data
    assert served["Content-Type"] == kind and served["Content-Disposition"] == how
    assert served["X-Content-Type-Options"] == "nosniff"
    assert served["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert served["Cache-Control"] == "private, no-store"  # an erased file is in no browser


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Notes.MD", "Notes.MD"),
        ("run.bat", "run.bat.txt"),
        ("shot.png", "shot.png.txt"),
        ("", "file.txt"),
        ("x" * 300, "x" * 196 + ".txt"),
    ],
)
def test_name_of_a_file_ends_as_its_type(name, found, loop, asked):
    """A computer opens a download by its ending."""
    row, _ = attaching.attach(loop[0], asked().pk, name, b"Into 7.")
    assert row.name == found
