from __future__ import annotations

from django.urls import path

from exports import views

urlpatterns = [path("exports/<str:shape>/download", views.download, name="download")]
