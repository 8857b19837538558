"""The authority of a run with all that makes a sandbox trust it, made before it is needed."""

from __future__ import annotations

from dataclasses import field

from paddock.doors.network.authority import Authority
from paddock.doors.network.trust import bundle, java_truststore
from paddock.model.values import dataclass


@dataclass(frozen=True, slots=True)
class Credentials:
    """For one run, and never for a second one."""

    authority: Authority = field(repr=False)
    bundle: bytes = field(repr=False)
    ca: bytes = field(repr=False)
    java: bytes | None = field(repr=False)  # without the system's roots

    @classmethod
    def make(cls) -> Credentials:
        """From any thread; it takes some milliseconds."""
        authority = Authority()
        ca = authority.ca_pem
        return cls(authority, bundle(ca), ca, java_truststore(ca, with_roots=False))
