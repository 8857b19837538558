"""What went through the network door in a run, read in one pass: a run may have any number of
requests, so few of them are held at once. Nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

from paddock.journal.reader import Reader, Spot, Step
from paddock.journal.records import Record
from paddock.journal.repeats import MARK, Repeats, repeats_in
from paddock.journal.traffic import KINDS, Traffic
from paddock.model.errors import PaddockError
from paddock.model.hosts import HostPattern
from paddock.model.values import dataclass

MAX_HELD = 10_000  # steps that wait for an earlier one to end; beyond it that one comes late
_PARTS = (b"decided", b"asked", b"answered", b"settled")
_KNOWN = ("step", "parent", "at", "kind", "name", "method", "host", "port", "verdict", "decided_by",
          "why", "effect", "outcome", "error", "bytes_out", "bytes_in", "address", "duration_us",
          "held_us")  # fmt: skip
_OF_HTTP = ("scheme", "url", "status")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which steps are to be shown."""

    kinds: frozenset[str] = frozenset(KINDS)
    host: HostPattern | None = None
    is_blocked: bool = False

    def has(self, one: Traffic) -> bool:
        if self.is_blocked and one.verdict != "block" and one.outcome != "refused":
            return False
        return one.kind in self.kinds and (self.host is None or self.host.matches(one.host))


@dataclass(slots=True)
class AlertGroup:
    """Alerts that say the same."""

    name: str
    about: Mapping[str, Any]
    times: int = 0
    first_at: int = 0
    last_at: int = 0
    steps: list[int] = field(default_factory=list)  # the first few

    def as_json(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "about": self.about,
            "times": self.times,
            "first_at": self.first_at,
            "last_at": self.last_at,
            "steps": self.steps,
        }


class Scan:
    """Reads the journal of a run once. Iterating gives the steps, in their order; afterwards
    `alerts` has what was raised about those that were given, and `count` how many there were."""

    max_steps = 20  # of one alert

    def __init__(self, reader: Reader, wanted: Wanted) -> None:
        self.alerts: dict[tuple[str, str], AlertGroup] = {}
        self.count = 0
        self._reader = reader
        self._wanted = wanted
        self._open: dict[int, list[Record]] = {}
        self._held: dict[int, Traffic | None] = {}  # by number; None: it has not ended
        self._given: set[int] = set()
        self._noted: list[Record] = []
        self._repeats: dict[int, Repeats] = {}

    def __iter__(self) -> Iterator[Traffic]:
        for _, line, (_, step, kind) in self._reader.scan(Spot(1, 0)):
            if kind == b"proposed" and step is not None:
                self._begin(step, Record.parse(line))
            elif step in self._open and kind in _PARTS:
                assert step is not None
                self._open[step].append(Record.parse(line))
                if kind == b"settled":
                    self._end(step)
                    yield from self._ready()
            elif kind == b"noted" and b'"what":"alert"' in line:
                self._noted.append(Record.parse(line))
            elif kind == b"noted" and MARK in line and step is not None:
                again = repeats_in(Record.parse(line).body)
                if again is not None:
                    self._repeats[step] = again.plus(self._repeats.get(step))
        for step in list(self._open):
            self._end(step)
        yield from self._ready()
        self._group_alerts()

    @property
    def repeats(self) -> dict[int, Repeats]:
        """Return how often each of the given steps was refused again without a step of its own."""
        return {step: one for step, one in self._repeats.items() if step in self._given}

    def _begin(self, step: int, record: Record) -> None:
        if record.body.get("kind") in self._wanted.kinds:
            self._open[step] = [record]
            self._held[step] = None

    def _end(self, step: int) -> None:
        records = self._open.pop(step)
        one = Traffic.of(Step(step, tuple(records)), self._body)
        if one is None or not self._wanted.has(one):
            del self._held[step]
        else:
            self._held[step] = one
            self._given.add(step)
            self.count += 1

    def _ready(self) -> Iterator[Traffic]:
        """Those at the front that have ended; all that have when too many wait."""
        is_full = len(self._held) > MAX_HELD
        ready: list[Traffic] = []
        for one in self._held.values():
            if one is not None:
                ready.append(one)
            elif not is_full:
                break
        for one in ready:
            del self._held[one.step]
        return iter(ready)

    def _body(self, record: Record) -> Mapping[str, Any]:
        """A record whose parts were set aside as a whole is read with them."""
        if not any(blob.form == "json" and blob.path.count("/") == 1 for blob in record.blobs):
            return record.body
        try:
            return self._reader.body(record)
        except PaddockError:  # verify says what is wrong; the rest of the run is still shown
            return record.body

    def _group_alerts(self) -> None:
        for record in self._noted:
            if record.step is None or record.step in self._given:
                self._count_alert(record)

    def _count_alert(self, record: Record) -> None:
        body = record.body
        about = {key: body[key] for key in body if key not in ("what", "alert", "times")}
        key = (str(body.get("alert")), repr(sorted(about.items(), key=lambda item: item[0])))
        group = self.alerts.setdefault(key, AlertGroup(key[0], about, first_at=record.at))
        times = body.get("times")
        group.times += times if type(times) is int and times > 0 else 1
        group.last_at = record.at
        if record.step is not None and len(group.steps) < self.max_steps:
            group.steps.append(record.step)


def traffic_json(one: Traffic) -> dict[str, Any]:
    """All that is known of a step, for programs. Large values are previews."""
    about_http = {key: getattr(one, key) if one.is_http else None for key in _OF_HTTP}
    sent = {key: one.arguments.get(key) for key in ("path", "query")}
    known = {key: getattr(one, key) for key in _KNOWN}
    values = {key: dict(getattr(one, key)) for key in ("arguments", "result", "cost")}
    return {**known, **about_http, **sent, **values}


def pages(scan: Scan, size: int) -> Iterator[list[Traffic]]:
    """The steps, some at a time."""
    steps = iter(scan)
    while page := list(islice(steps, size)):
        yield page
