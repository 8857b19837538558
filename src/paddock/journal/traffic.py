"""The steps of a run that went through the network door, each in the words of the network. What a
journal says is taken for what it is: a journal from elsewhere may say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from paddock.journal.reader import Step
from paddock.journal.records import Record
from paddock.model.values import dataclass

KINDS = ("http", "connect", "dns", "model")
_DEFAULT_PORTS = {"http": 80, "https": 443}
# What the door answers in place of a server, where the record has no status of its own.
_OWN_STATUS = {"refused": 403, "drafted": 202, "faulted": 503, "simulated": 200}
_MISDIRECTED = 421

BodyOf = Callable[[Record], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Traffic:
    """One step of the network. What the journal does not say is None or empty."""

    step: int
    at: int  # microseconds since 1970
    kind: str
    name: str
    arguments: Mapping[str, Any]
    parent: int | None = None  # the step that caused it
    effect: str | None = None
    verdict: str | None = None
    decided_by: str | None = None
    why: str | None = None
    outcome: str | None = None
    error: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, Any] = field(default_factory=dict)
    duration_us: int | None = None
    held_us: int = 0  # of the duration: until a person had answered
    fault: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, step: Step, body: BodyOf) -> Traffic | None:
        """None for a step that has nothing to do with the network."""
        if step.proposed is None or step.proposed.body.get("kind") not in KINDS:
            return None
        proposed, at = body(step.proposed), step.proposed.at
        decided = step.decided.body if step.decided is not None else {}
        settled = body(step.settled) if step.settled is not None else {}
        return cls(
            step=step.number,
            at=at,
            kind=str(proposed["kind"]),
            name=_text(proposed, "name") or "",
            arguments=mapping(proposed.get("arguments")),
            parent=_whole(proposed, "parent"),
            effect=_text(decided, "effect") or _text(proposed, "effect"),
            verdict=_text(decided, "verdict"),
            decided_by=_text(decided, "decided_by"),
            why=_text(decided, "why"),
            outcome=_text(settled, "outcome"),
            error=_text(settled, "error"),
            result=mapping(settled.get("result")),
            cost=mapping(settled.get("cost")),
            duration_us=None if step.settled is None else max(step.settled.at - at, 0),
            held_us=_held_us(step),
            fault=mapping(decided.get("fault")),
        )

    @property
    def is_http(self) -> bool:
        """Whether it was a request: one to a model is one too."""
        return self.kind in ("http", "model")

    @property
    def host(self) -> str:
        return _text(self.arguments, "host") or _text(self.arguments, "name") or ""

    @property
    def port(self) -> int | None:
        return _whole(self.arguments, "port")

    @property
    def place(self) -> str:
        """`host:port`, or the host alone where there is no port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    @property
    def method(self) -> str | None:
        """Of a request its method, of a connection its transport, of a question its type."""
        key = {"connect": "transport", "dns": "type"}.get(self.kind, "method")
        return _text(self.arguments, key)

    @property
    def scheme(self) -> str:
        return _text(self.arguments, "scheme") or ("http" if self.port == 80 else "https")

    @property
    def target(self) -> str:
        """Path and query as they were sent; empty for what has none."""
        path = _text(self.arguments, "path") or ""
        query = _text(self.arguments, "query")
        return f"{path}?{query}" if query else path

    @property
    def url(self) -> str:
        if whole := _text(self.arguments, "url"):  # of a request that no door took apart
            return whole
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port in (None, _DEFAULT_PORTS.get(self.scheme))
        place = host if is_usual else f"{host}:{self.port}"
        return f"{self.scheme}://{place}{self.target or '/'}"

    @property
    def status(self) -> int | None:
        """The status that the agent got, also where Paddock itself gave it."""
        if not self.is_http:
            return None
        said = _whole(self.result, "status")
        if said is not None:
            return said
        if self.outcome == "faulted":
            return _whole(self.fault, "status") or _OWN_STATUS["faulted"]
        if self.outcome == "refused" and self.decided_by == "mismatch":
            return _MISDIRECTED
        return _OWN_STATUS.get(self.outcome or "")

    @property
    def bytes_out(self) -> int | None:
        """What was sent, to a server or to a stand-in: of a body, or all that a connection
        carried. None where nobody counted."""
        if self.outcome in _OWN_STATUS and "stand_in" not in self.result:
            return None if self.kind == "dns" else 0
        return self._counted("bytes_out", self.body_bytes)

    @property
    def bytes_in(self) -> int | None:
        """What came back."""
        return self._counted("bytes_in", _whole(self.result, "bytes"))

    @property
    def body_bytes(self) -> int | None:
        """The length of a request's body, where it is known."""
        streamed = _whole(mapping(self.result.get("sent")), "bytes")
        return _whole(self.arguments, "body_bytes") if streamed is None else streamed

    @property
    def address(self) -> str | None:
        """The address that was really dialled."""
        return _text(self.result, "address")

    def _counted(self, key: str, body: int | None) -> int | None:
        frames = _whole(mapping(self.result.get("websocket")), key)
        found = [one for one in (_whole(self.result, key), frames, body) if one is not None]
        if found:
            return sum(found)
        return 0 if self.outcome and self.kind in ("http", "connect") else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _held_us(step: Step) -> int:
    if step.asked is None or step.answered is None:
        return 0
    return max(step.answered.at - step.asked.at, 0)


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _whole(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    return value if type(value) is int and value >= 0 else None
