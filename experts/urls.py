"""Addresses of the pages about asks."""

from __future__ import annotations

from django.urls import path

from experts import views

urlpatterns = [
    path("queue/", views.queue_page, name="queue"),
    path("queue/next", views.next_ask, name="next_ask"),
    path("asks/<str:pk>/", views.ask, name="ask"),
    path("asks/<str:pk>/steps.html", views.ask_fragments, name="ask_fragments"),
    path("asks/<str:pk>/claim", views.claim, name="claim"),
    path("asks/<str:pk>/renew", views.renew, name="renew"),
    path("asks/<str:pk>/release", views.release, name="release"),
    path("asks/<str:pk>/pass", views.pass_on, name="pass"),
    path("asks/<str:pk>/answer", views.answer, name="answer"),
]
