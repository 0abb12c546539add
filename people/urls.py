"""Addresses of the pages about people, tokens and projects."""

from __future__ import annotations

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from people.pages import people, projects

urlpatterns: list[URLPattern | URLResolver] = [
    path("login", people.login, name="login"),
    path("login/once/<str:secret>", people.login_once, name="login_once"),
    path("logout", people.logout, name="logout"),
    path("members/", people.people, name="people"),
    path("api-tokens/", people.tokens, name="tokens"),
    path("projects/", projects.projects_page, name="projects"),
    path("audit/", projects.audit_page, name="audit"),
]
if settings.AWMWEB_OIDC_ISSUER:
    urlpatterns.append(path("", include("people.pages.provider_urls")))
if settings.AWMWEB_MFA:
    urlpatterns.append(path("", include("people.pages.second_urls")))
