"""Addresses that pages had before they were called like their page: each leads to the page of today for good.

Owns the table of them. A form or a fetch that an old page sends keeps its method and body.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import get_script_prefix
from django.utils.encoding import escape_uri_path

RENAMED = {
    "desk/metrics": "metrics",
    "desk": "routing",
    "people": "members",
    "tokens": "api-tokens",
    "notices": "notifications",
    "vocabulary": "legend",
    "queue/mine": "my-answers",
}
PATTERN = rf"^(?P<name>{'|'.join(RENAMED)})[/.]"


def moved(request: HttpRequest, name: str) -> HttpResponse:
    """Redirect to the page of today, with what follows its old name and the query."""
    _, mark, query = request.get_full_path().partition("?")
    rest = escape_uri_path(request.path_info[len(f"/{name}") :])
    address = f"{get_script_prefix()}{RENAMED[name]}{rest}{mark}{query}"
    return HttpResponsePermanentRedirect(address, preserve_request=request.method != "GET")
