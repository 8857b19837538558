"""`paddock runs remove`: takes runs away, with their worlds and with files that nobody else needs.
Asks first where somebody can be asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from paddock.cli.journals import all_indexed, find_journal, newest_first, state_of
from paddock.cli.output import check_person, confirm, say, say_json, warn
from paddock.cli.render.table import line_width
from paddock.journal.index.rows import RunRow
from paddock.model.errors import InvalidInput
from paddock.model.plural import many
from paddock.model.printable import printable
from paddock.model.sizes import format_size
from paddock.run.removal import Removed, check_removable, remove_runs, without_needed
from paddock.state.home import Home

_MAX_NAME = 40


def remove(options: argparse.Namespace) -> int:
    if bool(options.run) == bool(options.older):
        raise InvalidInput("say which runs: RUN ..., or --older 30d")
    home = Home.find()
    with all_indexed(home) as (index, _):
        rows = list(newest_first(index))
    kept: dict[str, list[str]] = {}
    if options.older:
        chosen, kept = without_needed(_older(options.older, rows), rows)
    else:
        chosen = list(dict.fromkeys(_directory_of(home, word, options) for word in options.run))
    check_removable(chosen, rows)
    if chosen and not options.yes and not _is_confirmed(chosen, rows, options):
        return 1
    removed = remove_runs(home, chosen, rows) if chosen else Removed(())
    _say(removed, kept, options)
    return 0


def _older(text: str, rows: Sequence[RunRow]) -> list[Path]:
    from paddock.cli.render.units import since

    before = since(text, "--older")
    return [
        Path(row.directory) for row in rows if row.last_at < before and state_of(row) != "running"
    ]


def _directory_of(home: Home, word: str, options: argparse.Namespace) -> Path:
    directory = find_journal(word, is_quiet=options.json).absolute()
    if directory.parent.resolve() != home.runs.resolve():
        raise InvalidInput(f"{word[:200]!r} is no run of this home", hint="remove its directory")
    return home.runs / directory.name


def _is_confirmed(
    chosen: Sequence[Path], rows: Sequence[RunRow], options: argparse.Namespace
) -> bool:
    from paddock.cli.render.runs import run_table

    check_person(is_json=options.json)
    names = {directory.name for directory in chosen}
    chosen_rows = [row for row in rows if Path(row.directory).name in names]
    if chosen_rows:
        say(run_table(chosen_rows, line_width()))
    return confirm(f"remove {many(len(chosen), 'run')} for good? [y/N] ")


def _say(removed: Removed, kept: dict[str, list[str]], options: argparse.Namespace) -> None:
    if options.json:
        say_json({"removed": list(removed.runs), "tree_bytes": removed.tree_bytes, "kept": kept,
                  "remark": removed.remark})  # fmt: skip
        return
    for run, by in kept.items():
        warn(f"{printable(run, _MAX_NAME)} stays: {printable(', '.join(by), 200)} come from it")
    freed = f", {format_size(removed.tree_bytes)} of files" if removed.tree_bytes else ""
    say(f"removed {many(len(removed.runs), 'run')}{freed}")
    if removed.remark:
        warn(removed.remark)
