"""A whole paddock file: its values, and how it is written.

`FILE` is the definition of the file. Its sections are defined where their values are (`network`,
`secrets`, `world`, `faults`, `tools`, `rules`); the small ones are here. What a sandbox can be is
defined by `model.spec`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from paddock.model.action import Stage
from paddock.model.errors import InvalidInput
from paddock.model.sizes import DEFAULT_RECORD_BUDGET, parse_size, parse_written_duration
from paddock.model.spec import Limits, Mount, MountMode, Spec, parse_envs, template_name
from paddock.policy.background import background_rule
from paddock.policy.faults import FAULTS, FaultTerms, fault_terms, plain_fault
from paddock.policy.network import NETWORK, NetworkTerms, plain_network
from paddock.policy.rules import RULES, Rule, plain_rule, plain_seconds
from paddock.policy.secrets import SECRETS, SecretTerms, plain_secret, secret_mistakes
from paddock.policy.section import (
    Cursor,
    Key,
    ListOf,
    Section,
    Value,
    as_given,
    builder,
    choice,
    duration,
    parse_section,
    short_name,
    text,
)
from paddock.policy.tools import TOOLS, ToolTerms, plain_tool
from paddock.policy.world import WORLD, WorldTerms, plain_world, reach, world_mistakes

_MIN_RECORD_BUDGET = 64 << 10  # less does not hold what a run records about itself


class ApprovalTerms(msgspec.Struct, frozen=True):
    """The people who are asked, and how long an answer is waited for."""

    timeout_s: float = 900.0
    by: tuple[str, ...] = ("terminal",)


class SandboxTerms(msgspec.Struct, frozen=True):
    """The machine of the agent. `options` is what the file says, `spec` what it means."""

    options: Mapping[str, Any] = {}
    isolation: str = "container"
    spec: Spec = msgspec.field(default_factory=Spec)


class Terms(msgspec.Struct, frozen=True):
    """A whole paddock file, and where it lies. Two that say the same differ in nothing else,
    however they are written."""

    agent: str
    stage: Stage
    tools: Mapping[str, ToolTerms] = {}
    rules: tuple[Rule, ...] = ()
    approvals: ApprovalTerms = ApprovalTerms()
    sandbox: SandboxTerms = msgspec.field(default_factory=SandboxTerms)
    version: int = 1
    network: NetworkTerms | None = None  # without it only rules can let anything out
    secrets: Mapping[str, SecretTerms] = {}
    world: WorldTerms | None = None
    faults: tuple[FaultTerms, ...] = ()  # in their order: of several that strike, the first does
    vary: tuple[str, ...] = ()  # what may differ in a replay: PLACE=SHAPE. It permits nothing
    # Traffic that a replay does not take for the agent's; None: the usual. It permits nothing.
    background: tuple[str, ...] | None = None
    record_budget: int = DEFAULT_RECORD_BUDGET  # bytes that a run may store of what its agent does
    # The directory that paths in the file start from. It says nothing about what may be done.
    base: str | None = None
    # The absolute path of the paddock file itself, if it was read from one.
    file: str | None = None


def as_plain(terms: Terms) -> dict[str, Any]:
    """Return the terms as JSON, in the form of the file. What has its usual value is left out."""
    plain: dict[str, Any] = {
        "version": terms.version,
        "agent": terms.agent,
        "stage": terms.stage.value,
    }
    if terms.sandbox.options:
        plain["sandbox"] = dict(terms.sandbox.options)
    if terms.network is not None:
        plain["network"] = plain_network(terms.network)
    if terms.secrets:
        plain["secrets"] = {name: plain_secret(secret) for name, secret in terms.secrets.items()}
    if terms.world is not None:
        plain["world"] = plain_world(terms.world)
    if terms.faults:
        plain["faults"] = [plain_fault(fault) for fault in terms.faults]
    if terms.tools:
        plain["tools"] = {name: plain_tool(tool) for name, tool in terms.tools.items()}
    if terms.rules:
        plain["rules"] = [plain_rule(rule) for rule in terms.rules]
    replay: dict[str, Any] = {}
    if terms.vary:
        replay["vary"] = list(terms.vary)
    if terms.background is not None:
        replay["beside"] = list(terms.background)
    if replay:
        plain["replay"] = replay
    if terms.record_budget != DEFAULT_RECORD_BUDGET:
        plain["record"] = {"budget": terms.record_budget}
    if terms.approvals != ApprovalTerms():
        plain["approvals"] = {
            "timeout": plain_seconds(terms.approvals.timeout_s),
            "by": list(terms.approvals.by),
        }
    return plain


def digest(terms: Terms) -> str:
    """Return the SHA-256 of the terms in canonical form. The order of rules and keys does not
    matter to what is decided, so it does not matter here; comments are no part of the terms."""
    plain = as_plain(terms)
    plain["rules"] = sorted(plain.get("rules", []), key=lambda rule: str(rule["id"]))
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def record_budget_of(value: Mapping[str, Any]) -> int:
    """Return the budget that a Python caller describes like a paddock file does. Raises
    InvalidInput."""
    budget: int = parse_section(_RECORD, value, "record")
    return budget


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the paddock file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Paddock file",
        **FILE.json_schema(),
    }


def _build_file(
    cursor: Cursor,
    version: int,
    agent: str,
    stage: str,
    sandbox: SandboxTerms | None = None,
    network: NetworkTerms | None = None,
    secrets: Mapping[str, SecretTerms] | None = None,
    world: WorldTerms | None = None,
    faults: Any = (),
    tools: Mapping[str, ToolTerms] | None = None,
    rules: Iterable[Rule] = (),
    approvals: ApprovalTerms | None = None,
    replay: Mapping[str, Any] | None = None,
    record: int = DEFAULT_RECORD_BUDGET,
) -> Terms:
    sandbox, secrets = sandbox or SandboxTerms(), secrets or {}
    tools, replay = tools or {}, replay or {}
    if not rules and not tools and network is None and world is None:
        hint = "write a rule, e.g. {id: inside, match: {kind: [exec, file, code]}, decide: allow}"
        message = "the file has no rules, tools, network or world, so it says nothing"
        cursor.report(message, hint)
    together = reach(network, world)
    cursor.mistakes.extend(world_mistakes(together, world))
    cursor.mistakes.extend(secret_mistakes(together, secrets))
    for name in secrets.keys() & sandbox.options.get("envs", {}).keys():
        message = "sandbox.envs has a variable of this name"
        cursor.at("secrets", name).report(message, "remove one of them")
    background = replay.get("beside")
    return Terms(
        agent=agent,
        stage=Stage(stage),
        tools=tools,
        rules=tuple(rules),
        approvals=approvals or ApprovalTerms(),
        sandbox=sandbox,
        version=version,
        network=network,
        secrets=secrets,
        world=world,
        faults=fault_terms(faults, tools, cursor.at("faults")),
        vary=tuple(replay.get("vary", ())),
        background=None if background is None else tuple(background),
        record_budget=record,
    )


def _build_sandbox(cursor: Cursor, isolation: str | None = None, **options: Any) -> SandboxTerms:
    """Build the sandbox. The terms have only what the file says, so that what is usual can change
    without changing digests."""
    try:
        spec = Spec.parse(**options)
    except InvalidInput as error:
        part = error.message.split(":")[0].split(".")
        cursor.at(*part).report(error.message, error.hint)
        spec = Spec()
    if isolation is None:
        return SandboxTerms(options, spec=spec)
    return SandboxTerms({**options, "isolation": isolation}, isolation, spec)


def _parse_version(value: Any) -> int:
    if type(value) is not int or value != 1:  # true equals one in Python
        quoted = ", without quotes" if value == "1" else ""
        message = f"{value!r} is not a version of the file"
        raise InvalidInput(message, hint=f"write version: 1{quoted}")
    return value


def _parse_budget(value: Any) -> int:
    try:
        budget = parse_size(value, "budget")
    except InvalidInput as error:
        raise InvalidInput(error.message.removeprefix("budget: "), hint="write 4GiB") from None
    if budget < _MIN_RECORD_BUDGET:
        raise InvalidInput(f"{value!r:.60} is less than 64KiB", hint="write 4GiB")
    return budget


def _parse_background(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r:.60} is not text", hint="put it in quotes")
    background_rule(value)
    return value


def _checked(key: str, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a check of a part of a spec that leaves it as it is written. Its errors do not begin
    with the key: the path in the file has it."""

    def check(value: Any) -> Any:
        try:
            parse(value)
        except InvalidInput as error:
            message = error.message.removeprefix(key).removeprefix(": ").removeprefix(".")
            raise InvalidInput(message, hint=error.hint) from None
        return dict(value) if isinstance(value, Mapping) else value

    return check


