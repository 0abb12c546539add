"""Addresses of the pages about people, tokens and projects."""

from __future__ import annotations

from django.urls import path

from people.pages import people, projects

urlpatterns = [
    path("login", people.login, name="login"),
    path("login/once/<str:secret>", people.login_once, name="login_once"),
    path("logout", people.logout, name="logout"),
    path("people/", people.people, name="people"),
    path("tokens/", people.tokens, name="tokens"),
    path("projects/", projects.projects_page, name="projects"),
    path("audit/", projects.audit_page, name="audit"),
]
