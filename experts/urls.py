"""Addresses of the pages about asks."""

from __future__ import annotations

from django.urls import path

from experts import desk_pages, views

urlpatterns = [
    path("queue/", desk_pages.queue_page, name="queue"),
    path("queue/next", desk_pages.next_ask, name="next_ask"),
    path("queue/newest", desk_pages.newest_ask, name="newest_ask"),
    path("presence", desk_pages.presence, name="presence"),
    path("queue/bulk", desk_pages.bulk, name="bulk"),
    path("queue/<str:pk>/<str:deed>", desk_pages.row_deed, name="row_deed"),
    path("asks/<str:pk>/", views.ask, name="ask"),
    path("asks/<str:pk>/steps.html", views.ask_fragments, name="ask_fragments"),
    path("asks/<str:pk>/claim", views.claim, name="claim"),
    path("asks/<str:pk>/renew", views.renew, name="renew"),
    path("asks/<str:pk>/release", views.release, name="release"),
    path("asks/<str:pk>/pass", views.pass_on, name="pass"),
    path("asks/<str:pk>/answer", views.answer, name="answer"),
]
