"""Background traffic: traces and telemetry that a library sends by the clock, whatever the agent
does. A replay does not expect it at a certain step. How it is written in a file (`replay.beside`),
and which actions it matches; it permits nothing.
"""

from __future__ import annotations

import re

import msgspec

from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import HostPattern
from paddock.policy.fields import FIELDS, Unmatchable, host_of, pattern_problem, port_of
from paddock.policy.globs import Test, any_of
from paddock.policy.subject import Subject

# Background traffic in every replay whose file says nothing else. Only what everybody knows.
USUAL = ("POST api.openai.com/v1/traces/ingest",)
MAX_TEXT = 500
_RULE = re.compile(r"(?:([A-Za-z-]{1,30}) +)?([^\s/]+)(/\S*)?")
_ENDPOINT = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?")
_HINT = "write HOST, HOST/PATH or METHOD HOST/PATH, as in POST collector.example/v1/traces"


class BackgroundRule(msgspec.Struct, frozen=True):
    """Some hosts, perhaps only one port of them, one method, some paths."""

    text: str
    host: HostPattern
    port: int | None = None
    method: str | None = None  # in lower case
    is_path: Test | None = None

    def matches(self, action: Action) -> bool:
        """Return whether the action is background traffic. An ambiguous one is not."""
        try:
            return self.host.matches(host_of(action)) and self._matches_kind(action)
        except Unmatchable:
            return False

    def _matches_kind(self, action: Action) -> bool:
        match action.kind:
            case Kind.DNS:  # it comes before whatever is asked there
                return True
            case Kind.CONNECT:
                # Neither method nor path can be seen, so it may be something else than is said.
                is_narrow = self.method is not None or self.is_path is not None
                return not is_narrow and self._is_port(action)
            case Kind.HTTP:
                return self._is_port(action) and self._is_request(action)
            case _:
                return False

    def _is_port(self, action: Action) -> bool:
        return self.port in (None, port_of(action))

    def _is_request(self, action: Action) -> bool:
        subject, fields = Subject(action, action.effect), FIELDS[Kind.HTTP]
        method, path = (fields[name].values(subject)[0] for name in ("method", "path"))
        return self.method in (None, method) and (self.is_path is None or self.is_path(path))


def background_rule(text: str) -> BackgroundRule:
    """Read `[METHOD ]HOST[:PORT][/PATH]`: the host as in `network.allow`, the path as in rules.
    Raises InvalidInput."""
    is_rule = len(text) <= MAX_TEXT and "://" not in text
    rule = _RULE.fullmatch(text) if is_rule else None
    endpoint = None if rule is None else _ENDPOINT.fullmatch(rule[2])
    if rule is None or endpoint is None:
        raise InvalidInput(f"{text[:100]!r} does not say what goes on beside", hint=_HINT)
    method, _, path = rule.groups()
    return BackgroundRule(
        text=text,
        host=HostPattern.parse(endpoint[1]),
        port=None if endpoint[2] is None else _port(endpoint[2]),
        method=None if method is None else method.casefold(),
        is_path=None if path is None else _path(path),
    )


def _port(digits: str) -> int:
    if not 0 < int(digits) < 65536:
        raise InvalidInput(f"{digits} is not a port", hint="write 443, or leave it out")
    return int(digits)


def _path(path: str) -> Test:
    problem = pattern_problem(Kind.HTTP, "path", path)
    if problem is not None:
        raise InvalidInput(problem[0], hint=problem[1])
    return any_of([path], "/")
