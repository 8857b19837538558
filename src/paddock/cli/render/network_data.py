"""What went through the network door in a run. Nothing is printed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.journal.codec import body_of
from paddock.journal.log import RunLog
from paddock.journal.traffic import KINDS, Traffic
from paddock.model.action import Kind, Outcome, Verdict
from paddock.model.errors import PaddockError
from paddock.model.events import (
    Alert,
    Answered,
    Asked,
    Decided,
    Proposed,
    Record,
    RefusedAgain,
    Settled,
)
from paddock.model.hosts import HostPattern
from paddock.model.steps import Step

MAX_HELD = 10_000  # steps that wait for an earlier one to end; beyond it that one comes late
_MAX_STEPS = 20  # of one alert


class Wanted(msgspec.Struct, frozen=True):
    """Which steps are to be shown."""

    kinds: frozenset[Kind] = frozenset(KINDS)
    host: HostPattern | None = None
    is_blocked: bool = False

    def has(self, traffic: Traffic) -> bool:
        step = traffic.step
        is_stopped = step.verdict is Verdict.BLOCK or step.outcome is Outcome.REFUSED
        if self.is_blocked and not is_stopped:
            return False
        return self.host is None or self.host.matches(traffic.host)


class AlertGroup(msgspec.Struct):
    """Alerts that say the same."""

    alert: str
    about: Mapping[str, Any]
    times: int = 0
    first_at: int = 0
    last_at: int = 0
    steps: list[int] = []  # the first few

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Scan:
    """The traffic of a run that is wanted. Iterating gives it in the order of the steps; few are
    held at once, because a run may have any number of requests. Afterwards `alerts` and `repeats`
    have what was recorded about those that were given.

    A step that has ended waits until those before it have ended too."""

    def __init__(self, log: RunLog, wanted: Wanted) -> None:
        self._log = log
        self._wanted = wanted
        self._held: dict[int, list[Record]] = {}  # the steps that were not given yet
        self._ended: set[int] = set()  # those of them that have ended
        self._given: set[int] = set()

    def __iter__(self) -> Iterator[Traffic]:
        for record in self._log.events(Proposed, Decided, Asked, Answered, Settled):
            number = record.step
            if number is None:
                continue
            if isinstance(record.event, Proposed):
                if record.event.kind in self._wanted.kinds:
                    self._held[number] = [record]
                    self._ended.discard(number)
            elif number in self._held and number not in self._ended:
                self._held[number].append(record)
                if isinstance(record.event, Settled):
                    self._ended.add(number)
                    yield from self._release()
        self._ended.update(self._held)  # the others never do
        yield from self._release()

    def alerts(self) -> list[AlertGroup]:
        """Return the alerts about the steps that were given, and those about none."""
        groups: dict[tuple[str, str], AlertGroup] = {}
        for record in self._log.events(Alert):
            alert = record.event
            assert isinstance(alert, Alert)
            if record.step is not None and record.step not in self._given:
                continue
            key = (alert.alert, repr(sorted(alert.about.items(), key=lambda item: item[0])))
            group = groups.setdefault(key, AlertGroup(alert.alert, alert.about, 0, record.at))
            group.times += max(alert.times, 1)
            group.last_at = record.at
            if record.step is not None and len(group.steps) < _MAX_STEPS:
                group.steps.append(record.step)
        return list(groups.values())

    def repeats(self) -> dict[int, RefusedAgain]:
        """Return how often each of the given steps was refused again without a step of its own."""
        repeats: dict[int, RefusedAgain] = {}
        for record in self._log.events(RefusedAgain):
            again, step = record.event, record.step
            if isinstance(again, RefusedAgain) and step is not None and step in self._given:
                repeats[step] = again.plus(repeats.get(step))
        return repeats

    def _release(self) -> Iterator[Traffic]:
        """Yield the steps at the front that have ended; all that have when too many wait."""
        is_full = len(self._held) > MAX_HELD
        ready: list[int] = []
        for number in self._held:
            if number in self._ended:
                ready.append(number)
            elif not is_full:
                break
        for number in ready:
            self._ended.remove(number)
            records = [self._with_objects(record) for record in self._held.pop(number)]
            traffic = Traffic(Step(number, records))
            if self._wanted.has(traffic):
                self._given.add(number)
                yield traffic

    def _with_objects(self, record: Record) -> Record:
        """Return the record with its large values if the arguments or the result were stored as a
        whole; previews of texts are enough."""
        if not any(blob.form == "json" and blob.path.count("/") == 1 for blob in record.blobs):
            return record
        try:
            return self._log.whole(record)
        except PaddockError:  # verify says what is wrong; the rest of the run is still shown
            return record


def traffic_json(traffic: Traffic) -> dict[str, Any]:
    """Return all that is known of a step, for programs. Large values are previews."""
    step = traffic.step
    return {
        "step": step.number,
        "parent": step.parent,
        "at": step.at,
        "kind": step.kind,
        "name": step.name,
        "method": traffic.method,
        "host": traffic.host,
        "port": traffic.port,
        "verdict": step.verdict,
        "decided_by": step.decided_by,
        "why": step.why,
        "effect": step.effect,
        "outcome": step.outcome,
        "error": step.error,
        "bytes_out": traffic.bytes_out,
        "bytes_in": traffic.bytes_in,
        "address": traffic.address,
        "duration_us": step.duration_us,
        "held_us": step.held_us,
        "scheme": traffic.scheme if traffic.is_http else None,
        "url": traffic.url if traffic.is_http else None,
        "status": traffic.status,
        "path": step.arguments.get("path"),
        "query": step.arguments.get("query"),
        "arguments": step.arguments,
        "result": step.result,
        "cost": step.cost,
    }


def repeats_json(step: int, again: RefusedAgain) -> dict[str, Any]:
    """Return for programs how often a step was refused again."""
    return {"what": "refused again", **body_of(again), "step": step}
