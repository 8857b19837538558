"""Which headers of a request are compared, and in which spelling. All are, but for those that the
transport or a library makes up and no server acts upon; each of them is named here with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

# Names in lower case; one that ends in `*` stands for all that begin so.
IGNORED: Mapping[str, str] = {
    "accept-encoding": "which compressions the client's library was built with",
    "alt-used": "how the connection was chosen",
    "b3": "an id that tracing makes up",
    "baggage": "what tracing carries along",
    "connection": "about one connection, not about the request",
    "content-length": "the body is compared itself",
    "date": "when it was sent",
    "host": "compared as host and port",
    "http2-settings": "about one connection",
    "keep-alive": "about one connection",
    "priority": "in which order the client wants its answers",
    "proxy-connection": "about one connection",
    "sentry-trace": "an id that tracing makes up",
    "te": "about one connection",
    "traceparent": "an id that tracing makes up",
    "tracestate": "an id that tracing makes up",
    "trailer": "about how the body is sent",
    "transfer-encoding": "about how the body is sent",
    "uber-trace-id": "an id that tracing makes up",
    "user-agent": "the library and its version",
    "x-amzn-trace-id": "an id that tracing makes up",
    "x-b3-*": "ids that tracing makes up",
    "x-cloud-trace-context": "an id that tracing makes up",
    "x-datadog-*": "ids that tracing makes up",
    "x-stainless-*": "the vendor SDK about itself: its version, the platform, how often it tried",
}
_STEMS = tuple(name[:-1] for name in IGNORED if name.endswith("*"))
# A client makes a boundary up for each body, and no server acts upon which one it is.
_BOUNDARY = re.compile(r'(;\s*boundary=)("[^"]*"|[^;,\s]+)', re.IGNORECASE)
_MULTIPART = "multipart/"


def compared(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that matter, as they are compared."""
    return {
        name: _without_boundary(value) if name == "content-type" else value
        for name, value in headers.items()
        if matters(name)
    }


@lru_cache(maxsize=1024)
def matters(name: str) -> bool:
    """Whether a header, its name in lower case, is compared."""
    return name not in IGNORED and not name.startswith(_STEMS)


def _without_boundary(value: str) -> str:
    if not value.lower().startswith(_MULTIPART):
        return value
    return _BOUNDARY.sub(r"\1*", value)
