"""The destination of a connection: scheme, host and port, and how they are written."""

from __future__ import annotations

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True):
    """The server that a connection of the sandbox leads to."""

    scheme: str
    host: str  # canonical
    port: int
    parent: int | None = None  # the step that opened the connection

    @property
    def host_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def authority(self) -> str:
        """Host and port as a client writes them: without the port of the scheme."""
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        return self.host_port.removesuffix(f":{self.port}") if is_default else self.host_port

    def is_named(self, authority: str) -> bool:
        """Return whether a request for `authority` may come on a connection to this origin."""
        try:
            host, port = split_authority(authority, _DEFAULT_PORTS[self.scheme])
        except InvalidInput:
            return False
        return host == self.host and port == self.port


def split_authority(authority: str, default_port: int | None) -> tuple[str, int]:
    """Return host and port, canonical. Raises InvalidInput, also where there is the name of a
    user."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        host, port_text = host + bracket, rest.removeprefix(":")
        if rest and not rest.startswith(":"):
            raise InvalidInput(f"{authority[:60]!r} is no host and port")
    else:
        host, _, port_text = authority.partition(":")
    if port_text and not (port_text.isascii() and port_text.isdigit() and len(port_text) <= 5):
        raise InvalidInput(f"{authority[:60]!r} is no host and port")
    port = int(port_text) if port_text else default_port
    if port is None or not 0 < port < 65536:
        raise InvalidInput(f"{authority[:60]!r} has no port")
    return canonical_host(host), port
