"""Writes: attach a file to an ask or to an answer, remove it, and send it with the answer.

Owns who attaches where: the agent's side to its open question, the holder of the ask to the answer. The bytes are in
the row, so that they are backed up and deleted with their ask. Leaves types to `rules/file_types.py`, reads to
`find/attached.py`.
"""

from __future__ import annotations

import hashlib
import re

from django.db import transaction
from django.utils import timezone

from episodes.record import ask_steps
from episodes.record.appending import refuse_other_loop
from experts.errors import LeaseLost, TooLate, TooManyFiles
from experts.find.attached import is_asker, question_files, unsent_files
from experts.models import Advice, Ask, Assignment, Attachment
from experts.record import closing
from experts.rules.file_types import MOST_BYTES, MOST_FILES, NAME_MAX, TOO_LARGE, media_type_of, named_by_type
from people.access import Actor, may_advise, may_record, visible_or_404
from people.errors import Invalid, NotFound, TooLarge
from people.slots import SlotState
from people.text.plain_text import first_line


def attach(actor: Actor, ask_id: str, name: str, data: bytes) -> tuple[Attachment, bool]:
    """Attach a file to the question (the agent's side) or to the caller's answer; and whether it is new.

    The same file under the same name is attached once, so that a call can be repeated.
    """
    asks = is_asker(actor)
    (may_record if asks else may_advise)(actor)
    visible_or_404(Ask.objects.all(), actor, ask_id)
    row = _checked(name, data)
    with transaction.atomic():
        row.ask = ask = closing.locked(ask_id)
        if asks:
            refuse_other_loop(actor, ask.episode.origin)
        if not ask.is_open or ask.deadline_at <= timezone.now():
            raise TooLate("This ask is closed. The file was not attached.")
        row.side, row.uploader_key = "ask" if asks else "answer", actor.key
        if not asks and not Assignment.objects.filter(ask=ask, state=SlotState.CLAIMED, holder=actor.key).exists():
            raise LeaseLost("This ask is not claimed by you. The file was not attached.")
        files = question_files(ask) if asks else unsent_files(actor, ask)
        attached = files.filter(name=row.name, sha256=row.sha256).first()
        if attached is not None:
            return attached, False
        if files.count() >= MOST_FILES:
            raise TooManyFiles
        row.save(force_insert=True)
        if asks:
            ask_steps.note_files(ask.episode, ask.seq, [one.ref() for one in files.all()])
    return row, True


def _checked(name: str, data: bytes) -> Attachment:
    """Return a file as an unsaved row. Raises for a size or a type that is not allowed."""
    if len(data) > MOST_BYTES:
        raise TooLarge(TOO_LARGE)
    media_type = media_type_of(data)
    if not media_type:
        raise Invalid("Only PNG, JPEG, GIF, WebP, PDF and plain text in UTF-8 can be attached.")
    # some clients send the whole path
    file_name = first_line(re.split(r"[\\/]", name)[-1], NAME_MAX) or "file"
    return Attachment(
        name=named_by_type(file_name, media_type),
        media_type=media_type,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        data=data,
    )


@transaction.atomic
def remove(actor: Actor, attachment_id: str) -> None:
    """Remove a file from the caller's answer, as long as it is not sent."""
    may_advise(actor)
    row = visible_or_404(Attachment.objects.defer("data"), actor, attachment_id, "ask__project")
    # not before another transaction that may be sending it
    closing.locked(row.ask_id)
    mine = Attachment.objects.filter(pk=row.pk, side="answer", uploader_key=actor.key)
    if not mine.exists():
        raise NotFound
    if not mine.filter(advice=None).delete()[0]:
        raise TooLate("This file was sent with the answer.")


def send_files(actor: Actor, advice: Advice, first: Ask | None, has_unsent: bool) -> None:
    """Give an accepted answer the files that its author attached; one of a group also gets those of the `first`."""
    if has_unsent:
        unsent_files(actor, advice.ask).update(advice=advice)
    elif first is None:
        advice.file_refs = []  # nothing to read
    source = (first.accepted or first.held) if first is not None else None
    if source is not None and actor.owns(source.author_key):
        copy_files(source, advice)


def copy_files(before: Advice, advice: Advice) -> None:
    """Give an answer that repeats another one that one's files."""
    for row in before.files.order_by("created_at", "pk"):
        # a row of its own: it is deleted with its own ask
        copied = {name: getattr(row, name) for name in ("side", "uploader_key", "name", "media_type", "size", "sha256")}
        Attachment.objects.create(ask=advice.ask, advice=advice, data=row.data, **copied)


def move_files(before: Advice, advice: Advice | None) -> None:
    """Move the files of an answer to its new version; with none, back to what is not sent."""
    before.files.update(advice=advice)
