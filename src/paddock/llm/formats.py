"""Which requests go to a model, and in which format. A request is recognised by its path and by the
shape of its body, for any host: gateways and local servers speak the same formats as the vendors.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec


class Api(enum.StrEnum):
    """A wire format."""

    CHAT = "chat"  # OpenAI's chat completions
    RESPONSES = "responses"  # OpenAI's responses
    MESSAGES = "messages"  # Anthropic's messages
    GEMINI = "gemini"  # Google's generateContent
    CONVERSE = "converse"  # Amazon Bedrock's converse
    COHERE = "cohere"  # Cohere's chat


class Wire(msgspec.Struct, frozen=True):
    """The format of one request, and the provider that is taken to answer it."""

    api: Api
    provider: str  # in the terms of OpenTelemetry
    is_retrieval: bool = False  # asks for an answer that was given before; it has no body
    model: str | None = None  # where the path names it
    is_stream: bool | None = None  # where the path says so


class _Route(msgspec.Struct, frozen=True):
    """A path of requests to models. Where `is_common`, other services have this path too, so that
    a body that was not read is taken for a model's only at a vendor's host."""

    path: re.Pattern[str]
    api: Api
    has_shape: Callable[[Mapping[str, Any]], bool]
    is_common: bool = True


def _has_messages(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("messages"), list)


def _is_anthropic(body: Mapping[str, Any]) -> bool:
    return _has_messages(body) and isinstance(body.get("model"), str)


def _is_anthropic_elsewhere(body: Mapping[str, Any]) -> bool:
    """Vertex and Bedrock have the model in the path, and the version in the body."""
    return _has_messages(body) and isinstance(body.get("anthropic_version"), str)


def _is_responses(body: Mapping[str, Any]) -> bool:
    has_input = isinstance(body.get("input"), str | list)
    return has_input or ("model" in body and ("prompt" in body or "instructions" in body))


def _is_gemini(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("contents"), list | dict | str)


_MODEL = r"(?P<model>[^/]+)"
_ROUTES = (
    # With Azure the model may be in the path only.
    _Route(re.compile(r".*/chat/completions"), Api.CHAT, _has_messages, is_common=False),
    _Route(re.compile(r".*/responses"), Api.RESPONSES, _is_responses),
    _Route(re.compile(r".*/v1/messages"), Api.MESSAGES, _is_anthropic),
    _Route(
        re.compile(rf".*/models/{_MODEL}:(?P<stream>streamRawPredict|rawPredict)"),
        Api.MESSAGES,
        _is_anthropic_elsewhere,
    ),
    _Route(
        re.compile(rf".*/models/{_MODEL}:(?P<stream>streamGenerateContent|generateContent)"),
        Api.GEMINI,
        _is_gemini,
        is_common=False,
    ),
    _Route(
        re.compile(rf".*/model/{_MODEL}/(?P<stream>converse-stream|converse)"),
        Api.CONVERSE,
        _has_messages,
    ),
    _Route(
        re.compile(rf".*/model/{_MODEL}/(?P<stream>invoke-with-response-stream|invoke)"),
        Api.MESSAGES,
        _is_anthropic_elsewhere,
    ),
    _Route(re.compile(r".*/v2/chat"), Api.COHERE, _has_messages),
)
_STORED = (
    (re.compile(r".*/chat/completions/chatcmpl-[^/]*"), Api.CHAT),
    (re.compile(r".*/responses/resp_[^/]*"), Api.RESPONSES),
)
# Others (Azure, gateways) are taken for the vendor whose format they speak.
_PROVIDERS = {
    "anthropic.com": "anthropic",
    "claude.com": "anthropic",
    "openai.com": "openai",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
}
_DEFAULT_PROVIDERS = {
    Api.CHAT: "openai",
    Api.RESPONSES: "openai",
    Api.MESSAGES: "anthropic",
    Api.GEMINI: "gcp.gemini",
    Api.CONVERSE: "aws.bedrock",
    Api.COHERE: "cohere",
}
# Regions are part of these names: `us-east5-aiplatform.googleapis.com`.
_VERTEX_HOST = re.compile(r"(?:[a-z0-9-]+-)?aiplatform\.(?:[a-z0-9-]+\.rep\.)?googleapis\.com")
_BEDROCK_HOST = re.compile(
    r"bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
_REGIONAL = ((_VERTEX_HOST, "gcp.vertex_ai"), (_BEDROCK_HOST, "aws.bedrock"))


def recognise(
    method: str, path: str, content_type: str | None, body: Mapping[str, Any] | None, host: str
) -> Wire | None:
    """Return the format of a request to a model; None for every other request, embeddings and files
    too."""
    bare = unquote(path.partition("?")[0]).rstrip("/")
    if method == "GET":
        return _stored(bare, host)
    if method != "POST":
        return None
    for route in _ROUTES:
        match = route.path.fullmatch(bare)
        if match is not None and _may_be(route, body, host):
            fields = match.groupdict()
            model, verb = fields.get("model"), fields.get("stream")
            is_stream = None if verb is None else "stream" in verb.lower()
            return Wire(route.api, _provider(route.api, host), model=model, is_stream=is_stream)
    return None


def is_model_path(method: str, path: str) -> bool:
    """Return whether a request to that path may go to a model, judged by the path alone."""
    bare = unquote(path.partition("?")[0]).rstrip("/")
    return method == "POST" and any(route.path.fullmatch(bare) for route in _ROUTES)


def _may_be(route: _Route, body: Mapping[str, Any] | None, host: str) -> bool:
    """Return whether the body may be one of this format. A body that was not read, because it is
    long or can be read in two ways, may be anything: the calls in the answer must not pass because
    of that."""
    if body is None:
        return not route.is_common or is_vendor(host)
    return route.has_shape(body)


def _stored(path: str, host: str) -> Wire | None:
    """Return the format of a request for a stored answer: the calls in it are as good as those of a
    fresh one."""
    for pattern, api in _STORED:
        if pattern.fullmatch(path):
            return Wire(api, _provider(api, host), is_retrieval=True)
    return None


def is_vendor(host: str) -> bool:
    """Return whether a canonical host belongs to somebody who runs models. Elsewhere a request that
    looks like one to a model may be something else, and may change something."""
    return _vendor(host) is not None


def _provider(api: Api, host: str) -> str:
    name, _, port = host.rpartition(":")
    bare = name if port.isdigit() else host
    return _vendor(bare.lower().rstrip(".")) or _DEFAULT_PROVIDERS[api]


def _vendor(host: str) -> str | None:
    for domain, provider in _PROVIDERS.items():
        if host == domain or host.endswith(f".{domain}"):
            return provider
    for pattern, provider in _REGIONAL:
        if pattern.fullmatch(host):
            return provider
    return None
