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
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from paddock.cli.output import check_person, confirm, say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.model.errors import Conflict, InvalidInput
from paddock.model.plural import many
from paddock.model.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.journal.log import Covered
    from paddock.run.changes import ChangedPath, ChangedRoot, RunChanges
    from paddock.state.changes.write_back import Applied, Consent
    from paddock.state.tool_config import Obeyed

_MAX_COMMITS = 20  # that are listed
_MAX_CONFLICTS = 5  # that are named
_SHORT_ID = 10


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock apply", description=__doc__)
    parser.add_run()
    parser.add_argument("paths", metavar="PATH", nargs="*",
                        help="these only: as the agent saw them, or relative to where it ran; "
                             "a directory means all in it that no tool obeys")  # fmt: skip
    parser.add_argument("--to", metavar="DIR", help="write below this directory instead")
    parser.add_argument("--branch", metavar="NAME",
                        help="bring the agent's commits as this branch; write no file")  # fmt: skip
    parser.add_argument("--from", dest="agent_branch", metavar="BRANCH",
                        help="with --branch: the commits of this branch of the agent's (the one "
                             "that it was on)")  # fmt: skip
    parser.add_step("as it was before this step")
    parser.add_flag("--yes", "do not ask; what would be asked about is held back")
    parser.add_flag("--force", "also over what changed in the source since then; "
                    "with --branch, over a branch of that name")  # fmt: skip
    parser.add_json()
    return parser


@command(make_parser, is_intermixed=True)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.run.changes import changes_of_run

    directory = find_journal(options.run, is_quiet=options.json)
    covered = _signed_records(directory, options.to, options.step)
    with changes_of_run(directory, options.step, covered) as changes:
        if options.branch is not None:
            return _bring_commits(changes, options)
        return _WriteBack(changes, options).perform()


def _signed_records(directory: Path, to: str | None, step: int | None) -> Covered | None:
    """Return which records of the journal are signed. A journal names what is written on this host,
    so only what this home has signed counts. A journal that lies elsewhere may have been written by
    anybody: it needs --to, and None is returned."""
    from paddock.gate.signed_journals import check_step_signed, check_trusted
    from paddock.journal.log import RunLog
    from paddock.state.home import Home

    home = Home.find()
    runs = os.path.realpath(home.runs)
    if os.path.dirname(os.path.realpath(directory)) != runs:
        if to is None:
            raise InvalidInput(f"the run does not lie in {runs}", hint="say where to: --to DIR")
        return None
    covered = check_trusted(directory, home)
    if covered.left_out:
        left = many(covered.left_out, "record")
        warn(f"not used, because the run was interrupted: {left} after the last signature")
    if step is not None:
        signed = RunLog(directory, covered).step_numbers()
        check_step_signed(directory, step, max(signed, default=0))
    return covered


def _bring_commits(changes: RunChanges, options: argparse.Namespace) -> int:
    """Make the agent's commits a branch of the user's repository."""
    from paddock.run.commits import BranchRequest, bring_commits

    if options.paths:
        raise InvalidInput("--branch brings whole commits, and takes no PATH")
    request = BranchRequest(options.branch, options.agent_branch, options.to, options.force)
    brought = bring_commits(changes, request)
    if options.json:
        commits = [{"id": commit.id, "subject": commit.subject} for commit in brought.commits]
        say_json({"run": changes.run, "repository": os.fspath(brought.worktree),
                  "branch": options.branch, "tip": brought.tip, "commits": commits})  # fmt: skip
        return 0
    for commit in brought.commits[:_MAX_COMMITS]:
        say(f"{commit.id[:_SHORT_ID]}  {printable(commit.subject, 100)}")
    if (more := len(brought.commits) - _MAX_COMMITS) > 0:
        say(f"and {more} more")
    count = many(len(brought.commits), "commit")
    where = printable(os.fspath(brought.worktree), 400)
    say(f"{count} of the agent on the new branch {options.branch} of {where}")
    return 0


