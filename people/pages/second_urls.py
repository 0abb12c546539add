"""Addresses of second factors, included only with `AWMWEB_MFA`."""

from __future__ import annotations

from django.urls import path

from people.pages import second_factor

urlpatterns = [
    path("login/second", second_factor.asked, name="second_factor_asked"),
    path("second-factor/", second_factor.mine, name="second_factor"),
]
