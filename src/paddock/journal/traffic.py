"""The steps of a run that went through the network door, in the terms of the network.

A `Traffic` holds its step and adds what only a request, a connection or a DNS query has. The
arguments and the result of a step are free JSON, so their values are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.model.action import Kind, Outcome
from paddock.model.steps import Step, whole_number

KINDS = (Kind.HTTP, Kind.CONNECT, Kind.DNS, Kind.MODEL)
_DEFAULT_PORTS = {"http": 80, "https": 443}
# What the door answers in place of a server, where the record has no status of its own.
_OWN_STATUS = {
    Outcome.REFUSED: 403,
    Outcome.DRAFTED: 202,
    Outcome.FAULTED: 503,
    Outcome.SIMULATED: 200,
}
_MISDIRECTED = 421


class Traffic:
    """One step of the network. What the journal does not say is None or empty."""

    __slots__ = ("step",)

    def __init__(self, step: Step) -> None:
        self.step = step

    @classmethod
    def of(cls, step: Step) -> Traffic | None:
        """Return the step as traffic, or None if it has nothing to do with the network."""
        return cls(step) if step.kind in KINDS else None

    @property
    def is_http(self) -> bool:
        """Return whether it was a request. A call of a model is one too."""
        return self.step.kind in (Kind.HTTP, Kind.MODEL)

    @property
    def host(self) -> str:
        arguments = self.step.arguments
        return _text(arguments, "host") or _text(arguments, "name") or ""

    @property
    def port(self) -> int | None:
        return _count(self.step.arguments, "port")

    @property
    def endpoint(self) -> str:
        """Return `host:port`, or the host alone where there is no port."""
        return f"{self._url_host}:{self.port}" if self.port else self._url_host

    @property
    def method(self) -> str | None:
        """Return the method of a request, the transport of a connection, or the type of a DNS
        query."""
        match self.step.kind:
            case Kind.CONNECT:
                key = "transport"
            case Kind.DNS:
                key = "type"
            case _:
                key = "method"
        return _text(self.step.arguments, key)

    @property
    def scheme(self) -> str:
        return _text(self.step.arguments, "scheme") or ("http" if self.port == 80 else "https")

    @property
    def target(self) -> str:
        """Return path and query as they were sent; empty for what has none."""
        path = _text(self.step.arguments, "path") or ""
        query = _text(self.step.arguments, "query")
        return f"{path}?{query}" if query else path

    @property
    def url(self) -> str:
        url = _text(self.step.arguments, "url")  # of a request that no door took apart
        if url:
            return url
        is_default_port = self.port in (None, _DEFAULT_PORTS.get(self.scheme))
        place = self._url_host if is_default_port else f"{self._url_host}:{self.port}"
        return f"{self.scheme}://{place}{self.target or '/'}"

    @property
    def status(self) -> int | None:
        """Return the status that the agent got, also where Paddock itself gave it."""
        if not self.is_http:
            return None
        status = _count(self.step.result, "status")
        if status is not None:
            return status
        outcome = self.step.outcome
        if outcome is Outcome.FAULTED:
            return _count(self.step.fault, "status") or _OWN_STATUS[outcome]
        if outcome is Outcome.REFUSED and self.step.decided_by == "mismatch":
            return _MISDIRECTED
        return None if outcome is None else _OWN_STATUS.get(outcome)

    @property
    def bytes_out(self) -> int | None:
        """Return how much was sent, to a server or to a stand-in: of a body, or all that a
        connection carried. None where nobody counted."""
        if self.step.outcome in _OWN_STATUS and "stand_in" not in self.step.result:
            return None if self.step.kind is Kind.DNS else 0
        return self._sum("bytes_out", self.body_bytes)

    @property
    def bytes_in(self) -> int | None:
        """Return how much came back."""
        return self._sum("bytes_in", _count(self.step.result, "bytes"))

    @property
    def body_bytes(self) -> int | None:
        """Return the length of a request's body, where it was counted."""
        streamed = _count(mapping(self.step.result.get("sent")), "bytes")
        return _count(self.step.arguments, "body_bytes") if streamed is None else streamed

    @property
    def address(self) -> str | None:
        """Return the address that was really dialled."""
        return _text(self.step.result, "address")

    @property
    def _url_host(self) -> str:
        """Return the host as a URL has it: an IPv6 address stands in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def _sum(self, key: str, body: int | None) -> int | None:
        result = self.step.result
        frames = _count(mapping(result.get("websocket")), key)
        counts = [count for count in (_count(result, key), frames, body) if count is not None]
        if counts:
            return sum(counts)
        is_counted = self.step.outcome is not None and self.step.kind in (Kind.HTTP, Kind.CONNECT)
        return 0 if is_counted else None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


def _count(values: Mapping[str, Any], key: str) -> int | None:
    value = whole_number(values.get(key))
    return value if value is not None and value >= 0 else None
