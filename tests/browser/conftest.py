"""Real browsers against the running product: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.awmclient.openai_server import OpenAIServer, answering
from tests.conftest import group_of, kept
from tests.exports.hub_server import TOKEN, hub
from tests.provider import lab  # noqa: F401
from tests.running import Product, product

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

EXPECTED_MS = 180_000
"""How long a page may take to show what is expected: three browsers share the cores of a small machine."""


WHOLE = ("chromium", "chromium-browser", "google-chrome")
SHELL = "chromium-headless-shell"
"""Chromium without the windows around its pages: a third of the work, and no notifications."""


DRAFT = {"advice": "Into 5, the oldest.", "tool_calls": [{"name": "merge_tickets", "arguments": {"into": 5}}]}
"""What the expert model of `desk` says to every ask."""


def wants_desk(file: str) -> bool:
    return group_of(file) == "desk"


@pytest.fixture(scope="module")
def datasets(request):
    """The Hub of `desk`."""
    return kept(request, hub(), wants_desk)


@pytest.fixture(scope="module")
def desk(request, datasets) -> Product:
    """One product for the files that need more than `house` has: a model writes drafts, and notices and datasets are
    sent to test servers. `tests/conftest.py` keeps these files together.
    """
    return kept(request, _desk(datasets), wants_desk)


@contextmanager
def _desk(datasets) -> Iterator[Product]:
    wise = OpenAIServer(lambda body: json.dumps({**DRAFT, "confidence": 0.8, "needs_person": False}))
    settings = {
        "AWMWEB_NOTICES_PRIVATE": "1",
        "AWMWEB_HUB_TOKEN": TOKEN, "HF_ENDPOINT": datasets.url, "HF_HUB_DISABLE_XET": "1",
    }  # fmt: skip
    with answering(wise):
        with product(AWMWEB_EXPERT_BASE_URL=wise.base_url, AWMWEB_EXPERT_MODEL="wise", **settings) as running:
            yield running


@pytest.fixture(scope="module")
def roles(request) -> tuple[Product, OpenAIServer]:
    """A product whose agent and expert have an endpoint. One server: each file says what it replies."""
    return kept(request, _roles(), lambda file: group_of(file) == "roles")


@contextmanager
def _roles():
    endpoint = OpenAIServer(lambda body: "")
    with answering(endpoint):
        agent = {"AWMWEB_AGENT_BASE_URL": endpoint.base_url, "AWMWEB_AGENT_MODEL": "tiny"}
        expert = {"AWMWEB_EXPERT_BASE_URL": endpoint.base_url, "AWMWEB_EXPERT_MODEL": "wise"}
        with product(**agent, **expert) as running:
            yield running, endpoint


def in_browsers(file: str) -> bool:
    """Playwright keeps an event loop running, and asynchronous tests, which are elsewhere, would trip over it."""
    return Path(file).parts[1] == "browser"


@pytest.fixture(scope="module")
def driver(request):
    """Playwright, which starts browsers."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=EXPECTED_MS)
    return kept(request, sync_playwright(), in_browsers)


@pytest.fixture(scope="module")
def chromium(request, driver):
    return kept(request, browser(driver, (SHELL, *WHOLE)), in_browsers)


@contextmanager
def browser(driver, names: Sequence[str]) -> Iterator[object]:
    """Start the first of these browsers that this machine has."""
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("AWMWEB_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium was found and AWMWEB_REQUIRE_BROWSER is 1")
        pytest.skip("no Chromium was found")
    one = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
    yield one
    one.close()


@pytest.fixture
def person(chromium):
    """Open a page as somebody of their own: signed in by a link, in a browser context that nobody shares. Any error
    that a page throws, and any violation of the content policy, fails the test.

    The page is empty, for Home costs as much as any other page, unless a test wants to be `at_home`.
    """
    contexts, complaints, loading = [], [], set()

    def listen(page):
        page.reload = partial(reloaded, page.reload, page)
        page.on("request", lambda request: loading.add(page) if request.is_navigation_request() else None)
        page.on("requestfailed", lambda request: loading.discard(page) if request.is_navigation_request() else None)
        page.on("load", lambda page: loading.discard(page))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda line: complaints.append(line.text) if "Content Security Policy" in line.text else None
        )

    def open_as(link: str, at_home: bool = False, **options):
        context = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.set_default_timeout(EXPECTED_MS)
        contexts.append(context)
        context.on("page", listen)
        if at_home or "/login/once/" not in link:
            page = context.new_page()
            page.goto(link)
            return page
        assert context.request.get(link).ok, link
        return context.new_page()

    yield open_as
    for context in contexts:
        context.cookies()  # a question to the browser: what pages said before its answer has been heard then
        for page in context.pages:
            stand_still(context, page, loading)
        context.close()
    assert complaints == []


def reloaded(reload, page, **options):
    """Reload a page once it has loaded, and again if it reloads itself at that moment: a load that is cut off fails."""
    from playwright.sync_api import Error

    page.wait_for_load_state()
    try:
        return reload(**options)
    except Error as error:
        if "ERR_ABORTED" not in error.message:
            raise
    page.wait_for_load_state()
    return reload(**options)


def stand_still(context, page, loading):
    """A context that is closed while one of its pages loads itself anew (an ask that ended shows how) at times never
    closes: nothing begins any more, and what began has come."""
    context.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
    end = time.monotonic() + 20
    while page in loading and time.monotonic() < end:
        page.wait_for_timeout(20)
