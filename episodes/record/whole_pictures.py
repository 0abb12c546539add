"""Pictures of whole episodes: as data in their bodies, or by the digest of one that the project has.

Owns what a body becomes before it is checked, and which pictures a new episode then has. Leaves reading a file to
`stored/decoding.py`, and the bounds of an episode to `pictures.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q

from awmclient.nouns.pictures import PICTURE_BYTES
from awmclient.words.pictures import SHOWING, inline_pictures, with_parts
from episodes.errors import TooManyPictures
from episodes.models import Episode, Picture, PictureUse
from episodes.record.pictures import TOO_LARGE, insert_pictures, refuse_more
from episodes.stored.decoding import DecodedPicture, decoded
from people.access import Actor, may_read, may_record
from people.errors import AppError, Busy, Invalid, TooLarge

WHOLE_PICTURES = 64
"""Pictures as data in the episodes of one request: a child is started for each."""
WRITTEN, RETURNED = ("content", "question"), ("result", "observation")
"""Fields of a message or question, whose pictures are read or refused; and of what came back, which can be anything."""
Sent = Mapping[str, DecodedPicture]
"""The pictures that came with an episode, by the digest of what is kept of them."""


class PictureReader:
    """The pictures that come as data in one request, each read once. What no decoder reads counts as one, too."""

    def __init__(self, actor: Actor) -> None:
        may_record(actor)
        self._actor = actor
        self._read: dict[bytes, DecodedPicture | AppError] = {}
        self._busy: Busy | None = None

    def read_in(self, body: Any) -> tuple[Any, dict[str, DecodedPicture]]:
        """Return the body of an episode with a part in the place of each picture that it has as data, and these.

        What cannot be read stays in a result as it came. In a message it raises: `Invalid` for what no decoder reads,
        and `TooManyPictures` for more than a request has. `Busy` is of both, as the same episode comes again.
        """
        steps = body.get("steps") if isinstance(body, Mapping) else None
        if not isinstance(steps, list):
            return body, {}
        shown = [_shown(step) for step in steps]
        written, returned = _datas(shown, WRITTEN), _datas(shown, RETURNED)
        sent, parts = dict[str, DecodedPicture](), dict[bytes, dict[str, Any]]()
        for data in {**written, **returned}:
            picture = self._picture(data)
            if isinstance(picture, DecodedPicture):
                parts[data] = picture.part
                sent[parts[data]["blob"]] = picture
            elif data in written:
                raise picture
        if not parts:
            return body, {}
        changed = [
            {**step, **{name: with_parts(value, parts) for name, value in fields.items()}} if fields else step
            for step, fields in zip(steps, shown, strict=True)
        ]
        return {**body, "steps": changed}, sent

    def _picture(self, data: bytes) -> DecodedPicture | AppError:
        """Return a picture, or why it is none. Raises `Busy`."""
        if data in self._read:
            return self._read[data]
        if len(data) > PICTURE_BYTES:
            return TooLarge(TOO_LARGE)
        if len(self._read) >= WHOLE_PICTURES:
            return TooManyPictures(
                f"A request can have at most {WHOLE_PICTURES} pictures as data. Upload more before it."
            )
        # the next picture would wait as long, and the request has many
        if self._busy is not None:
            raise self._busy
        try:
            self._read[data] = decoded(data, self._actor.key)
        except Invalid as refused:
            self._read[data] = refused
        except Busy as busy:
            self._busy = busy
            raise
        return self._read[data]


def _shown(step: Any) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        return {}
    return {name: step[name] for name in SHOWING if isinstance(step.get(name), list | Mapping)}


def _datas(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[bytes, None]:
    """Return the pictures as data in these fields, in order, each once."""
    values = [fields[name] for fields in shown for name in names if name in fields]
    return dict.fromkeys(inline_pictures(values))


class Pictured(NamedTuple):
    """An episode, the digests that its steps name, and the pictures that came with these."""

    episode: Episode
    digests: Collection[str]
    sent: Sent


def attach(actor: Actor, batch: Sequence[Pictured]) -> None:
    """Give episodes their pictures: those that came with them, and those of the project that their messages name.

    1. Lock the episodes, as an upload does first. 2. Insert what came. 3. Lock all pictures of the batch in one order,
    that of an erasure. 4. Check the bounds. Raises `Busy` for a picture that was dropped meanwhile. Leaves messages
    that name a missing one to `refuse_missing_pictures`.
    """
    named = [one for one in batch if one.digests]
    if not named:
        return
    episodes = [one.episode.pk for one in named]
    list(Episode.every.filter(pk__in=episodes).order_by("pk").select_for_update(no_key=True).values_list("pk"))
    # each picture is taken from its source as it is inserted: together they can be larger than memory
    came = {digest: one.sent for one in named for digest in one.digests if digest in one.sent}
    for digest in sorted(came):
        insert_pictures(actor, {digest: came[digest][digest]})
    rows = _rows(actor, {digest for one in named for digest in one.digests}, came)
    there = {digest: (pk, size) for digest, pk, size in rows.values_list("sha256", "pk", "size")}
    if came.keys() - there.keys():
        raise Busy
    used = set(PictureUse.objects.filter(episode__in=episodes).values_list("episode_id", "picture_id"))
    uses = list[PictureUse]()
    for pictured in named:
        pictures = [there[digest] for digest in sorted(pictured.digests) if digest in there]
        fresh = [(pk, size) for pk, size in pictures if (pictured.episode.pk, pk) not in used]
        refuse_more(pictured.episode, [size for _, size in fresh])
        uses += [PictureUse(episode=pictured.episode, picture_id=pk) for pk, _ in fresh]
    PictureUse.objects.bulk_create(uses)


def _rows(actor: Actor, named: Collection[str], came: Collection[str]) -> Any:
    """Return the pictures of the project among these, locked: what its readers see, they can name."""
    may_read(actor)
    used = PictureUse.objects.filter(picture=OuterRef("pk"))
    rows = Picture.objects.filter(Q(Exists(used)) | Q(sha256__in=list(came)), project=actor.project)
    return rows.filter(sha256__in=list(named)).order_by("pk").select_for_update(no_key=True)
