"""Turns refusals of the apps into error pages; before a page's view runs, refuses U+0000 and unifies line ends.

Owns what holds for every response of Django's: no private page is cached, no text reorders a line, and below `/api/`
every refusal has the envelope, also those of Django and of the framework.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection

from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control
from django.utils.deprecation import MiddlewareMixin
from django.views import defaults

from people.access import SESSION_PROJECT, memberships
from people.errors import AWAY, AppError, Away, NoSpace, NotFound, Overlong, away_of, is_of_full_disk
from people.http import IS_HEAD, refusal
from people.requests import addresses
from people.text.plain_text import cleaned, with_line_ends

log = logging.getLogger(__name__)
CODES = {
    400: "bad_request",
    403: "csrf",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    500: "internal",
}
WORDS = {
    400: "Invalid request.",
    403: "Writes by cookie need the CSRF token. Scripts send an API token in the Authorization header.",
    404: "Not found: no such endpoint.",
    405: "Method not allowed.",
    413: "The request body is too large.",
    500: "Internal server error. See the server log.",
}
ANSWERED = frozenset({"text", "nonce", "tool_calls"})
"""Fields of the answer form that its schema checks."""


class Answers(MiddlewareMixin):
    """The outermost layer: headers and clean text of every response, and HEAD."""

    def process_request(self, request: HttpRequest) -> None:
        """Let a page answer HEAD as it answers GET: load balancers and link checkers send it."""
        if request.method == "HEAD" and not request.path_info.startswith("/api/"):
            request.META[IS_HEAD] = True
            request.method = "GET"

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if request.path_info.startswith("/api/") and response.status_code in CODES and not _is_json(response):
            response = _enveloped(response)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            _show_turns(response)
        if not response.has_header("Cache-Control"):
            patch_cache_control(response, private=True, no_store=True)
        if IS_HEAD in request.META:
            _leave_out_body(response)
        return response


def _leave_out_body(response: HttpResponse) -> None:
    """Keep the length of a page, and read nothing of a file."""
    if response.streaming:
        response.streaming_content = []  # type: ignore[attr-defined]
    else:
        response.setdefault("Content-Length", str(len(response.content)))
        response.content = b""


def _show_turns(response: HttpResponse) -> None:
    """Replace direction marks in a page by visible codes, so that no text reorders a line."""
    page = cleaned(response.content)
    if page != response.content:
        response.content = page
        if response.has_header("Content-Length"):
            response["Content-Length"] = str(len(page))


def _is_json(response: HttpResponse) -> bool:
    return response.get("Content-Type", "").startswith("application/json")


def _enveloped(response: HttpResponse) -> HttpResponse:
    refused = AppError(WORDS[response.status_code], code=CODES[response.status_code])
    refused.status = response.status_code
    answer = refusal(refused)
    if response.has_header("Allow"):
        answer["Allow"] = response["Allow"]
    return answer


class InProject(MiddlewareMixin):
    """Takes the project off the front of an address, and keeps the last used one.

    The views below see paths without it; addresses that they make have it. A project of others is not found. Behind
    the session, because a stranger must not learn which projects exist.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        slug, rest = addresses.split(request.path_info)
        if not slug:
            return None
        if not rest:
            return redirect(f"{request.path_info}/", permanent=True)
        if request.user.is_authenticated:
            here = memberships(request).filter(project__slug=slug).first()
            if here is None:
                raise Http404
            request.addressed = here  # type: ignore[attr-defined]
            # Parts that open pages of another project fetch must not switch the last used one.
            if addresses.is_visit(request) and request.session.get(SESSION_PROJECT) != slug:
                request.session[SESSION_PROJECT] = slug
        request.path_info = rest
        request.slug = slug  # type: ignore[attr-defined]
        addresses.enter(slug)
        return None

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        # The script prefix outlives the request: the next one of this thread must not inherit it.
        addresses.leave()
        return response


class Refusals(MiddlewareMixin):
    """Errors as pages. For htmx the message only, with the status, so that a form keeps its contents."""

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> HttpResponse | None:
        """Bring line ends of forms to one line feed, and refuse U+0000: no text column accepts it and no one types it.

        The API reads its bodies itself and keeps it. An answer's fields are checked by their schema, so that a refused
        form keeps its text.
        """
        if request.path_info.startswith("/api/"):
            return None
        _unify_line_ends(request)
        checked = ANSWERED if request.path.endswith(("/answer", "/check", "/amend")) else frozenset[str]()
        texts = [request.path, *_values(request.GET), *_values(request.POST, checked)]
        return self.process_exception(request, NotFound()) if any("\x00" in value for value in texts) else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, AWAY) or is_of_full_disk(error):
            away = away_of(error)
            if not isinstance(away, Overlong):
                return _away(error, away)
            log.warning("%s takes too long: %s", request.path, error)
            error = away
        if isinstance(error, ObjectDoesNotExist):  # it was deleted since the view found it
            error = NotFound()
        if not isinstance(error, AppError):
            return None
        if request.headers.get("HX-Request"):
            return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
        if request.headers.get("Accept") == "application/json":
            return refusal(error)
        page = "404.html" if error.status == 404 else "refused.html"
        return render(request, page, {"refusal": error}, status=error.status)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the page for an error outside of any view, such as an unavailable database (`handler500` of Django)."""
    error = sys.exc_info()[1]
    if isinstance(error, AWAY) or is_of_full_disk(error):
        away = away_of(error)
        return refusal(away) if request.path_info.startswith("/api/") else _away(error, away)
    return defaults.server_error(request)


def _away(error: BaseException | None, away: Away) -> HttpResponse:
    """Return the page for an unavailable database or a full disk, which needs no query itself."""
    log.warning("database or disk unavailable: %s", error)
    page = HttpResponse(render_to_string("503.html", {"is_full": isinstance(away, NoSpace)}), status=Away.status)
    page["Retry-After"] = "2"
    return page


def _unify_line_ends(request: HttpRequest) -> None:
    """Replace the line ends that browsers send for texts that were typed, before anything reads or compares them."""
    if any("\r" in value for value in _values(request.POST)):
        form = request.POST.copy()
        for name, values in request.POST.lists():
            form.setlist(name, [with_line_ends(str(value)) for value in values])
        form._mutable = False
        request.POST = form  # type: ignore[assignment]


def _values(form: QueryDict, without: Collection[str] = ()) -> list[str]:
    return [str(value) for name, values in form.lists() if name not in without for value in values]
