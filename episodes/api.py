"""The JSON API of episodes and steps: one thin function per call of the contract. The API of runs is in `runs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import P, QueryEx, Router, Status
from pydantic import ValidationError

from awmclient import schema
from awmclient.nouns.fields import MAX_INT, Object
from awmclient.nouns.pictures import ImagePart
from episodes.errors import TooManyPictures
from episodes.find import lists
from episodes.find.narrowing import FILTERS
from episodes.models import Episode
from episodes.pages.picture import picture_reply
from episodes.record import ending, pictures, recording, steering, whole, whole_pictures
from episodes.visible import trajectory
from episodes.visible.lens import lens_of
from people.errors import AppError, Busy, Invalid, NotFound, TooLarge
from people.http import REFUSALS, actor_of, misshapen, refusal
from people.requests.forms import texts_of
from people.served import served

router = Router(tags=["episodes"])
CURSOR = P(max_length=200, description="The value of `next` of the page before.")
LIMIT = P(ge=1, le=200)
JSON = "application/json; charset=utf-8"
BYTES = {"schema": {"type": "string", "format": "binary"}}


def _ref(episode: Episode) -> schema.EpisodeRef:
    return schema.EpisodeRef(id=episode.pk, url=settings.AWMWEB_PUBLIC_URL + episode.get_absolute_url())


def filters_in(names: Sequence[str]) -> dict[str, Any]:
    """Describe a list's filters for the OpenAPI document: each can be repeated, and one of its values must match."""
    values = {"type": "array", "items": {"type": "string"}}
    return {"parameters": [{"in": "query", "name": name, "required": False, "schema": values} for name in names]}


def filters_of(request: HttpRequest) -> dict[str, list[str]]:
    """Return the filters of a list's query string; the read raises `Invalid` for unknown ones."""
    return {name: texts_of(request.GET, name) for name in request.GET if name not in ("cursor", "limit")}


@router.get("/episodes", response={200: schema.EpisodePage, **REFUSALS}, openapi_extra=filters_in(FILTERS))
def list_episodes(
    request: HttpRequest, cursor: QueryEx[str, CURSOR] = "", limit: QueryEx[int, LIMIT] = 50
) -> schema.EpisodePage:
    """List the project's episodes, newest first. A filter that comes several times has several values."""
    return lists.episodes(actor_of(request), filters_of(request), cursor, limit)


@router.post("/episodes", response={200: schema.EpisodeRef, 201: schema.EpisodeRef, **REFUSALS})
def start_episode(request: HttpRequest, payload: schema.EpisodeStart) -> Status[schema.EpisodeRef]:
    episode, made = recording.start_episode(actor_of(request), payload)
    return Status(201 if made else 200, _ref(episode))


@router.post("/episodes/whole", response={200: schema.WholeResults, **REFUSALS})
def record_whole(request: HttpRequest, payload: schema.WholeBatch) -> schema.WholeResults:
    """Record finished episodes, at most 64 and 8 MB, in one request. The same key and content again is known."""
    # one by one: a misshapen episode is refused in its own result, and the rest of the batch is recorded
    actor = actor_of(request)
    reader = whole_pictures.PictureReader(actor)
    checked = [_checked(reader, body) for body in payload.episodes]
    fitting = [(one.episode, one.sent) for one in checked if isinstance(one.episode, schema.WholeEpisode)]
    recorded = iter(whole.record_whole(actor, [one for one, _ in fitting], [sent for _, sent in fitting]))
    results = [next(recorded) if isinstance(one.episode, schema.WholeEpisode) else one.episode for one in checked]
    return schema.WholeResults(results=[_whole_result(one) for one in results])


class _Read(NamedTuple):
    """An episode of a batch as it was read, or why it is refused, and the pictures that came with it."""

    episode: schema.WholeEpisode | AppError
    sent: whole_pictures.Sent = {}