class _WriteBack:
    """One write-back: which changes are wanted, which paths the user named, and where they go."""

    def __init__(self, changes: RunChanges, options: argparse.Namespace) -> None:
        self._changes = changes
        self._options = options
        self._to: str | None = options.to
        self._named: set[str] = set()  # paths
        self._chosen: list[ChangedPath] = []

    def perform(self) -> int:
        options = self._options
        for remark in self._changes.remarks:
            warn(remark)
        chosen = self._chosen = self._choose()
        self._check_targets()
        held = self._held()
        written = [change for change in chosen if change.path not in held]
        self._check_conflicts(written)
        if not chosen:
            self._report([])
            return 0
        agreed: set[str] = set()
        if not options.yes:
            check_person(is_json=options.json)
            if written and not self._is_confirmed(written):
                say("nothing was written")
                return 1
            agreed = self._ask_about(held)
            self._check_conflicts(change for change in chosen if change.path in agreed)
        results = self._write(agreed)
        self._report(results)
        if any(result.status == "held" for _, result in results):
            warn("tools on this machine obey the files that are held; look at them, and name each "
                 "one that you want: paddock apply RUN PATH")  # fmt: skip
        return 0 if all(result.status == "applied" for _, result in results) else 1

    def _choose(self) -> list[ChangedPath]:
        """Return the changes that were named, or all that can be written back."""
        changed = self._changes.changed
        if not self._options.paths:
            return [change for change in changed if self._to or change.place.source is not None]
        chosen: dict[str, ChangedPath] = {}
        for text in self._options.paths:
            path = posixpath.normpath(posixpath.join(self._changes.cwd, text))
            below = [c for c in changed if c.path == path or c.path.startswith(f"{path}/")]
            if not below:
                raise InvalidInput(f"{printable(text, 200)} is not among the changes",
                                   hint="paddock changes lists them")  # fmt: skip
            chosen |= {change.path: change for change in below}
            self._named.add(path)
        return list(chosen.values())

    def _check_targets(self) -> None:
        targets = {change.place.target for change in self._chosen}
        if self._to and len(targets) > 1:
            raise InvalidInput(
                f"--to: the changes are of {len(targets)} places: {', '.join(targets)}",
                hint="name the PATH of one of them",
            )
        if not self._to and any(change.place.source is None for change in self._chosen):
            raise InvalidInput("changes of the workspace have no source", hint="say --to DIR")

    def _check_conflicts(self, chosen: Iterable[ChangedPath]) -> None:
        from paddock.state.tool_config import is_in_repository

        conflicts = [change for change in chosen if change.conflict]
        if not conflicts or self._to or self._options.force:
            return
        texts = [f"{printable(change.path, 200)}: {change.conflict}" for change in conflicts]
        more = f" and {len(texts) - _MAX_CONFLICTS} more" if len(texts) > _MAX_CONFLICTS else ""
        hint = "look at paddock changes --diff, then say --force"
        if any(is_in_repository(change.change.path) for change in conflicts):
            hint = (
                "--branch NAME brings the agent's commits beside yours; "
                "name each PATH to write files alone"
            )
        raise Conflict(f"{'; '.join(texts[:_MAX_CONFLICTS])}{more}", hint=hint)

    def _by_place(self) -> Iterator[tuple[ChangedRoot, list[ChangedPath]]]:
        for place in dict.fromkeys(change.place for change in self._chosen):
            yield place, [change for change in self._chosen if change.place == place]

    def _held(self) -> dict[str, Obeyed]:
        """Return what is held back because tools obey it, by the path that the agent saw."""
        from paddock.state.changes.write_back import held_changes

        held: dict[str, Obeyed] = {}
        for place, own in self._by_place():
            with self._open_target(place) as target:
                obeyed_files = held_changes(
                    place.files,
                    target,
                    [change.change for change in own],
                    consent=self._consent(place, set()),
                    governing=self._changes.governing,
                )
            held |= {f"{place.target}/{path}": obeyed for path, obeyed in obeyed_files.items()}
        return held

    def _ask_about(self, held: dict[str, Obeyed]) -> set[str]:
        """Return the paths of the held files that the person wants all the same."""
        from paddock.state.tool_config import Protection

        asked = [
            change
            for change in self._chosen
            if change.path in held
            and held[change.path].protection is Protection.ASKED
            and not change.refusal
        ]
        if not asked:
            return set()
        say("tools on this machine obey these files, and would run what they say:")
        for change in asked:
            why = held[change.path].why
            say(f"{change.change.kind:8}  {printable(change.path, 4096)}  ({why})")
        is_agreed = confirm(f"write these {len(asked)} too? [y/N] ")
        return {change.path for change in asked} if is_agreed else set()

    def _is_confirmed(self, chosen: list[ChangedPath]) -> bool:
        from paddock.cli.commands.changes import folded_lines

        say("\n".join(folded_lines(self._changes, chosen)))
        return confirm(f"write them to {printable(', '.join(self._where(chosen)), 400)}? [y/N] ")

    def _where(self, chosen: list[ChangedPath]) -> list[str]:
        """Return the directories that are written into."""
        if self._to:
            return [os.path.abspath(self._to)]
        return sorted({change.place.source for change in chosen if change.place.source})

    def _write(self, agreed: set[str]) -> list[tuple[str, Applied]]:
        """Write the changes. Return what became of each, by the path that the agent saw."""
        from paddock.state.changes.write_back import Applied, apply_changes
        from paddock.state.privilege import is_privileged

        results: list[tuple[str, Applied]] = []
        for place, own in self._by_place():
            possible = [change for change in own if not change.refusal or self._to]
            with self._open_target(place) as target:
                info = os.fstat(target)
                applied = apply_changes(
                    place.files,
                    target,
                    [change.change for change in possible],
                    owner=(info.st_uid, info.st_gid) if is_privileged() else None,
                    consent=self._consent(place, agreed),
                    governing=self._changes.governing,
                )
            results += [(f"{place.target}/{result.path}", result) for result in applied]
            for refused in own:
                if refused not in possible:
                    change = refused.change
                    result = Applied(change.path, change.kind, "refused", refused.refusal)
                    results.append((refused.path, result))
        return results

    def _consent(self, place: ChangedRoot, agreed: set[str]) -> Consent:
        from paddock.state.changes.write_back import Consent

        return Consent(_below(place.target, self._named), _below(place.target, agreed))

    @contextlib.contextmanager
    def _open_target(self, place: ChangedRoot) -> Iterator[int]:
        """Open the directory that is written into."""
        from paddock.run.changes import open_source_directory

        if self._to is not None:
            target = os.open(self._to, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            assert place.source is not None
            target = open_source_directory(place.source)
        try:
            yield target
        finally:
            os.close(target)

    def _report(self, results: list[tuple[str, Applied]]) -> None:
        where = self._where(self._chosen)
        if self._options.json:
            applied = [
                {"path": path, "kind": result.kind, "status": result.status, "why": result.why}
                for path, result in results
            ]
            say_json({"run": self._changes.run, "applied": applied, "to": where})
            return
        if not results:
            say("nothing to apply")
            return
        for path, result in results:
            why = f": {printable(result.why, 400)}" if result.why else ""
            say(f"{result.status:8}  {result.kind:8}  {printable(path, 4096)}{why}")
        count = sum(result.status == "applied" for _, result in results)
        say(f"{count} of {len(results)} written to {printable(', '.join(where), 400)}")


def _below(directory: str, paths: set[str]) -> frozenset[str]:
    """Return the paths that lie below a directory, relative to it."""
    top = f"{directory}/"
    return frozenset(path.removeprefix(top) for path in paths if path.startswith(top))
