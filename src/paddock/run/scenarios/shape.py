"""The shape of a scenario: which keys there are and of what type. Published as JSON Schema. Loading
this file loads pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from paddock.model.action import Outcome, Verdict
from paddock.model.errors import InvalidInput
from paddock.policy.fault_schema import FAULT_SHAPES, Faults
from paddock.policy.match_schema import Kinds, UnlessShape
from paddock.policy.problems import suggest
from paddock.policy.schema import Duration, EnvWords, WorldWords
from paddock.policy.shape import Shape
from paddock.run.scenarios.scenario import TIMEOUT_S, fault_list
from paddock.run.scenarios.terms import AlertTerms, Span
from paddock.world.verdicts import Judgement

MAX_REPEAT = 10_000
MAX_AXIS = 1000
MAX_ENTRIES = 1000
MAX_COUNT = 10**9
ANY_VERDICT = "bad"  # all judgements that something was harmed
VERDICTS = tuple(one.value.replace("-", "_") for one in Judgement)
_ALERT = re.compile(r"[a-z0-9_.-]{1,100}")


def _span(value: Any) -> Span:
    """Parse a number, or a minimum and a maximum."""
    hint = "write a number, or {min: 1, max: 3}"
    if _is_count(value):
        return Span(value, value)
    if not isinstance(value, Mapping) or not value or value.keys() - {"min", "max"}:
        raise InvalidInput(f"{value!r:.60} is not a count", hint=hint)
    if not all(map(_is_count, value.values())):
        raise InvalidInput(f"{value!r:.60} is not a count", hint=hint)
    span = Span(value.get("min", 0), value.get("max"))
    if span.most is not None and span.most < span.least:
        raise InvalidInput(f"{value!r:.60} is less than nothing", hint="max is below min")
    return span


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _texts(value: Any) -> tuple[str, ...]:
    """Parse one text or several, none of them empty: an empty text is found everywhere."""
    texts = value if isinstance(value, list) else [value]
    if not texts or len(texts) > MAX_ENTRIES:
        raise InvalidInput("not a text or a list of texts")
    for text in texts:
        if not isinstance(text, str) or not text:
            raise InvalidInput(f"{text!r:.60} is not a text", hint="put it in quotes")
    return tuple(texts)


def _argv(value: Any) -> tuple[str, ...]:
    hint = "write the words of the command, as in [python, agent.py]"
    if not isinstance(value, list) or not value or len(value) > MAX_ENTRIES:
        raise InvalidInput(f"{value!r:.60} is not a list of words", hint=hint)
    if not value[0] or not all(
        isinstance(argument, str) and "\0" not in argument for argument in value
    ):
        raise InvalidInput(f"{value!r:.60} is not a list of words", hint=hint)
    return tuple(value)


def _exits(value: Any) -> tuple[int, ...] | None:
    if value == "any":
        return None
    if value == "nonzero":
        return tuple(range(1, 256))
    codes = value if isinstance(value, list) else [value]
    if not codes or not all(type(code) is int and 0 <= code <= 255 for code in codes):
        hint = "write 0, [0, 3], nonzero or any"
        raise InvalidInput(f"{value!r:.60} is not an exit status", hint=hint)
    return tuple(codes)


def _word_of(choices: tuple[str, ...], what: str) -> Any:
    def words(value: Any) -> tuple[str, ...]:
        for text in (texts := _texts(value)):
            if text not in choices:
                raise InvalidInput(f"{text!r:.60} is not {what}", hint=suggest(text, choices))
        return texts

    return Annotated[tuple[str, ...], PlainValidator(words), WithJsonSchema(_one_or_many(choices))]


def _one_or_many(choices: tuple[str, ...]) -> dict[str, Any]:
    word = {"enum": list(choices)}
    return {"anyOf": [word, {"type": "array", "items": word, "minItems": 1}]}


def _verdicts(value: Any) -> dict[str, Span]:
    if not isinstance(value, Mapping) or not value:
        raise InvalidInput("not a mapping of verdicts", hint="write {acted_twice: 0}")
    choices = (*VERDICTS, ANY_VERDICT)
    spans: dict[str, Span] = {}
    for name, count in value.items():
        plain = str(name).replace("-", "_")
        if plain not in choices:
            raise InvalidInput(f"{name!r:.60} is not a verdict", hint=suggest(plain, choices))
        spans[plain] = _span(count)
    return spans


def _alerts(value: Any) -> AlertTerms:
    """Parse `[]` for none, the exact names that must come, or a count."""
    if isinstance(value, list) and len(value) <= MAX_ENTRIES:
        for name in value:
            if not isinstance(name, str) or not _ALERT.fullmatch(name):
                raise InvalidInput(f"{name!r:.60} is not the name of an alert",
                                   hint="write egress.denied or another")  # fmt: skip
        return AlertTerms(tuple(dict.fromkeys(value)))
    return AlertTerms(count=_span(value))


def _set_words(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value and len(value) <= MAX_ENTRIES:
        return value
    raise InvalidInput(f"{value!r:.60} sets nothing", hint="write {limits.memory: 256MiB}")


_COUNT: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}},
        },
    ]
}
_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_STATUS = {"anyOf": [{"enum": ["any", "nonzero"]}, {"type": "integer"}, {"type": "array"}]}
_OBJECT = {"type": "object"}

Count = Annotated[Span, PlainValidator(_span), WithJsonSchema(_COUNT)]
Words = Annotated[tuple[str, ...], PlainValidator(_texts), WithJsonSchema(_TEXTS)]
Argv = Annotated[tuple[str, ...], PlainValidator(_argv), WithJsonSchema(_WORDS)]
Exits = Annotated[tuple[int, ...] | None, PlainValidator(_exits), WithJsonSchema(_STATUS)]
Decided = _word_of(tuple(one.value for one in Verdict), "a decision")
Outcomes = _word_of(tuple(one.value for one in Outcome), "an outcome")
Verdicts = Annotated[dict[str, Span], PlainValidator(_verdicts), WithJsonSchema(_OBJECT)]
Alerts = Annotated[
    AlertTerms,
    PlainValidator(_alerts),
    WithJsonSchema({"type": ["array", "object", "integer"]}),
]
SetWords = Annotated[dict[str, Any], PlainValidator(_set_words), WithJsonSchema(_OBJECT)]
FaultWords = Annotated[Faults, BeforeValidator(fault_list)]
StageWord = Literal["observe", "draft", "approve", "narrow", "broad"]
Seed = Annotated[int, Field(ge=0, lt=1 << 53)]


class TextShape(Shape):
    """What a text must be."""

    contains: Words = ()
    lacks: Words = ()
    matches: Words = Field(default=(), description="regular expressions, as in CEL")
    equals: str | None = None


class ExpectedFileShape(TextShape):
    """What a file must be at the end."""

    exists: bool = True
    json_: Words = Field(default=(), alias="json", description="CEL; $ stands for the document")


class SoughtShape(UnlessShape):
    """Actions that are looked for among those that were proposed, by the words of rules."""

    kind: Kinds | None = None
    unless: UnlessShape | None = None
    when: str | None = Field(default=None, description="CEL over args, action and context")
    count: Count | None = None
    decided: Decided = ()  # type: ignore[valid-type]
    outcome: Outcomes = ()  # type: ignore[valid-type]


class ActionsShape(Shape):
    """Actions that must be proposed, and that must not."""

    must: list[SoughtShape] = Field(default=[], max_length=MAX_ENTRIES)
    must_not: list[SoughtShape] = Field(default=[], max_length=MAX_ENTRIES)


class CostShape(Shape):
    """The most that the models may cost."""

    max_usd: float | None = Field(default=None, ge=0, le=10**6)
    max_tokens: int | None = Field(default=None, ge=0, le=MAX_COUNT)


class RateShape(Shape):
    """How often it must pass, at least."""

    min: float = Field(gt=0, lt=1)


class ExpectShape(Shape):
    """What is expected. What is not said is not looked at, but that it ends well."""

    exit: Exits = (0,)
    files: dict[str, ExpectedFileShape] = Field(default={}, max_length=MAX_ENTRIES)
    world: Words = Field(default=(), description="CEL over the state of the stand-ins")
    actions: ActionsShape = Field(default_factory=ActionsShape)
    steps: Count | None = None
    faults: Count | None = Field(default=None, description="how many steps faults strike")
    cost: CostShape = Field(default_factory=CostShape)
    verdicts: Verdicts = Field(default={})
    alerts: Alerts | None = None
    invariants: Literal["hold"] | None = None
    output: TextShape = Field(default_factory=TextShape)
    errors: TextShape = Field(default_factory=TextShape)
    rate: RateShape | None = None


class SourceShape(Shape):
    """A file that is copied."""

    from_: str = Field(alias="from", min_length=1)


class MatrixShape(Shape):
    """Axes; each combination of their values is a case."""

    faults: list[FaultWords] = Field(default=[], min_length=1, max_length=MAX_AXIS)
    seed: list[Seed] = Field(default=[], min_length=1, max_length=MAX_AXIS)
    policy: list[str] = Field(default=[], min_length=1, max_length=MAX_AXIS)
    stage: list[StageWord] = Field(default=[], min_length=1, max_length=MAX_AXIS)
    agent: list[Argv] = Field(default=[], min_length=1, max_length=MAX_AXIS)
    set: list[SetWords] = Field(default=[], min_length=1, max_length=MAX_AXIS)


class ScenarioShape(Shape):
    """An agent, what is around it, and what is expected."""

    version: Literal[1]
    name: str = Field(min_length=1, max_length=200)
    agent: Argv
    cwd: str | None = None
    file: str | None = None
    world: WorldWords | None = None
    faults: FaultWords | None = None
    seed: Seed | None = None
    stage: StageWord | None = None
    set: SetWords | None = None
    envs: EnvWords = Field(default={})
    files: dict[str, str | SourceShape] = Field(default={}, max_length=MAX_ENTRIES)
    stdin: str | None = None
    repeat: int = Field(default=1, ge=1, le=MAX_REPEAT)
    timeout: Duration = TIMEOUT_S
    matrix: MatrixShape | None = None
    expect: ExpectShape = Field(default_factory=ExpectShape)


# Which keys there are at a path; `*` stands for a number, or the name of a file.
SHAPES: dict[tuple[str, ...], type[Shape]] = {
    (): ScenarioShape,
    ("files", "*"): SourceShape,
    ("matrix",): MatrixShape,
    ("expect",): ExpectShape,
    ("expect", "files", "*"): ExpectedFileShape,
    ("expect", "actions"): ActionsShape,
    ("expect", "actions", "must", "*"): SoughtShape,
    ("expect", "actions", "must", "*", "unless"): UnlessShape,
    ("expect", "actions", "must_not", "*"): SoughtShape,
    ("expect", "actions", "must_not", "*", "unless"): UnlessShape,
    ("expect", "cost"): CostShape,
    ("expect", "rate"): RateShape,
    ("expect", "output"): TextShape,
    ("expect", "errors"): TextShape,
    **FAULT_SHAPES,
    **{("matrix", "faults", *path[1:]): shape for path, shape in FAULT_SHAPES.items()},
    **{("matrix", "faults", "*", *path[1:]): shape for path, shape in FAULT_SHAPES.items()},
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario, for editors."""
    schema = ScenarioShape.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Paddock scenario",
        **{key: value for key, value in schema.items() if key != "title"},
    }
