"""Addresses of the pages about reviews."""

from __future__ import annotations

from django.urls import path

from reviews.pages import (
    adding,
    comments,
    court,
    labels,
    next,
    one,
    queues,
)

urlpatterns = [
    path("reviews/", queues.reviews, name="reviews"),
    path("reviews/labels", queues.define_label, name="define_label"),
    path("reviews/labels/", labels.labels_page, name="labels"),
    path("reviews/labels/retire", labels.retire_label, name="retire_label"),
    path("reviews/label/", labels.label_episodes, name="label_episodes"),
    path("reviews/add/", adding.add_to_queue, name="add_to_queue"),
    path("reviews/agreement/", queues.agreement_page, name="agreement"),
    path("reviews/court/", court.court_page, name="court"),
    path("reviews/court.json", court.court_report, name="court_report"),
    path("reviews/court/<str:pk>/", court.case_page, name="case"),
    path("reviews/members.json", comments.members_to_name, name="members_to_name"),
    path("reviews/mentions/", comments.mentions_page, name="mentions"),
    path("reviews/mentions/<str:pk>/", comments.comment_page, name="comment"),
    path("reviews/queues/<str:pk>/", queues.queue_page, name="review_queue"),
    path("reviews/queues/<str:pk>/fill", queues.fill_queue, name="fill_review_queue"),
    path("reviews/queues/<str:pk>/gold", queues.add_gold, name="add_gold"),
    path("reviews/queues/<str:pk>/instructions", queues.instruct, name="instruct_review_queue"),
    path("reviews/queues/<str:pk>/rule", queues.queue_rule, name="review_queue_rule"),
    path("reviews/queues/<str:pk>/leave", queues.leave_queue, name="leave_review_queue"),
    path("reviews/queues/<str:pk>/next", queues.next_review, name="next_review"),
    path("reviews/<str:pk>/ahead", next.ahead, name="review_ahead"),
    path("reviews/<str:pk>/go-on", next.go_on, name="review_go_on"),
    path("reviews/<str:pk>/verdict-next", next.verdict_next, name="verdict_next"),
    path("reviews/said/<str:pk>/", comments.said_fragment, name="episode_said"),
    path("reviews/<str:pk>/", one.review_page, name="review"),
    path("reviews/<str:pk>/<str:command>", one.review_command, name="review_command"),
]
