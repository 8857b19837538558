"""How faults are written: from the shape of the file to terms, and which words go together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from paddock.model.action import Kind
from paddock.policy.fault_schema import FaultEntryShape
from paddock.policy.fault_sets import FAULT_SETS
from paddock.policy.faults import FITS, INSTEAD, OF_STATUS, SPOILING, FaultTerms, Strikes
from paddock.policy.fields import FIELDS
from paddock.policy.file.document import Path
from paddock.policy.globs import any_of
from paddock.policy.match_schema import FaultMatchShape, UnlessShape
from paddock.policy.problems import suggest
from paddock.policy.rules import Match
from paddock.policy.subject import names_for

_MISSING = {
    "id": "write id: and a short name for the fault",
    "match": "write match: {kind: http, ...} or another kind",
    "fault": "write fault: {status: 503}, or another word",
}
_OF_SET = frozenset({"set", "id", "match", "seed"})
_OF_EFFECT = ("duplicate", "after", *SPOILING, "kill", "stale")
_TWO = "write two faults, each with its own id"

Misfit = tuple[str, str, str]  # the word, what is wrong with it, what to write


class FaultReader(msgspec.Struct):
    """Reads the faults of one file, with the means of whoever reads the file."""

    note: Callable[..., None]  # path, message, hint; `of_key` when the key itself is wrong
    match: Callable[[UnlessShape, tuple[Kind, ...], Path], Match]
    compile: Callable[[str, frozenset[str], Path], None]
    tools: Collection[str]
    _places: dict[str, Path] = {}

    def read(self, faults: str | list[str | FaultEntryShape] | None) -> tuple[FaultTerms, ...]:
        """All of them, sets spelled out, in the order of the file."""
        if faults is None:
            return ()
        if isinstance(faults, str):
            return tuple(self._set(FaultEntryShape(set=faults), ("faults",)))
        found: list[FaultTerms] = []
        for number, one in enumerate(faults):
            shape = FaultEntryShape(set=one) if isinstance(one, str) else one
            found += self._entry(shape, ("faults", number))
        return tuple(found)

    def _entry(self, shape: FaultEntryShape, path: Path) -> Iterator[FaultTerms]:
        if "set" in shape.model_fields_set:
            yield from self._set(shape, path)
            return
        missing = [key for key in _MISSING if key not in shape.model_fields_set]
        for key in missing:
            self.note((*path, key), "this key is missing", _MISSING[key], of_key=True)
        if not missing:
            yield from self._one(shape, path)

    def _one(self, shape: FaultEntryShape, path: Path) -> Iterator[FaultTerms]:
        kinds = shape.match.kind
        if kinds is None:
            self.note((*path, "match", "kind"), "this key is missing",
                      "write kind: http, model, tool, dns or another", of_key=True)  # fmt: skip
            return
        words = shape.fault.model_dump(exclude_unset=True)
        for word, message, hint in misfits(words, kinds):
            self.note((*path, "fault", *([word] if word else [])), message, hint)
        when = shape.when if "when" in shape.model_fields_set else None
        if when is not None:
            self.compile(when, names_for(kinds), (*path, "when"))
        has_unless = "unless" in shape.model_fields_set
        yield self._known(FaultTerms(
            id=shape.id,
            kinds=kinds,
            words=words,
            match=self._match(shape.match, kinds, (*path, "match")),
            unless=self.match(shape.unless, kinds, (*path, "unless")) if has_unless else None,
            when=when,
            strikes=self._strikes(shape, path),
        ), path)  # fmt: skip

    def _strikes(self, shape: FaultEntryShape, path: Path) -> Strikes:
        given = shape.model_fields_set
        if {"step", "steps"} <= given:
            self.note((*path, "step"), "there is steps as well", "write one of them")
        steps = shape.steps if "steps" in given else [shape.step] if "step" in given else []
        return Strikes(
            rate=float(shape.rate),
            times=shape.times,
            after=shape.after,
            first=shape.first,
            every=shape.every,
            steps=tuple(sorted(set(steps))),
            seed=shape.seed,
        )

    def _match(self, shape: UnlessShape, kinds: tuple[Kind, ...], path: Path) -> Match:
        match = self.match(shape, kinds, path)
        for pattern in match.get("name") or () if kinds == (Kind.TOOL,) else ():
            matches = any_of([pattern], "")
            if not any(map(matches, self.tools)):
                known = suggest(pattern, self.tools) if self.tools else "declare it under tools"
                self.note((*path, "name"), f"no tool {pattern!r} is declared", known)
        return match

    def _set(self, shape: FaultEntryShape, path: Path) -> Iterator[FaultTerms]:
        for key in sorted(shape.model_fields_set - _OF_SET):
            self.note((*path, key), f"a set brings its own {key}",
                      "write the faults that are wanted one by one", of_key=True)  # fmt: skip
        given = shape.match if "match" in shape.model_fields_set else FaultMatchShape()
        kinds = _kinds(given)
        wanted = self._match(given, kinds, (*path, "match")) if kinds else Match()
        found = [self._of_set(shape, words, wanted, kinds) for words in FAULT_SETS[shape.set]]
        strikes = [one for one in found if one is not None]
        if not strikes:
            self.note((*path, "match"), f"the set {shape.set} has nothing for that",
                      "leave match out, or match a kind that it has")  # fmt: skip
        for one in strikes:
            yield self._known(one, path)

    def _of_set(
        self,
        shape: FaultEntryShape,
        words: Mapping[str, Any],
        wanted: Match,
        kinds: tuple[Kind, ...],
    ) -> FaultTerms | None:
        """One of the set, narrowed to what the entry wants; None when nothing is left of it."""
        own = FaultEntryShape.model_validate(words)
        left = tuple(kind for kind in own.match.kind or () if kind in kinds)
        match = _both(self.match(own.match, left, ()), wanted)
        if not left or match is None:
            return None
        name = shape.id if "id" in shape.model_fields_set else shape.set
        strikes = Strikes(rate=float(own.rate), seed=shape.seed)
        said = own.fault.model_dump(exclude_unset=True)
        return FaultTerms(f"{name}.{own.id}"[:100], left, said, match, strikes=strikes)

    def _known(self, fault: FaultTerms, path: Path) -> FaultTerms:
        first = self._places.setdefault(fault.id, path)
        if first != path:
            self.note(path, f"the id {fault.id} is used twice", "give each its own id")
        return fault


def misfits(words: Mapping[str, Any], kinds: tuple[Kind, ...]) -> Iterator[Misfit]:
    """Words that do not fit the kinds of action, or each other."""
    if not words:
        yield "", "says nothing that goes wrong", _MISSING["fault"]
    for word in words:
        for kind in kinds:
            if kind not in FITS[word]:
                fitting = [name for name, fits in FITS.items() if kind in fits]
                yield (word, f"{word} does not fit an action of kind {kind}",
                       f"for {kind} there are {', '.join(fitting)}")  # fmt: skip
    has_status = "status" in words or isinstance(words.get("after"), int)
    for word in words.keys() & OF_STATUS if not has_status else ():
        yield word, f"{word} needs a status to go with", "write status: 503 beside it"
    yield from _quarrels(words)


def _quarrels(words: Mapping[str, Any]) -> Iterator[Misfit]:
    late = words.get("after")
    instead = [word for word in INSTEAD if word in words]
    if "error" in instead and ("status" in words or late is not None):
        instead.remove("error")  # what the other one says
    if "timeout" in instead and late == "timeout":
        instead.remove("timeout")  # how long it lasts
    acting = [word for word in _OF_EFFECT if word in words]
    if len(instead) > 1:
        yield instead[1], f"{instead[0]} and {instead[1]} cannot both happen", _TWO
    if instead and acting:
        yield (acting[0], f"with {instead[0]} there is no effect and no answer to go wrong",
               _TWO)  # fmt: skip
    alone = next((word for word in ("stale", "after") if word in words), None)
    others = [word for word in acting if word not in (alone, "duplicate")]
    if alone is not None and others:
        yield others[0], f"{alone} leaves no answer for {others[0]}", _TWO
    if "stale" in words and "duplicate" in words:
        yield "duplicate", "an earlier answer has no effect that could happen twice", _TWO


def _kinds(shape: FaultMatchShape) -> tuple[Kind, ...]:
    """As said, else all that have such fields."""
    if shape.kind is not None:
        return shape.kind
    names = shape.model_fields_set - {"kind"}
    return tuple(kind for kind in Kind if names <= FIELDS[kind].keys())


def _both(own: Match, wanted: Match) -> Match | None:
    """What both match. Sets themselves match only on fields with few values."""
    fields = dict(wanted.fields)
    for name, patterns in own.fields:
        common = tuple(one for one in patterns if one in fields.get(name, patterns))
        if not common:
            return None
        fields[name] = common
    return Match(tuple(sorted(fields.items())))
