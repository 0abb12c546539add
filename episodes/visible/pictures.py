"""Reads: the pictures that an actor sees, which are those of the episodes that it sees.

A digest alone opens nothing: a picture of another project, or one whose last episode was erased, is not found. What an
actor learns of a picture is its pixels, so a blind review and an agent's lens have nothing to take out of it.
"""

from __future__ import annotations

import re

from django.db.models import Exists, OuterRef

from awmclient.nouns.pictures import DIGEST
from episodes.models import Picture, PictureUse
from people.access import Actor, may_read
from people.errors import NotFound


def visible_picture(actor: Actor, digest: str, field: str, episode: str = "") -> Picture:
    """Return a picture of any episode, or of this one, with one of its columns of bytes, `data` or `thumbnail`."""
    may_read(actor)
    if not re.fullmatch(DIGEST, digest):
        raise NotFound
    used = PictureUse.objects.filter(picture=OuterRef("pk"), episode__project=actor.project)
    if episode:
        used = used.filter(episode=episode)
    rows = Picture.objects.filter(Exists(used), project=actor.project, sha256=digest)
    picture = rows.only("media_type", "sha256", field).first()
    if picture is None:
        raise NotFound
    return picture
