"""`paddock apply`: writes what a run changed back into the sources that were mounted.

Nothing is written that would leave the source, that was hidden from the agent, or that has changed
in the source since the run began.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.run.changed import Changed, Place, RunChanges
    from paddock.state.apply import Applied


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = _parser().parse_intermixed_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.run.changed import changes_of_run

        directory = find_journal(options.run, is_quiet=options.json)
        _check_ours(directory, options.to)
        with changes_of_run(directory, options.step) as found:
            return _apply(found, options)


def _parser() -> argparse.ArgumentParser:
    from paddock.cli.journals import RUN_HELP
    from paddock.cli.numbers import step

    parser = argparse.ArgumentParser(prog="paddock apply", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("paths", metavar="PATH", nargs="*",
                        help="these only: as the agent saw them, or relative to where it ran; "
                             "a directory means all in it")  # fmt: skip
    parser.add_argument("--to", metavar="DIR", help="write below this directory instead")
    parser.add_argument("--step", type=step, metavar="K", help="as it was before this step")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true",
                        help="also over what changed in the source since then")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _check_ours(directory: Path, to: str | None) -> None:
    """A journal that lies elsewhere may have been written by anybody: it does not choose what of
    this host is written."""
    from paddock.model.errors import InvalidInput
    from paddock.state.home import Home

    ours = os.path.realpath(Home.find().runs)
    if to is None and os.path.dirname(os.path.realpath(directory)) != ours:
        raise InvalidInput(f"the run does not lie in {ours}", hint="say where to, with --to DIR")


def _apply(found: RunChanges, options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_json, warn

    for remark in found.remarks:
        warn(remark)
    chosen = _chosen(found, options)
    _check(chosen, options)
    if not chosen:
        if options.json:
            say_json({"run": found.run, "applied": []})
        else:
            say("nothing to apply")
        return 0
    if not options.yes and not _is_confirmed(chosen, options):
        say("nothing was written")
        return 1
    results = _write(chosen, options.to)
    if options.json:
        say_json({"run": found.run, "applied": [_as_json(path, one) for path, one in results]})
    else:
        say("\n".join(_line(path, one) for path, one in results))
    return 0 if all(one.status == "applied" for _, one in results) else 1


def _chosen(found: RunChanges, options: argparse.Namespace) -> list[Changed]:
    """What was named, or all that can be written back."""
    from paddock.model.errors import InvalidInput
    from paddock.model.plain import plain

    if not options.paths:
        some = [one for one in found.changed if options.to or one.place.source is not None]
        return _without_what_git_runs(some)
    chosen: dict[str, Changed] = {}
    for word in options.paths:
        wanted = posixpath.normpath(posixpath.join(found.cwd, word))
        some = [c for c in found.changed if c.path == wanted or c.path.startswith(f"{wanted}/")]
        if not some:
            raise InvalidInput(f"{plain(word, 200)} is not among the changes",
                               hint="paddock changes lists them")  # fmt: skip
        is_named = "/.git/" in f"{wanted}/"
        chosen |= {one.path: one for one in some if is_named or not _git_runs(one.path)}
    return list(chosen.values())


def _without_what_git_runs(some: list[Changed]) -> list[Changed]:
    """The next `git status` would run it as the user: that has to be asked for by name."""
    from paddock.cli.output import warn
    from paddock.model.plain import plain

    for one in (one for one in some if _git_runs(one.path)):
        warn(f"{plain(one.path, 400)} is left out, because git runs what it says; name it")
    return [one for one in some if not _git_runs(one.path)]


def _git_runs(path: str) -> bool:
    _, git, inner = f"{path}/".partition("/.git/")
    parts = inner.split("/")[:-1]
    return bool(git) and ("hooks" in parts or parts[-1:] in (["config"], ["config.worktree"]))


def _check(chosen: list[Changed], options: argparse.Namespace) -> None:
    """All that is known to be wrong is said before anything is written."""
    from paddock.model.errors import Conflict, InvalidInput
    from paddock.model.plain import plain

    places = {one.place.target for one in chosen}
    if options.to and len(places) > 1:
        raise InvalidInput(f"--to: the changes are of {len(places)} places: {', '.join(places)}",
                           hint="name the PATH of one of them")  # fmt: skip
    if not options.to and any(one.place.source is None for one in chosen):
        raise InvalidInput("changes of the workspace have no source", hint="say --to DIR")
    conflicts = [one for one in chosen if one.conflict]
    if conflicts and not options.to and not options.force:
        named = "; ".join(f"{plain(one.path, 200)}: {one.conflict}" for one in conflicts[:5])
        more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
        raise Conflict(f"{named}{more}", hint="look at paddock changes --diff, then say --force")


def _is_confirmed(chosen: list[Changed], options: argparse.Namespace) -> bool:
    from paddock.cli.output import say
    from paddock.model.errors import InvalidInput
    from paddock.model.plain import plain

    if options.json or not sys.stdin.isatty():
        raise InvalidInput("nobody can be asked here", hint="say --yes")
    for one in chosen:
        said = f"  ({one.refusal or one.conflict})" if one.refusal or one.conflict else ""
        say(f"{one.change.kind:8}  {plain(one.path, 4096)}{said}")
    where = options.to or ", ".join(sorted({one.place.source or "" for one in chosen}))
    try:
        answer = input(f"write {len(chosen)} of these to {plain(where, 400)}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _write(chosen: list[Changed], to: str | None) -> list[tuple[str, Applied]]:
    from paddock.state.apply import Applied

    results: list[tuple[str, Applied]] = []
    for place in dict.fromkeys(one.place for one in chosen):
        own = [one for one in chosen if one.place == place]
        fine = [one for one in own if not one.refusal or to]
        results += _write_place(place, fine, to)
        results += [
            (one.path, Applied(one.change.path, one.change.kind, "refused", one.refusal))
            for one in own
            if one not in fine
        ]
    return results


def _write_place(place: Place, own: list[Changed], to: str | None) -> list[tuple[str, Applied]]:
    from paddock.run.changed import open_source_directory
    from paddock.state.apply import apply_changes
    from paddock.state.privilege import is_privileged

    if to is not None:
        target = os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    else:
        assert place.source is not None
        target = open_source_directory(place.source)
    try:
        info = os.fstat(target)
        owner = (info.st_uid, info.st_gid) if is_privileged() else None
        done = apply_changes(place.files, target, [one.change for one in own], owner=owner)
    finally:
        os.close(target)
    return [(f"{place.target}/{one.path}", one) for one in done]


def _as_json(path: str, one: Applied) -> dict[str, str | None]:
    return {"path": path, "kind": one.kind, "status": one.status, "why": one.why}


def _line(path: str, one: Applied) -> str:
    from paddock.model.plain import plain

    why = f": {plain(one.why, 400)}" if one.why else ""
    return f"{one.status:8}  {one.kind:8}  {plain(path, 4096)}{why}"
