"""What a page costs whose episode has 100 pictures: the list not a query or byte, the episode no bytes of them."""

from __future__ import annotations

import hashlib

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from awmclient.schema import EpisodeStart, Finish, StepBatch
from episodes.models import Episode, Picture, PictureUse
from episodes.record import ending, recording
from episodes.stored.decode_picture import THUMBNAIL_BYTES
from tests.browsing import as_person

pytestmark = pytest.mark.django_db
MEGABYTE = 1_000_000


def browsed(actor, count):
    """A live episode of 100 calls, of which this many returned a picture of half a megabyte."""
    one, _ = recording.start_episode(actor, EpisodeStart(key="e", task="Order the blue shirt."))
    digests = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(count)]
    size = {"media_type": "image/png", "width": 1280, "height": 800}
    bodies = {"size": 500_000, "data": b"p" * 500_000, "thumbnail": b"t" * THUMBNAIL_BYTES}
    rows = [Picture(project=actor.project, sha256=digest, **size, **bodies) for digest in digests]
    Picture.objects.bulk_create(rows)
    PictureUse.objects.bulk_create([PictureUse(episode=one, picture=row) for row in rows])
    call = {"kind": "tool_call", "name": "screenshot", "arguments": {}}
    parts = [{"type": "image", "blob": digest, **size} for digest in digests]
    results = [*([[part] for part in parts]), *([["no picture"]] * (100 - count))]
    steps = [{**call, "seq": seq, "result": result} for seq, result in enumerate(results, 1)]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    return one


def cost(client, address):
    """The queries and the bytes of a page at its second call."""
    client.get(address)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(address, headers={"Accept-Encoding": "gzip"})
    assert page.status_code == 200
    read = [query["sql"] for query in queries if "episodes_picture" in query["sql"]]
    return len(queries), read, len(page.content)


def test_list_costs_the_same_with_pictures(ada):
    client = as_person(ada)
    plain = browsed(ada, 0)
    ending.finish(ada, plain.pk, Finish(stop_reason="done"))
    queries, _, size = cost(client, "/episodes/?state=finished")
    Episode.every.filter(pk=plain.pk).update(key="plain", state="cancelled")
    ending.finish(ada, browsed(ada, 100).pk, Finish(stop_reason="done"))
    with_them = cost(client, "/episodes/?state=finished")
    assert with_them[:2] == (queries, []) and abs(with_them[2] - size) < 200


def test_first_page_of_100_pictures_is_below_a_megabyte(ada):
    one = browsed(ada, 100)
    for address in (f"/episodes/{one.pk}/", f"/episodes/{one.pk}/replay/"):
        _, read, size = cost(as_person(ada), address)
        assert read == [] and size + 100 * THUMBNAIL_BYTES < MEGABYTE
