"""Pages about comments: those that name this person, and one comment with its step, the others and a reply form.

Owns HTTP status and redirects. Reviewers who judge the episode blind can read the comments of others after their
verdict.
"""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from episodes.models import Episode
from episodes.visible import visibility
from episodes.visible.lens import Lens, lens_of
from people.access import MemberRequest, holds, may_annotate, may_read, member_required, visible_or_404
from people.errors import AppError
from people.requests.forms import read, text_of
from people.requests.parts import part_of
from reviews.errors import UnknownName
from reviews.models import COMMENT, Annotation
from reviews.pages.one import numbers_of, replay_of
from reviews.record import annotating, correcting, mentions
from reviews.visible.annotated import seen_by
from reviews.visible.label_forms import LabelForm
from reviews.visible.places import place_of, tell

SHOWN = 100


@require_GET
@part_of("replay")
@member_required(may_read, rows=Episode.every.all)
def said_fragment(request: MemberRequest, pk: str) -> HttpResponse:
    """Return the labels, comments and corrections of an episode that this person can read, for its replay."""
    actor = request.actor
    episode = visible_or_404(Episode.every.all(), actor, pk)
    lens = lens_of(actor, episode)
    # withheld outcomes withhold the corrections of others as well, because those judge the episode
    is_told = Lens.OUTCOME in lens
    notes = tell(lens, episode, seen_by(actor, episode))
    fixes = [one for one in correcting.current(episode) if is_told or actor.owns(one.author_key)]
    context = {
        "notes": notes,
        "fixes": fixes,
        "seqs": numbers_of([*notes, *fixes]),
        "own_key": actor.key,
        "may_annotate": holds(actor, may_annotate),
    }
    return render(request, "reviews/_said.html", context)


@require_GET
@member_required(may_read)
def mentions_page(request: MemberRequest) -> HttpResponse:
    """List the comments that name this person, unopened ones first; of an episode judged blind without text."""
    unread = mentions.unread(request.actor)
    headline = f"{unread or 'No'} {'mention is' if unread == 1 else 'mentions are'} unread."
    rows = mentions.of_person(request.actor)
    # listed even while judged blind, so that the count is right; only `readable` ones show their text
    open_ones = visibility.with_open_outcome(request.actor, rows, "annotation__episode_id")
    context = {
        "headline": headline,
        "rows": rows[:SHOWN],
        "readable": set(open_ones.values_list("pk", flat=True)),
    }
    return render(request, "reviews/mentions.html", context)


@require_GET
@member_required(may_annotate)
def members_to_name(request: MemberRequest) -> HttpResponse:
    """Return the members whom a comment can name, for the fields that suggest them."""
    return JsonResponse({"members": mentions.names(request.actor)})


@require_http_methods(["GET", "POST"])
@member_required(may_read, rows=Annotation.objects.all, path="episode__project_id")
def comment_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the current version of a comment beside its step; POST adds a comment there, or edits one of the person's
    own."""
    actor, problem, status, as_text = request.actor, "", 200, False
    comment = mentions.behind(actor, pk)
    # a notification links to the version that it was about; a redirect of POST would lose the form
    if comment.pk != pk and request.method == "GET":
        return redirect("comment", comment.pk)
    episode = comment.episode
    if request.method == "POST":
        try:
            value, own = text_of(request.POST, "value"), text_of(request.POST, "annotation")
            # the same text sent again after the refusal is meant as it is
            if value != read(request.POST, LabelForm).as_text:
                mentions.refuse_unknown(actor, value)
            if own:
                made = annotating.reword(actor, own, value)
            else:
                made = annotating.annotate(actor, episode, place_of(comment), COMMENT, value)
            # one's own edit makes a newer version of this page's comment
            return redirect("comment", made.pk if own == comment.pk else comment.pk)
        except AppError as refused:
            problem, status, as_text = refused.message, refused.status, isinstance(refused, UnknownName)
    comments = (one for one in seen_by(actor, episode) if one.label == COMMENT and one.seq == comment.seq)
    lens = lens_of(actor, episode)
    placed = tell(lens, episode, comments)
    is_open = any(one.pk == comment.pk for one in placed)
    # a comment that is withheld from them stays unread
    if is_open:
        mentions.see(actor, comment)
    context = {
        **replay_of(request, lens, episode, comment.seq or 1),
        "comment": comment,
        "said": placed,
        "seqs": numbers_of(placed),
        "is_open": is_open,
        "own_key": actor.key,
        "may_annotate": holds(actor, may_annotate),
        "problem": problem,
        "given": request.POST,
        "as_text": as_text,
    }
    return render(request, "reviews/comment.html", context, status=status)
