"""Addresses of the sign-in by a provider, included only with `AWMWEB_OIDC_ISSUER`. Their names are allauth's."""

from __future__ import annotations

from django.conf import settings
from django.urls import path

from people.pages import provider

WHICH = {"provider_id": settings.OIDC_PROVIDER}


urlpatterns = [
    path("login/provider", provider.begin, WHICH, name="openid_connect_login"),
    path("login/provider/callback", provider.end, WHICH, name="openid_connect_callback"),
]
