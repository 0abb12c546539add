"""Errors of exports; callers turn them into error envelopes, form messages or command errors."""

from __future__ import annotations

from people.errors import AppError


class BadRecipe(AppError):
    """Invalid recipe."""

    code = "bad_recipe"
    status = 422


class PatternTooSlow(AppError):
    """A pattern of this recipe takes too long on one text. Use one that does not begin everywhere and end far away."""

    code = "too_slow"
    status = 422


class NotBuilt(AppError):
    """This export has no files yet."""

    code = "not_built"
    status = 409


class HubTokenMissing(AppError):
    """No Hub token is set. Set AWMWEB_HUB_TOKEN (or HF_TOKEN) to a token that can write, and restart awmweb."""

    code = "hub_token_missing"
    status = 409


class HubRefused(AppError):
    """The Hub refused the push."""

    code = "hub_refused"
    status = 409


class PushTooSlow(AppError):
    """Stopped: the push took too long."""

    code = "push_too_slow"
    status = 503


class HubUnreachable(AppError):
    """Cannot push to the Hub. Check HF_ENDPOINT and the network."""

    code = "hub_unreachable"
    status = 503

    @classmethod
    def message_for(cls, endpoint: str) -> str:
        return f"Cannot push to the Hub at {endpoint}. Check HF_ENDPOINT and the network."


class StoreUnavailable(AppError):
    """Cannot reach the store of datasets: check AWMWEB_EXPORTS_S3, AWMWEB_S3_ENDPOINT and its keys."""

    code = "store_unavailable"
    status = 503
    CHECK = "check AWMWEB_EXPORTS_S3, AWMWEB_S3_ENDPOINT and its keys."
    is_silent = False
    """Whether it did not respond at all, so that waiting may help."""
