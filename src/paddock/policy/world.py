"""The section `world` of a paddock file: which stand-in answers for which hosts. The stand-ins
themselves live in `paddock.world`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern, bracketed
from paddock.policy.globs import any_of
from paddock.policy.network import Destination, Mode, NetworkTerms, Transport, parse_destination
from paddock.policy.problems import closest, suggest
from paddock.policy.secrets import SecretTerms
from paddock.policy.section import (
    INVALID,
    MAX_ENTRIES,
    Cursor,
    JsonSchema,
    Key,
    Mistake,
    Section,
    Value,
    as_given,
    checked_text,
    parse_section,
)

DRAFT = "draft"  # the service whose reads are real
# The services that come with Paddock. Installed packages may bring more, which only a look at them
# would tell: any name of the right form is accepted here, and refused when the world is opened.
SERVICES = ("app", "chat", "command", "draft", "forge", "mail", "model", "openapi", "payments",
            "postgres", "storage", "tickets")  # fmt: skip
_SERVICE = re.compile("[a-z][a-z0-9_-]{0,63}")
SETTINGS = "settings"
_MAX_STAND_INS = 200
_WEB = (443, 80)
_PORTS: Mapping[str, tuple[int, ...]] = {"mail": (25, 465, 587, *_WEB), "postgres": (5432,)}
_STREAMED = frozenset({("mail", 25), ("mail", 465), ("mail", 587), ("mail", 2525)})
_METHOD = re.compile(r"[A-Z]{1,20}|\*")
_EXAMPLE = "write a service, as in payments, or {service: payments, seed: data.json}"


class RequestGlob(msgspec.Struct, frozen=True):
    """Some requests: a method, and a path with `*`."""

    method: str
    path: str

    def matches(self, method: str, path: str) -> bool:
        return self.method in ("*", method) and any_of([self.path], "/")(path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class StandInTerms(msgspec.Struct, frozen=True):
    """One stand-in: where it stands, and what it is told."""

    place: str  # as the file writes it, in one spelling: host or host:port
    service: str
    at: tuple[Destination, ...]
    options: Mapping[str, Any] = {}
    writes: tuple[RequestGlob, ...] = ()  # that look like reads; of a draft
    reads: tuple[RequestGlob, ...] = ()  # that look like writes; of a draft

    @property
    def reads_are_real(self) -> bool:
        return self.service == DRAFT

    def is_real(self, action: Action) -> bool:
        """Return whether the real system answers after all."""
        return self.reads_are_real and self.effect(action) is Effect.READ

    def effect(self, action: Action) -> Effect:
        """Return the effect of a request, where the file knows better than its method."""
        if action.kind is not Kind.HTTP or not (self.writes or self.reads):
            return action.effect
        method, path = str(action.arguments.get("method")), str(action.arguments.get("path"))
        if any(pattern.matches(method, path) for pattern in self.writes):
            return max(action.effect, Effect.WRITE, key=list(Effect).index)
        if any(pattern.matches(method, path) for pattern in self.reads):
            return Effect.READ
        return action.effect


class WorldTerms(msgspec.Struct, frozen=True, dict=True):
    """All stand-ins of one agent."""

    stand_ins: tuple[StandInTerms, ...] = ()
    seed: int = 0
    clock: str | None = None  # `now`, or the moment at which the world begins

    @cached_property
    def _at(self) -> Mapping[Destination, StandInTerms]:
        return {to: stand_in for stand_in in self.stand_ins for to in stand_in.at}

    @cached_property
    def _same(self) -> Mapping[int, StandInTerms]:
        """Return the stand-ins by the identity of their destinations: to hash one takes longer than
        the rest of a decision about it."""
        return {id(to): self._at[to] for stand_in in self.stand_ins for to in stand_in.at}

    @property
    def destinations(self) -> tuple[Destination, ...]:
        return tuple(self._at)

    def at(self, destination: Destination) -> StandInTerms:
        stand_in = self._same.get(id(destination))
        return self._at[destination] if stand_in is None else stand_in


def reach(network: NetworkTerms | None, world: WorldTerms | None) -> NetworkTerms | None:
    """Return the network with the stand-ins in it. They are there even if nothing else is."""
    if world is None or not world.stand_ins:
        return network
    return replace(network or NetworkTerms(), stand_ins=world.destinations)


def is_rehearsed(secret: SecretTerms, network: NetworkTerms, world: WorldTerms | None) -> bool:
    """Return whether no request can carry the secret out: wherever it may go stand-ins answer, at
    every port that can be reached, and none of them reads the real system."""
    stand_ins = () if world is None else world.stand_ins
    standing = [to for stand_in in stand_ins if not stand_in.reads_are_real for to in stand_in.at]
    drafting = [to for stand_in in stand_ins if stand_in.reads_are_real for to in stand_in.at]
    return all(_is_stood_in(host, network, standing, drafting) for host in secret.to)


def _is_stood_in(
    host: HostPattern,
    network: NetworkTerms,
    standing: Sequence[Destination],
    drafting: Sequence[Destination],
) -> bool:
    answering = [entry for entry in standing if entry.host.covers(host)]
    if not answering or any(entry.host.overlaps(host) for entry in drafting):
        return False
    return all(
        any(
            entry.has_port(real.first_port) and entry.has_port(real.last_port)
            for entry in answering
        )
        for real in network.allow
        if real.host.overlaps(host)
    )


def world_of(value: Any) -> WorldTerms:
    """Return the world that a Python caller describes like a paddock file does. Raises
    InvalidInput."""
    world: WorldTerms = parse_section(WORLD, value, "world")
    return world


def world_mistakes(network: NetworkTerms | None, world: WorldTerms | None) -> Iterator[Mistake]:
    """Yield a mistake where the network leaves no way to the stand-ins."""
    if world is None or not world.stand_ins or network is None:
        return
    if network.mode is Mode.NONE:
        message = "with mode: none no stand-in can be reached"
        hint = "leave network out: a world needs none"
        yield Mistake(("network", "mode"), message, hint)


def plain_world(world: WorldTerms) -> dict[str, Any]:
    """Return the world as the file writes it."""
    plain: dict[str, Any] = {}
    for stand_in in world.stand_ins:
        plain[stand_in.place] = stand_in.service
        if stand_in.options:
            plain[stand_in.place] = {"service": stand_in.service, **stand_in.options}
    settings: dict[str, Any] = {}
    if world.seed:
        settings["seed"] = world.seed
    if world.clock is not None:
        settings["clock"] = world.clock
    return {**plain, SETTINGS: settings} if settings else plain


class _WorldForm:
    """Stand-ins by the host that they answer for. No two may answer at the same host and port, so
    they are read one after the other."""

    def read(self, value: Any, cursor: Cursor) -> Any:
        if not isinstance(value, Mapping) or len(value) > _MAX_STAND_INS:
            cursor.report("not a mapping of hosts to services", "write host: service")
            return INVALID
        stand_ins: list[StandInTerms] = []
        settings: Any = {}
        mistakes = len(cursor.mistakes)
        for place, content in value.items():
            inner = cursor.at(str(place))
            if place == SETTINGS:
                settings = _SETTINGS.read(content, inner)
                continue
            try:
                stand_in = _parse_stand_in(str(place), content)
                _check_apart(stand_in, stand_ins)
                stand_ins.append(stand_in)
            except InvalidInput as error:
                inner.report(error.message, error.hint)
        if len(cursor.mistakes) > mistakes:
            return INVALID
        ordered = sorted(stand_ins, key=lambda stand_in: stand_in.place)
        return WorldTerms(tuple(ordered), **settings)

    def json_schema(self) -> JsonSchema:
        pattern = {"type": "string", "pattern": f"^{_SERVICE.pattern}$"}
        service = {"anyOf": [{"enum": list(SERVICES)}, pattern]}
        options = {"type": "object", "required": ["service"], "properties": {"service": service}}
        return {
            "type": "object",
            "properties": {SETTINGS: _SETTINGS.json_schema()},
            "additionalProperties": {"anyOf": [service, options]},
        }


def _parse_stand_in(place: str, content: Any) -> StandInTerms:
    options = {"service": content} if isinstance(content, str) else content
    if not isinstance(options, Mapping) or "service" not in options:
        raise InvalidInput("says no service", hint=_EXAMPLE)
    service = options["service"]
    is_name = isinstance(service, str) and _SERVICE.fullmatch(service) is not None
    # Whether an installed package brings a service of another name is found out when the world is
    # opened. One that nearly has the name of ours is a typing error.
    if not is_name or (service not in SERVICES and closest(service, SERVICES) is not None):
        shown = str(service)[:60]
        raise InvalidInput(f"service: there is no service {shown!r}", hint=suggest(shown, SERVICES))
    options = {str(key): value for key, value in options.items() if key != "service"}
    also = options.get("also", [])
    if not isinstance(also, list) or len(also) > MAX_ENTRIES:
        raise InvalidInput("also: not a list of hosts")
    is_raw = service == "postgres" or (service == "command" and options.get("tcp") is True)
    destinations: list[Destination] = []
    for text in (place, *map(str, also)):
        destinations += _destinations(text, service, is_raw)
    if service != DRAFT and (misfit := {"writes", "reads", "upstream"} & options.keys()):
        key = min(misfit)
        raise InvalidInput(f"{key}: only draft has {key}")
    return StandInTerms(
        place=_canonical_place(place),
        service=service,
        at=tuple(dict.fromkeys(destinations)),
        options=options,
        writes=_parse_patterns(options, "writes"),
        reads=_parse_patterns(options, "reads"),
    )


def _destinations(text: str, service: str, is_raw: bool) -> list[Destination]:
    host, port = _split_port(text)
    pattern = HostPattern.parse(host)
    patterns = [pattern]
    if service == "storage" and not pattern.is_wildcard:
        patterns.append(HostPattern(pattern.host, is_wildcard=True))  # a bucket is a name below
    ports = _PORTS.get(service, _WEB) if port is None else (port,)
    destinations = []
    for host_pattern in patterns:
        for number in ports:
            is_stream = is_raw or (service, number) in _STREAMED
            transport = Transport.TCP if is_stream else Transport.ANY
            destinations.append(Destination(host_pattern, number, number, transport))
    return destinations


def _split_port(text: str) -> tuple[str, int | None]:
    """Return a host, and its port if there is one."""
    has_port = text.rpartition("]")[2].count(":") == 1
    checked = parse_destination(text if has_port else f"{text}:443")
    if checked.first_port != checked.last_port or "/" in text:
        raise InvalidInput(f"{text[:60]!r} is not host or host:port")
    return str(checked.host), checked.first_port if has_port else None


def _canonical_place(text: str) -> str:
    host, port = _split_port(text)
    return bracketed(host) if port is None else f"{bracketed(host)}:{port}"


def _check_apart(stand_in: StandInTerms, others: Sequence[StandInTerms]) -> None:
    taken = {(to.host, to.first_port): other.place for other in others for to in other.at}
    for to in stand_in.at:
        if (to.host, to.first_port) in taken:
            other = taken[to.host, to.first_port]
            message = f"{to.host}:{to.first_port} is {other}'s already"
            raise InvalidInput(message, hint="name the port with each of them")


def _parse_patterns(options: Mapping[str, Any], key: str) -> tuple[RequestGlob, ...]:
    values = options.get(key, [])
    if not isinstance(values, list) or len(values) > MAX_ENTRIES:
        raise InvalidInput(f"{key}: not a list")
    patterns = []
    for number, value in enumerate(values):
        try:
            patterns.append(_parse_pattern(value))
        except InvalidInput as error:
            raise InvalidInput(f"{key}[{number}]: {error.message}", hint=error.hint) from None
    return tuple(patterns)


def _parse_pattern(value: Any) -> RequestGlob:
    hint = 'write a method and a path, as in "GET /tickets/*/close"'
    method, _, path = checked_text(value, hint).partition(" ")
    if not _METHOD.fullmatch(method) or not path.startswith("/"):
        raise InvalidInput(f"{str(value)[:60]!r} is not a method and a path", hint=hint)
    return RequestGlob(method, path)


def _parse_seed(value: Any) -> int:
    if type(value) is int and 0 <= value < 1 << 53:
        return value
    raise InvalidInput(f"{str(value)[:60]!r} is not a whole number")


def _parse_clock(value: Any) -> str | None:
    if value is None or value == "now":
        return None if value is None else "now"
    hint = "write now, or a time as in 2026-01-01T09:00:00Z"
    try:
        timestamp = datetime.fromisoformat(checked_text(value, hint))
    except ValueError:
        raise InvalidInput(f"{str(value)[:60]!r} is not a time", hint=hint) from None
    if timestamp.tzinfo is None:
        raise InvalidInput(f"{value[:60]!r} does not say in which zone", hint=hint)
    return str(value)


_SETTINGS = Section(
    "Settings of the whole world.",
    as_given,
    {
        "seed": Key(Value(_parse_seed, {"type": "integer", "minimum": 0})),
        "clock": Key(Value(_parse_clock, {"type": ["string", "null"]})),
    },
)
WORLD = _WorldForm()
