"""Addresses of pages: `/projects/<slug>/…` for those of a project; sign-in, the list of projects and health have none.

Owns the form of an address, and which requests are visits of a page. During a request Django's script prefix holds its
project, so that `reverse` and `{% url %}` return addresses in it. Rights are checked by `access.py`.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.urls import get_script_prefix, reverse, set_script_prefix
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

# ASCII alone: `\w` takes letters of all scripts, and a slug has none of them.
IN_PROJECT = re.compile(r"/projects/([-\w]+)(/.*)?", re.ASCII | re.DOTALL)
SAFE_METHODS = ("GET", "HEAD")


def split(path: str) -> tuple[str, str]:
    """Return the slug of a path's project and the path without it. The slug is empty for a path without a project."""
    match = IN_PROJECT.fullmatch(path)
    return (match[1], match[2] or "") if match else ("", path)


def enter(slug: str) -> None:
    """Let `reverse` return addresses in this project until the request ends."""
    set_script_prefix(f"/projects/{slug}/")


def leave() -> None:
    """Let `reverse` return addresses without a project again."""
    set_script_prefix("/")


def without_project(name: str, *args: object) -> str:
    """Return the address of a page that belongs to no project, or the address that finds its object's project."""
    return f"/{reverse(name, args=args).removeprefix(get_script_prefix())}"


def in_project(slug: str, path: str) -> str:
    """Return the address of a page in this project, whatever project the request is in."""
    return f"/projects/{slug}/{path.removeprefix(get_script_prefix()).removeprefix('/')}"


def public_url(slug: str, path: str) -> str:
    """Return the address of a project's page for readers elsewhere: scripts, mails and webhooks."""
    return f"{settings.AWMWEB_PUBLIC_URL}{in_project(slug, path)}"


def is_visit(request: HttpRequest) -> bool:
    """Return whether a person opens this address as a page. Scripts of pages fetch parts, and get no redirect to sign
    in.
    """
    # Browsers send `empty` for `fetch`. Clients without the header, such as curl, count as a visit.
    by_script = "HX-Request" in request.headers or request.headers.get("Accept") == "application/json"
    return not by_script and request.headers.get("Sec-Fetch-Dest", "document") != "empty"


def login_address(request: HttpRequest, page: str = "") -> str:
    """Return the sign-in page that leads back to the page of this request: for a form, to the one it is on. `page` is
    the page of a fragment.
    """
    back = page or (request.get_full_path() if request.method in SAFE_METHODS else _referer(request))
    return f"{without_project('login')}?{urlencode({'next': back})}"


def _referer(request: HttpRequest) -> str:
    """Return the path of the page that a form was on, or the project's Home."""
    where = request.headers.get("Referer", "")
    # The header is the browser's claim, and could name a page of another host.
    if not url_has_allowed_host_and_scheme(where, {request.get_host()}):
        return reverse("home")
    parts = urlsplit(where)
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
