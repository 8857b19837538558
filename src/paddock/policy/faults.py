"""The section `faults` of a paddock file: what goes wrong on purpose, where and when. Its values,
and how they are written; `gate.faults` decides which action a fault strikes.

An entry is a fault, or the name of a set of them (`fault_sets`), perhaps narrowed to some actions.
Sets are replaced by their faults when the file is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_duration, parse_size, parse_written_duration
from paddock.policy.fault_sets import FAULT_SETS
from paddock.policy.fields import FIELDS
from paddock.policy.problems import PolicyError, Problem, spell_path, suggest
from paddock.policy.rules import (
    FAILURE_STATUS,
    FIELD_KEYS,
    KINDS,
    UNLESS,
    WHEN,
    Match,
    build_match,
    build_unless,
    check_expression,
    plain_match,
)
from paddock.policy.section import (
    INVALID,
    ByType,
    Cursor,
    Key,
    ListOf,
    Section,
    Value,
    as_given,
    parse_quantity,
    short_name,
    show,
    text,
    whole_number,
)
from paddock.policy.subject import names_for
from paddock.policy.tools import undeclared

_MAX_FAULTS = 500
_MAX_STEPS = 1000
_MAX_HEADERS = 50
_MAX_BODY = 1 << 16
_MAX_WAIT_S = 3600.0
_MAX_DRIP = 1 << 30
_LATE = ("error", "reset", "timeout")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}(; ?[\w-]+=[\w-]+)?", re.ASCII)
# They frame or route an answer; what they say must be true, or the client reads another one.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "trailer", "upgrade",
                      "keep-alive", "te"})  # fmt: skip

# In place of the effect: nothing happens, and the agent gets an error or silence.
INSTEAD = ("timeout", "status", "reset", "error", "nxdomain", "servfail", "disk_full")
# The effect happens; the agent gets no true answer.
SPOILING = ("truncate", "malformed", "wrong_type", "drip")
# Of an answer that has a status.
OF_STATUS = ("headers", "retry_after", "body")

_MISSING = {
    "id": "write id: and a short name for the fault",
    "match": "write match: {kind: http, ...} or another kind",
    "fault": "write fault: {status: 503}, or another word",
}
_KEYS_OF_SET = frozenset({"set", "id", "match", "seed"})
_OF_EFFECT = ("duplicate", "after", *SPOILING, "kill", "stale")
_TWO = "write two faults, each with its own id"
_Misfit = tuple[str, str, str]  # the key, what is wrong with it, what to write

_ASKING = (Kind.HTTP, Kind.MODEL)
_CALLING = (Kind.HTTP, Kind.MODEL, Kind.TOOL)
FITS: Mapping[str, tuple[Kind, ...]] = {
    "delay": tuple(Kind),
    "timeout": (*_CALLING, Kind.CONNECT, Kind.DNS),
    "status": _CALLING,
    "headers": _ASKING,
    "retry_after": _CALLING,
    "body": _ASKING,
    "error": _CALLING,
    "reset": (*_CALLING, Kind.CONNECT),
    "truncate": _CALLING,
    "malformed": _CALLING,
    "wrong_type": _ASKING,
    "drip": _ASKING,
    "duplicate": (Kind.HTTP, Kind.TOOL),
    "stale": (Kind.HTTP, Kind.TOOL),
    "after": _CALLING,
    "disk_full": (Kind.EXEC, Kind.CODE, Kind.FILE, Kind.TOOL),
    "kill": (Kind.EXEC,),
    "nxdomain": (Kind.DNS,),
    "servfail": (Kind.DNS,),
}


class Strikes(msgspec.Struct, frozen=True):
    """Which of the actions that match a fault it strikes. All conditions must hold."""

    rate: float = 1.0  # the probability of each
    times: int | None = None  # at most so many strikes
    after: int = 0  # so many matches are left alone first
    first: int | None = None  # of those behind them, only the first so many
    every: int | None = None  # of those behind them, each n-th
    steps: tuple[int, ...] = ()  # only these steps of the run
    seed: int | None = None  # in place of the run's

    def could(self, match: int, struck: int, step: int) -> bool:
        """Return whether the `match`-th match (from 1) may be struck, apart from the random rate,
        when `struck` others were."""
        number = match - self.after
        return (
            number > 0
            and (self.first is None or number <= self.first)
            and (self.every is None or number % self.every == 0)
            and (not self.steps or step in self.steps)
            and (self.times is None or struck < self.times)
        )


class FaultTerms(msgspec.Struct, frozen=True):
    """One fault of the file. `options` are plain JSON: durations in seconds, sizes in bytes."""

    id: str
    kinds: tuple[Kind, ...]
    options: Mapping[str, Any]
    match: Match
    unless: Match | None = None
    when: str | None = None
    strikes: Strikes = Strikes()


def plain_fault(fault: FaultTerms) -> dict[str, Any]:
    """Return the fault as the file writes it. What has its usual value is left out."""
    plain: dict[str, Any] = {"id": fault.id, "match": plain_match(fault.match, fault.kinds)}
    if fault.unless is not None:
        plain["unless"] = plain_match(fault.unless)
    if fault.when is not None:
        plain["when"] = fault.when
    plain["fault"] = dict(fault.options)
    usual = asdict(Strikes())
    for key, value in asdict(fault.strikes).items():
        if value != usual[key]:
            plain[key] = list(value) if isinstance(value, tuple) else value
    return plain


def faults_of(value: Any, tools: Collection[str] = ()) -> tuple[FaultTerms, ...]:
    """Return the faults that a Python caller describes like a paddock file does. Raises
    PolicyError with all that is wrong."""
    cursor = Cursor(("faults",))
    entries = FAULTS.read(value, cursor)
    faults = () if entries is INVALID else fault_terms(entries, tools, cursor)
    if cursor.mistakes:
        problems = [
            Problem(1, 1, spell_path(mistake.path), mistake.message, mistake.hint)
            for mistake in cursor.mistakes
        ]
        raise PolicyError("faults", problems)
    return faults


def fault_terms(
    entries: str | list[str | Mapping[str, Any]], tools: Collection[str], cursor: Cursor
) -> tuple[FaultTerms, ...]:
    """Return the faults of the section in their order, and report entries that cannot strike."""
    if isinstance(entries, str):
        located: list[tuple[str | Mapping[str, Any], Cursor]] = [(entries, cursor)]
    else:
        located = [(entry, cursor.at(number)) for number, entry in enumerate(entries)]
    faults: list[FaultTerms] = []
    first: dict[str, Cursor] = {}
    for entry, inner in located:
        whole = {"set": entry} if isinstance(entry, str) else entry
        read = _set_faults if "set" in whole else _single_fault
        for fault in read(whole, tools, inner):
            if first.setdefault(fault.id, inner) is not inner:
                inner.report(f"the id {fault.id} is used twice", "give each its own id")
            faults.append(fault)
    return tuple(faults)


def _single_fault(
    entry: Mapping[str, Any], tools: Collection[str], cursor: Cursor
) -> Iterator[FaultTerms]:
    missing = [key for key in _MISSING if key not in entry]
    for key in missing:
        cursor.at(key).report("this key is missing", _MISSING[key], of_key=True)
    if missing:
        return
    kinds = entry["match"].get("kind")
    if kinds is None:
        hint = "write kind: http, model, tool, dns or another"
        cursor.at("match", "kind").report("this key is missing", hint, of_key=True)
        return
    fault = entry["fault"]
    for key, message, hint in _misfits(fault, kinds):
        at_key = cursor.at("fault", key) if key else cursor.at("fault")
        at_key.report(message, hint)
    when = entry.get("when")
    check_expression(when, names_for(kinds), cursor.at("when"))
    yield FaultTerms(
        id=entry["id"],
        kinds=kinds,
        options=fault,
        match=_build_match(entry["match"], kinds, tools, cursor.at("match")),
        unless=build_unless(entry.get("unless"), kinds, cursor.at("unless")),
        when=when,
        strikes=_build_strikes(entry, cursor),
    )


def _build_strikes(entry: Mapping[str, Any], cursor: Cursor) -> Strikes:
    if "step" in entry and "steps" in entry:
        cursor.at("step").report("there is steps as well", "write one of them")
    steps = entry.get("steps", entry.get("step", []))
    if isinstance(steps, int):
        steps = [steps]
    return Strikes(
        rate=float(entry.get("rate", 1.0)),
        times=entry.get("times"),
        after=entry.get("after", 0),
        first=entry.get("first"),
        every=entry.get("every"),
        steps=tuple(sorted(set(steps))),
        seed=entry.get("seed"),
    )


def _build_match(
    values: Mapping[str, Any], kinds: tuple[Kind, ...], tools: Collection[str], cursor: Cursor
) -> Match:
    fields = {field: patterns for field, patterns in values.items() if field != "kind"}
    match = build_match(fields, kinds, cursor)
    if kinds == (Kind.TOOL,):
        for message, hint in undeclared(match.get("name") or (), tools):
            cursor.at("name").report(message, hint)
    return match


def _set_faults(
    entry: Mapping[str, Any], tools: Collection[str], cursor: Cursor
) -> Iterator[FaultTerms]:
    for key in sorted(entry.keys() - _KEYS_OF_SET):
        hint = "write the faults that are wanted one by one"
        cursor.at(key).report(f"a set brings its own {key}", hint, of_key=True)
    narrowed = entry.get("match", {})
    kinds = _kinds_of(narrowed)
    wanted = _build_match(narrowed, kinds, tools, cursor.at("match")) if kinds else Match()
    faults = [_fault_of_set(entry, content, wanted, kinds) for content in FAULT_SETS[entry["set"]]]
    left = [fault for fault in faults if fault is not None]
    if not left:
        hint = "leave match out, or match a kind that it has"
        cursor.at("match").report(f"the set {entry['set']} has nothing for that", hint)
    yield from left


def _fault_of_set(
    entry: Mapping[str, Any], content: Mapping[str, Any], wanted: Match, kinds: tuple[Kind, ...]
) -> FaultTerms | None:
    """Return a fault of a set, narrowed to what the entry wants; None when nothing is left."""
    own = FAULT_ENTRY.read(content, Cursor())
    fields = {field: patterns for field, patterns in own["match"].items() if field != "kind"}
    left = tuple(kind for kind in own["match"]["kind"] if kind in kinds)
    match = _intersection(Match(tuple(sorted(fields.items()))), wanted)
    if not left or match is None:
        return None
    prefix = entry.get("id", entry["set"])
    strikes = Strikes(rate=float(own["rate"]), seed=entry.get("seed"))
    return FaultTerms(f"{prefix}.{own['id']}"[:100], left, own["fault"], match, strikes=strikes)


def _kinds_of(match: Mapping[str, Any]) -> tuple[Kind, ...]:
    """Return the kinds that are named, else all that have the fields that are."""
    if match.get("kind") is not None:
        kinds: tuple[Kind, ...] = match["kind"]
        return kinds
    return tuple(kind for kind in Kind if match.keys() - {"kind"} <= FIELDS[kind].keys())


def _intersection(own: Match, wanted: Match) -> Match | None:
    """Return what both match. Sets themselves match only on fields with few values."""
    fields = dict(wanted.fields)
    for field, patterns in own.fields:
        common = tuple(pattern for pattern in patterns if pattern in fields.get(field, patterns))
        if not common:
            return None
        fields[field] = common
    return Match(tuple(sorted(fields.items())))


def _misfits(fault: Mapping[str, Any], kinds: tuple[Kind, ...]) -> Iterator[_Misfit]:
    """Yield the keys of a fault that do not fit the kinds of action, or each other."""
    if not fault:
        yield "", "says nothing that goes wrong", _MISSING["fault"]
    for key in fault:
        for kind in kinds:
            if kind not in FITS[key]:
                fitting = [other for other, kinds_of in FITS.items() if kind in kinds_of]
                yield (key, f"{key} does not fit an action of kind {kind}",
                       f"for {kind} there are {', '.join(fitting)}")  # fmt: skip
    has_status = "status" in fault or isinstance(fault.get("after"), int)
    if not has_status:
        for key in fault.keys() & OF_STATUS:
            yield key, f"{key} needs a status to go with", "write status: 503 beside it"
    yield from _contradictions(fault)


def _contradictions(fault: Mapping[str, Any]) -> Iterator[_Misfit]:
    late = fault.get("after")
    instead = [key for key in INSTEAD if key in fault]
    if "error" in instead and ("status" in fault or late is not None):
        instead.remove("error")  # what the other one says
    if "timeout" in instead and late == "timeout":
        instead.remove("timeout")  # how long it lasts
    acting = [key for key in _OF_EFFECT if key in fault]
    if len(instead) > 1:
        yield instead[1], f"{instead[0]} and {instead[1]} cannot both happen", _TWO
    if instead and acting:
        yield (acting[0], f"with {instead[0]} there is no effect and no answer to go wrong",
               _TWO)  # fmt: skip
    alone = next((key for key in ("stale", "after") if key in fault), None)
    others = [key for key in acting if key not in (alone, "duplicate")]
    if alone is not None and others:
        yield others[0], f"{alone} leaves no answer for {others[0]}", _TWO
    if "stale" in fault and "duplicate" in fault:
        yield "duplicate", "an earlier answer has no effect that could happen twice", _TWO


def _parse_wait(value: Any) -> float:
    return _check_wait(parse_quantity(parse_written_duration, value), value)


def _check_wait(seconds: float, value: Any) -> float:
    if not 0.001 <= seconds <= _MAX_WAIT_S:
        raise InvalidInput(f"{value!r} is not between 1ms and 1h", hint="write 30s")
    return seconds


def _parse_retry_after(value: Any) -> float:
    """Return seconds; like the header, it may be a plain number of them."""
    if type(value) in (int, float):  # a recorded file has a float
        return 0.0 if value == 0 else _check_wait(parse_quantity(parse_duration, value), value)
    return _parse_wait(value)


def _parse_yes(value: Any) -> Literal[True]:
    if value is True:
        return True
    raise InvalidInput(f"{value!r:.60} is not true", hint="write true, or remove the key")


def _parse_kill(value: Any) -> Literal[True] | float:
    return True if value is True else _parse_wait(value)


def _parse_truncate(value: Any) -> int | float:
    hint = "write 0.5 for the half, or 100 for so many bytes"
    if type(value) is float:
        if 0 < value < 1:
            return value
        raise InvalidInput(f"{value!r} is not a share between 0 and 1", hint=hint)
    if type(value) is int and value == 0:
        return 0
    return parse_quantity(parse_size, value)


def _parse_drip(value: Any) -> int:
    hint = "write 100B/s"
    size = value
    if isinstance(value, str):
        size = value.strip()
        if not size.endswith("/s"):
            raise InvalidInput(f"{value!r:.60} is not a speed", hint=hint)
        size = size.removesuffix("/s")
    speed = parse_quantity(parse_size, size)
    if speed > _MAX_DRIP:
        raise InvalidInput(f"{value!r:.60} is no drip", hint=hint)
    return speed


def _parse_late(value: Any) -> str | int:
    if value in _LATE or (type(value) is int and 400 <= value <= 599):
        how: str | int = value
        return how
    hint = suggest(value, _LATE) if isinstance(value, str) else "a status is from 400 to 599"
    raise InvalidInput(f"{value!r:.60} is not how an answer is lost", hint=hint)


def _parse_headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not 0 < len(value) <= _MAX_HEADERS:
        raise InvalidInput("not a mapping of headers", hint="write {X-Request-Id: abc}")
    for name, line in value.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidInput(f"{name!r:.60} is not the name of a header")
        if name.lower() in _FRAMING:
            raise InvalidInput(f"{name} says where an answer ends", hint="write truncate or reset")
        is_plain = isinstance(line, str) and len(line) <= 1000 and line.isascii()
        if not is_plain or not (line.isprintable() or not line):
            raise InvalidInput(f"the value of {name} is not a line of text", hint="quote it")
    return dict(value)


def _parse_body(value: Any) -> Any:
    if not isinstance(value, str | Mapping | list):
        raise InvalidInput(f"{value!r:.60} is no body", hint="write a text or a mapping")
    try:
        size = len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("is not JSON", hint="quote what is not a text or a number") from None
    if size > _MAX_BODY:
        raise InvalidInput(f"is longer than {_MAX_BODY} bytes")
    return value


def _parse_media_type(value: Any) -> str:
    if isinstance(value, str) and _MEDIA_TYPE.fullmatch(value):
        return value
    raise InvalidInput(f"{value!r:.60} is not a content type", hint="write text/html")


def _parse_set_name(value: Any) -> str:
    if isinstance(value, str) and value in FAULT_SETS:
        return value
    raise InvalidInput(f"{value!r:.60} is not a set of faults", hint=suggest(value, FAULT_SETS))


def _parse_rate(value: Any) -> float:
    if type(value) not in (int, float):
        hint = "write it without quotes, as in 0.3"
        raise InvalidInput(f"{show(value)} is not a number", hint=hint)
    if value <= 0:
        raise InvalidInput(f"{show(value)} is out of range", hint="write a number above 0")
    if value > 1:
        raise InvalidInput(f"{show(value)} is out of range", hint="write a number of at most 1")
    return float(value)


_TIME: dict[str, Any] = {"type": ["string", "number"], "examples": ["30s", "250ms"]}
_STATUS = {"type": "integer", "minimum": 400, "maximum": 599}
_WAIT = Key(Value(_parse_wait, _TIME))
_YES = Key(Value(_parse_yes, {"const": True}))
_COUNT = Key(whole_number(1, 10**6))
_STEP = whole_number(1, 1 << 53)
_SET = Value(_parse_set_name, {"enum": list(FAULT_SETS)})
FAULT_KEYS = {
    "delay": _WAIT,
    "timeout": _WAIT,
    "status": Key(FAILURE_STATUS),
    "headers": Key(
        Value(_parse_headers, {"type": "object", "additionalProperties": {"type": "string"}})
    ),
    "retry_after": Key(Value(_parse_retry_after, _TIME)),
    "body": Key(Value(_parse_body, {"type": ["string", "object", "array"]})),
    "error": Key(text(least=1, most=1000)),
    "reset": _YES,
    "truncate": Key(Value(_parse_truncate, {"type": ["number", "string"], "examples": [0.5, 100]})),
    "malformed": _YES,
    "wrong_type": Key(Value(_parse_media_type, {"type": "string"})),
    "drip": Key(Value(_parse_drip, {"type": ["string", "integer"]})),
    "duplicate": _YES,
    "stale": _YES,
    "after": Key(Value(_parse_late, {"anyOf": [{"enum": list(_LATE)}, _STATUS]})),
    "disk_full": _YES,
    "kill": Key(Value(_parse_kill, {"anyOf": [{"const": True}, _TIME]})),
    "nxdomain": _YES,
    "servfail": _YES,
}
_FAULT = Section(
    "What goes wrong. A key that is not there does nothing.",
    as_given,
    FAULT_KEYS,
    hint="write fault: {status: 503}, or another word",
)
_MATCH = Section(
    "Which actions a fault is about. Of a set, what is not said is as the set has it.",
    as_given,
    {"kind": Key(KINDS, may_be_empty=True), **FIELD_KEYS},
    hint="write match: {kind: http}, or another kind",
)
FAULT_ENTRY = Section(
    "One fault, or (with `set`) a ready-made set of them.",
    as_given,
    {
        "id": Key(short_name()),
        "set": Key(_SET, description="storm, flaky or hostile"),
        "match": Key(_MATCH),
        "unless": Key(UNLESS),
        "when": Key(WHEN.form, description=WHEN.description),
        "fault": Key(_FAULT),
        "rate": Key(
            Value(_parse_rate, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
            description="the probability of each match",
        ),
        "times": _COUNT,
        "first": _COUNT,
        "after": Key(whole_number(0, 10**6)),
        "every": _COUNT,
        "step": Key(_STEP),
        "steps": Key(ByType(_STEP, sequence=ListOf(_STEP, _MAX_STEPS, least=1))),
        "seed": Key(whole_number(0, (1 << 63) - 1)),
    },
)
# A set, or a list of faults and sets.
FAULTS = ByType(_SET, sequence=ListOf(ByType(_SET, mapping=FAULT_ENTRY), _MAX_FAULTS))
