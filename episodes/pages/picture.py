"""One picture of an episode: its bytes as an answer, for pages and for the API.

Owns the headers. Leaves who sees it to `visible/pictures.py`. Pages name the episode, so that their addresses find the
project, as those of other parts that sockets draw.
"""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from episodes.models import Episode
from episodes.visible.pictures import visible_picture
from people.access import Actor, MemberRequest, member_required
from people.requests.forms import text_of

KEPT_BY_READER = "private, max-age=86400, immutable"
"""A digest names the same bytes for good. A day, because an erased picture is to leave browsers, too."""


@require_GET
@member_required(rows=Episode.every.all, in_project=False)
def picture(request: MemberRequest, pk: str, digest: str) -> HttpResponse:
    """Return a picture of this episode, or its thumbnail."""
    return picture_reply(request.actor, digest, text_of(request.GET, "small") == "1", pk)


def picture_reply(actor: Actor, digest: str, is_small: bool, episode: str = "") -> HttpResponse:
    """Return the answer with a picture that this actor sees."""
    field = "thumbnail" if is_small else "data"
    row = visible_picture(actor, digest, field, episode)
    reply = HttpResponse(bytes(getattr(row, field)), content_type="image/webp" if is_small else row.media_type)
    reply["X-Content-Type-Options"] = "nosniff"
    # even if a browser took it for a page, that page could load, run and reach nothing
    reply["Content-Security-Policy"] = "default-src 'none'; sandbox"
    reply["Cache-Control"] = KEPT_BY_READER
    return reply
