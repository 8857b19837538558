"""Errors in GitHub's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paddock.world.kit import ApiError

_DOCUMENTATION = "https://docs.github.com/rest"


class GithubError(ApiError):
    """An error with a message and, where fields are wrong, what is wrong with each."""

    def __init__(self, status: int, message: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        body: dict[str, Any] = {"message": message}
        if errors:
            body["errors"] = list(errors)
        super().__init__(
            status, {**body, "documentation_url": _DOCUMENTATION, "status": str(status)}
        )


def not_found() -> GithubError:
    return GithubError(404, "Not Found")


def invalid(resource: str, field: str, code: str = "invalid", message: str = "") -> GithubError:
    """Return the error for a field that cannot be as it is."""
    error = {"resource": resource, "field": field, "code": code}
    if message:
        error["message"] = message
    return GithubError(422, "Validation Failed", [error])
