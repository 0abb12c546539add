"""Writes: a picture of an episode, stored once a project; and its end with the last episode that has it.

Owns who uploads, how much, and which pictures a step can name. The bytes are in the row, so that they are backed up and
deleted as rows are. Leaves reading a file to `stored/decoding.py`, and who sees a picture to `visible/pictures.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Sum

from awmclient.nouns.pictures import PICTURE_BYTES, ImagePart
from episodes.errors import TooManyPictures
from episodes.models import Episode, Picture, PictureUse
from episodes.record.appending import refuse_other_loop, reopen_or_refuse
from episodes.stored.decoding import DecodedPicture, decoded
from people.access import Actor, may_record, visible_or_404
from people.errors import Busy, TooLarge

MOST_PICTURES = 2000
MOST_BYTES = 512 * 1024 * 1024
"""Of all pictures of an episode."""
TOO_LARGE = "A picture can have at most 8 MB."
COPIED = """
INSERT INTO episodes_pictureuse (episode_id, picture_id)
SELECT %s, picture_id FROM episodes_pictureuse WHERE episode_id = %s
"""


def upload(actor: Actor, episode_id: str, data: bytes) -> tuple[Picture, bool]:
    """Store a picture for an episode, and say whether that is new to it.

    1. Check who records it. 2. Read the bytes in a child. 3. Store them, or find them. The same picture again is the
    first one, under the digest of what is kept of it.
    """
    may_record(actor)
    refuse_other_loop(actor, visible_or_404(Episode.every.all(), actor, episode_id).origin)
    if len(data) > PICTURE_BYTES:
        raise TooLarge(TOO_LARGE)
    read = decoded(data, actor.key)
    with transaction.atomic():
        # one upload of an episode at a time, and none beside its erasure: the bounds are counted
        episode = visible_or_404(Episode.every.select_for_update(no_key=True), actor, episode_id)
        reopen_or_refuse(episode, actor)
        picture = stored_picture(actor, read)
        if PictureUse.objects.filter(episode=episode, picture=picture).exists():
            return picture, False
        refuse_more(episode, [picture.size])
        PictureUse.objects.create(episode=episode, picture=picture)
        return picture, True


def part_of_stored(row: Picture) -> ImagePart:
    return ImagePart(type="image", blob=row.sha256, media_type=row.media_type, width=row.width, height=row.height)


def stored_picture(actor: Actor, read: DecodedPicture) -> Picture:
    """Return the row of a picture, locked, so that it is not dropped before it is used."""
    digest = hashlib.sha256(read.data).hexdigest()
    insert_pictures(actor, {digest: read})
    rows = Picture.objects.defer("data", "thumbnail").select_for_update(no_key=True)
    if (stored := rows.filter(project=actor.project, sha256=digest).first()) is None:
        raise Busy  # its last episode was erased meanwhile
    return stored


def insert_pictures(actor: Actor, read: Mapping[str, DecodedPicture]) -> None:
    """Store pictures, given by digest, unless they are stored: one by one and in order, as another request inserts."""
    for digest, picture in sorted(read.items(), key=lambda item: item[0]):
        row = Picture(project=actor.project, sha256=digest, size=len(picture.data), **vars(picture))
        Picture.objects.bulk_create([row], ignore_conflicts=True)


def refuse_more(episode: Episode, sizes: Sequence[int]) -> None:
    """Raise if further pictures of these sizes are too many for an episode, which the caller has locked."""
    if not sizes:
        return
    uses = PictureUse.objects.filter(episode=episode)
    stored = uses.aggregate(number=Count("pk"), total=Sum("picture__size", default=0))
    if stored["number"] + len(sizes) > MOST_PICTURES or stored["total"] + sum(sizes) > MOST_BYTES:
        raise TooManyPictures(
            f"An episode can have at most {MOST_PICTURES:,} pictures and {MOST_BYTES >> 20} MB of them."
        )


def copy_uses(branch: Episode, parent_id: str) -> None:
    """Give a branch the pictures of its parent, whose steps it has."""
    with connection.cursor() as cursor:
        cursor.execute(COPIED, [branch.pk, parent_id])


def pictures_used(episodes: Collection[str]) -> list[str]:
    """Return the pictures of these episodes, locked until the end of the caller's transaction."""
    rows = Picture.objects.filter(uses__episode__in=episodes).order_by("pk").values_list("pk", flat=True)
    keys = sorted(set(rows))
    return list(Picture.objects.filter(pk__in=keys).order_by("pk").select_for_update().values_list("pk", flat=True))


def drop_unused(pictures: Sequence[str]) -> int:
    """Delete those of these pictures that no episode has any more; return their number. The caller has locked them."""
    if not pictures:  # for none of them Django sends no statement, and returns None
        return 0
    used = PictureUse.objects.filter(picture=OuterRef("pk"))
    return Picture.objects.filter(~Exists(used), pk__in=pictures)._raw_delete("default") if pictures else 0
