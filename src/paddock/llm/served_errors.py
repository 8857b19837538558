"""Errors in the shapes of the providers."""

from __future__ import annotations

from typing import Any

from paddock.llm.served_answer import ServedError

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("insufficient_permissions", "insufficient_permissions"),
    429: ("requests", "rate_limit_exceeded"),
}
_GOOGLE = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_AMAZON = {
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}
_MESSAGES = {
    401: "The key is not valid.",
    402: "There is a problem with billing.",
    403: "The key may not do this.",
    404: "There is no such thing.",
    413: "The request is too large.",
    429: "Too many requests. Try again later.",
    503: "The model is overloaded. Try again later.",
    504: "It took too long.",
    529: "Overloaded",
}


def error_body(provider: str, failure: ServedError, request_id: str) -> dict[str, Any]:
    default = "The request is not valid." if failure.status < 500 else "Something went wrong."
    message = failure.message or _MESSAGES.get(failure.status, default)
    if provider == "anthropic":
        kind = failure.type or _anthropic_type(failure.status)
        error = {"type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": request_id}
    if provider == "gcp.gemini":
        status = failure.type or _GOOGLE.get(failure.status, "INVALID_ARGUMENT")
        return {"error": {"code": failure.status, "message": message, "status": status}}
    if provider == "aws.bedrock":
        return {"message": message}
    kind, code = _openai_type(failure.status)
    return {
        "error": {
            "message": message,
            "type": failure.type or kind,
            "param": failure.param,
            "code": failure.code or code,
        }
    }


def error_headers(provider: str, failure: ServedError) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    if failure.retry_after is not None:
        headers.append((b"retry-after", f"{failure.retry_after:g}".encode()))
    if provider == "aws.bedrock":
        kind = failure.type or _AMAZON.get(failure.status, "ValidationException")
        headers.append((b"x-amzn-errortype", kind.encode()))
    return headers


def _anthropic_type(status: int) -> str:
    return _ANTHROPIC.get(status, "invalid_request_error" if status < 500 else "api_error")


def _openai_type(status: int) -> tuple[str, str | None]:
    default = "invalid_request_error" if status < 500 else "server_error"
    return _OPENAI.get(status, (default, None))
