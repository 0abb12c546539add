"""Refusals of the apps, raised in a page's view, become the page that says so; U+0000 never reaches such a view."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from people.errors import AppError, NotFound


class Refusals(MiddlewareMixin):
    """Nothing of a form is lost: htmx gets the words alone, with the status, and swaps nothing else."""

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> HttpResponse | None:
        """No text column takes U+0000 and no person types it. The API reads its bodies itself and keeps it; an answer
        is checked by its schema, so that the words that were typed stand in the form again."""
        if request.path.startswith("/api/") or request.path.endswith("/answer"):
            return None
        given = [request.path, *(value for form in (request.GET, request.POST) for value in _values(form))]
        return self.process_exception(request, NotFound()) if any("\x00" in value for value in given) else None

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, AppError):
            return None
        if request.headers.get("HX-Request"):
            return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
        page = "404.html" if error.status == 404 else "refused.html"
        return render(request, page, {"refusal": error}, status=error.status)


def _values(form: QueryDict) -> list[str]:
    return [str(value) for _, values in form.lists() for value in values]
