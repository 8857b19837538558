"""From the shape of a file to its terms: what keys mean, and what they mean together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from paddock.model.action import Effect, Kind, Stage, Verdict
from paddock.model.errors import InvalidInput
from paddock.model.spec import Spec
from paddock.policy import effects, expressions
from paddock.policy.background import beside_of
from paddock.policy.fault_schema import Faults
from paddock.policy.fault_words import FaultReader
from paddock.policy.faults import FaultTerms
from paddock.policy.fields import FIELDS
from paddock.policy.file.document import Document, Path
from paddock.policy.match_schema import UnlessShape
from paddock.policy.network import NetworkTerms, SecretTerms
from paddock.policy.network_schema import NetworkShape
from paddock.policy.network_words import network_problems, network_terms
from paddock.policy.patterns import pattern_problem
from paddock.policy.problems import PolicyError, Problem, suggest
from paddock.policy.rules import (
    STRICTEST_FIRST,
    Approvals,
    Example,
    Limit,
    Match,
    Rule,
    SandboxTerms,
    Terms,
    Tool,
)
from paddock.policy.schema import (
    EffectShape,
    FaultShape,
    FileShape,
    LimitShape,
    RuleShape,
    SandboxShape,
    ToolShape,
)
from paddock.policy.secret_words import secret_problems
from paddock.policy.shape import Shape
from paddock.policy.subject import names_for
from paddock.policy.world import WorldTerms, reach
from paddock.policy.world_words import read_world, world_problems

_SAY = "write a rule, e.g. {id: inside, match: {kind: [exec, file, code]}, decide: allow}"


class Converter(msgspec.Struct):
    """One conversion; what is wrong collects in `problems`, and the terms are then of no use."""

    document: Document
    problems: list[Problem] = []

    def terms(self, file: FileShape) -> Terms:
        network: NetworkShape | None = file.network  # None when the key is not there
        world = self._world(file)
        if not file.rules and not file.tools and network is None and world is None:
            what = "the file has no rules, tools, network or world, so it says nothing"
            self._note((), what, _SAY)
        return Terms(
            agent=file.agent,
            stage=Stage(file.stage),
            tools={name: self._tool(name, shape) for name, shape in file.tools.items()},
            rules=tuple(self._rule(shape, ("rules", n)) for n, shape in enumerate(file.rules)),
            approvals=Approvals(file.approvals.timeout, tuple(file.approvals.by)),
            vary=tuple(file.replay.vary),
            beside=self._beside(file.replay.beside),
            sandbox=self._sandbox(file.sandbox),
            version=file.version,
            network=None if network is None else self._network(network),
            secrets=self._secrets(file, world),
            world=world,
            faults=self._faults(file),
            record_budget=file.record.budget,
        )

    def _beside(self, texts: list[str] | None) -> tuple[str, ...] | None:
        """None when the key is not there."""
        for n, text in enumerate(texts or ()):
            try:
                beside_of(text)
            except InvalidInput as error:
                self._note(("replay", "beside", n), error.message, error.hint)
        return None if texts is None else tuple(texts)

    def _faults(self, file: FileShape) -> tuple[FaultTerms, ...]:
        reader = FaultReader(self._note, self._match, self._compile, file.tools)
        return reader.read(file.faults)

    def _network(self, shape: NetworkShape) -> NetworkTerms:
        terms = _network_terms(shape)
        for path, message, hint in network_problems(terms):
            self._note(path, message, hint)
        return terms

    def _world(self, file: FileShape) -> WorldTerms | None:
        words: dict[str, Any] | None = file.world
        if words is None:
            return None
        world, complaints = read_world(words)
        for path, message, hint in (*complaints, *world_problems(_reach(file, world), world)):
            self._note(path, message, hint)
        return world

    def _secrets(self, file: FileShape, world: WorldTerms | None) -> dict[str, SecretTerms]:
        secrets = {name: _secret(name, shape) for name, shape in file.secrets.items()}
        for path, message, hint in secret_problems(_reach(file, world), secrets):
            self._note(path, message, hint)
        for name in secrets.keys() & file.sandbox.envs.keys():
            self._note(("secrets", name), "sandbox.envs has a variable of this name",
                       "remove one of them")  # fmt: skip
        return secrets

    def _tool(self, name: str, shape: ToolShape) -> Tool:
        path: Path = ("tools", name)
        if not name or len(name) > 200 or not name.isprintable() or "*" in name:
            self._note(path, "not the name of a tool", "write the name as the agent calls it")
        effect = shape.effect
        if isinstance(effect, Effect):
            return Tool(name, effect, shape.reversible)
        return Tool(name, self._conditions(effect, (*path, "effect")), shape.reversible)

    def _conditions(self, shape: EffectShape, path: Path) -> tuple[tuple[Effect, str | bool], ...]:
        found: list[tuple[Effect, str | bool]] = []
        for effect in STRICTEST_FIRST:
            if effect.value not in shape.model_fields_set:
                continue
            condition = getattr(shape, effect.value)
            if found and found[-1][1] is True:
                self._note((*path, effect.value), f"never reached: {found[-1][0]} is always true",
                           "give the stricter effect an expression")  # fmt: skip
            if isinstance(condition, str):
                self._compile(condition, effects.NAMES, (*path, effect.value))
            found.append((effect, condition))
        if not found:
            self._note(path, "says of no effect when a call has it", "write effect: write")
        return tuple(found)

    def _rule(self, shape: RuleShape, path: Path) -> Rule:
        kinds = shape.match.kind
        self._check_together(shape, path)
        names = names_for(kinds)
        if shape.when is not None:
            self._compile(shape.when, names, (*path, "when"))
        if shape.limit is not None and shape.limit.sum is not None:
            self._compile(shape.limit.sum, names, (*path, "limit", "sum"))
        return Rule(
            id=shape.id,
            kinds=kinds,
            decide=Verdict(shape.decide),
            match=self._match(shape.match, kinds, (*path, "match")),
            unless=self._match(shape.unless, kinds, (*path, "unless")) if shape.unless else None,
            when=shape.when,
            limit=self._limit(shape.limit, (*path, "limit")) if shape.limit else None,
            why=shape.why,
            fault=_fault(shape.fault),
            examples=_examples(shape),
        )

    def _check_together(self, shape: RuleShape, path: Path) -> None:
        if shape.decide == "simulate" and Kind.EXEC in shape.match.kind:
            self._note((*path, "decide"), "a program cannot be simulated",
                       "write allow, block, ask or fault")  # fmt: skip
        if shape.decide == "allow" and shape.limit is not None:
            self._note((*path, "limit"), "a rule with a limit fires when it is exceeded, so it "
                       "cannot allow", "write decide: ask or block")  # fmt: skip
        if shape.fault is not None and shape.decide != "fault":
            self._note((*path, "fault"), "only a rule with decide: fault has a fault",
                       "remove it, or write decide: fault")  # fmt: skip

    def _match(self, shape: UnlessShape, kinds: tuple[Kind, ...], path: Path) -> Match:
        fields: list[tuple[str, tuple[Any, ...]]] = []
        for name in sorted(shape.model_fields_set - {"kind"}):
            patterns = getattr(shape, name)
            if patterns is None:
                self._note((*path, name), "has no value", "write a pattern, or remove the key")
                continue
            for kind in kinds:
                self._check_field(kind, name, patterns, (*path, name))
            fields.append((name, patterns))
        if type(shape) is UnlessShape and not fields:
            self._note(path, "leaves nothing out", "name a field, or remove the key")
        return Match(tuple(fields))

    def _check_field(self, kind: Kind, name: str, patterns: tuple[Any, ...], path: Path) -> None:
        if name not in FIELDS[kind]:
            self._note(path, f"an action of kind {kind} has no {name}",
                       suggest(name, FIELDS[kind]), of_key=True)  # fmt: skip
            return
        for pattern in patterns:
            problem = pattern_problem(kind, name, pattern)
            if problem is not None:
                self._note(path, *problem)

    def _limit(self, shape: LimitShape, path: Path) -> Limit:
        if (shape.sum is None) == (shape.count is None):
            self._note(path, "needs either sum or count", "write count: 1, or sum: args.amount")
        return Limit(shape.max, shape.per, shape.sum, shape.count or 1)

    def _sandbox(self, shape: SandboxShape) -> SandboxTerms:
        words = _given(shape)
        asked = {key: value for key, value in words.items() if key != "isolation"}
        try:
            spec = Spec.parse(**asked)
        except InvalidInput as error:
            part = error.message.split(":")[0].split(".")
            self._note(("sandbox", *part), error.message, error.hint)
            spec = Spec()
        return SandboxTerms(words, shape.isolation, spec)

    def _compile(self, source: str, names: frozenset[str], path: Path) -> None:
        try:
            expressions.compile_expression(source, names)
        except InvalidInput as error:
            self._note(path, error.message, error.hint)

    def _note(
        self, path: Path, message: str, hint: str | None = None, *, of_key: bool = False
    ) -> None:
        self.problems.append(self.document.problem(path, message, hint, of_key=of_key))


def _reach(file: FileShape, world: WorldTerms | None) -> NetworkTerms | None:
    """All that the agent can speak to, stand-ins included."""
    network: NetworkShape | None = file.network
    return reach(None if network is None else _network_terms(network), world)


def _network_terms(shape: NetworkShape) -> NetworkTerms:
    return network_terms(
        mode=shape.mode,
        allow=shape.allow,
        passthrough=shape.tls.passthrough,
        hosts=shape.hosts,
        private=shape.private,
        ca=shape.tls.ca,
        graphql=shape.graphql,
    )


def _secret(name: str, shape: Shape) -> SecretTerms:
    # Two keys are words of Python, so they are no attributes that could be written.
    given = dict(shape)
    return SecretTerms(name, given["from"], given["to"], given["as"])


def _fault(shape: FaultShape | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    return {name: value for name, value in shape.model_dump().items() if value is not None}


def _examples(shape: RuleShape) -> tuple[Example, ...]:
    return tuple(
        [Example(one, True) for one in shape.examples.match]
        + [Example(one, False) for one in shape.examples.not_match]
    )


def _given(shape: SandboxShape) -> dict[str, Any]:
    """Only what the file says, so that what is usual can change without changing digests."""
    return shape.model_dump(exclude_unset=True)


def faults_of(words: Any, tools: Collection[str] = ()) -> tuple[FaultTerms, ...]:
    """The faults that a caller describes with the words of the file. Raises InvalidInput."""
    from pydantic import TypeAdapter, ValidationError

    from paddock.policy.complaints import complaints

    document = Document("faults", {"faults": words}, {}, {})
    try:
        shape = TypeAdapter(dict[str, Faults]).validate_python({"faults": words})
    except ValidationError as error:
        raise PolicyError("faults", complaints(document, error)) from None
    converter = Converter(document)
    reader = FaultReader(converter._note, converter._match, converter._compile, tools)
    terms = reader.read(shape["faults"])
    if converter.problems:
        raise PolicyError("faults", converter.problems)
    return terms
