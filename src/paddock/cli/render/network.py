"""The traffic of a run through the network door as values and as a table for people. An agent chose
many of the words: each goes through `plain`, stands on one line, and has a bounded length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import asdict

from paddock.cli.output import counts, is_coloured, pick, say, say_json
from paddock.cli.render.cells import VERDICT_COLOURS, cells, cut, fit, labelled, paint, worded
from paddock.cli.render.run_lines import about_text, repeats_text
from paddock.cli.render.table import line_width, terminal_table
from paddock.cli.render.units import offset, took, usd_text
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
from paddock.model.money import amount_text
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.steps import Step, whole_number

HEADER = ("STEP", "FROM", "TIME", "KIND", "METHOD", "DESTINATION", "PATH", "STATUS", "VERDICT",
          "OUT", "IN", "TOOK")  # fmt: skip
_RIGHT = frozenset({"STEP", "FROM", "TIME", "OUT", "IN"})
_MOST = {"KIND": 7, "METHOD": 8, "DESTINATION": 44, "STATUS": 6, "VERDICT": 32}
_NARROW = 120  # a terminal with fewer columns gives less to these
_MOST_NARROW = {**_MOST, "METHOD": 6, "DESTINATION": 24, "VERDICT": 18}
_SPARED = ("FROM", "TIME", "TOOK", "OUT", "IN", "KIND")  # where the path has no room, in turn
_LEAST_PATH, _MOST_PATH = 12, 400
_FAILED = "33"
# What is expected of a verdict need not be said.
_USUAL = {"allow": "done", "block": "refused", "simulate": "simulated", "fault": "faulted"}
_MAX_ALERTS = 40
_UNITS = " kMGTPE"
_PAGE = 500  # steps: the columns are as wide as the first page needs
_PIPED_WIDTH = 200
MAX_HELD = 10_000  # steps that wait for an earlier one to end; beyond it that one comes late
_MAX_STEPS = 20  # of one alert


# ---- values --------------------------------------------------------------------------------------


class NetworkFilter(msgspec.Struct, frozen=True):
    """The choice of steps that are to be shown."""

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
    """A group of alerts that say the same."""

    alert: str
    about: Mapping[str, Any]
    times: int = 0
    first_at: int = 0
    last_at: int = 0
    steps: list[int] = []  # the first few


class NetworkScan:
    """The traffic of a run that is wanted. Iterating gives it in the order of the steps; few are
    held at once, because a run may have any number of requests. Afterwards `alerts` and `repeats`
    have what was recorded about those that were given.

    A step that has ended waits until those before it have ended too."""

    def __init__(self, log: RunLog, wanted: NetworkFilter) -> None:
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
        **pick(step, "parent", "at", "kind", "name"),
        **pick(traffic, "method", "host", "port"),
        **pick(step, "verdict", "decided_by", "why", "effect", "outcome", "error"),
        **pick(traffic, "bytes_out", "bytes_in", "address"),
        **pick(step, "duration_us", "held_us"),
        "scheme": traffic.scheme if traffic.is_http else None,
        "url": traffic.url if traffic.is_http else None,
        "status": traffic.status,
        "path": step.arguments.get("path"),
        "query": step.arguments.get("query"),
        **pick(step, "arguments", "result", "cost"),
    }


def repeats_json(step: int, again: RefusedAgain) -> dict[str, Any]:
    """Return for programs how often a step was refused again."""
    return {"what": "refused again", **body_of(again), "step": step}


# ---- lines ---------------------------------------------------------------------------------------


def write_json(scan: NetworkScan) -> None:
    """Write one object a line: the steps, then what was refused again, then the alerts."""
    for traffic in scan:
        say_json(traffic_json(traffic))
    for step, again in scan.repeats().items():
        say_json(repeats_json(step, again))
    for group in scan.alerts():
        say_json(asdict(group))


def write_text(scan: NetworkScan, start_us: int, *, with_why: bool) -> None:
    """Write a table of the steps, what they come to, and the alerts."""
    steps, totals, columns = iter(scan), NetworkTotals(), None
    while page := list(islice(steps, _PAGE)):
        rows = [row_of(traffic, start_us, with_why=with_why) for traffic in page]
        if columns is None:
            width = line_width() or _PIPED_WIDTH
            columns = NetworkColumns.for_rows(rows, width, is_coloured=is_coloured())
            say(columns.header())
        say("\n".join(line for row in rows for line in columns.lines(row)))
        for traffic in page:
            totals.add(traffic)
    if totals.verdicts:
        say("\n".join(["", *labelled("", str(totals), line_width())]))
    else:
        say("nothing of the kind went through the network door")
    for step, again in scan.repeats().items():
        say(repeats_text(step, again))
    for line in alert_lines(scan.alerts(), start_us):
        say(line)


class NetworkRow(msgspec.Struct, frozen=True):
    """One step: a cell for each column, the sentence below it, and its colour."""

    cells: tuple[str, ...]
    why: str | None = None
    colour: str | None = None


def row_of(traffic: Traffic, start_us: int, *, with_why: bool) -> NetworkRow:
    """Return the row of a step. Its sentence is what went wrong; with `with_why` also why something
    was refused."""
    step = traffic.step
    cells = (
        str(step.number),
        "-" if step.parent is None else str(step.parent),
        offset(step.at, start_us),
        step.kind or "-",
        printable(traffic.method or "-", 20),
        printable(traffic.endpoint or "-", 100),
        _path(traffic),
        "-" if traffic.status is None else str(traffic.status),
        _verdict(step),
        size(traffic.bytes_out),
        size(traffic.bytes_in),
        took(step.duration_us),
    )
    is_failed = step.outcome is Outcome.FAILED
    why = step.error or step.why if with_why or is_failed else None
    colour = _FAILED if is_failed else VERDICT_COLOURS.get(step.verdict or "")
    return NetworkRow(cells, printable(why, 400) if why else None, colour)


class NetworkColumns(msgspec.Struct, frozen=True):
    """The columns that are shown, and their widths. The path gets what the others leave."""

    widths: Mapping[str, int]  # of those that are shown
    width: int
    is_coloured: bool = False

    @classmethod
    def for_rows(
        cls, rows: Sequence[NetworkRow], width: int, *, is_coloured: bool
    ) -> NetworkColumns:
        lines = [HEADER, *(row.cells for row in rows)]
        most = _MOST if width >= _NARROW else _MOST_NARROW
        widths = {}
        for at, name in enumerate(HEADER):
            needed = max(cells(line[at]) for line in lines)
            widths[name] = min(needed, most.get(name, needed))
        path = min(widths["PATH"], _LEAST_PATH)
        for spared in _SPARED:
            if _room(widths, width) >= path:
                break
            del widths[spared]
        widths["PATH"] = min(widths["PATH"], max(_room(widths, width), path))
        return cls(widths, width, is_coloured)

    def header(self) -> str:
        return self._line(HEADER)

    def lines(self, row: NetworkRow) -> Iterator[str]:
        line = self._line(row.cells)
        yield paint(line, row.colour, self.is_coloured)
        if row.why:
            indent = self.widths["STEP"] + 4
            for at, line in enumerate(worded(row.why, self.width - indent)):
                yield f"{'' if at else '. ':>{indent}}{line}"

    def _line(self, row: Sequence[str]) -> str:
        shown = []
        for name, cell in zip(HEADER, row, strict=True):
            width = self.widths.get(name)
            if width is None:
                continue
            is_cut = name in _MOST or name == "PATH"  # numbers never are
            text = cut(cell, width) if is_cut else cell
            shown.append(text.rjust(width) if name in _RIGHT else fit(text, width))
        return "  ".join(shown).rstrip()


def _room(widths: Mapping[str, int], width: int) -> int:
    """Return how many columns of the line are left for the path."""
    return width - sum(widths.values()) + widths["PATH"] - 2 * (len(widths) - 1)


class NetworkTotals(msgspec.Struct):
    """The sums over all steps that are shown."""

    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    bytes_out: int = 0
    bytes_in: int = 0
    calls: int = 0  # of models
    tokens: int = 0
    usd_micros: int = 0

    def add(self, traffic: Traffic) -> None:
        step = traffic.step
        self.verdicts[step.verdict or "undecided"] += 1
        self.bytes_out += traffic.bytes_out or 0
        self.bytes_in += traffic.bytes_in or 0
        if step.kind is Kind.MODEL:
            self.calls += 1
            self.tokens += _count(step, "input_tokens") + _count(step, "output_tokens")
            self.usd_micros += _count(step, "usd_micros")

    def __str__(self) -> str:
        number = sum(self.verdicts.values())
        decided = counts(self.verdicts, Verdict)
        moved = f"{size(self.bytes_out)} out, {size(self.bytes_in)} in"
        line = f"{many(number, 'step')}: {decided}; {moved}"
        if not self.calls:
            return line
        # Not every price is known.
        price = f", {usd_text(self.usd_micros)}" if self.usd_micros else ""
        used = f"{many(self.calls, 'call')}, {many(self.tokens, 'token')}{price}"
        return f"{line}; models: {used}"


def alert_lines(groups: Sequence[AlertGroup], start_us: int) -> list[str]:
    """A count, and a line for each alert that says something else."""
    if not groups:
        return []
    rows = [
        (
            group.times,
            printable(group.alert, 40),
            printable(about_text(group.about), 120),
            offset(group.first_at, start_us),
            offset(group.last_at, start_us),
            ", ".join(map(str, group.steps[:5])) + (", ..." if len(group.steps) > 5 else "") or "-",
        )
        for group in groups[:_MAX_ALERTS]
    ]
    header = ("TIMES", "ALERT", "ABOUT", "FIRST", "LAST", "STEPS")
    drawn = terminal_table(header, rows, flexible=("ABOUT", "ALERT", "STEPS")).splitlines()
    more = len(groups) - _MAX_ALERTS
    rest = [f"({many(more, 'more kind', 'more kinds')} of alerts: --json)"] if more > 0 else []
    return [f"alerts: {sum(group.times for group in groups)}", *drawn, *rest]


def size(number: int | None) -> str:
    """Return 812, 4.2k, 31M: bytes, in thousands."""
    if number is None:
        return "-"
    if number < 1000:
        return str(number)
    power = min((len(str(number)) - 1) // 3, len(_UNITS) - 1)
    value, unit = number / 1000**power, _UNITS[power]
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


def _path(traffic: Traffic) -> str:
    step = traffic.step
    if step.kind is not Kind.MODEL:
        amount = amount_text(step.arguments)
        return printable(f"{traffic.target or '-'} {amount}".rstrip(), _MOST_PATH)
    tokens = f" {_count(step, 'input_tokens')}+{_count(step, 'output_tokens')} tokens"
    model = f"{step.arguments.get('model') or step.name}{tokens if step.cost else ''}"
    return printable(f"{traffic.target or '-'} ({model})", _MOST_PATH)


def _verdict(step: Step) -> str:
    """Return `allow network`, and what came of it if that is unusual: `allow network, failed`."""
    verdict = step.verdict or "undecided"
    by = f" {step.decided_by}" if step.decided_by else ""
    outcome = step.outcome or "open"
    other = "" if _USUAL.get(verdict) == outcome else f", {outcome}"
    return printable(f"{verdict}{by}{other}", 80)


def _count(step: Step, key: str) -> int:
    return max(whole_number(step.cost.get(key)) or 0, 0)
