"""Addresses of the pages about asks."""

from __future__ import annotations

from django.urls import path

from experts import answering, desk_pages, notice_pages, numbers_pages, settings_pages, view_pages, views

urlpatterns = [
    path("queue/", desk_pages.queue_page, name="queue"),
    path("queue/next", desk_pages.next_ask, name="next_ask"),
    path("queue/newest", desk_pages.newest_ask, name="newest_ask"),
    path("desk/", settings_pages.desk_page, name="desk"),
    path("desk/models/<str:name>/test", settings_pages.test_expert, name="test_expert"),
    path("desk/numbers/", numbers_pages.numbers_page, name="numbers"),
    path("desk/numbers.csv", numbers_pages.numbers_file, name="numbers_file"),
    path("presence", desk_pages.presence, name="presence"),
    path("notices/", notice_pages.page, name="notices"),
    path("notices/on", notice_pages.switch_on, name="notices_on"),
    path("notices/log", notice_pages.log, name="notices_log"),
    path("notices/quiet", notice_pages.quiet, name="notices_quiet"),
    path("notices/<str:pk>/<str:deed>", notice_pages.deed, name="notice_deed"),
    path("sw.js", notice_pages.service_worker, name="service_worker"),
    path("queue/views", view_pages.views, name="queue_views"),
    path("queue/views/<str:pk>/drop", view_pages.drop, name="drop_view"),
    path("queue/bulk", desk_pages.bulk, name="bulk"),
    path("queue/<str:pk>/<str:deed>", desk_pages.row_deed, name="row_deed"),
    path("asks/<str:pk>/", views.ask, name="ask"),
    path("asks/<str:pk>/steps.html", views.ask_fragments, name="ask_fragments"),
    path("asks/<str:pk>/claim", views.claim, name="claim"),
    path("asks/<str:pk>/renew", views.renew, name="renew"),
    path("asks/<str:pk>/release", views.release, name="release"),
    path("asks/<str:pk>/pass", views.pass_on, name="pass"),
    path("asks/<str:pk>/answer", views.answer, name="answer"),
    path("asks/<str:pk>/amend", answering.amend, name="amend"),
    path("asks/<str:pk>/take-back", answering.take_back, name="take_back"),
    path("asks/<str:pk>/hand", answering.hand_over, name="hand_over"),
    path("asks/<str:pk>/draft", answering.save_draft, name="save_draft"),
    path("asks/<str:pk>/keep", answering.keep_unsent, name="keep_unsent"),
    path("asks/<str:pk>/model-draft", answering.draft_of_model, name="model_draft"),
    path("asks/<str:pk>/similar", answering.similar, name="similar"),
    path("asks/<str:pk>/verifier", answering.verifier, name="verifier"),
    path("asks/<str:pk>/tables", answering.tables, name="tables"),
    path("asks/<str:pk>/tag", answering.tag, name="tag"),
    path("replies/", answering.replies, name="replies"),
    path("replies/<str:pk>/drop", answering.drop_reply, name="drop_reply"),
]
