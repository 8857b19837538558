"""Which requests go to a model, and in which format. A request is recognised by its path and by the
shape of its body, for any host: gateways and local servers speak the same formats as the vendors.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from posixpath import normpath
from typing import Any
from urllib.parse import unquote

import msgspec


class ModelApi(enum.StrEnum):
    """A wire format."""

    CHAT = "chat"  # OpenAI's chat completions
    RESPONSES = "responses"  # OpenAI's responses
    MESSAGES = "messages"  # Anthropic's messages
    GEMINI = "gemini"  # Google's generateContent
    CONVERSE = "converse"  # Amazon Bedrock's converse
    COHERE = "cohere"  # Cohere's chat


class Wire(msgspec.Struct, frozen=True):
    """The format of one request, and the provider that is taken to answer it."""

    api: ModelApi
    provider: str  # in the terms of OpenTelemetry
    is_retrieval: bool = False  # asks for an answer that was given before; it has no body
    model: str | None = None  # where the path names it
    is_stream: bool | None = None  # where the path says so


class _Route(msgspec.Struct, frozen=True):
    """A path of requests to models. Where `is_common`, other services have this path too, so that
    a body that was not read is taken for a model's only at a vendor's host."""

    path: re.Pattern[str]
    api: ModelApi
    has_shape: Callable[[Mapping[str, Any]], bool]
    is_common: bool = True


def _has_messages(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("messages"), list)


def _is_anthropic(body: Mapping[str, Any]) -> bool:
    return _has_messages(body) and isinstance(body.get("model"), str)


def _is_anthropic_elsewhere(body: Mapping[str, Any]) -> bool:
    """Vertex and Bedrock have the model in the path, and the version in the body."""
    return _has_messages(body) and isinstance(body.get("anthropic_version"), str)


def _is_conversation(body: Mapping[str, Any]) -> bool:
    """Bedrock's `invoke` takes what the model takes. Of the formats that have calls only that of
    Anthropic's messages can be read; answers in the others are refused by its reader."""
    return _has_messages(body) or _is_cohere_v1(body)


def _is_cohere_v1(body: Mapping[str, Any]) -> bool:
    """Answers of version 1 cannot be read; the reader of version 2 refuses calls in them. Without
    tools there are none, and the request is like that of any chat."""
    return isinstance(body.get("message"), str) and "tools" in body


def _is_responses(body: Mapping[str, Any]) -> bool:
    has_input = isinstance(body.get("input"), str | list)
    return has_input or ("model" in body and ("prompt" in body or "instructions" in body))


def _is_gemini(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("contents"), list | dict | str)


def _pattern(path: str) -> re.Pattern[str]:
    """Some servers do not look at the case of a path, and any character may stand before it."""
    return re.compile(path, re.IGNORECASE | re.DOTALL)


# The last part of the path, also of a tuned model or an endpoint: `tunedModels/mine:rawPredict`.
_GOOGLE_MODEL = r".*/(?P<model>[^/]+)"
# It may be an ARN, which has slashes.
_BEDROCK_MODEL = r".*/model/(?P<model>.+)"
_ROUTES = (
    # With Azure the model may be in the path only.
    _Route(_pattern(r".*/chat/completions"), ModelApi.CHAT, _has_messages, is_common=False),
    _Route(_pattern(r".*/responses"), ModelApi.RESPONSES, _is_responses),
    _Route(_pattern(r".*/v1/messages"), ModelApi.MESSAGES, _is_anthropic),
    _Route(
        _pattern(rf"{_GOOGLE_MODEL}:(?P<stream>streamRawPredict|rawPredict)"),
        ModelApi.MESSAGES,
        _is_anthropic_elsewhere,
    ),
    # Mistral's models and others that Google hosts.
    _Route(
        _pattern(rf"{_GOOGLE_MODEL}:(?P<stream>streamRawPredict|rawPredict)"),
        ModelApi.CHAT,
        _has_messages,
    ),
    _Route(
        _pattern(rf"{_GOOGLE_MODEL}:(?P<stream>streamGenerateContent|generateContent)"),
        ModelApi.GEMINI,
        _is_gemini,
        is_common=False,
    ),
    # By gRPC. An answer is then no JSON, and does not pass where calls are decided on.
    _Route(
        _pattern(r".*\.(?:Generative|Prediction)Service/(?P<stream>(?:Stream)?GenerateContent)"),
        ModelApi.GEMINI,
        _is_gemini,
        is_common=False,
    ),
    _Route(
        _pattern(rf"{_BEDROCK_MODEL}/(?P<stream>converse-stream|converse)"),
        ModelApi.CONVERSE,
        _has_messages,
    ),
    _Route(
        _pattern(rf"{_BEDROCK_MODEL}/(?P<stream>invoke-with-response-stream|invoke)"),
        ModelApi.MESSAGES,
        _is_conversation,
    ),
    _Route(_pattern(r".*/v2/chat"), ModelApi.COHERE, _has_messages),
    _Route(_pattern(r".*/v1/chat"), ModelApi.COHERE, _is_cohere_v1),
)
_STORED = (
    (_pattern(r".*/chat/completions/chatcmpl-[^/]*"), ModelApi.CHAT),
    (_pattern(r".*/responses/resp_[^/]*"), ModelApi.RESPONSES),
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
    ModelApi.CHAT: "openai",
    ModelApi.RESPONSES: "openai",
    ModelApi.MESSAGES: "anthropic",
    ModelApi.GEMINI: "gcp.gemini",
    ModelApi.CONVERSE: "aws.bedrock",
    ModelApi.COHERE: "cohere",
}
# Regions are part of these names: `us-east5-aiplatform.googleapis.com`.
_VERTEX_HOST = re.compile(r"(?:[a-z0-9-]+-)?aiplatform\.(?:[a-z0-9-]+\.rep\.)?googleapis\.com")
_BEDROCK_HOST = re.compile(
    r"(?:vpce-[a-z0-9-]+\.)?bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.(?:vpce\.)?"
    r"(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
_REGIONAL = ((_VERTEX_HOST, "gcp.vertex_ai"), (_BEDROCK_HOST, "aws.bedrock"))


def recognise(
    method: str, path: str, content_type: str | None, body: Mapping[str, Any] | None, host: str
) -> Wire | None:
    """Return the format of a request to a model; None for every other request, embeddings and files
    too."""
    bare = _normalised(path)
    if method.upper() == "GET":
        return _stored(bare, host)
    if method.upper() != "POST":
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
    bare = _normalised(path)
    return method.upper() == "POST" and any(route.path.fullmatch(bare) for route in _ROUTES)


def _normalised(path: str) -> str:
    """Return a path as servers understand it that decode it, drop what stands behind a semicolon,
    and resolve dots and empty segments."""
    bare = unquote(path.partition("?")[0])
    segments = [segment.partition(";")[0] for segment in bare.split("/")]
    return normpath("/" + "/".join(segments).lstrip("/"))


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


def _provider(api: ModelApi, host: str) -> str:
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
