"""Which requests go to a model, and in whose format. By path and by the shape of the body, for any
host: gateways and local servers speak the same formats as the vendors."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import msgspec


class Api(enum.StrEnum):
    """A wire format."""

    CHAT = "chat"  # OpenAI's chat completions
    RESPONSES = "responses"  # OpenAI's responses
    MESSAGES = "messages"  # Anthropic's messages


class Wire(msgspec.Struct, frozen=True):
    """How one request is spoken, and who is taken to answer it."""

    api: Api
    provider: str  # "openai" or "anthropic"
    is_retrieval: bool = False  # asks for an answer that was given before; it has no body


_ENDINGS = (
    ("/chat/completions", Api.CHAT),
    ("/responses", Api.RESPONSES),
    ("/v1/messages", Api.MESSAGES),
)
_STORED = {"chatcmpl-": Api.CHAT, "resp_": Api.RESPONSES}
# Others (Azure, gateways) are taken for the vendor whose format they speak.
_PROVIDERS = {"anthropic.com": "anthropic", "claude.com": "anthropic", "openai.com": "openai"}


def recognise(
    method: str, path: str, content_type: str | None, body: Mapping[str, Any] | None, host: str
) -> Wire | None:
    """The wire of a request to a model; None for every other request, embeddings and files too."""
    bare = unquote(path.partition("?")[0]).rstrip("/")
    if method == "GET":
        return _stored(bare, host)
    if method != "POST":
        return None
    for ending, api in _ENDINGS:
        if bare.endswith(ending) and _may_be(api, body, host):
            return Wire(api, _provider(api, host))
    return None


def is_model_path(method: str, path: str) -> bool:
    """Whether a request to that path may go to a model, by the path alone."""
    bare = path.partition("?")[0].rstrip("/")
    return method == "POST" and bare.endswith(tuple(ending for ending, _ in _ENDINGS))


def _may_be(api: Api, body: Mapping[str, Any] | None, host: str) -> bool:
    """A body that nobody read, because it is long or can be read in two ways, may be anything: the
    calls in the answer must not pass because of that."""
    if body is None:
        return api is Api.CHAT or is_vendor(host)  # the other paths are other things elsewhere
    return _has_shape(api, body)


def _stored(path: str, host: str) -> Wire | None:
    """An answer can be fetched later, and the calls in it are as good as those of a fresh one."""
    parent, _, name = path.rpartition("/")
    for prefix, api in _STORED.items():
        if name.startswith(prefix) and any(parent.endswith(e) for e, a in _ENDINGS if a is api):
            return Wire(api, _provider(api, host), is_retrieval=True)
    return None


def _has_shape(api: Api, body: Mapping[str, Any]) -> bool:
    match api:
        case Api.CHAT:
            # With Azure the model may be in the path only.
            return isinstance(body.get("messages"), list)
        case Api.MESSAGES:
            return isinstance(body.get("messages"), list) and isinstance(body.get("model"), str)
        case Api.RESPONSES:
            has_input = isinstance(body.get("input"), str | list)
            return has_input or ("model" in body and ("prompt" in body or "instructions" in body))


def is_vendor(host: str) -> bool:
    """Whether a canonical host belongs to somebody who runs models. Elsewhere a request that looks
    like one to a model may be something else, and may change something."""
    return _vendor(host) is not None


def _provider(api: Api, host: str) -> str:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    found = _vendor(name.lower().rstrip("."))
    return found or ("anthropic" if api is Api.MESSAGES else "openai")


def _vendor(host: str) -> str | None:
    for domain, provider in _PROVIDERS.items():
        if host == domain or host.endswith(f".{domain}"):
            return provider
    return None
