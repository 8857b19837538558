"""Refusals in the shape in which Stripe says no. Nothing is decided here."""

from __future__ import annotations

from typing import Any

_DOCS = "https://stripe.com/docs/error-codes/"
_LOGS = "https://dashboard.stripe.com/test/logs/"


class Refusal(Exception):
    """An answer that is an error. What the request had written is taken back."""

    is_kept = False  # whether an idempotency key remembers it

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        named = {"code": code, "param": param, **more}
        self.error: dict[str, Any] = {"message": message, "type": type}
        self.error |= {name: value for name, value in named.items() if value is not None}
        if code is not None:
            self.error["doc_url"] = _DOCS + code.replace("_", "-")

    def body(self, request_id: str, at: int) -> dict[str, Any]:
        return {"error": {**self.error, "request_log_url": f"{_LOGS}{request_id}?t={at}"}}


class Conflict(Refusal):
    """The request makes sense, but not in the state that things are in."""

    is_kept = True


class Declined(Refusal):
    """The bank said no. What was written stays: the failed attempt is part of the history."""

    is_kept = True

    def __init__(self, message: str, *, code: str, **more: Any) -> None:
        super().__init__(message, status=402, type="card_error", code=code, **more)


def missing(noun: str, id: str, param: str, status: int = 400) -> Refusal:
    """There is no such thing. The status is 404 where the address itself names it."""
    message = f"No such {noun}: '{id}'"
    return Refusal(message, status=status, code="resource_missing", param=param)


def unknown_url(method: str, path: str) -> Refusal:
    return Refusal(
        f"Unrecognized request URL ({method}: {path[:500]}). "
        "See https://stripe.com/docs for the addresses that exist.",
        status=404,
    )


def unauthorized(message: str, **more: Any) -> Refusal:
    return Refusal(message, status=401, **more)
