"""A real provider of OpenID Connect on this machine, and what a browser does at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from oidc_provider_mock import run_server_in_thread

from tests.conftest import group_of, kept
from tests.running import Product, product

MAP = '{"lab-admins": {"demo": "admin"}, "lab-experts": {"demo": "expert"}, "lab-readers": {"demo": "viewer"}}'


@dataclass
class Provider:
    url: str

    def says(self, subject: str, **claims: Any) -> None:
        """Set what the provider says of a person from now on."""
        httpx.put(f"{self.url}/users/{subject}", json=claims).raise_for_status()

    def revokes(self, subject: str) -> None:
        """End all tokens of a person, as a provider does whose account there is closed."""
        httpx.post(f"{self.url}/users/{subject}/revoke-tokens").raise_for_status()

    def tokens(self, subject: str) -> tuple[str, str]:
        """Return access and refresh token of a person who signs in there."""
        back = "http://127.0.0.1/back"
        query = {"client_id": "desk", "redirect_uri": back, "response_type": "code", "scope": "openid profile email"}
        there = httpx.post(f"{self.url}/oauth2/authorize?{urlencode(query)}", data={"sub": subject})
        code = parse_qs(urlsplit(there.headers["Location"]).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
        given = httpx.post(f"{self.url}/oauth2/token", data=form, auth=("desk", "s3cret")).json()
        return given["access_token"], given["refresh_token"]

    @property
    def settings(self) -> dict[str, str]:
        return {
            "AWMWEB_OIDC_ISSUER": self.url,
            "AWMWEB_OIDC_NAME": "Lab login",
            "AWMWEB_OIDC_CLIENT_ID": "desk",
            "AWMWEB_OIDC_CLIENT_SECRET": "s3cret",
            "AWMWEB_OIDC_MAP": MAP,
            "AWMWEB_OIDC_CHECK_S": "5",
        }


@contextmanager
def provider(**options: Any) -> Iterator[Provider]:
    with run_server_in_thread(**options) as server:
        yield Provider(f"http://localhost:{server.server_port}")


def at_the_provider(browser: httpx.Client, subject: str, path: str = "/login/provider", action: str = "") -> str:
    """Begin a sign-in and answer the provider's form; return the address to which it sends the browser back."""
    begun = browser.get(path, follow_redirects=False)
    assert begun.status_code == 302, begun.text
    there = begun.headers["Location"]
    form = {"action": "deny"} if action == "deny" else {"sub": subject}
    back = httpx.post(there, data=form, follow_redirects=False)
    assert back.status_code in (302, 303), back.text
    address, state = back.headers["Location"], parse_qs(urlsplit(there).query)["state"][0]
    # RFC 6749, 4.1.2.1: a refusal has the state too, which this provider forgets
    return address if "state=" in address else f"{address}&{urlencode({'state': state})}"


def sign_in(browser: httpx.Client, subject: str, **more: str) -> httpx.Response:
    return browser.get(at_the_provider(browser, subject, **more))


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> tuple[Provider, Product]:
    """A provider and a product that uses it; each file has people of its own."""
    return kept(request, _lab(), lambda file: group_of(file) == "lab")


@contextmanager
def _lab() -> Iterator[tuple[Provider, Product]]:
    with provider() as there, product(world=False, **there.settings) as running:
        yield there, running
