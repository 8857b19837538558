"""The network of a run as lines for people. An agent chose many of the words: each goes through
`plain`, stands on one line, and has a bounded length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field

from paddock.cli.net_data import AlertGroup
from paddock.cli.output import counts
from paddock.cli.table import table
from paddock.cli.times import offset, took
from paddock.journal.traffic import Traffic
from paddock.model.action import Verdict
from paddock.model.plain import plain
from paddock.model.values import dataclass

HEADER = ("STEP", "FROM", "TIME", "KIND", "METHOD", "DESTINATION", "PATH", "STATUS", "VERDICT",
          "OUT", "IN", "TOOK")  # fmt: skip
_RIGHT = frozenset({"STEP", "FROM", "TIME", "OUT", "IN"})
_MOST = {"KIND": 7, "METHOD": 8, "DESTINATION": 44, "STATUS": 6, "VERDICT": 32}
_PATH = HEADER.index("PATH")
_LEAST_PATH, _MOST_PATH = 12, 400
_COLOURS = {"block": "31", "ask": "33", "simulate": "36", "fault": "35"}
_FAILED = "33"
# What is expected of a verdict need not be said.
_USUAL = {"allow": "done", "block": "refused", "simulate": "simulated", "fault": "faulted"}
_MAX_ALERTS = 40
_UNITS = " kMGTPE"


@dataclass(frozen=True, slots=True)
class Row:
    """One step: a cell for each column, the sentence below it, and its colour."""

    cells: tuple[str, ...]
    said: str | None = None
    colour: str | None = None


def row_of(one: Traffic, start_us: int, *, with_why: bool) -> Row:
    """The sentence is what went wrong; with `with_why` also why something was refused."""
    cells = (
        str(one.step),
        "-" if one.parent is None else str(one.parent),
        offset(one.at, start_us),
        one.kind,
        plain(one.method or "-", 20),
        plain(one.place or "-", 100),
        _path(one),
        "-" if one.status is None else str(one.status),
        _verdict(one),
        size(one.bytes_out),
        size(one.bytes_in),
        took(one.duration_us),
    )
    said = one.error or one.why if with_why or one.outcome == "failed" else None
    colour = _FAILED if one.outcome == "failed" else _COLOURS.get(one.verdict or "")
    return Row(cells, plain(said, 400) if said else None, colour)


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide the columns are. The path gets what the others leave."""

    widths: tuple[int, ...]
    is_coloured: bool = False

    @classmethod
    def for_rows(cls, rows: Sequence[Row], width: int, *, is_coloured: bool) -> Columns:
        lines = [HEADER, *(row.cells for row in rows)]
        needed = [max(len(line[at]) for line in lines) for at in range(len(HEADER))]
        widths = [min(need, _MOST.get(HEADER[at], need)) for at, need in enumerate(needed)]
        beside = sum(widths) - widths[_PATH] + 2 * (len(HEADER) - 1)
        widths[_PATH] = min(widths[_PATH], max(width - beside, _LEAST_PATH))
        return cls(tuple(widths), is_coloured)

    def header(self) -> str:
        return self._line(HEADER)

    def lines(self, row: Row) -> Iterator[str]:
        line = self._line(row.cells)
        yield f"\033[{row.colour}m{line}\033[0m" if self.is_coloured and row.colour else line
        if row.said:
            yield f"{'':>{self.widths[0]}}  . {row.said}"

    def _line(self, cells: Sequence[str]) -> str:
        shown = []
        for name, cell, width in zip(HEADER, cells, self.widths, strict=True):
            most = width if name == "PATH" else _MOST.get(name, len(cell))
            text = cell if len(cell) <= most else f"{cell[: most - 3]}..."
            shown.append(text.rjust(width) if name in _RIGHT else text.ljust(width))
        return "  ".join(shown).rstrip()


@dataclass(slots=True)
class Totals:
    """What all steps that are shown come to."""

    verdicts: Counter[str] = field(default_factory=Counter)
    bytes_out: int = 0
    bytes_in: int = 0
    calls: int = 0  # of models
    tokens: int = 0
    usd_micros: int = 0

    def add(self, one: Traffic) -> None:
        self.verdicts[plain(one.verdict or "undecided", 20)] += 1
        self.bytes_out += one.bytes_out or 0
        self.bytes_in += one.bytes_in or 0
        if one.kind == "model":
            self.calls += 1
            self.tokens += _count(one, "input_tokens") + _count(one, "output_tokens")
            self.usd_micros += _count(one, "usd_micros")

    def __str__(self) -> str:
        number = sum(self.verdicts.values())
        decided = counts(self.verdicts, [verdict.value for verdict in Verdict])
        moved = f"{size(self.bytes_out)} out, {size(self.bytes_in)} in"
        line = f"{_number(number, 'step')}: {decided}; {moved}"
        if not self.calls:
            return line
        price = f", {usd(self.usd_micros)}" if self.usd_micros else ""  # not every price is known
        used = f"{_number(self.calls, 'call')}, {_number(self.tokens, 'token')}{price}"
        return f"{line}; models: {used}"


def alert_lines(groups: Sequence[AlertGroup], start_us: int) -> list[str]:
    """A count, and a line for each alert that says something else."""
    if not groups:
        return []
    rows = [
        (
            group.times,
            plain(group.name, 40),
            plain(", ".join(f"{key} {value}" for key, value in group.about.items()), 120),
            offset(group.first_at, start_us),
            offset(group.last_at, start_us),
            ", ".join(map(str, group.steps[:5])) + (", ..." if len(group.steps) > 5 else "") or "-",
        )
        for group in groups[:_MAX_ALERTS]
    ]
    drawn = table(("TIMES", "ALERT", "ABOUT", "FIRST", "LAST", "STEPS"), rows).splitlines()
    more = len(groups) - _MAX_ALERTS
    rest = [f"({more} more kinds of alerts: --json)"] if more > 0 else []
    return [f"alerts: {sum(group.times for group in groups)}", *drawn, *rest]


def size(number: int | None) -> str:
    """812, 4.2k, 31M: bytes, in thousands."""
    if number is None:
        return "-"
    if number < 1000:
        return str(number)
    power = min((len(str(number)) - 1) // 3, len(_UNITS) - 1)
    value, unit = number / 1000**power, _UNITS[power]
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


def usd(micros: int) -> str:
    """$0.000042, $1.20"""
    return f"${micros / 1e6:.6f}" if micros < 10_000 else f"${micros / 1e6:.2f}"


def _path(one: Traffic) -> str:
    if one.kind != "model":
        return plain(one.target or "-", _MOST_PATH)
    tokens = f" {_count(one, 'input_tokens')}+{_count(one, 'output_tokens')} tokens"
    said = f"{one.arguments.get('model') or one.name}{tokens if one.cost else ''}"
    return plain(f"{one.target or '-'} ({said})", _MOST_PATH)


def _verdict(one: Traffic) -> str:
    """`allow network`; where something else came of it, that too: `allow network, failed`."""
    verdict = one.verdict or "undecided"
    by = f" {one.decided_by}" if one.decided_by else ""
    outcome = one.outcome or "open"
    other = "" if _USUAL.get(verdict) == outcome else f", {outcome}"
    return plain(f"{verdict}{by}{other}", 80)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _count(one: Traffic, key: str) -> int:
    value = one.cost.get(key)
    return value if type(value) is int and value >= 0 else 0
