"""Refusals in the shape in which Stripe says no. Nothing is decided here."""

from __future__ import annotations

from typing import Any

from paddock.world.kit import ApiError

_DOCS = "https://stripe.com/docs/error-codes/"


class Refusal(ApiError):
    """An answer that is an error. What the request had written is undone."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        **details: Any,
    ) -> None:
        optional = {"code": code, "param": param, **details}
        self.error: dict[str, Any] = {"message": message, "type": type}
        self.error |= {name: value for name, value in optional.items() if value is not None}
        if code is not None:
            self.error["doc_url"] = _DOCS + code.replace("_", "-")
        super().__init__(status, {"error": self.error})


class Conflict(Refusal):
    """The request makes sense, but not in the present state. An idempotency key remembers it."""


class Declined(Refusal):
    """The bank said no. What was written stays: the failed attempt is part of the history."""

    def __init__(self, message: str, *, code: str, **details: Any) -> None:
        super().__init__(message, status=402, type="card_error", code=code, **details)


def missing(noun: str, id: str, param: str, status: int = 400) -> Refusal:
    """Return the error for a thing that does not exist; its status is 404 where the path names
    it."""
    message = f"No such {noun}: '{id[:200]}'"
    return Refusal(message, status=status, code="resource_missing", param=param)


def missing_param(param: str) -> Refusal:
    """Return the error for a parameter that is required."""
    message = f"Missing required param: {param}."
    return Refusal(message, code="parameter_missing", param=param)
