"""`paddock bench`: measures Paddock beside its peers here, and says which limits are reached.
How a thing is measured lives in the `bench_*` files; here is only the order of things.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable

from paddock.cli import (
    bench_fork,
    bench_gate,
    bench_journal,
    bench_memory,
    bench_network,
    bench_policy,
    bench_runs,
    bench_start,
    bench_work,
    bench_world,
)
from paddock.cli.bench_figures import Figure, failed
from paddock.cli.bench_report import as_json, as_text, host_facts
from paddock.cli.bench_rig import Rig, open_rig
from paddock.model.errors import PaddockError

MEASUREMENTS: dict[str, Callable[[Rig], list[Figure]]] = {
    "create-cold": bench_start.create_cold,
    "create-pool": bench_start.create_pool,
    "create-100": bench_start.create_crowd,
    "command": bench_work.command,
    "files": bench_work.files,
    "fork": bench_fork.fork,
    "memory": bench_memory.memory,
    "cpu": bench_work.cpu,
    "cli-start": bench_start.cli_start,
    "decide": bench_policy.decide,
    "journal": bench_journal.journal,
    "gate": bench_gate.gate,
    "network": bench_network.network,
    "network-memory": bench_network.network_memory,
    "network-start": bench_network.network_start,
    "fuzz": bench_network.fuzz,
    "world": bench_world.world,
    "world-fork": bench_world.world_fork,
    "runs": bench_runs.runs,
    "run-forks": bench_runs.run_forks,
}


def main(arguments: list[str]) -> int:
    """0 when all was measured, be a limit reached or not; 1 when something could not be."""
    options = _parse(arguments)
    with open_rig(is_quick=options.quick) as rig:
        host = host_facts(rig.peers, is_quick=options.quick)
        figures = _measure(rig, options.only)
    if options.json:
        print(json.dumps(as_json(host, figures), indent=2))
    else:
        is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        sys.stdout.write(as_text(host, figures, is_coloured=is_coloured))
    return int(any(figure.value is None for figure in figures))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="paddock bench",
        description="Measures Paddock beside its peers on this machine.",
        epilog=f"Names for --only: {', '.join(MEASUREMENTS)}.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="fewer samples: under a minute")
    parser.add_argument(
        "--only", metavar="NAME,...", type=_names, default=[*MEASUREMENTS], help="only these"
    )
    return parser.parse_args(arguments)


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
    figures: list[Figure] = []
    for number, name in enumerate(names, 1):
        _progress(f"measuring {name} ({number} of {len(names)}) ...")
        try:
            figures += MEASUREMENTS[name](rig)
        except (PaddockError, OSError, subprocess.SubprocessError, ExceptionGroup) as error:
            figures.append(failed(name, error))  # the other figures are still worth having
    _progress("")
    return figures


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
