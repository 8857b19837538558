"""How the world is written, in a file or by a caller: from plain words to terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.network import Destination, Mode, NetworkTerms, Transport
from paddock.policy.network_words import parse_destination
from paddock.policy.problems import suggest
from paddock.policy.words import MAX_ENTRIES, Complaint, known_keys, raise_first, text_of, within
from paddock.policy.world import DRAFT, RequestPattern, StandInTerms, WorldTerms

# The services that come with Paddock. Installed packages may bring more, which only a look at them
# would tell: any name of the right form is accepted here, and refused when the world is opened.
SERVICES = ("app", "chat", "command", "draft", "forge", "mail", "model", "openapi", "payments",
            "postgres", "storage", "tickets")  # fmt: skip
SERVICE_PATTERN = "[a-z][a-z0-9_-]{0,63}"
SETTINGS = "settings"
MAX_STAND_INS = 200
_WEB = (443, 80)
_PORTS: Mapping[str, tuple[int, ...]] = {"mail": (25, 465, 587, *_WEB), "postgres": (5432,)}
_STREAMED = frozenset({("mail", 25), ("mail", 465), ("mail", 587), ("mail", 2525)})
_SERVICE = re.compile(SERVICE_PATTERN)
_METHOD = re.compile(r"[A-Z]{1,20}|\*")
_SHAPE = "write a service, as in payments, or {service: payments, seed: data.json}"


def world_of(words: Any) -> WorldTerms:
    """The world that a caller describes with the words of the file. Raises InvalidInput."""
    terms, complaints = read_world(words)
    raise_first(iter(complaints))
    return terms


def read_world(words: Any) -> tuple[WorldTerms, list[Complaint]]:
    """The world, and all that is wrong with how it is written."""
    if not isinstance(words, Mapping) or len(words) > MAX_STAND_INS:
        return WorldTerms(), [(("world",), "not a mapping of hosts to services", _SHAPE)]
    found: list[StandInTerms] = []
    wrong: list[Complaint] = []
    settings: tuple[int, str | None] = (0, None)
    for place, what in words.items():
        try:
            if place == SETTINGS:
                settings = _settings(what)
            else:
                found.append(_stand_in(str(place), what))
                _check_apart(found)
        except InvalidInput as error:
            wrong.append((("world", str(place)), error.message, error.hint))
    return WorldTerms(tuple(sorted(found, key=lambda one: one.place)), *settings), wrong


def _settings(words: Any) -> tuple[int, str | None]:
    given = known_keys(words, ("seed", "clock"), ())
    seed = within(("seed",), _seed, given.get("seed", 0))
    return seed, within(("clock",), _clock, given.get("clock"))


def world_problems(network: NetworkTerms | None, world: WorldTerms | None) -> Iterator[Complaint]:
    """What does not fit together."""
    if world is None or not world.stand_ins or network is None:
        return
    if network.mode is Mode.NONE:
        yield (("network", "mode"), "with mode: none no stand-in can be reached",
               "leave network out: a world needs none")  # fmt: skip


def _stand_in(place: str, what: Any) -> StandInTerms:
    words = {"service": what} if isinstance(what, str) else what
    if not isinstance(words, Mapping) or "service" not in words:
        raise InvalidInput("says no service", hint=_SHAPE)
    service = words["service"]
    if not isinstance(service, str) or not _SERVICE.fullmatch(service):
        shown = str(service)[:60]
        raise InvalidInput(f"service: there is no service {shown!r}", hint=suggest(shown, SERVICES))
    options = {str(key): value for key, value in words.items() if key != "service"}
    also = options.get("also", [])
    if not isinstance(also, list) or len(also) > MAX_ENTRIES:
        raise InvalidInput("also: not a list of hosts")
    places = [place, *(str(one) for one in also)]
    is_raw = service == "postgres" or (service == "command" and options.get("tcp") is True)
    at = [one for text in places for one in _destinations(text, service, is_raw)]
    if service != DRAFT and (misfit := {"writes", "reads", "upstream"} & options.keys()):
        word = min(misfit)
        raise InvalidInput(f"{word}: only draft has {word}")
    return StandInTerms(
        place=_spelled(place),
        service=service,
        at=tuple(dict.fromkeys(at)),
        options=options,
        writes=_patterns(options, "writes"),
        reads=_patterns(options, "reads"),
    )


def _destinations(text: str, service: str, is_raw: bool) -> list[Destination]:
    host, port = _parted(text)
    pattern = HostPattern.parse(host)
    patterns = [pattern]
    if service == "storage" and not pattern.is_wildcard:
        patterns.append(HostPattern(pattern.host, is_wildcard=True))  # a bucket is a name below
    ports = _PORTS.get(service, _WEB) if port is None else (port,)
    found = []
    for one in patterns:
        for number in ports:
            is_stream = is_raw or (service, number) in _STREAMED
            how = Transport.TCP if is_stream else Transport.ANY
            found.append(Destination(one, number, number, how))
    return found


def _parted(text: str) -> tuple[str, int | None]:
    """A host, with a port or without."""
    has_port = text.rpartition("]")[2].count(":") == 1
    checked = parse_destination(text if has_port else f"{text}:443")
    if checked.first_port != checked.last_port or "/" in text:
        raise InvalidInput(f"{text[:60]!r} is not host or host:port")
    return str(checked.host), checked.first_port if has_port else None


def _spelled(text: str) -> str:
    host, port = _parted(text)
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _check_apart(found: list[StandInTerms]) -> None:
    """The last of them may not stand where another does."""
    *others, last = found
    taken = {(to.host, to.first_port): one.place for one in others for to in one.at}
    for to in last.at:
        if (to.host, to.first_port) in taken:
            other = taken[to.host, to.first_port]
            found.pop()
            raise InvalidInput(
                f"{to.host}:{to.first_port} is {other}'s already",
                hint="name the port with each of them",
            )


def _patterns(options: Mapping[str, Any], key: str) -> tuple[RequestPattern, ...]:
    values = options.get(key, [])
    if not isinstance(values, list) or len(values) > MAX_ENTRIES:
        raise InvalidInput(f"{key}: not a list")
    return tuple(within((key, n), _pattern, one) for n, one in enumerate(values))


def _pattern(value: Any) -> RequestPattern:
    hint = 'write a method and a path, as in "GET /tickets/*/close"'
    method, _, where = text_of(value, hint).partition(" ")
    if not _METHOD.fullmatch(method) or not where.startswith("/"):
        raise InvalidInput(f"{str(value)[:60]!r} is not a method and a path", hint=hint)
    return RequestPattern(method, where)


def _seed(value: Any) -> int:
    if type(value) is int and 0 <= value < 1 << 53:
        return value
    raise InvalidInput(f"{str(value)[:60]!r} is not a whole number")


def _clock(value: Any) -> str | None:
    if value is None or value == "now":
        return None if value is None else "now"
    hint = "write now, or a time as in 2026-01-01T09:00:00Z"
    try:
        moment = datetime.fromisoformat(text_of(value, hint))
    except ValueError:
        raise InvalidInput(f"{str(value)[:60]!r} is not a time", hint=hint) from None
    if moment.tzinfo is None:
        raise InvalidInput(f"{value[:60]!r} does not say in which zone", hint=hint)
    return str(value)
