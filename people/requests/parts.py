"""Parts of pages, which scripts fetch: a person who opens one as a page gets its page.

Called by the pages of all apps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import mark_safe

from people.requests import addresses

View = Callable[..., HttpResponseBase]


def part_of(page: str, title: str = "") -> Callable[[View], View]:
    """Give the part to scripts only. A visit is sent to the page, with its query.

    With a title the visit gets the part itself in the frame of all pages: links lead there where scripts are off.
    """

    def wrap(view: View) -> View:
        @functools.wraps(view)
        def inner(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if request.method not in addresses.SAFE_METHODS or not addresses.is_visit(request):
                return view(request, *args, **kwargs)
            _, mark, query = request.get_full_path().partition("?")
            where = f"{reverse(page, kwargs={'pk': kwargs['pk']} if 'pk' in kwargs else {})}{mark}{query}"
            if not title or not request.user.is_authenticated:
                return redirect(where)
            part = view(request, *args, **kwargs)
            if part.status_code != 200:
                return part
            words = mark_safe(part.content.decode())  # type: ignore[attr-defined]  # drawn by a template
            return render(request, "_part.html", {"part": words, "title": title, "page": where})

        return inner

    return wrap
