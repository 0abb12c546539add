"""Addresses of the pages about who is here."""

from __future__ import annotations

from django.urls import path

from people import project_pages, views

urlpatterns = [
    path("login", views.login, name="login"),
    path("login/once/<str:secret>", views.login_once, name="login_once"),
    path("logout", views.logout, name="logout"),
    path("people/", views.people, name="people"),
    path("tokens/", views.tokens, name="tokens"),
    path("projects/", project_pages.projects_page, name="projects"),
    path("audit/", project_pages.audit_page, name="audit"),
    path("projects/switch", views.switch_project, name="switch_project"),
]