def _checked(reader: whole_pictures.PictureReader, body: Any) -> _Read:
    try:
        body, sent = reader.read_in(body)
        return _Read(schema.WholeEpisode.model_validate(body), sent)
    except (Busy, Invalid, TooLarge, TooManyPictures) as refused:
        return _Read(refused)
    except ValidationError as error:
        return _Read(misshapen(error.errors()))


def _whole_result(recorded: whole.Result) -> schema.WholeResult:
    if isinstance(recorded, AppError):
        return schema.WholeResult(error=schema.ErrorBody(code=recorded.code, message=recorded.message))
    return schema.WholeResult(**_ref(recorded.episode).model_dump(), known=recorded.known)


@served(router, "POST", "/episodes/{episode_id}/steps", schema.MAX_STEP_BYTES)
def append_steps(request: HttpRequest, episode_id: str, payload: schema.StepBatch) -> schema.Acknowledged:
    """Append steps."""
    # of a person's session; `live/intake.py` serves this call to bearers, many batches in one transaction
    return schema.Acknowledged(acknowledged=recording.append_steps(actor_of(request), episode_id, payload.steps))


@router.get("/episodes/{episode_id}", response={200: schema.EpisodeView, **REFUSALS})
def get_episode(request: HttpRequest, episode_id: str) -> schema.EpisodeView:
    # a loop that only reads is alive, too
    recording.hear(actor_of(request), episode_id)
    return trajectory.view_of(trajectory.visible_episode(actor_of(request), episode_id))


@router.get("/episodes/{episode_id}/steps", response={200: schema.StepPage, **REFUSALS})
def get_steps(
    request: HttpRequest,
    episode_id: str,
    since: QueryEx[int, P(ge=0, le=MAX_INT)] = 0,
    limit: QueryEx[int, P(ge=1, le=trajectory.MAX_PAGE)] = trajectory.PAGE,
) -> HttpResponse:
    recording.hear(actor_of(request), episode_id)
    episode = trajectory.visible_episode(actor_of(request), episode_id)
    text = trajectory.page_text(lens_of(actor_of(request), episode), episode, since, limit)
    return HttpResponse(text, content_type=JSON)


@router.get("/episodes/{episode_id}/steps/{seq}", response={200: Object, **REFUSALS})
def get_step(request: HttpRequest, episode_id: str, seq: int) -> HttpResponse:
    """Return one complete step. Sockets send a large one cut."""
    recording.hear(actor_of(request), episode_id)
    # beyond the 32-bit column a look-up would be a database error, not a missing step
    if not 1 <= seq <= MAX_INT:
        raise NotFound
    episode = trajectory.visible_episode(actor_of(request), episode_id)
    return HttpResponse(trajectory.step_text(lens_of(actor_of(request), episode), episode, seq), content_type=JSON)


@router.post(
    "/episodes/{episode_id}/blobs",
    response={200: ImagePart, 201: ImagePart, **REFUSALS},
    exclude_none=True,
    openapi_extra={
        "requestBody": {"required": True, "content": dict.fromkeys(("image/png", "image/jpeg", "image/webp"), BYTES)}
    },
)
def upload_picture(request: HttpRequest, episode_id: str) -> Status[ImagePart]:
    """Store a picture, whose bytes are the body, and return the part with which steps and asks of this episode refer
    to it. What follows the picture and its metadata are not kept, so the digest is that of what is stored."""
    row, made = pictures.upload(actor_of(request), episode_id, request.body)
    part = pictures.part_of_stored(row)
    return Status(201 if made else 200, part)


@router.get(
    "/blobs/{digest}",
    response={**REFUSALS},
    openapi_extra={"responses": {200: {"description": "OK", "content": {"image/*": BYTES}}}},
)
def get_picture(request: HttpRequest, digest: str, thumbnail: bool = False) -> HttpResponse:
    """Return the bytes of a picture of an episode; with `thumbnail`, of a small one."""
    return picture_reply(actor_of(request), digest, thumbnail)


