"""All addresses of awmweb."""

from __future__ import annotations

from django.urls import include, path, re_path

from awmweb import old_addresses, settings, views
from awmweb.metrics import page
from awmweb.retention import pages
from curriculum import api as curriculum_api
from episodes import api as episodes_api
from experts import api as experts_api
from exports import api as exports_api
from imports import api as imports_api
from imports import otlp_http
from people.http import build_api
from reviews import api as reviews_api
from runs.api import branches, briefings, campaigns, verifiers
from runs.api import runs as runs_api

API_WORDS = (
    "The API for rollout loops, experts and pages; docs/protocol.md explains it. Scripts send `Authorization: Bearer "
    "TOKEN`; pages read with their session cookie. Every error is an error envelope. A batch of steps has at most 2 MB "
    "and a single step 8 MB (413); JSON nests at most 128 levels and its numbers fit a double (400). On 429 and 503, "
    "retry the same request."
)
api = build_api(title="awmweb", version=settings.VERSION, description=API_WORDS, urls_namespace="api")
api.add_router("", episodes_api.router)
for part in (runs_api, briefings, branches, campaigns, verifiers):
    api.add_router("", part.router)
api.add_router("", experts_api.router)
api.add_router("", exports_api.router)
api.add_router("", imports_api.router)
api.add_router("", reviews_api.router)
api.add_router("", curriculum_api.router)

handler500 = "awmweb.middleware.server_error"

urlpatterns = [
    # first: patterns are tried in order, and most requests are calls
    path("api/v1/", api.urls),
    path("", views.home, name="home"),
    path("search/", views.search, name="search"),
    path("health", views.health, name="health"),
    path("metrics", page.metrics, name="scrape"),
    path("demo/again", views.play_demo, name="play_demo"),
    path("demo/remove", views.remove_demo, name="remove_demo"),
    path("episodes/<str:pk>/erase", views.erase_episode, name="erase_episode"),
    path("episodes/<str:pk>/again", views.rerun, name="play_again"),
    path("models/", views.models_page, name="models"),
    path("models/<str:role>/test", views.test_model, name="test_model"),
    path("environment/", views.environment_page, name="environment"),
    path("retention/", pages.retention_page, name="retention"),
    path("legend/", views.legend, name="legend"),
    path("", include("people.urls")),
    path("", include("notices.urls")),
    path("", include("episodes.urls")),
    path("", include("experts.urls")),
    path("", include("exports.urls")),
    path("", include("imports.urls")),
    path("", include("reviews.urls")),
    path("", include("curriculum.urls")),
    path("", include("runs.urls")),
    path("v1/traces", otlp_http.receive_traces, name="traces"),
    re_path(r"^api/", episodes_api.unknown_call),
    # last: no page of today is looked for among them
    re_path(old_addresses.PATTERN, old_addresses.moved),
]