def _limit(name: str) -> Key:
    """Return the key of one limit; its value stays as it is written."""

    def parse(value: Any) -> None:
        if name == "time":
            parse_written_duration(value, "limits.time")
        Limits.parse({name: value})

    check = _checked(f"limits.{name}", parse)

    def check_recorded(value: Any) -> Any:
        # Files once took a number without a unit.
        return float(value) if type(value) is int else check(value)

    is_time = name == "time"
    return Key(Value(check, {"type": ["string", "number"]}, check_recorded if is_time else None))


_MOUNT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["target"],
    "properties": {
        "source": {"type": "string"},
        "volume": {"type": "string"},
        "target": {"type": "string"},
        "mode": {"enum": [mode.value for mode in MountMode]},
        "hidden": {"type": "array", "items": {"type": "string"}},
    },
}
_LIMITS = Section(
    "Hard ceilings of the sandbox.",
    as_given,
    {name: _limit(name) for name in Limits.__struct_fields__},
    hint="write limits: {memory: 1GiB}",
)
ENVS = Value(
    _checked("envs", parse_envs), {"type": "object", "additionalProperties": {"type": "string"}}
)
_SANDBOX = Section(
    "The machine that the agent lives in.",
    _build_sandbox,
    {
        "isolation": Key(choice("container")),
        "template": Key(Value(template_name, {"type": "string"})),
        "limits": Key(_LIMITS),
        "mounts": Key(ListOf(Value(_checked("mounts", Mount.parse), _MOUNT_SCHEMA), 100)),
        "envs": Key(ENVS),
        "timeout": Key(duration()),
    },
    hint="write sandbox: {limits: {memory: 1GiB}}",
)
_APPROVALS = Section(
    "Who is asked, and for how long.",
    builder(lambda by=("terminal",), **values: ApprovalTerms(by=tuple(by), **values)),
    {
        "timeout": Key(duration(), into="timeout_s"),
        "by": Key(ListOf(choice("terminal", "store"), 8, 1, "write by: [terminal]")),
    },
    hint="write approvals: {timeout: 15m, by: [terminal]}",
)
_REPLAY = Section(
    "How a run of the agent is compared with its record.",
    as_given,
    {
        "vary": Key(ListOf(text(most=200), 100), description="what may differ: body.created=date"),
        "beside": Key(
            ListOf(Value(_parse_background, {"type": "string", "maxLength": 500}), 100),
            description="background traffic, by the clock: POST collector.example/v1/traces",
        ),
    },
    hint="write replay: {vary: [body.sent_at=date]}",
)
_RECORD = Section(
    "What is stored of a run.",
    builder(lambda budget=DEFAULT_RECORD_BUDGET: budget),
    {
        "budget": Key(
            Value(_parse_budget, {"type": ["string", "number"]}),
            description="bytes that the agent can make Paddock store: 4GiB",
        )
    },
    hint="write record: {budget: 4GiB}",
)
STAGE = choice(*(stage.value for stage in Stage))
FILE = Section(
    "What one agent may do.",
    _build_file,
    {
        "version": Key(Value(_parse_version, {"const": 1}), missing="write version: 1"),
        "agent": Key(
            short_name("write agent: and a name for it"), missing="write agent: and a name for it"
        ),
        "stage": Key(STAGE, missing="write stage: observe, draft, approve, narrow or broad"),
        "sandbox": Key(_SANDBOX),
        "network": Key(NETWORK),
        "secrets": Key(SECRETS),
        "world": Key(WORLD),
        "faults": Key(FAULTS),
        "tools": Key(TOOLS),
        "rules": Key(RULES),
        "approvals": Key(_APPROVALS),
        "replay": Key(_REPLAY),
        "record": Key(_RECORD),
    },
)
