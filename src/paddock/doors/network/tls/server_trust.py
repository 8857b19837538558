"""TLS towards the real servers: whom the host trusts, and in plain words why it does not."""

from __future__ import annotations

import os
import re
import ssl
from functools import lru_cache

from paddock.doors.network.tls.sandbox_trust import system_bundle
from paddock.model.errors import InvalidInput

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]")  # how OpenSSL finds a root in a directory
_OLD = "it speaks no version of TLS that is safe (1.2 or later)"
_PLAIN = "it does not speak TLS on this port"
_UNKNOWN = "its certificate comes from an authority that is not trusted here"
_WEAK = "its certificate uses a key or a signature that is too weak"

# By the numbers of OpenSSL's X509_V_ERR_*, which are part of its interface.
_CERTIFICATE = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is signed by itself, and is not trusted here",
    19: _UNKNOWN,
    20: _UNKNOWN,
    21: f"{_UNKNOWN}, or it does not send the certificates in between",
    23: "its certificate has been revoked",
    24: "an authority of its certificate may not sign certificates",
    26: "its certificate is not one for servers",
    62: "its certificate is for another host",
    64: "its certificate is for another address",
    66: _WEAK,
    67: _WEAK,
    68: _WEAK,
}
_HANDSHAKE = {
    "HTTP_REQUEST": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,
    "WRONG_VERSION_NUMBER": _PLAIN,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD,
    "UNSUPPORTED_PROTOCOL": _OLD,
    "DH_KEY_TOO_SMALL": "its key exchange is too weak",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it refused every way of encrypting that was offered",
    "SSL/TLS_ALERT_HANDSHAKE_FAILURE": "it refused every way of encrypting that was offered",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of the client",
    "TLSV1_UNRECOGNIZED_NAME": "it does not know this name",
    "TLSV1_ALERT_UNRECOGNIZED_NAME": "it does not know this name",
    "SSL/TLS_ALERT_UNRECOGNIZED_NAME": "it does not know this name",
    "UNEXPECTED_EOF_WHILE_READING": "it closed the connection before TLS was agreed on",
}


def client_context(extra_ca: str | None, alpn: tuple[str, ...]) -> ssl.SSLContext:
    """For dialling servers: the system's roots, and those in a file of the user's. The first call
    for its arguments may read a bundle (tens of ms: not on the loop); later ones get the same
    context until a file changes. From any thread. Raises InvalidInput."""
    return _made(_stamp(extra_ca), _stamp(system_bundle()), alpn)


def why_not(error: ssl.SSLError) -> str:
    """Why no TLS came about, as the end of a sentence that names the server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = _CERTIFICATE.get(error.verify_code)
        return reason or f"its certificate was refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _HANDSHAKE["UNEXPECTED_EOF_WHILE_READING"]
    reason = error.reason or "no reason given"
    return _HANDSHAKE.get(reason) or f"TLS failed: {reason.replace('_', ' ').lower()}"


_Stamp = tuple[str, int, int]


def _stamp(path: str | None) -> _Stamp | None:
    """A file that changes is another file."""
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    return path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _made(extra: _Stamp | None, system: _Stamp | None, alpn: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and host
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    # What the user names is trusted as it is, be it a root, one in between, or a server's own.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    if alpn:
        context.set_alpn_protocols(list(alpn))
    _trust_system(context, system[0] if system else None)
    if extra is not None:
        _trust(context, extra[0])
    return context


def _trust_system(context: ssl.SSLContext, bundle: str | None) -> None:
    """By what this OpenSSL was built to look at, or was told to. A Python from elsewhere was built
    for another system and would find nothing: then by the bundle of this one."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or _is_hashed(paths.capath):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    elif bundle is not None:
        _trust(context, bundle)


def _is_hashed(directory: str | None) -> bool:
    if directory is None:
        return False
    try:
        with os.scandir(directory) as entries:
            return any(_HASHED.fullmatch(entry.name) for entry in entries)
    except OSError:
        return False


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> InvalidInput:
    why = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
    return InvalidInput(
        f"the certificates in {path} cannot be used: {why}",
        hint="name a file with certificates as PEM",
    )
