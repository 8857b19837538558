"""`paddock world`: the stand-ins that there are, and those of a run: their state, what changed in
it, the way back to the beginning, and how true a stand-in is.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from paddock.cli.output import is_coloured, say, say_json, sentences
from paddock.cli.parser import CommandParser
from paddock.model.errors import Conflict, InvalidInput, NotFound, PaddockError
from paddock.model.plural import many

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.world.saved_worlds import SavedService, SavedWorld

_STEPS = re.compile(r"(?P<first>[0-9]{1,12})?(?P<to>\.\.)?(?P<last>[0-9]{1,12})?")


def main(arguments: list[str]) -> int:
    from paddock.cli.commands import world_check

    if arguments and arguments[0] not in (*_COMMANDS, "check") and not arguments[0].startswith("-"):
        arguments = ["diff", *arguments]  # `paddock world RUN`: what the run did to it
    options = make_parser().parse_args(arguments)
    if options.action == "check":
        return world_check.main(arguments[1:])
    with sentences():
        _COMMANDS[options.action](options)
    return 0


def make_parser() -> CommandParser:
    from paddock.cli.commands import world_check

    parser = CommandParser(prog="paddock world", description=__doc__)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    listed = commands.add_parser("list", help="services: of a run, or all that are built in")
    listed.add_run(nargs="?")
    show = commands.add_parser("show", help="what is in them")
    show.add_argument("--step", metavar="K", help="as it was after this step")
    diff = commands.add_parser("diff", help="what is otherwise than it was, field by field")
    diff.add_argument("--step", metavar="A..B", help="what these steps changed; also K, A.. or ..B")
    diff.add_flag("--full", "also what a stand-in only remembers by")
    reset = commands.add_parser("reset", help="of one that goes on: back to the beginning")
    reset.add_flag("--force", "yes, while it goes on")
    commands.add_parser("check", parents=[world_check.make_parser()], add_help=False,
                        help="how true a stand-in is")  # fmt: skip
    for subparser in (show, diff, reset):
        subparser.add_run()
        subparser.add_argument("service", metavar="SERVICE", nargs="?",
                         help="one only: its name, host, or host:port")  # fmt: skip
    for subparser in (listed, show, diff, reset):
        subparser.add_json("for programs")
    return parser


def _list(options: argparse.Namespace) -> None:
    from paddock.cli.render.world import (
        built_in,
        built_in_lines,
        faults_by_host,
        row_of,
        service_table,
    )

    if options.run is None:
        services = built_in()
        if options.json:
            say_json([service.as_json() for service in services])
        else:
            say("\n".join(built_in_lines(services)))
        return
    home, run = _find(options.run, is_quiet=options.json)
    with _open(home, run) as world:
        faults = faults_by_host(home / "runs" / run)
        rows = [row_of(service, faults) for service in world.services]
    if options.json:
        say_json([asdict(row) for row in rows])
    else:
        say(service_table(rows) if rows else f"the world of {run} has no services")


def _show(options: argparse.Namespace) -> None:
    from paddock.cli.render.world import state_after, state_lines

    step = None if options.step is None else _one_step(options.step)
    home, run = _find(options.run, is_quiet=options.json)
    with _open(home, run) as world:
        states = {
            service.name: service.show() if step is None else state_after(service, step)
            for service in _choose(world, options.service)
        }
        broken = {service.name: service.invariants for service in _choose(world, options.service)}
    if options.json:
        say_json({name: {"state": states[name], "broken": broken[name]} for name in states})
        return
    for name, state in states.items():
        say("\n".join(state_lines(name, state, broken[name])))


def _diff(options: argparse.Namespace) -> None:
    from paddock.cli.render.world import difference_lines, differences

    first, last = (None, None) if options.step is None else _some_steps(options.step)
    home, run = _find(options.run, is_quiet=options.json)
    with _open(home, run) as world:
        chosen = _choose(world, options.service)
        changes = {service.name: differences(service, first, last) for service in chosen}
        inner = {service.name: {} if options.full else service.inner for service in chosen}
    if options.json:
        as_json = {}
        for name, documents in changes.items():
            as_json[name] = [document.as_json() for document in documents]
        say_json(as_json)
        return
    lines: list[str] = []
    for name, documents in changes.items():
        lines += difference_lines(name, documents, is_coloured=is_coloured(), inner=inner[name])
    say("\n".join(lines) if lines else "nothing changed")


def _reset(options: argparse.Namespace) -> None:
    home, run = _find(options.run, is_quiet=options.json)
    with _open(home, run) as world:
        _refuse_reset(world, home, is_forced=options.force)
    with _open(home, run, read_only=False) as world:
        undone = {}
        for service in _choose(world, options.service):
            undone[service.name] = service.reset()
    if options.json:
        say_json({"run": run, "undone": undone})
        return
    for name, count in undone.items():
        say(f"{name}: back to the beginning, {many(count, 'change')} undone")


def _find(word: str, *, is_quiet: bool) -> tuple[Path, str]:
    """Return the home and the run that a word names. Raises NotFound and InvalidInput."""
    from pathlib import Path

    from paddock.cli.journals import find_journal
    from paddock.state.home import Home
    from paddock.world.saved_worlds import runs_with_worlds

    if "/" in word or word.startswith("."):  # a run's directory in some home
        place = Path(find_journal(word).absolute())
        return place.parent.parent, place.name
    home = Home.find().root
    runs = runs_with_worlds(home)
    if word == "last":
        if not runs:
            raise NotFound("no run has a world yet", hint="write `world:` in the paddock file")
        return home, find_journal(word, is_quiet=is_quiet).name
    matches = [run for run in runs if word and run.startswith(word)]
    if word in matches or len(matches) == 1:
        return home, word if word in matches else matches[0]
    if matches:
        shown = ", ".join(sorted(matches)[:5])
        raise NotFound(f"{word[:80]!r} could be {shown}; write more of it")
    return home, find_journal(word).name  # says what is near; if it is a run, it has no world


def _open(home: Path, run: str, *, read_only: bool = True) -> SavedWorld:
    from paddock.cli.journals import replayed_in
    from paddock.world.saved_worlds import open_saved_world

    try:
        return open_saved_world(home, run, read_only=read_only)
    except NotFound as error:
        try:
            replayed = replayed_in(home / "runs" / run)
        except (PaddockError, OSError):
            replayed = None
        if replayed is None:
            raise error
        hint = f"what it replays has its own: paddock world show {replayed}"
        raise NotFound(f"{run} is a replay: no stand-in answered", hint=hint) from None


def _choose(world: SavedWorld, word: str | None) -> list[SavedService]:
    return world.services if word is None else [world.service(word)]


def _refuse_reset(world: SavedWorld, home: Path, *, is_forced: bool) -> None:
    """Raise Conflict unless the run is going on and the user insists. The world of a run that is
    over is part of its record: forks begin from there."""
    run = world.run
    if not _is_going_on(world, home):
        raise Conflict(
            f"the run {run} is over, and what its stand-ins hold is part of its record",
            hint=f"`paddock fork {run} --at 1` begins again where it began",
        )
    if not is_forced:
        raise Conflict(
            f"the run {run} is going on: its stand-ins would lose their memory",
            hint="say --force if that is meant",
        )


def _is_going_on(world: SavedWorld, home: Path) -> bool:
    """Return whether the run is still going on: it has no end, and a process holds the journal."""
    from paddock.journal.run_directory import is_held

    journal = home / "runs" / world.run
    return not world.is_ended and (not journal.is_dir() or is_held(journal))


def _some_steps(text: str) -> tuple[int | None, int | None]:
    """Parse `3..7`, `3..`, `..7`, or `3` for that step alone."""
    match = _STEPS.fullmatch(text)
    first, last = (match["first"], match["last"]) if match else (None, None)
    if not match or not (first or last) or (last and first and not match["to"]):
        raise InvalidInput(f"--step: {text[:40]!r} is not A..B, A.., ..B or K")
    if not match["to"]:
        last = first
    low, high = int(first) if first else None, int(last) if last else None
    if low is not None and high is not None and low > high:
        raise InvalidInput(f"--step: {text!r} ends before it begins")
    return low, high


def _one_step(text: str) -> int:
    first, last = _some_steps(text)
    if first is None or first != last:
        raise InvalidInput(f"--step: {text[:40]!r} is not one step")
    return first


_COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "reset": _reset,
}