@router.post("/episodes/{episode_id}/heartbeat", response={200: schema.HeartbeatView, **REFUSALS})
def heartbeat(request: HttpRequest, episode_id: str) -> schema.HeartbeatView:
    episode = recording.heartbeat(actor_of(request), episode_id)
    return schema.HeartbeatView(**trajectory.view_of(episode).model_dump(), steered=episode.steered)


@router.get("/episodes/{episode_id}/wheel", response={200: schema.WheelView, **REFUSALS})
def read_wheel(request: HttpRequest, episode_id: str, acted: QueryEx[int, P(ge=0, le=MAX_INT)] = 0) -> schema.WheelView:
    """Return what a person has for the loop: whether to hold, orders after number `acted`, and limits. For the loop of
    the episode, when a heartbeat says `steered`."""
    return steering.read(actor_of(request), episode_id, acted)


@router.post("/episodes/{episode_id}/wheel/take", response={200: schema.WheelLease, **REFUSALS})
def take_wheel(request: HttpRequest, episode_id: str) -> schema.WheelLease:
    """Take the wheel of a live episode. The agent chooses nothing until it is handed back or the lease ends."""
    return steering.take(actor_of(request), episode_id)


@router.post("/episodes/{episode_id}/wheel/renew", response={200: schema.WheelLease, **REFUSALS})
def renew_wheel(request: HttpRequest, episode_id: str, payload: schema.LeaseBody) -> schema.WheelLease:
    return steering.renew(actor_of(request), episode_id, payload.lease_token)


@router.post("/episodes/{episode_id}/wheel/call", response={200: schema.WheelOrderView, **REFUSALS})
def call_at_wheel(request: HttpRequest, episode_id: str, payload: schema.WheelCallBody) -> schema.WheelOrderView:
    """Have the loop make a call in place of the agent, or say words to the agent. The result is the next step."""
    return steering.order_view(steering.order(actor_of(request), episode_id, payload))


@router.post("/episodes/{episode_id}/wheel/undo", response={200: schema.Done, **REFUSALS})
def undo_at_wheel(request: HttpRequest, episode_id: str, payload: schema.WheelUndoBody) -> schema.Done:
    """Drop an order that was not sent to the loop yet: it was given with `hold_s`, or its loop has not read it."""
    steering.undo(actor_of(request), episode_id, payload)
    return schema.Done()


@router.post("/episodes/{episode_id}/wheel/hand-back", response={200: schema.Done, **REFUSALS})
def hand_back_wheel(request: HttpRequest, episode_id: str, payload: schema.LeaseBody) -> schema.Done:
    steering.hand_back(actor_of(request), episode_id, payload.lease_token)
    return schema.Done()


@router.post("/episodes/{episode_id}/limits", response={200: schema.EpisodeView, **REFUSALS})
def change_limits(request: HttpRequest, episode_id: str, payload: schema.LimitsBody) -> schema.EpisodeView:
    """Change limits of a live episode, with a reason for the audit log. It then counts as assisted."""
    return trajectory.view_of(steering.change_limits(actor_of(request), episode_id, payload))


@router.post("/episodes/{episode_id}/park", response={202: schema.EpisodeView, **REFUSALS})
def park(request: HttpRequest, episode_id: str) -> Status[schema.EpisodeView]:
    """Let a waiting episode wait without its loop. It does not fail without heartbeats, and its next step continues
    it."""
    return Status(202, trajectory.view_of(recording.park_now(actor_of(request), episode_id)))


@router.post("/episodes/{episode_id}/finish", response={200: schema.EpisodeView, **REFUSALS})
def finish(request: HttpRequest, episode_id: str, payload: schema.Finish) -> schema.EpisodeView:
    return trajectory.view_of(ending.finish(actor_of(request), episode_id, payload))


def unknown_call(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
    """Answer an unknown path below the API with the error envelope."""
    return refusal(NotFound("Not found: no such endpoint."))
