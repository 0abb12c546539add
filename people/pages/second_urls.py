"""Addresses of second factors, included only with `AWMWEB_MFA`, and their registration for the other pages."""

from __future__ import annotations

from django.urls import path

from people.pages import entering, second_factor
from people.record import factors

entering.register(
    entering.SecondFactor(factors.is_asked, second_factor.wait_for_factor, factors.reset, factors.with_factor)
)

urlpatterns = [
    path("login/second", second_factor.asked, name="second_factor_asked"),
    path("second-factor/", second_factor.mine, name="second_factor"),
]
