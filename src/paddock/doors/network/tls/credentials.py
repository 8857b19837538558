"""The authority of a run with all that makes a sandbox trust it, made before it is needed."""

from __future__ import annotations

import msgspec

from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.tls.sandbox_trust import bundle, java_truststore


class Credentials(msgspec.Struct, frozen=True):
    """For one run, and never for a second one."""

    authority: Authority
    bundle: bytes
    ca: bytes
    java: bytes | None  # without the system's roots

    __repr__ = object.__repr__

    @classmethod
    def make(cls) -> Credentials:
        """From any thread; it takes some milliseconds."""
        authority = Authority()
        ca = authority.ca_pem
        return cls(authority, bundle(ca), ca, java_truststore(ca, with_roots=False))
