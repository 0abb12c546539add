"""The pictures of a file that is being imported: each is read once, and waits on disk.

Leaves reading a picture to `stored/decoding.py`, where a row has one to the readers, and what an episode keeps of them
to `episodes/record/whole_pictures.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from awmclient.nouns.pictures import PICTURE_BYTES
from episodes.models import Picture
from episodes.record.pictures import MOST_BYTES, MOST_PICTURES
from episodes.stored.decoding import decoded
from imports.spooling import SpooledPictures
from people.access import Actor
from people.errors import Invalid

FILE_PICTURES = 4_000
"""Different pictures of one file: a child is started for each, and a fifth of a second passes."""


class ImportedPictures:
    """Reads the pictures of one file. `beat` is called for each, as a row can have many."""

    def __init__(self, actor: Actor, spooled: SpooledPictures, beat: Callable[[], object]) -> None:
        self._actor, self._spooled, self._beat = actor, spooled, beat
        self._parts: dict[bytes, dict[str, Any] | None] = {}
        """What each picture has become, by the digest of its bytes in the file."""
        self._named: dict[str, Any] = {}
        """Facts of the project's pictures, by the digests that rows name."""
        self._sizes: dict[str, int] = {}
        """The sizes of the pictures of this row."""

    def end_row(self) -> None:
        self._sizes = {}

    def part_of(self, data: bytes) -> dict[str, Any] | None:
        """Return the part of a picture; None for one that cannot be read, or that its row or file cannot have, too."""
        source = hashlib.sha256(data).digest()
        if source not in self._parts:
            if len(data) > PICTURE_BYTES or len(self._parts) >= FILE_PICTURES:
                return None
            self._beat()
            self._parts[source] = self._decoded(data)
        part = self._parts[source]
        has_room = part is not None and self._has_room(part["blob"], self._spooled.size(part["blob"]))
        return part if has_room else None

    def named(self, digest: str) -> dict[str, Any] | None:
        """Return the part of a picture that the project has, whose members then see it anyway."""
        if digest not in self._named:
            rows = Picture.objects.filter(project=self._actor.project, sha256=digest, uses__isnull=False)
            self._named[digest] = rows.values("media_type", "width", "height", "size").first()
        facts = self._named[digest]
        if facts is None or not self._has_room(digest, facts["size"]):
            return None
        return {"type": "image", "blob": digest, **{name: facts[name] for name in ("media_type", "width", "height")}}

    def _decoded(self, data: bytes) -> dict[str, Any] | None:
        try:
            picture = decoded(data, self._actor.key)
        except Invalid:
            return None
        part = picture.part
        self._spooled.add(part["blob"], picture)
        return part

    def _has_room(self, digest: str, size: int) -> bool:
        if digest in self._sizes:
            return True
        sizes = {**self._sizes, digest: size}
        if len(sizes) > MOST_PICTURES or sum(sizes.values()) > MOST_BYTES:
            return False
        self._sizes = sizes
        return True
