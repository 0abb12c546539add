"""Labels by schema, places within a step, undo, corrections against the tool's schema."""

from __future__ import annotations

import pytest

from episodes.models import Episode
from people.errors import Forbidden, Invalid, NotFound
from reviews.errors import NotYourAnnotation, SchemaEnded
from reviews.models import Annotation, Correction, LabelSchema
from reviews.record import annotating, assigning, correcting, schemas
from reviews.record.correcting import Better
from reviews.visible import annotated
from reviews.visible.annotated import current
from reviews.visible.places import Place
from tests.browsing import as_person, html


@pytest.fixture
def label(ada):
    return schemas.define(ada, "step_quality", "Step quality", "single", ["Good step", "Wrong tool"])


def test_schema_edit_adds_a_version_and_keeps_the_old_one(ada, label):
    assert schemas.define(ada, "step_quality", "Step quality", "single", ["Good step", "Wrong tool"]).pk == label.pk
    newer = schemas.define(ada, "step_quality", "Step quality", "single", ["Good step", "Bad step"])
    assert (label.version, newer.version) == (1, 2)
    assert LabelSchema.objects.get(pk=label.pk).ended_at is not None
    assert [one.pk for one in schemas.of_project(ada.project)] == [newer.pk]


def test_ended_version_is_refused_unless_the_review_pins_it(ada, rita, episode, label):
    queue = assigning.create_queue(ada, "pinned")
    schemas.define(ada, "step_quality", "Step quality", "single", ["Good step", "Bad step"])
    with pytest.raises(SchemaEnded, match="newer version than 1"):
        annotating.annotate(rita, episode, Place(2), "step_quality", "wrong_tool", schema=label)
    said = annotating.annotate(rita, episode, Place(2), "step_quality", "wrong_tool", schema=label, queue=queue)
    assert said.schema_id == label.pk


def test_new_label_reaches_open_queues_and_a_version_none(ada, rita, label):
    queues = [assigning.create_queue(ada, name) for name in ("before", "ended")]
    assigning.close_queue(ada, queues[1].pk)
    later = schemas.define(ada, "tone", "Tone", "text", [])
    newer = schemas.define(ada, "step_quality", "Step quality", "single", ["Good step", "Bad step"])
    for queue in queues:
        queue.refresh_from_db()
    assert queues[0].schemas == [label.pk, later.pk] and queues[1].schemas == [label.pk]
    assert schemas.asked_in(ada.project) == {label.pk: ["before"], later.pk: ["before"]}
    page = html(as_person(rita).get("/reviews/labels/"))
    assert "Open queues with this version: before." in page and page.count("No open queue has") == 1, newer.version


@pytest.mark.parametrize(
    ("kind", "options", "good", "bad"),
    [
        ("single", ["A", "B"], "a", "c"),
        ("multi", ["A", "B"], ["b", "a"], ["c"]),
        ("score", [{"low": 1, "high": 5}], 4, 6),
        ("text", [], "words", ""),
    ],
)
def test_value_must_fit_its_schema(ada, rita, episode, kind, options, good, bad):
    label = schemas.define(ada, "q", "Q", kind, options)
    said = annotating.annotate(rita, episode, Place(2), "q", good, schema=label)
    assert said.text == (["a", "b"] if kind == "multi" else good)
    with pytest.raises(Invalid):
        annotating.annotate(rita, episode, Place(2), "q", bad, schema=label)


@pytest.mark.parametrize("bounds", [{"low": 0, "high": True}, {"low": False, "high": 5}, {"low": 5, "high": 1}, {}])
def test_bounds_of_a_score_are_two_numbers_in_order(ada, bounds):
    with pytest.raises(Invalid, match="a low and a higher high"):
        schemas.define(ada, "q", "Q", "score", [bounds])


def test_annotation_stands_on_a_path_and_a_range(rita, episode):
    where = Place(2, "$.result.note", 4, 9)
    said = annotating.annotate(rita, episode, where, "comment", "Which one?")
    assert (said.path, said.start, said.end) == ("$.result.note", 4, 9)


