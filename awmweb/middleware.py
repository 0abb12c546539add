"""Refusals of the apps, raised in a page's view, become the page that says so."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from people.errors import AppError


class Refusals(MiddlewareMixin):
    """Nothing of a form is lost: htmx gets the words alone, with the status, and swaps nothing else."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, AppError):
            return None
        if request.headers.get("HX-Request"):
            return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
        page = "404.html" if error.status == 404 else "refused.html"
        return render(request, page, {"refusal": error}, status=error.status)
