"""`paddock apply`: writes what a run changed back into the sources that were mounted.

Nothing is written that would leave the source, that was hidden from the agent, or that has changed
in the source since the run began. Files that tools obey (git, CI, editors, build tools, Paddock)
are held back: some are asked about, others have to be named.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import posixpath
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from paddock.cli.parser import RUN_HELP, CommandParser
from paddock.model.plural import many

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.journal.log import Covered
    from paddock.run.changes import ChangedPath, ChangedRoot, RunChanges
    from paddock.state.changes.write_back import Applied, Consent
    from paddock.state.tool_config import Obeyed


_MAX_COMMITS = 20  # that are listed
_SHORT_ID = 10


def main(words: list[str]) -> int:
    from paddock.cli.output import sentences

    options = make_parser().parse_intermixed_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.run.changes import changes_of_run

        directory = find_journal(options.run, is_quiet=options.json)
        covered = _signed_records(directory, options.to, options.step)
        with changes_of_run(directory, options.step, covered) as found:
            return _apply(found, options) if options.branch is None else _bring(found, options)


def make_parser() -> CommandParser:
    from paddock.cli.render.numbers import step

    parser = CommandParser(prog="paddock apply", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("paths", metavar="PATH", nargs="*",
                        help="these only: as the agent saw them, or relative to where it ran; "
                             "a directory means all in it that no tool obeys")  # fmt: skip
    parser.add_argument("--to", metavar="DIR", help="write below this directory instead")
    parser.add_argument("--branch", metavar="NAME",
                        help="bring the agent's commits as this branch; write no file")  # fmt: skip
    parser.add_argument("--from", dest="agent_branch", metavar="BRANCH",
                        help="with --branch: the commits of this branch of the agent's (the one "
                             "that it was on)")  # fmt: skip
    parser.add_argument("--step", type=step, metavar="K", help="as it was before this step")
    parser.add_argument(
        "--yes", action="store_true", help="do not ask; what would be asked about is held back"
    )
    parser.add_argument("--force", action="store_true",
                        help="also over what changed in the source since then; "
                             "with --branch, over a branch of that name")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _signed_records(directory: Path, to: str | None, step: int | None) -> Covered | None:
    """A journal names what of this host is written, so only what this home has signed counts. One
    that lies elsewhere may have been written by anybody, and needs --to."""
    from paddock.cli.output import warn
    from paddock.gate.signed_journals import check_step_signed, check_trusted
    from paddock.journal.log import RunLog
    from paddock.model.errors import InvalidInput
    from paddock.state.home import Home

    home = Home.find()
    ours = os.path.realpath(home.runs)
    if os.path.dirname(os.path.realpath(directory)) != ours:
        if to is None:
            raise InvalidInput(f"the run does not lie in {ours}", hint="say where to: --to DIR")
        return None
    covered = check_trusted(directory, home)
    if covered.left_out:
        left = many(covered.left_out, "record")
        warn(f"not used, because the run was interrupted: {left} after the last signature")
    if step is not None:
        signed = RunLog(directory, covered).step_numbers()
        check_step_signed(directory, step, max(signed, default=0))
    return covered


def _bring(found: RunChanges, options: argparse.Namespace) -> int:
    """Make the agent's commits a branch of the user's repository."""
    from paddock.cli.output import say, say_json
    from paddock.model.errors import InvalidInput
    from paddock.model.plain import plain
    from paddock.run.commits import BranchRequest, bring_commits

    if options.paths:
        raise InvalidInput("--branch brings whole commits, and takes no PATH")
    request = BranchRequest(options.branch, options.agent_branch, options.to, options.force)
    brought = bring_commits(found, request)
    if options.json:
        commits = [{"id": one.id, "subject": one.subject} for one in brought.commits]
        say_json({"run": found.run, "repository": os.fspath(brought.worktree),
                  "branch": options.branch, "tip": brought.tip, "commits": commits})  # fmt: skip
        return 0
    for one in brought.commits[:_MAX_COMMITS]:
        say(f"{one.id[:_SHORT_ID]}  {plain(one.subject, 100)}")
    if (more := len(brought.commits) - _MAX_COMMITS) > 0:
        say(f"and {more} more")
    count = "1 commit" if len(brought.commits) == 1 else f"{len(brought.commits)} commits"
    where = plain(os.fspath(brought.worktree), 400)
    say(f"{count} of the agent on the new branch {options.branch} of {where}")
    return 0


def _apply(found: RunChanges, options: argparse.Namespace) -> int:
    from paddock.cli.output import say, say_json, warn
    from paddock.model.plain import plain

    for remark in found.remarks:
        warn(remark)
    chosen, named = _chosen(found, options)
    _check_places(chosen, options)
    held = _held(found, chosen, named, options)
    written = [one for one in chosen if one.path not in held]
    _check_conflicts(written, options)
    if not chosen:
        if options.json:
            say_json({"run": found.run, "applied": [], "to": _where(chosen, options)})
        else:
            say("nothing to apply")
        return 0
    agreed: frozenset[str] = frozenset()
    if not options.yes:
        _check_person(options)
        if written and not _is_confirmed(found, written, options):
            say("nothing was written")
            return 1
        agreed = _agreed(chosen, held)
        _check_conflicts([one for one in chosen if one.path in agreed], options)
    results = _write(found, chosen, named, agreed, options.to)
    if options.json:
        applied = [_as_json(path, one) for path, one in results]
        say_json({"run": found.run, "applied": applied, "to": _where(chosen, options)})
    else:
        say("\n".join(_line(path, one) for path, one in results))
        count = sum(one.status == "applied" for _, one in results)
        where = plain(", ".join(_where(chosen, options)), 400)
        say(f"{count} of {len(results)} written to {where}")
    if any(one.status == "held" for _, one in results):
        warn("tools on this machine obey the files that are held; look at them, and name each one "
             "that you want: paddock apply RUN PATH")  # fmt: skip
    return 0 if all(one.status == "applied" for _, one in results) else 1


def _chosen(
    found: RunChanges, options: argparse.Namespace
) -> tuple[list[ChangedPath], frozenset[str]]:
    """Return what was named, or all that can be written back; and the paths that were named."""
    from paddock.model.errors import InvalidInput
    from paddock.model.plain import plain

    if not options.paths:
        some = [one for one in found.changed if options.to or one.place.source is not None]
        return some, frozenset()
    chosen: dict[str, ChangedPath] = {}
    named = set()
    for word in options.paths:
        wanted = posixpath.normpath(posixpath.join(found.cwd, word))
        some = [c for c in found.changed if c.path == wanted or c.path.startswith(f"{wanted}/")]
        if not some:
            raise InvalidInput(f"{plain(word, 200)} is not among the changes",
                               hint="paddock changes lists them")  # fmt: skip
        chosen |= {one.path: one for one in some}
        named.add(wanted)
    return list(chosen.values()), frozenset(named)


def _held(
    found: RunChanges, chosen: list[ChangedPath], named: frozenset[str], options: argparse.Namespace
) -> dict[str, Obeyed]:
    """Return what is held back because tools obey it, by the path that the agent saw."""
    from paddock.state.changes.write_back import held_changes

    held: dict[str, Obeyed] = {}
    for place in dict.fromkeys(one.place for one in chosen):
        own = [one.change for one in chosen if one.place == place]
        with _target(place, options.to) as target:
            consent = _consent(place, named)
            judged = held_changes(
                place.files, target, own, consent=consent, governing=found.governing
            )
        held |= {f"{place.target}/{path}": one for path, one in judged.items()}
    return held


def _consent(
    place: ChangedRoot, named: frozenset[str], agreed: frozenset[str] = frozenset()
) -> Consent:
    from paddock.state.changes.write_back import Consent

    top = f"{place.target}/"
    return Consent(*(
        frozenset(path.removeprefix(top) for path in paths if path.startswith(top))
        for paths in (named, agreed)
    ))  # fmt: skip


def _agreed(chosen: list[ChangedPath], held: Mapping[str, Obeyed]) -> frozenset[str]:
    """Return those of the held files that a person wants all the same."""
    from paddock.cli.output import say
    from paddock.model.plain import plain
    from paddock.state.tool_config import Protection

    asked = [
        one
        for one in chosen
        if one.path in held and held[one.path].protection is Protection.ASKED and not one.refusal
    ]
    if not asked:
        return frozenset()
    say("tools on this machine obey these files, and would run what they say:")
    for one in asked:
        say(f"{one.change.kind:8}  {plain(one.path, 4096)}  ({held[one.path].why})")
    is_agreed = _answer(f"write these {len(asked)} too? [y/N] ")
    return frozenset(one.path for one in asked) if is_agreed else frozenset()


def _check_places(chosen: list[ChangedPath], options: argparse.Namespace) -> None:
    from paddock.model.errors import InvalidInput

    places = {one.place.target for one in chosen}
    if options.to and len(places) > 1:
        raise InvalidInput(f"--to: the changes are of {len(places)} places: {', '.join(places)}",
                           hint="name the PATH of one of them")  # fmt: skip
    if not options.to and any(one.place.source is None for one in chosen):
        raise InvalidInput("changes of the workspace have no source", hint="say --to DIR")


def _check_conflicts(chosen: list[ChangedPath], options: argparse.Namespace) -> None:
    from paddock.model.errors import Conflict
    from paddock.model.plain import plain
    from paddock.state.tool_config import is_in_repository

    conflicts = [one for one in chosen if one.conflict]
    if conflicts and not options.to and not options.force:
        named = "; ".join(f"{plain(one.path, 200)}: {one.conflict}" for one in conflicts[:5])
        more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
        hint = "look at paddock changes --diff, then say --force"
        if any(is_in_repository(one.change.path) for one in conflicts):
            hint = (
                "--branch NAME brings the agent's commits beside yours; "
                "name each PATH to write files alone"
            )
        raise Conflict(f"{named}{more}", hint=hint)


def _check_person(options: argparse.Namespace) -> None:
    from paddock.model.errors import InvalidInput

    if options.json or not sys.stdin.isatty():
        raise InvalidInput("nobody can be asked here", hint="say --yes")


def _is_confirmed(
    found: RunChanges, chosen: list[ChangedPath], options: argparse.Namespace
) -> bool:
    from paddock.cli.commands.changes import folded_lines
    from paddock.cli.output import say
    from paddock.model.plain import plain

    say("\n".join(folded_lines(found, chosen)))
    where = ", ".join(_where(chosen, options))
    return _answer(f"write them to {plain(where, 400)}? [y/N] ")


def _where(chosen: list[ChangedPath], options: argparse.Namespace) -> list[str]:
    """Return the directories that are written into."""
    if options.to:
        return [os.path.abspath(options.to)]
    return sorted({one.place.source for one in chosen if one.place.source})


def _answer(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(
    found: RunChanges,
    chosen: list[ChangedPath],
    named: frozenset[str],
    agreed: frozenset[str],
    to: str | None,
) -> list[tuple[str, Applied]]:
    from paddock.state.changes.write_back import Applied, apply_changes
    from paddock.state.privilege import is_privileged

    results: list[tuple[str, Applied]] = []
    for place in dict.fromkeys(one.place for one in chosen):
        own = [one for one in chosen if one.place == place]
        fine = [one for one in own if not one.refusal or to]
        with _target(place, to) as target:
            info = os.fstat(target)
            done = apply_changes(
                place.files,
                target,
                [one.change for one in fine],
                owner=(info.st_uid, info.st_gid) if is_privileged() else None,
                consent=_consent(place, named, agreed),
                governing=found.governing,
            )
        results += [(f"{place.target}/{one.path}", one) for one in done]
        results += [
            (one.path, Applied(one.change.path, one.change.kind, "refused", one.refusal))
            for one in own
            if one not in fine
        ]
    return results


@contextlib.contextmanager
def _target(place: ChangedRoot, to: str | None) -> Iterator[int]:
    """The directory that is written into, open."""
    from paddock.run.changes import open_source_directory

    if to is not None:
        target = os.open(to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    else:
        assert place.source is not None
        target = open_source_directory(place.source)
    try:
        yield target
    finally:
        os.close(target)


def _as_json(path: str, one: Applied) -> dict[str, str | None]:
    return {"path": path, "kind": one.kind, "status": one.status, "why": one.why}


def _line(path: str, one: Applied) -> str:
    from paddock.model.plain import plain

    why = f": {plain(one.why, 400)}" if one.why else ""
    return f"{one.status:8}  {one.kind:8}  {plain(path, 4096)}{why}"
