"""The network of a run as lines for people. An agent chose many of the words: each goes through
`plain`, stands on one line, and has a bounded length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from paddock.cli.cells import cells, cut, fit, worded
from paddock.cli.net_data import AlertGroup
from paddock.cli.output import counts
from paddock.cli.run_lines import money
from paddock.cli.table import line_width, table
from paddock.cli.times import offset, took
from paddock.journal.traffic import Traffic
from paddock.model.action import Verdict
from paddock.model.money import amount_text
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.model.values import dataclass

HEADER = ("STEP", "FROM", "TIME", "KIND", "METHOD", "DESTINATION", "PATH", "STATUS", "VERDICT",
          "OUT", "IN", "TOOK")  # fmt: skip
_RIGHT = frozenset({"STEP", "FROM", "TIME", "OUT", "IN"})
_MOST = {"KIND": 7, "METHOD": 8, "DESTINATION": 44, "STATUS": 6, "VERDICT": 32}
_NARROW = 120  # a terminal with fewer columns gives less to these
_MOST_NARROW = {**_MOST, "METHOD": 6, "DESTINATION": 24, "VERDICT": 18}
_SPARED = ("FROM", "TIME", "TOOK", "OUT", "IN", "KIND")  # where the path has no room, in turn
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
    """Which columns are shown, and how wide. The path gets what the others leave."""

    widths: Mapping[str, int]  # of those that are shown
    width: int
    is_coloured: bool = False

    @classmethod
    def for_rows(cls, rows: Sequence[Row], width: int, *, is_coloured: bool) -> Columns:
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

    def lines(self, row: Row) -> Iterator[str]:
        line = self._line(row.cells)
        yield f"\033[{row.colour}m{line}\033[0m" if self.is_coloured and row.colour else line
        if row.said:
            indent = self.widths["STEP"] + 4
            for at, line in enumerate(worded(row.said, self.width - indent)):
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
        line = f"{many(number, 'step')}: {decided}; {moved}"
        if not self.calls:
            return line
        price = f", {money(self.usd_micros)}" if self.usd_micros else ""  # not every price is known
        used = f"{many(self.calls, 'call')}, {many(self.tokens, 'token')}{price}"
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
    header = ("TIMES", "ALERT", "ABOUT", "FIRST", "LAST", "STEPS")
    drawn = table(
        header, rows, width=line_width(), flexible=("ABOUT", "ALERT", "STEPS")
    ).splitlines()
    more = len(groups) - _MAX_ALERTS
    rest = [f"({many(more, 'more kind', 'more kinds')} of alerts: --json)"] if more > 0 else []
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


def _path(one: Traffic) -> str:
    if one.kind != "model":
        amount = amount_text(one.arguments)
        return plain(f"{one.target or '-'} {amount}".rstrip(), _MOST_PATH)
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


def _count(one: Traffic, key: str) -> int:
    value = one.cost.get(key)
    return value if type(value) is int and value >= 0 else 0
