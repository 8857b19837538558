"""Sandboxes that may reach a few names, and who answers there. No test lives here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clients.network.certificates import ServerAuthority
from paddock import Sandbox
from security.network.origins import Origin, careless


@dataclass(frozen=True)
class Hosts:
    """All names that the sandboxes know, with one server each."""

    api: Origin  # api.example:80, and the name of the secret's host
    other: Origin  # other.example:80
    secure: Origin  # secure.example:443
    front: Origin  # front.example:443
    pinned: Origin  # pinned.example:443, whose TLS is not ended
    raw: Origin  # raw.example:5432/tcp
    ca: Path

    @property
    def network(self) -> dict[str, Any]:
        return {
            "allow": ["api.example:80", "other.example:80", "secure.example:443",
                      "front.example:443", "pinned.example:443", "raw.example:5432/tcp",
                      "*.wild.example:80", "*.wild.example:5432/tcp"],
            "hosts": {"api.example": self.api.place, "other.example": self.other.place,
                      "secure.example": self.secure.place, "front.example": self.front.place,
                      "pinned.example": self.pinned.place, "raw.example": self.raw.place},
            "tls": {"ca": str(self.ca), "passthrough": ["pinned.example"]},
        }  # fmt: skip

    @property
    def all(self) -> tuple[Origin, ...]:
        return self.api, self.other, self.secure, self.front, self.pinned, self.raw


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    authority = ServerAuthority(tmp_path_factory.mktemp("authority"))
    with ExitStack() as stack:
        plain = [stack.enter_context(careless()) for _ in range(3)]
        secure = [
            stack.enter_context(careless(authority.context(f"{name}.example")))
            for name in ("secure", "front", "pinned")
        ]
        yield Hosts(plain[0], plain[1], *secure, plain[2], authority.file)


@pytest.fixture(scope="module")
def box(hosts: Hosts) -> Iterator[Sandbox]:
    """One for all attempts of a file."""
    for origin in hosts.all:
        origin.clear()
        origin.answer = Origin("").answer
    with Sandbox.create(network=hosts.network) as made:
        yield made
