"""Credentials that a client computes anew for each request, without what is new in them.

A signature covers the time at which it was made, so that the same request has another one a second
later. Two of them are compared by who signed, for what, and which headers, and never by the
signature itself: what was signed is in the request, and is compared there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

MAX_CREDENTIAL = 32 << 10  # characters; a longer one is compared as it is

# AWS4-HMAC-SHA256, and vendors that took over its shape (TC3-HMAC-SHA256, ACS3-HMAC-SHA256).
_SCOPED = re.compile(
    r"(?P<scheme>[A-Z0-9]+(?:-[A-Z0-9]+)*-SHA256) Credential=(?P<key>[^/,\s]+)"
    r"(?:/\d{4}-?\d\d-?\d\d(?=[/,]))?(?P<scope>(?:/[^,\s]*)?), ?SignedHeaders=(?P<headers>[^,\s]+)"
    r", ?Signature=[0-9a-fA-F]+"
)
# AWS's older signatures, and Azure's: the name of a key, a colon, and the signature.
_NAMED_KEY = re.compile(r"(AWS|GOOG1|SharedKey|SharedKeyLite) ([^:\s]+):[A-Za-z0-9+/=_-]+")
_PARAMETER = re.compile(r'\s*([A-Za-z0-9_-]+)=("(?:[^"\\]|\\.)*"|[^\s,"]*)\s*(?:,|$)')
# Schemes whose credentials are parameters, and those of them that are new each time.
_NEW_PARAMETERS = {
    "oauth": frozenset({"oauth_nonce", "oauth_timestamp", "oauth_signature"}),
    "digest": frozenset({"cnonce", "response"}),
    "hawk": frozenset({"ts", "nonce", "mac"}),
    "signature": frozenset({"created", "expires", "signature"}),
}
_JWT = re.compile(r"(eyJ[A-Za-z0-9_-]+)\.(eyJ[A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")
_NEW_CLAIMS = frozenset({"iat", "exp", "nbf", "jti", "auth_time"})


def stable_credential(value: str) -> str | None:
    """Return what two credentials of one kind have in common when the same client signs the same
    request twice, or None for one that does not change by itself."""
    if len(value) > MAX_CREDENTIAL:
        return None
    for reading in (_scoped, _named_key, _with_parameters, _bearer):
        stable = reading(value)
        if stable is not None:
            return stable
    return None


def stable_jwt(token: str) -> str | None:
    """Return the claims of a JSON Web Token without the times and the id that its issuer makes up,
    or None for what is no such token. How long it is valid stays."""
    match = _JWT.fullmatch(token) if len(token) <= MAX_CREDENTIAL else None
    if match is None:
        return None
    header, claims = _json_part(match[1]), _json_part(match[2])
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return None
    if not claims.keys() & {"iat", "exp", "nbf"}:
        return None
    kept = {name: value for name, value in claims.items() if name not in _NEW_CLAIMS}
    present = sorted(claims.keys() & _NEW_CLAIMS)
    return json.dumps([header, kept, present, _lifetime(claims)], sort_keys=True)


def _lifetime(claims: dict[str, Any]) -> float | None:
    begin, end = claims.get("iat", claims.get("nbf")), claims.get("exp")
    if isinstance(begin, int | float) and isinstance(end, int | float):
        return round(end - begin)
    return None


def _json_part(text: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None


def _scoped(value: str) -> str | None:
    match = _SCOPED.fullmatch(value)
    return None if match is None else json.dumps(match.groupdict(), sort_keys=True)


def _named_key(value: str) -> str | None:
    found = _NAMED_KEY.fullmatch(value)
    return None if found is None else f"{found[1]} {found[2]}"


def _with_parameters(value: str) -> str | None:
    scheme, _, rest = value.partition(" ")
    new = _NEW_PARAMETERS.get(scheme.lower())
    if new is None:
        return None
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(rest):
        match = _PARAMETER.match(rest, at)
        if match is None:
            return None
        pairs.append((match[1], "" if match[1] in new else match[2]))
        at = match.end()
    return json.dumps([scheme, pairs]) if any(name in new for name, _ in pairs) else None


def _bearer(value: str) -> str | None:
    scheme, _, token = value.partition(" ")
    stable = stable_jwt(token) if scheme.lower() in ("bearer", "jwt") else None
    return None if stable is None else f"{scheme} {stable}"
