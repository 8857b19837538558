"""The list of measurements, and the program that runs them: it measures Paddock beside its peers
on this machine and says which limits are reached."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from paddock.cli.render.progress import Progress
from paddock.model.errors import PaddockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.figures import Figure
    from bench.rig import Rig

# The function that measures each figure, by the module that has it: they are loaded when needed.
MEASUREMENTS = {
    "create-cold": "start.create_cold",
    "create-pool": "start.create_pool",
    "create-100": "start.create_crowd",
    "command": "work.command",
    "files": "work.files",
    "fork": "fork.fork",
    "memory": "memory.memory",
    "cpu": "work.cpu",
    "cli-start": "start.cli_start",
    "decide": "policy.decide",
    "journal": "journal.journal",
    "gate": "gate.gate",
    "network": "network.measurements.network",
    "network-memory": "network.measurements.network_memory",
    "network-start": "network.measurements.network_start",
    "fuzz": "network.measurements.fuzz",
    "neighbour": "neighbour.neighbour",
    "world": "world.measurements.world",
    "world-fork": "world.measurements.world_fork",
    "runs": "runs.runs",
    "run-forks": "runs.run_forks",
    "hostile": "hostile.hostile_delay",
}


def main(arguments: list[str]) -> int:
    """Return 0 when all was measured, be a limit reached or not; 1 when something could not be."""
    options = make_parser().parse_args(arguments)
    from bench.report import as_json, as_text, host_facts
    from bench.rig import open_rig

    with open_rig(is_quick=options.quick) as rig:
        host = host_facts(rig.peers, is_quick=options.quick)
        figures = _measure(rig, options.only or [*MEASUREMENTS])
    if options.json:
        print(json.dumps(as_json(host, figures), indent=2))
    else:
        is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        sys.stdout.write(as_text(host, figures, is_coloured=is_coloured))
    return int(any(figure.value is None for figure in figures))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures Paddock beside its peers on this machine.",
        epilog=f"Names for --only: {', '.join(MEASUREMENTS)}.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="fewer samples: under a minute")
    parser.add_argument("--only", metavar="NAME,...", type=_names, help="only these (default: all)")
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown or not names:
        known = ", ".join(MEASUREMENTS)
        raise argparse.ArgumentTypeError(
            f"no figure {', '.join(unknown) or text!r}; there are {known}"
        )
    return names


def _measure(rig: Rig, names: list[str]) -> list[Figure]:
    import subprocess

    from bench.figures import failed

    figures: list[Figure] = []
    progress = Progress(len(names))
    for name in names:
        progress.begin(name)
        try:
            figures += measurement(name)(rig)
            progress.end()
        except (PaddockError, OSError, subprocess.SubprocessError, ExceptionGroup) as error:
            figures.append(failed(name, error))  # the other figures are still worth having
            progress.end("failed")
    return figures


def measurement(name: str) -> Callable[[Rig], list[Figure]]:
    """Return the function that measures a figure."""
    module, _, function = MEASUREMENTS[name].rpartition(".")
    measure: Callable[[Rig], list[Figure]] = getattr(import_module(f"bench.{module}"), function)
    return measure
