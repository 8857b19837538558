"""The actions of earlier runs, read back from their journals, for whoever decides on them again.

Besides what crossed the gate there are programs that were only observed, because no rule of that
time minded them: another file may mind them, so they are actions here as well.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from paddock.journal.conversations import whole_arguments
from paddock.journal.reader import Reader, Spot
from paddock.journal.records import Record, Type
from paddock.journal.segments import segments
from paddock.model.action import Action, Decision, Effect, Kind, RuleHit, Verdict
from paddock.model.errors import IntegrityError
from paddock.policy.compare import RecordedAction

_TELLING = (b"proposed", b"decided", b"observed")
_OBSERVED = ("program", "argv", "cwd", "pid", "real_path", "same_as")


def recorded_actions(directory: Path) -> Iterator[RecordedAction]:
    """Every action of a run that was decided on, about in the order of time. Secrets are masked in
    them, as they are in the journal; large values are whole."""
    reader = Reader(directory)
    history = _History(str(reader.opened().body.get("run", "")))
    for _, line, (_, step, kind) in reader.scan(Spot(1, 0)):
        if kind == b"settled":
            yield from history.settled(step)
        elif kind in _TELLING:
            record = Record.parse(line)
            try:
                yield from history.take(record, _whole(reader, record))
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                said = f"record {record.n} (step {step}) is not about an action"
                raise IntegrityError(f"{said}: {type(error).__name__}: {error}"[:300]) from None
    yield from history.rest()


def _whole(reader: Reader, record: Record) -> Mapping[str, Any]:
    body = reader.body(record)
    if record.type is not Type.PROPOSED:
        return body
    arguments = whole_arguments(reader, body["kind"], _mapping(body["arguments"]))
    return {**body, "arguments": arguments}


def recorded_in_order(directories: Iterable[Path]) -> Iterator[RecordedAction]:
    """The actions of several runs in the order of time. Only runs that overlap are open at once."""
    runs = sorted((_span(directory), directory) for directory in dict.fromkeys(directories))
    together: list[Path] = []
    end = 0.0
    for (began, ended), directory in runs:
        if together and began > end:
            yield from _merged(together)
            together = []
        together.append(directory)
        end = max(end, ended)
    yield from _merged(together)


class _History:
    """What is known of the steps that are not told to their end."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._proposed: dict[int, tuple[Action, float]] = {}
        self._begun: dict[int, RecordedAction] = {}  # commands whose program was not seen yet
        self._crossed: Counter[tuple[Any, ...]] = Counter()  # programs that are still to be seen

    def take(self, record: Record, body: Mapping[str, Any]) -> Iterator[RecordedAction]:
        step, at = record.step, record.at / 1e6
        if record.type is Type.OBSERVED:
            if body.get("what") == "exec":
                yield from self._observed(step, at, body)
        elif step is None:
            return
        elif record.type is Type.PROPOSED:
            self._proposed[step] = (action_of(step, body), at)
        else:
            yield from self._decided(step, body)

    def settled(self, step: int | None) -> Iterator[RecordedAction]:
        """A command that is over and was never seen to start."""
        if step in self._begun:
            yield self._begun.pop(step)

    def rest(self) -> Iterator[RecordedAction]:
        """Commands of a run that ended before they did."""
        yield from self._begun.values()

    def _decided(self, step: int, body: Mapping[str, Any]) -> Iterator[RecordedAction]:
        known = self._proposed.pop(step, None)
        if known is None:
            return
        action, at = known
        one = RecordedAction(step, action, decision_of(body), at, self._run)
        if action.kind is not Kind.EXEC or one.decision.verdict is Verdict.BLOCK:
            yield one
        elif "pid" in action.arguments:
            self._crossed[_key(action.parent, action.arguments)] += 1
            yield one
        else:
            self._begun[step] = one

    def _observed(
        self, step: int | None, at: float, body: Mapping[str, Any]
    ) -> Iterator[RecordedAction]:
        begun = self._begun.get(-1 if step is None else step)
        if begun is not None and _is_same_command(begun.action, body):
            del self._begun[begun.step]
            yield _with_program(begun, body)
            return
        key = _key(step, body)
        if self._crossed[key]:
            self._crossed[key] -= 1
            return
        arguments = {name: body[name] for name in _OBSERVED if name in body}
        name = str(body["program"]).rpartition("/")[2]
        action = Action(Kind.EXEC, name, arguments, Effect.WRITE, is_contained=True, parent=step)
        decision = Decision(Verdict.ALLOW, "observed", "No rule minded it.", Effect.WRITE)
        yield RecordedAction(step or 0, action, decision, at, self._run)


def _with_program(one: RecordedAction, body: Mapping[str, Any]) -> RecordedAction:
    """Where no rule was about programs, nobody asked which file a command is."""
    if "real_path" in one.action.arguments:
        return one
    seen = {name: body[name] for name in ("program", "real_path", "same_as") if name in body}
    arguments = {**one.action.arguments, **seen}
    return replace(one, action=replace(one.action, arguments=arguments))


def _is_same_command(action: Action, body: Mapping[str, Any]) -> bool:
    """The first word may differ: which shell runs a command is chosen inside."""
    return list(action.arguments.get("argv", ()))[1:] == list(body.get("argv", ()))[1:]


def _key(parent: int | None, body: Mapping[str, Any]) -> tuple[Any, ...]:
    return parent, body.get("pid"), *map(str, body.get("argv") or ())


def action_of(step: int, body: Mapping[str, Any]) -> Action:
    """The action of a `proposed` body. Raises KeyError, ValueError or TypeError."""
    return Action(
        kind=Kind(body["kind"]),
        name=_text(body["name"]),
        arguments=_mapping(body["arguments"]),
        effect=Effect(body["effect"]),
        is_reversible=body["is_reversible"] is True,
        is_contained=body["is_contained"] is True,
        parent=body.get("parent"),
        step=step,
        context=_mapping(body.get("context", {})),
    )


def decision_of(body: Mapping[str, Any]) -> Decision:
    """The decision of a `decided` body. Raises KeyError, ValueError or TypeError."""
    hits = (
        RuleHit(_text(hit["rule_id"]), Verdict(hit["verdict"]), _text(hit["why"]))
        for hit in body.get("hits", ())
    )
    return Decision(
        verdict=Verdict(body["verdict"]),
        decided_by=_text(body["decided_by"]),
        why=_text(body["why"]),
        effect=Effect(body["effect"]),
        hits=tuple(hits),
        is_draft=body.get("is_draft") is True,
        fault=body.get("fault"),
        once_approved=_once_approved(body),
    )


def _once_approved(body: Mapping[str, Any]) -> Verdict:
    """Of a fault it is not written down; what it struck was about to be carried out."""
    said = body.get("once_approved")
    return Verdict.ALLOW if said is None else Verdict(said)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.40} is not an object")
    return value


def _span(directory: Path) -> tuple[float, float]:
    """From when to when at most; a copied journal may seem to have lasted longer."""
    ended = max(os.stat(path).st_mtime for path in segments(directory))
    return Reader(directory).opened().at / 1e6, ended


def _merged(directories: list[Path]) -> Iterator[RecordedAction]:
    return heapq.merge(*map(recorded_actions, directories), key=lambda one: one.at)