@pytest.mark.parametrize(
    "where",
    [
        Place(99),
        Place(3),  # the verifier's step is not there to be labeled
        Place(2, "$.nowhere"),
        Place(2, "arguments"),
        Place(2, "$.arguments.id", 0, 1),
        Place(2, "$.result.note", 0, 99),
        Place(2, "$.result.note", 5, 5),
        Place(None, "$.task"),
    ],
)
def test_place_that_is_not_there_is_refused(rita, episode, where):
    with pytest.raises(Invalid):
        annotating.annotate(rita, episode, where, "comment", "x")


def test_undo_is_a_superseding_row_of_its_author(rita, edo, episode):
    said = annotating.annotate(rita, episode, Place(2), "note", "first")
    changed = annotating.annotate(rita, episode, Place(2), "note", "second")
    assert changed.supersedes == said
    with pytest.raises(NotYourAnnotation):
        annotating.undo(edo, changed.pk)
    back = annotating.undo(rita, changed.pk)
    assert back.withdrawn and annotating.undo(rita, changed.pk).pk == back.pk
    assert current(Annotation.objects.all()) == [] and Annotation.objects.count() == 3
    annotating.annotate(rita, episode, Place(2), "note", "third")
    assert [one.text for one in current(Annotation.objects.all())] == ["third"]


def test_stranger_cannot_undo_or_define(max_, rita, episode, label):
    said = annotating.annotate(rita, episode, Place(2), "comment", "mine")
    with pytest.raises(NotFound):
        annotating.undo(max_, said.pk)
    with pytest.raises(Forbidden):
        schemas.define(rita, "x", "X", "text", [])


@pytest.mark.parametrize(
    ("better", "words"),
    [
        (Better("call", "update", {"id": "seven"}), "id"),
        (Better("call", "update", {}), "id"),
        (Better("call", "update", {"id": 7, "status": "gone"}), "status"),
        (Better("call", "fly", {}), "no tool fly"),
        (Better("message"), "should have said"),
        (Better("no_ask"), "not an ask"),
        (Better("else"), "Unknown kind"),
    ],
)
def test_correction_that_misfits_is_refused(rita, episode, better, words):
    with pytest.raises(Invalid, match=words):
        correcting.correct(rita, episode, 2, better)
    assert not Correction.objects.exists()


def test_one_correction_per_reviewer_and_step_counts(rita, edo, episode):
    first = correcting.correct(
        rita, episode, 2, Better("call", "update", {"id": 7, "status": "shut"}, why="It said so")
    )
    assert (
        correcting.correct(rita, episode, 2, Better("call", "update", {"id": 7, "status": "shut"}, why="It said so"))
        == first
    )
    second = correcting.correct(rita, episode, 2, Better("ask", text="Shut or archive?"))
    correcting.correct(edo, episode, 2, Better("call", "update", {"id": 8}))
    assert second.supersedes == first
    assert {(one.author, one.kind) for one in correcting.current(episode)} == {("rita", "ask"), ("edo", "call")}


def test_withdrawn_correction_counts_nowhere(rita, edo, max_, episode):
    call = Better("call", "update", {"id": 7, "status": "shut"}, why="It said so")
    first = correcting.correct(rita, episode, 2, call)
    other = correcting.correct(edo, episode, 2, Better("call", "update", {"id": 8}))
    with pytest.raises(NotYourAnnotation):
        correcting.withdraw(edo, first.pk)
    with pytest.raises(NotFound):
        correcting.withdraw(max_, first.pk)
    gone = correcting.withdraw(rita, first.pk)
    assert gone.supersedes == first and correcting.withdraw(rita, first.pk) == gone
    assert correcting.current(episode) == [other]
    rows = Episode.objects.filter(pk=episode.pk)
    assert annotated.blind_corrections(rows) == {episode.pk: [other.pk]}
    again = correcting.correct(rita, episode, 2, call)
    assert again.supersedes == gone and again in correcting.current(episode)
