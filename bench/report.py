"""The bench's answer as JSON or as a table, and facts about the host. Nothing is measured here."""

from __future__ import annotations

import os
import platform
import sys
import textwrap
from pathlib import Path
from typing import Any

from bench.figures import Figure, number
from bench.peers import Peers
from bench.rig import file_system
from paddock import __version__
from paddock.model.sizes import format_size
from paddock.state.home import Home

_HEADS = ("figure", "measured", "beside", "its value", "ratio", "limit", "reached", "n")
_RIGHT = {1, 3, 4, 7}  # columns of numbers
_NOTE_WIDTH = 96
_GREEN, _RED, _BOLD, _PLAIN = "\033[32m", "\033[31m", "\033[1m", "\033[0m"


def host_facts(peers: Peers, *, is_quick: bool) -> dict[str, Any]:
    """Return what a reader must know to compare two runs."""
    home = Home.find()
    return {
        "paddock": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": round(os.getloadavg()[0], 2),
        "user": "root" if os.geteuid() == 0 else "ordinary user",
        "home": str(home.root),
        "home_file_system": file_system(home.root),
        "peers": ["bwrap", *(peer.name for peer in peers.others)],
        "peers_absent": dict(peers.absent),
        "is_quick": is_quick,
    }


def as_json(host: dict[str, Any], figures: list[Figure]) -> dict[str, Any]:
    return {"host": host, "figures": [figure.as_json() for figure in figures]}


def as_text(host: dict[str, Any], figures: list[Figure], *, is_coloured: bool) -> str:
    """A table with a line of facts above, and notes and a summary below."""
    rows = [_cells(figure) for figure in figures]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    lines = [_host_line(host), "", _row(_HEADS, widths, _BOLD if is_coloured else "")]
    for figure, cells in zip(figures, rows, strict=True):
        colour = {True: _GREEN, False: _RED, None: ""}[figure.is_reached]
        lines.append(_row(cells, widths, colour if is_coloured else ""))
    return "\n".join([*lines, *_notes(figures), "", *_summary(host, figures)]) + "\n"


def _cells(figure: Figure) -> tuple[str, ...]:
    limit = "" if figure.limit is None else figure.limit.text(figure.unit)
    reached = {True: "yes", False: "NO", None: "-"}[figure.is_reached]
    return (
        figure.title,
        _quantity(figure.value, figure.unit) or "failed",
        figure.peer or ("its limit" if figure.ratio is not None else ""),
        _quantity(figure.peer_value, figure.unit),
        "" if figure.ratio is None else f"{figure.ratio:.3g}x",
        limit,
        reached,
        str(figure.n or ""),
    )


def _row(cells: tuple[str, ...], widths: list[int], colour: str) -> str:
    padded = (
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    line = "  ".join(padded).rstrip()
    return f"{colour}{line}{_PLAIN}" if colour else line


def _quantity(value: float | None, unit: str) -> str:
    return "" if value is None else f"{number(value)} {unit}"


def _notes(figures: list[Figure]) -> list[str]:
    said = [f"{figure.name}: {figure.note}" for figure in figures if figure.note]
    lines = [] if not said else ["", "Notes"]
    for note in said:
        lines += textwrap.wrap(note, _NOTE_WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _summary(host: dict[str, Any], figures: list[Figure]) -> list[str]:
    kept = sum(figure.is_reached is True for figure in figures)
    missed = [figure.name for figure in figures if figure.is_reached is False]
    lines = [f"reached: {kept} of {kept + len(missed)}"]
    if missed:
        lines[0] += f"; not reached: {', '.join(missed)}"
    absent = [f"{name} ({why})" for name, why in host["peers_absent"].items()]
    if absent:
        lines.append(f"peers that could not be compared: {', '.join(absent)}")
    return lines


def _host_line(host: dict[str, Any]) -> str:
    return (
        f"paddock {host['paddock']}, Python {host['python']}, Linux {host['kernel']}, "
        f"{host['cores']} cores ({host['cpu']}), {format_size(host['memory_bytes'])}, "
        f"{host['user']}, state on {host['home_file_system']}, load {host['load']}"
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or sys.platform
