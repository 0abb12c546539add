"""Addresses of the pages about asks."""

from __future__ import annotations

from django.urls import path

from experts.metrics import pages
from experts.pages import answer, ask, link, queue, routing, saved_views, slack

urlpatterns = [
    path("queue/", queue.queue_page, name="queue"),
    path("queue/next", queue.next_ask, name="next_ask"),
    path("my-answers/", queue.my_answers_page, name="my_answers"),
    path("queue/newest", queue.newest_ask, name="newest_ask"),
    path("routing/", routing.desk_page, name="desk"),
    path("routing/models/<str:name>/test", routing.test_expert, name="test_expert"),
    path("metrics/", pages.metrics_page, name="metrics"),
    path("metrics.csv", pages.metrics_file, name="metrics_file"),
    path("presence", queue.presence, name="presence"),
    path("queue/views", saved_views.views, name="queue_views"),
    path("queue/views/<str:pk>/drop", saved_views.drop, name="drop_view"),
    path("queue/bulk", queue.bulk, name="bulk"),
    path("queue/decide", queue.decide_together, name="decide_together"),
    path("queue/ahead", queue.ahead_together, name="ahead_together"),
    path("queue/standing/<str:pk>/end", queue.end_standing, name="end_standing"),
    path("queue/<str:pk>/<str:action>", queue.row_action, name="row_action"),
    path("slack/interactions", slack.interaction, name="slack_interaction"),
    path("slack/events", slack.event, name="slack_event"),
    path("answer/<str:token>", link.answer_link, name="answer_link"),
    path("asks/<str:pk>/", ask.ask, name="ask"),
    path("asks/<str:pk>/steps.html", ask.ask_fragments, name="ask_fragments"),
    path("asks/<str:pk>/look", ask.look, name="look"),
    path("asks/<str:pk>/claim", ask.claim, name="claim"),
    path("asks/<str:pk>/renew", ask.renew, name="renew"),
    path("asks/<str:pk>/release", ask.release, name="release"),
    path("asks/<str:pk>/pass", ask.pass_on, name="pass"),
    path("asks/<str:pk>/answer", ask.answer, name="answer"),
    path("asks/<str:pk>/check", ask.check, name="check_answer"),
    path("asks/<str:pk>/amend", ask.edit, name="amend"),
    path("asks/undo", answer.undo, name="undo_answers"),
    path("asks/<str:pk>/take-back", answer.withdraw, name="take_back"),
    path("asks/<str:pk>/hand", answer.transfer, name="hand_over"),
    path("asks/preview", answer.preview, name="preview"),
    path("asks/<str:pk>/draft", answer.save_draft, name="save_draft"),
    path("asks/<str:pk>/keep", answer.keep_unsent, name="keep_unsent"),
    path("asks/<str:pk>/next", ask.ahead, name="ahead"),
    path("asks/<str:pk>/model-draft", answer.draft_of_model, name="model_draft"),
    path("asks/<str:pk>/similar", answer.similar, name="similar"),
    path("asks/<str:pk>/verifier", answer.verifier, name="verifier"),
    path("asks/<str:pk>/tables", answer.tables, name="tables"),
    path("asks/<str:pk>/tag", answer.tag, name="tag"),
    path("replies/", answer.replies, name="replies"),
    path("replies/<str:pk>/drop", answer.drop_reply, name="drop_reply"),
]
