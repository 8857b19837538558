"""The shape of the paddock file: which keys there are and of what type. Published as JSON Schema.

Only shapes live here; what keys mean together is checked in `convert`. Loading this file loads
pydantic, so nothing that decides may import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
)

from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from paddock.model.sizes import DEFAULT_RECORD_BUDGET, parse_written_duration
from paddock.model.spec import Limits, Mount, parse_envs, template_name
from paddock.policy.fault_schema import FAULT_SHAPES, FailureStatus, Faults, quantity
from paddock.policy.match_schema import MatchShape, UnlessShape
from paddock.policy.network_schema import NetworkShape, SecretName, SecretShape, TlsShape
from paddock.policy.problems import suggest
from paddock.policy.record_words import budget_of
from paddock.policy.secret_words import MAX_SECRETS
from paddock.policy.shape import Shape
from paddock.policy.world_words import SERVICE_PATTERN, SERVICES

MAX_RULES = 2000
MAX_TOOLS = 2000
MAX_EXAMPLES = 50

# The context in which a text is read that a journal has: what was once taken is taken.
RECORDED = object()
_EFFECTS = [effect.value for effect in Effect]


def _version(value: Any) -> int:
    if type(value) is not int or value != 1:  # true equals one in Python
        quoted = ", without quotes" if value == "1" else ""
        message = f"{value!r} is not a version of the file"
        raise InvalidInput(message, hint=f"write version: 1{quoted}")
    return value


def _effect(value: Any) -> Effect:
    if value in _EFFECTS:
        return Effect(value)
    raise InvalidInput(f"{value!r} is not an effect", hint=suggest(value, _EFFECTS))


def _seconds(value: Any) -> float:
    seconds = quantity(parse_written_duration, value)
    if seconds < 1:
        raise InvalidInput(f"{value!r} is less than one second", hint="write 1s or more")
    return seconds


def _window(value: Any) -> float | None:
    periods = {"second": "1s", "minute": "1m", "hour": "1h", "day": "24h", "week": "7d"}
    if isinstance(value, str) and value in periods:
        raise InvalidInput(f"{value!r} is not a duration", hint=f"write {periods[value]}")
    return None if value == "run" else _seconds(value)


def _condition(value: Any) -> str | bool:
    if isinstance(value, str | bool):
        return value
    raise InvalidInput(f"{value!r} is neither an expression nor true")


def _limit_word(name: str) -> Callable[[Any, ValidationInfo], Any]:
    def check(value: Any, info: ValidationInfo) -> Any:
        if name == "time" and info.context is RECORDED and type(value) is int:
            return float(value)  # files once took a number without a unit
        try:
            if name == "time":
                parse_written_duration(value, "limits.time")
            Limits.parse({name: value})
        except InvalidInput as error:
            message = error.message.removeprefix(f"limits.{name}: ")
            raise InvalidInput(message, hint=error.hint) from None
        return value

    return check


def _checked(key: str, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a check whose errors do not begin with the key: the path in the file has it."""

    def check(value: Any) -> Any:
        try:
            parse(value)
        except InvalidInput as error:
            message = error.message.removeprefix(key).removeprefix(": ").removeprefix(".")
            raise InvalidInput(message, hint=error.hint) from None
        return dict(value)

    return check


_TIME = {"anyOf": [{"type": "string", "examples": ["30s", "15m", "24h"]}, {"type": "number"}]}
_QUANTITY: dict[str, Any] = {"type": ["string", "number"]}

