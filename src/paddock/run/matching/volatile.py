"""The one list of what clients make up anew for each request: headers, query parameters and
signatures, each with who does it and why it is no difference.

Most entries are patterns. What stands in the groups of a pattern may differ, in that shape and
nowhere else; the rest must be equal, and so must the fact that it is there. Only what the transport
or a library says about itself is not compared at all. Where a value is computed from something else
in the request (a signature, a checksum), that is compared itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from paddock.doors.network.secrets.signatures import stable_jwt

# Not of versions 3, 5 and 8: those may be computed from a name, and then say something by being
# equal. Some SDKs set no version at all.
_UUID_OF_CHANCE = (
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-24679a-fA-F][0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
)
_DATE_TIME = r"\d{8}T\d{6}Z"
_ISO_DATE = r"\d{4}-\d\d-\d\d(?:T\d\d(?::|%3[Aa])\d\d(?:(?::|%3[Aa])\d\d(?:\.\d{1,9})?)?Z)?"
_BASE64 = r"[A-Za-z0-9+/=_-]{16,1400}"
MOMENT = "the present moment"
BODY = "body"
CREDENTIAL = "credential"


class Volatile(msgspec.Struct, frozen=True):
    """One entry. `where` is header or query; a name in lower case that ends in `*` stands for all
    that begin so."""

    where: str
    name: str
    client: str  # who makes it up
    why: str
    pattern: re.Pattern[str] | None = None  # None: it is not compared at all
    beside: str | None = None  # a query parameter that must be there as well
    is_id: bool = False  # a recorded one and its new one belong together from first sight on
    is_of_body: bool = False  # computed from the body: it may differ where that was let vary
    are_close: Callable[[str, str], bool] | None = None  # in place of a pattern

    @property
    def label(self) -> str:
        """As it is shown where it applied."""
        return f"{self.where} {self.name} ({self.client})"

    def stem(self, value: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the value with its volatile stretches blanked out, and those stretches; None for
        a value of another shape."""
        found = None if self.pattern is None else self.pattern.fullmatch(value)
        if found is None:
            return None
        parts: list[str] = []
        stretches: list[str] = []
        at = 0
        for group in range(1, found.re.groups + 1):
            start, end = found.span(group)
            if start < 0:
                continue
            parts.append(value[at:start])
            stretches.append(value[start:end])
            at = end
        return "\0".join([*parts, value[at:]]), tuple(stretches)


def _close_timeouts(recorded: str, proposed: str) -> bool:
    """Return what is left of a deadline depends on how long the client took to send the request."""
    ours, theirs = _seconds(recorded), _seconds(proposed)
    if ours is None or theirs is None:
        return False
    return abs(ours - theirs) <= max(2.0, 0.25 * ours)


def _seconds(timeout: str) -> float | None:
    found = re.fullmatch(r"(\d{1,8})([HMSmun])", timeout)
    if found is None:
        return None
    scale = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
    return int(found[1]) * scale[found[2]]


def _dropped(client: str, why: str, *names: str) -> tuple[Volatile, ...]:
    return tuple(Volatile("header", name, client, why) for name in names)


def _header(client: str, name: str, pattern: str, why: str, *, is_id: bool = False) -> Volatile:
    return Volatile("header", name, client, why, re.compile(pattern), is_id=is_id)


def _query(client: str, name: str, pattern: str, beside: str, why: str) -> Volatile:
    return Volatile("query", name, client, why, re.compile(pattern), beside=beside)


def _checksums(*names: str) -> tuple[Volatile, ...]:
    why = "computed from the body, which is compared itself"
    pattern = re.compile(r"([\x21-\x7e]{1,200})")
    return tuple(
        Volatile("header", name, "any client", why, pattern, is_of_body=True) for name in names
    )


_KEY = rf"(?:[a-z-]+-retry-)?({_UUID_OF_CHANCE})"
_SIGNATURE = "covers the time at which it was made; what it signs is compared itself"
_EXPIRY = "counted from the present moment"

