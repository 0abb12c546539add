"""Addresses of the pages about reviews."""

from __future__ import annotations

from django.urls import path

from reviews import comment_pages, court_pages, label_pages, next_pages, pages, queue_pages

urlpatterns = [
    path("reviews/", queue_pages.reviews, name="reviews"),
    path("reviews/labels", queue_pages.define_label, name="define_label"),
    path("reviews/label/", label_pages.label_episodes, name="label_episodes"),
    path("reviews/agreement/", queue_pages.agreement_page, name="agreement"),
    path("reviews/court/", court_pages.court_page, name="court"),
    path("reviews/court.json", court_pages.court_report, name="court_report"),
    path("reviews/court/<str:pk>/", court_pages.case_page, name="case"),
    path("reviews/mentions/", comment_pages.mentions_page, name="mentions"),
    path("reviews/mentions/<str:pk>/", comment_pages.comment_page, name="comment"),
    path("reviews/queues/<str:pk>/", queue_pages.queue_page, name="review_queue"),
    path("reviews/queues/<str:pk>/fill", queue_pages.fill_queue, name="fill_review_queue"),
    path("reviews/queues/<str:pk>/gold", queue_pages.add_gold, name="add_gold"),
    path("reviews/queues/<str:pk>/next", queue_pages.next_review, name="next_review"),
    path("reviews/<str:pk>/ahead", next_pages.ahead, name="review_ahead"),
    path("reviews/<str:pk>/verdict-next", next_pages.verdict_next, name="verdict_next"),
    path("reviews/said/<str:pk>/", comment_pages.said_fragment, name="episode_said"),
    path("reviews/<str:pk>/", pages.review_page, name="review"),
    path("reviews/<str:pk>/<str:command>", pages.review_command, name="review_command"),
]