EffectWord = Annotated[
    Effect, PlainValidator(_effect), WithJsonSchema({"enum": _EFFECTS}), Tag("word")
]
Duration = Annotated[float, PlainValidator(_seconds), WithJsonSchema(_TIME)]
Window = Annotated[float | None, PlainValidator(_window), WithJsonSchema(_TIME)]
Condition = Annotated[
    str | bool, PlainValidator(_condition), WithJsonSchema({"type": ["string", "boolean"]})
]
MountWords = Annotated[
    dict[str, Any],
    PlainValidator(_checked("mounts", Mount.parse)),
    WithJsonSchema({
        "type": "object",
        "additionalProperties": False,
        "required": ["target"],
        "properties": {
            "source": {"type": "string"},
            "volume": {"type": "string"},
            "target": {"type": "string"},
            "mode": {"enum": ["read", "write", "overlay"]},
            "hidden": {"type": "array", "items": {"type": "string"}},
        },
    }),
]  # fmt: skip
EnvWords = Annotated[
    dict[str, str],
    PlainValidator(_checked("envs", parse_envs)),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


def _world(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidInput("not a mapping of hosts to services", hint="write host: service")


_SERVICE = {
    "anyOf": [{"enum": list(SERVICES)}, {"type": "string", "pattern": f"^{SERVICE_PATTERN}$"}]
}
_STAND_IN = {
    "anyOf": [
        _SERVICE,
        {
            "type": "object",
            "required": ["service"],
            "properties": {"service": _SERVICE},
        },
    ]
}
WorldWords = Annotated[
    dict[str, Any],
    PlainValidator(_world),
    WithJsonSchema({
        "type": "object",
        "properties": {"settings": {"type": "object"}},
        "additionalProperties": _STAND_IN,
    }),
]  # fmt: skip


def _limit_type(name: str) -> Any:
    return Annotated[Any, PlainValidator(_limit_word(name)), WithJsonSchema(_QUANTITY)]


class LimitsShape(Shape):
    """Hard ceilings of the sandbox."""

    cpu: _limit_type("cpu") = None  # type: ignore[valid-type]
    memory: _limit_type("memory") = None  # type: ignore[valid-type]
    pids: _limit_type("pids") = None  # type: ignore[valid-type]
    disk: _limit_type("disk") = None  # type: ignore[valid-type]
    files: _limit_type("files") = None  # type: ignore[valid-type]
    output: _limit_type("output") = None  # type: ignore[valid-type]
    time: _limit_type("time") = None  # type: ignore[valid-type]


class SandboxShape(Shape):
    """The machine that the agent lives in."""

    isolation: Literal["container"] = "container"
    template: Annotated[str, PlainValidator(template_name), WithJsonSchema({"type": "string"})] = (
        "host"
    )
    limits: LimitsShape = LimitsShape()
    mounts: list[MountWords] = Field(default=[], max_length=100)
    envs: EnvWords = Field(default={})
    timeout: Duration = 300.0


class EffectShape(Shape):
    """For each effect the expression that says when a call has it; the strictest that holds."""

    admin: Condition = False
    write: Condition = False
    read: Condition = False


class ToolShape(Shape):
    """One tool that the agent may call."""

    effect: Annotated[
        EffectWord | Annotated[EffectShape, Tag("map")],
        Discriminator(lambda value: "map" if isinstance(value, dict) else "word"),
    ] = Field(description="read, write or admin, or a mapping from these to CEL")
    reversible: bool = Field(default=False, description="whether a write can be undone")


class LimitShape(Shape):
    """How much may be spent before the rule fires."""

    sum: str | None = Field(default=None, description="CEL that gives the amount of an action")
    count: int | None = Field(default=None, ge=1, le=10**6, description="the amount of any action")
    max: int = Field(ge=0, le=10**15)
    per: Window = Field(description="a duration, or run")


class FaultShape(Shape):
    """How an action fails that a rule lets fail."""

    error: str = Field(default="The service failed.", max_length=1000)
    status: FailureStatus | None = None
    delay: Duration | None = None


class ExamplesShape(Shape):
    """Actions that the rule must and must not match; checked when the file is loaded."""

    match: list[dict[str, Any]] = Field(default=[], max_length=MAX_EXAMPLES)
    not_match: list[dict[str, Any]] = Field(default=[], max_length=MAX_EXAMPLES)


class RuleShape(Shape):
    """One rule. Of all that match an action, the strictest holds."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")
    match: MatchShape
    unless: UnlessShape | None = Field(default=None, description="what the rule leaves out")
    when: str | None = Field(default=None, description="CEL over args, action and context")
    limit: LimitShape | None = None
    decide: Literal["allow", "block", "ask", "simulate", "fault"]
    fault: FaultShape | None = None
    why: str = Field(default="", max_length=1000, description="shown when the rule decides")
    examples: ExamplesShape = ExamplesShape()


class ApprovalsShape(Shape):
    """Who is asked, and for how long."""

    timeout: Duration = 900.0
    by: list[Literal["terminal", "store"]] = Field(default=["terminal"], min_length=1, max_length=8)


class ReplayShape(Shape):
    """How a run of the agent is compared with its record."""

    vary: list[Annotated[str, Field(max_length=200)]] = Field(
        default=[], max_length=100, description="what may differ: body.created=date"
    )
    # Not optional: a key without a value must not read like no key.
    beside: list[Annotated[str, Field(max_length=500)]] = Field(
        default=None,  # type: ignore[arg-type]
        max_length=100,
        description="what goes on beside, by the clock: POST collector.example/v1/traces",
    )


class RecordShape(Shape):
    """What is stored of a run."""

    budget: Annotated[int, PlainValidator(budget_of), WithJsonSchema(_QUANTITY)] = Field(
        default=DEFAULT_RECORD_BUDGET,
        description="bytes that the agent can make Paddock store: 4GiB",
    )


class FileShape(Shape):
    """What one agent may do."""

    version: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})]
    agent: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")
    stage: Literal["observe", "draft", "approve", "narrow", "broad"]
    sandbox: SandboxShape = SandboxShape()
    # Not optional: a key without a value must not read like no key, which forbids less.
    network: NetworkShape = Field(default=None)  # type: ignore[assignment]
    secrets: dict[SecretName, SecretShape] = Field(default={}, max_length=MAX_SECRETS)  # type: ignore[valid-type]
    world: WorldWords = Field(default=None)  # type: ignore[arg-type]
    faults: Faults = Field(default=None)  # type: ignore[assignment]
    tools: dict[str, ToolShape] = Field(default={}, max_length=MAX_TOOLS)
    rules: list[RuleShape] = Field(default=[], max_length=MAX_RULES)
    approvals: ApprovalsShape = ApprovalsShape()
    replay: ReplayShape = ReplayShape()
    record: RecordShape = RecordShape()


# Which keys there are at a path; `*` stands for a number, or the name of a tool or a secret.
SHAPES: dict[tuple[str, ...], type[Shape]] = {
    (): FileShape,
    ("sandbox",): SandboxShape,
    ("sandbox", "limits"): LimitsShape,
    ("network",): NetworkShape,
    ("network", "tls"): TlsShape,
    ("secrets", "*"): SecretShape,
    ("tools", "*"): ToolShape,
    ("tools", "*", "effect"): EffectShape,
    ("rules", "*"): RuleShape,
    ("rules", "*", "match"): MatchShape,
    ("rules", "*", "unless"): UnlessShape,
    ("rules", "*", "limit"): LimitShape,
    ("rules", "*", "fault"): FaultShape,
    ("rules", "*", "examples"): ExamplesShape,
    ("approvals",): ApprovalsShape,
    ("replay",): ReplayShape,
    ("record",): RecordShape,
    **FAULT_SHAPES,
}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the paddock file, for editors."""
    schema = FileShape.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Paddock file",
        **{key: value for key, value in schema.items() if key != "title"},
    }