TABLE: tuple[Volatile, ...] = (
    *_dropped("any client", "about one connection, not about the request",
              "connection", "keep-alive", "proxy-connection", "te", "http2-settings", "alt-used"),
    *_dropped("any client", "about how the body is sent; the body is compared itself",
              "content-length", "transfer-encoding", "trailer"),
    *_dropped("any client", "which compressions the library was built with", "accept-encoding"),
    *_dropped("any client", "when it was sent", "date"),
    *_dropped("any client", "compared as host and port", "host"),
    *_dropped("any client", "in which order the client wants its answers", "priority"),
    *_dropped("any client", "the library and its version", "user-agent"),
    *_dropped("OpenTelemetry", "an id that tracing makes up",
              "traceparent", "tracestate", "baggage"),
    *_dropped("Zipkin", "an id that tracing makes up", "b3", "x-b3-*"),
    *_dropped("Sentry", "an id that tracing makes up", "sentry-trace"),
    *_dropped("Jaeger", "an id that tracing makes up", "uber-trace-id", "uberctx-*"),
    *_dropped("AWS X-Ray", "an id that tracing makes up", "x-amzn-trace-id"),
    *_dropped("Google Cloud Trace", "an id that tracing makes up", "x-cloud-trace-context",
              "grpc-trace-bin"),
    *_dropped("Datadog", "an id that tracing makes up", "x-datadog-*"),
    *_dropped("New Relic", "an id that tracing makes up", "newrelic", "x-newrelic-*"),
    *_dropped("Elastic APM", "an id that tracing makes up", "elastic-apm-traceparent"),
    *_dropped("Instana", "an id that tracing makes up", "x-instana-*"),
    *_dropped("Stainless SDKs", "the SDK about itself: its version, the platform, how often it "
              "tried", "x-stainless-*"),
    *_dropped("Stripe", "how long the request before it took", "x-stripe-client-telemetry"),
    *_dropped("Stripe", "the SDK about itself and the machine", "x-stripe-client-user-agent"),
    *_dropped("AWS SDKs", "the SDK about itself", "x-amz-user-agent"),
    *_dropped("Google SDKs", "the SDK about itself", "x-goog-api-client"),

    _header("AWS SDKs", "amz-sdk-invocation-id", rf"({_UUID_OF_CHANCE})", "an id of one call",
            is_id=True),
    _header("AWS SDKs", "amz-sdk-request", rf"(?:ttl=({_DATE_TIME}); ?)?attempt=\d+(?:; ?max=\d+)?",
            "until when the SDK waits; which attempt it is matters"),
    _header("Azure SDKs", "x-ms-client-request-id", rf"({_UUID_OF_CHANCE})", "an id of one call",
            is_id=True),
    _header("Google SDKs", "x-goog-gcs-idempotency-token", rf"({_UUID_OF_CHANCE})",
            "an id of one call", is_id=True),
    _header("Azure SDKs", "x-client-request-id", rf"({_UUID_OF_CHANCE})", "an id of one call",
            is_id=True),
    _header("Alibaba Cloud", "x-acs-signature-nonce", rf"({_UUID_OF_CHANCE}|[0-9a-f]{{32}})",
            "an id of one call", is_id=True),
    _header("any client", "request-id", rf"({_UUID_OF_CHANCE})", "an id of one call", is_id=True),
    _header("any client", "x-request-id", rf"({_UUID_OF_CHANCE}|[0-9a-f]{{32}})",
            "an id of one call", is_id=True),
    _header("any client", "x-correlation-id", rf"({_UUID_OF_CHANCE}|[0-9a-f]{{32}})",
            "an id of one call", is_id=True),
    *(_header("SDKs", name, _KEY, "a key that the SDK draws; the same one again on a retry",
              is_id=True)
      for name in ("idempotency-key", "x-idempotency-key", "paypal-request-id")),
    _header("WebSocket clients", "sec-websocket-key", r"([A-Za-z0-9+/]{22}==)",
            "drawn anew for each connection"),
    _header("HTTP message signatures", "signature", r"[\w-]+=:([A-Za-z0-9+/=]{16,1400}):",
            _SIGNATURE),
    *(_header("exchanges", name, r"([0-9a-f]{32,128}|[A-Za-z0-9+/]{40,100}={0,2})", _SIGNATURE)
      for name in ("cb-access-sign", "ok-access-sign", "x-bapi-sign", "api-sign")),
    Volatile("header", "grpc-timeout", "gRPC", "what is left of the deadline: equal within 2 "
             "seconds or a quarter", are_close=_close_timeouts),
    *_checksums("content-md5", "digest", "content-digest", "repr-digest", "x-amz-content-sha256",
                "x-amz-checksum-*", "x-goog-hash", "x-ms-content-crc64", "x-hub-signature*"),

    _query("AWS, presigned", "x-amz-signature", r"([0-9a-f]{64}|[0-9a-f]{130,150})",
           "x-amz-credential", _SIGNATURE),
    _query("AWS, presigned", "x-amz-date", rf"({_DATE_TIME})", "x-amz-signature", _EXPIRY),
    _query("AWS, presigned", "x-amz-credential", r"[^/]+/(\d{8})/[^/]+/[^/]+/aws4_request",
           "x-amz-signature", "the day on which it was made; the key and the scope matter"),
    _query("Google, presigned", "x-goog-signature", r"([0-9a-f]{64}|(?:[0-9a-f]{2}){128,512})",
           "x-goog-credential", _SIGNATURE),
    _query("Google, presigned", "x-goog-date", rf"({_DATE_TIME})", "x-goog-signature", _EXPIRY),
    _query("Google, presigned", "x-goog-credential", r"[^/]+/(\d{8})/[^/]+/[^/]+/goog4_request",
           "x-goog-signature", "the day on which it was made; the key and the scope matter"),
    *(_query("AWS and Google, older", name, pattern, key, why)
      for key in ("awsaccesskeyid", "googleaccessid", "key-pair-id")
      for name, pattern, why in (("signature", f"({_BASE64})", _SIGNATURE),
                                 ("expires", r"(\d{10})", _EXPIRY))),
    _query("Azure, shared access", "sig", f"({_BASE64})", "sv", _SIGNATURE),
    *(_query("Azure, shared access", name, f"({_ISO_DATE})", "sig", _EXPIRY)
      for name in ("se", "st", "ske", "skt")),
    _query("queries with an HMAC", "signature", r"([0-9a-f]{64})", "timestamp", _SIGNATURE),
    _query("Socket.IO", "t", r"([A-Za-z0-9_.-]{5,14})", "eio", "a cache buster"),
    _query("OAuth 1", "oauth_nonce", r"([A-Za-z0-9_-]{1,200})", "oauth_signature",
           "drawn anew for each request"),
    _query("OAuth 1", "oauth_timestamp", r"(\d{10})", "oauth_signature", _EXPIRY),
    _query("OAuth 1", "oauth_signature", r"([A-Za-z0-9+/=%_-]{1,1400})", "oauth_nonce", _SIGNATURE),
)  # fmt: skip
_DROPPED = {one.name: one for one in TABLE if one.pattern is None and one.are_close is None}
NOT_COMPARED: Mapping[str, str] = {name: one.why for name, one in _DROPPED.items()}
_COMPARED = [one for one in TABLE if one.name not in _DROPPED]
TOKEN = Volatile(
    "anywhere", "JSON Web Token", "OAuth, service accounts", "when it was made, and its signature"
)
SIGNED = Volatile(
    "header", CREDENTIAL, "AWS, Azure, OAuth 1, Digest, JWT", "nonce, time and signature"
)


@lru_cache(maxsize=1024)
def dropped(header: str) -> Volatile | None:
    """Return the entry by which a header, its name in lower case, is not compared at all."""
    return _found(_DROPPED, header)


@lru_cache(maxsize=1024)
def entries(where: str, name: str) -> tuple[Volatile, ...]:
    """Return the entries about a header or query parameter that is compared."""
    lower = name.lower()
    return tuple(one for one in _COMPARED if one.where == where and _means(one.name, lower))


def has_ids(headers: Mapping[str, str]) -> bool:
    """Return whether ids are among the headers, which must fit those of other requests."""
    return any(
        entry.is_id and entry.stem(value) is not None
        for name, value in headers.items()
        for entry in entries("header", name)
    )


def is_same_token(recorded: object, proposed: object) -> bool:
    """Return whether two texts are tokens that differ in when they were made alone."""
    if not isinstance(recorded, str) or not isinstance(proposed, str):
        return False
    ours = stable_jwt(recorded)
    return ours is not None and ours == stable_jwt(proposed)


def _found(table: Mapping[str, Volatile], name: str) -> Volatile | None:
    exact = table.get(name)
    if exact is not None:
        return exact
    return next((one for one in table.values() if _means(one.name, name)), None)


def _means(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
