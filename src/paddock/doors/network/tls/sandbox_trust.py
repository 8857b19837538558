"""The files and variables that make programs of a sandbox trust the run's authority.

Nothing here writes a file or looks into a sandbox; it says what is to be where.

A Python package that brings its own roots and insists on them (`stripe` does) is reached by a
`sitecustomize` of ours. No variable reaches a program of another language that does so, nor one
that checks for a known certificate (pinning): that one needs `passthrough`. Programs on GnuTLS
(wget and apt of Debian) and on libcurl as a library read no variable either, but do read the
system's bundle: see `SYSTEM_BUNDLES`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from paddock.doors.network.names.table import PROXY_ADDRESS, PROXY_PORT
from paddock.fence.guest import agreed

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

PROXY = f"http://{PROXY_ADDRESS}:{PROXY_PORT}"
# Where systems keep their bundle, the most usual first. In a sandbox, ours belongs there as well.
SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # the same, newer
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/var/lib/ca-certificates/ca-bundle.pem",  # the same, newer
    "/etc/ssl/cert.pem",  # Alpine, and what OpenSSL itself would take
)
_NO_PROXY = "localhost,127.0.0.1,::1"
_PACKAGE = Path(__file__).parents[3]
_INSIDE = Path(__file__).parents[1] / "inside"
_PEM_END = b"-----END CERTIFICATE-----"

# These replace the roots of a program: they get the whole bundle, with the system's roots in it.
_WHOLE = (
    "SSL_CERT_FILE",  # OpenSSL and what is built on it (Python, Ruby, PHP, httpx), Go, rustls, uv
    "REQUESTS_CA_BUNDLE",  # requests, and with it poetry, conda, twine; botocore too
    "CURL_CA_BUNDLE",  # the curl command, not libcurl
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",  # botocore, the AWS command line
    "PIP_CERT",
    "npm_config_cafile",  # npm, yarn 1
    "YARN_HTTPS_CA_FILE_PATH",  # yarn since 2
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",  # all but Go and Java, which have their own ways
    "HTTPLIB2_CA_CERTS",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "NIX_SSL_CERT_FILE",
)
# These are added to roots that a program carries: they get our certificate alone.
_ADDED = (
    "NODE_EXTRA_CA_CERTS",  # Node, Bun, Deno since 2.8
    "DENO_CERT",
)
# curl reads only the lower-case http_proxy, others only upper case. Node and Java read none of
# them unless told to; the redirect brings them to the door all the same.
_PROXIED = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")


class TrustPaths(msgspec.Struct, frozen=True):
    """The paths of the files, as the sandbox sees them."""

    bundle: str = agreed.CERTIFICATES  # of `bundle`; where the system looks, too
    ca: str = "/run/paddock/ca.pem"  # the run's own certificate alone
    java: str | None = None  # of `java_truststore`, where there is one
    python: str = "/run/paddock/python"  # the directory of `python_hook`


def environment(paths: TrustPaths) -> dict[str, str]:
    """The variables that make programs trust the authority and offer them the proxy."""
    variables = dict.fromkeys(_WHOLE, paths.bundle) | dict.fromkeys(_ADDED, paths.ca)
    variables |= dict.fromkeys(_PROXIED, PROXY)
    variables |= {"NO_PROXY": _NO_PROXY, "no_proxy": _NO_PROXY}
    if paths.java is not None:
        variables["JAVA_TOOL_OPTIONS"] = _java_options(paths.java)
    return variables


def python_hook() -> bytes:
    """The `sitecustomize.py` of the directory that belongs on every PYTHONPATH."""
    return _read_once(_INSIDE / "sitecustomize.py")


def inside_files(paths: TrustPaths) -> dict[str, bytes]:
    """All files of that directory: the hook, what it loads, and `paddock.inside`."""
    source = _INSIDE / "paddock_chance.py"
    return {
        f"{paths.python}/sitecustomize.py": python_hook(),
        f"{paths.python}/paddock_chance.py": _read_once(source),
        f"{paths.python}/paddock_inside.py": _read_once(_PACKAGE / "inside.py"),
    }


def with_python(variables: Mapping[str, str], paths: TrustPaths) -> dict[str, str]:
    """The variables with our directory behind whatever PYTHONPATH says already."""
    path = variables.get("PYTHONPATH")
    path = paths.python if not path else f"{path}:{paths.python}"
    return {**variables, "PYTHONPATH": path}


def bundle(ca_pem: bytes) -> bytes:
    """Our authority and the system's roots: hosts that are passed through still need those."""
    return ca_pem + _system_roots()


def java_truststore(ca_pem: bytes, *, with_roots: bool = True) -> bytes | None:
    """The same for Java, which reads no PEM; None where `cryptography` cannot write it (before 45).
    The system's roots take some 10 ms, and matter only to hosts that are passed through."""
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    if not hasattr(pkcs12, "serialize_java_truststore"):
        return None
    trusted = [*_certificates(ca_pem), *(_certificates(_system_roots()) if with_roots else ())]
    entries = [
        pkcs12.PKCS12Certificate(certificate, b"paddock-%d" % number)
        for number, certificate in enumerate(trusted)
    ]
    # Without a password, so that any Java reads it; what it holds is public.
    return pkcs12.serialize_java_truststore(entries, NoEncryption())


def system_bundle() -> str | None:
    """The path of this host's bundle. Whoever set `SSL_CERT_FILE` for the host has said it."""
    named = os.environ.get("SSL_CERT_FILE")
    places = (named, *SYSTEM_BUNDLES) if named else SYSTEM_BUNDLES
    return next((place for place in places if os.path.isfile(place)), None)


def _java_options(path: str) -> str:
    return f"-Djavax.net.ssl.trustStore={path} -Djavax.net.ssl.trustStoreType=PKCS12"


def _system_roots() -> bytes:
    path = system_bundle()
    if path is None:
        return b""
    status = os.stat(path)
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=3)
def _read_once(path: Path) -> bytes:
    return path.read_bytes()


@lru_cache(maxsize=2)
def _read(path: str, _mtime_ns: int, _size_bytes: int) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@lru_cache(maxsize=2)
def _certificates(pem: bytes) -> tuple[Certificate, ...]:
    return tuple(_readable(part + _PEM_END for part in pem.split(_PEM_END)[:-1]))


def _readable(parts: Iterable[bytes]) -> Iterable[Certificate]:
    """One by one: a system's bundle may have a root that `cryptography` will not read."""
    from cryptography import x509

    for part in parts:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                certificate = x509.load_pem_x509_certificate(part)
        except ValueError:
            continue
        yield certificate
