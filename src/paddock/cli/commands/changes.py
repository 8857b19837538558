"""`paddock changes`: what a run added, modified and deleted, against the sources that it saw."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from paddock.cli.output import counts, say, say_json, warn
from paddock.cli.parser import CommandParser, command
from paddock.model.errors import NotFound, PaddockError
from paddock.model.plural import many
from paddock.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.run.changes import ChangedPath, ChangedRoot, RunChanges

_MAX_LINE = 2000  # of a patch on a terminal


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock changes", description=__doc__)
    parser.add_run()
    parser.add_step("as it was before this step")
    parser.add_flag("--diff", "as a patch that git apply takes")
    parser.add_json()
    return parser


@command(make_parser, is_intermixed=True)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal
    from paddock.run.changes import changes_of_run

    directory = find_journal(options.run, is_quiet=options.json)
    with changes_of_run(directory, options.step) as changes:
        if options.json:
            say_json(as_json(changes))
            return 0
        if options.diff:
            return _write_patch(changes)
        say("\n".join(change_lines(changes)))
    return 0


def change_lines(changes: RunChanges) -> list[str]:
    """Return a line for each change, with what is to be said of it, and the counts."""
    from paddock.state.tool_config import is_in_repository

    lines = folded_lines(changes, changes.changed)
    lines += [f"note: {printable(remark, 4096)}" for remark in changes.remarks]
    kinds = [
        change.change.kind
        for change in changes.changed
        if is_counted(change) and not is_in_repository(change.change.path)
    ]
    summary = counts({kind: kinds.count(kind) for kind in kinds}, ("added", "modified", "deleted"))
    return [*lines, summary or ("no file changed" if changes.changed else "nothing changed")]


def folded_lines(changes: RunChanges, changed: Sequence[ChangedPath]) -> list[str]:
    """Return a line for each of the changes; what lies in a repository is one line."""
    from paddock.state.tool_config import is_in_repository

    inner = [change for change in changed if is_in_repository(change.change.path)]
    outer = [change for change in changed if change not in inner] if inner else changed
    return [*map(_change_line, outer), *_repository_lines(changes, inner)]


def _change_line(changed: ChangedPath) -> str:
    slash = "/" if _is_directory(changed) else ""
    warning = changed.refusal or changed.conflict
    remark = f"  ({warning})" if warning else ""
    return f"{changed.change.kind:8}  {printable(changed.path, 4096)}{slash}{remark}"


def _repository_lines(changes: RunChanges, inner: list[ChangedPath]) -> Iterator[str]:
    """Yield `modified  /srv/app/.git (14 files: 2 commits on main)` for each repository."""
    from paddock.state.tool_config import repository_path

    repositories: dict[tuple[ChangedRoot, str], list[ChangedPath]] = {}
    for changed in inner:
        key = (changed.place, repository_path(changed.change.path))
        repositories.setdefault(key, []).append(changed)
    for (place, path), members in repositories.items():
        kinds = {member.change.path: member.change.kind for member in members}
        count = many(sum(not _is_directory(member) for member in members), "file")
        is_project = place == changes.project and path == ".git"
        commits = _commits_text(changes) if is_project else ""
        where = printable(f"{place.target}/{path}", 4096)
        yield f"{kinds.get(path, 'modified'):8}  {where} ({count}{commits})"


def _commits_text(changes: RunChanges) -> str:
    """Return what the agent committed on the branch that it was on, as far as that can be told."""
    from paddock.run.commits import commits_of

    try:
        with commits_of(changes) as made:
            count = many(len(made.commits), "commit")
            on = "" if made.branch is None else f" on {printable(made.branch, 100)}"
    except NotFound:
        return ": no new commit"
    except PaddockError:  # `apply --branch` says what is wrong with it
        return ""
    return f": {count}{on}; as a branch: paddock apply {printable(changes.run, 60)} --branch NAME"


def is_counted(change: ChangedPath) -> bool:
    """Return whether a change counts. Directories are listed and not counted, but for a directory
    of a source that is gone as a whole."""
    is_gone = change.change.kind == "deleted" and change.place.source is not None
    return is_gone or not _is_directory(change)


def _is_directory(change: ChangedPath) -> bool:
    from paddock.model.results import FileType

    return change.change.type is FileType.DIR


def as_json(changes: RunChanges) -> dict[str, Any]:
    return {
        "run": changes.run,
        "tree": changes.tree,
        "changes": [change_json(change) for change in changes.changed],
        "remarks": list(changes.remarks),
    }


def change_json(changed: ChangedPath) -> dict[str, Any]:
    change = changed.change
    return {
        "path": changed.path,
        "kind": change.kind,
        "type": change.type.value,
        "size_bytes": change.size,
        "source": changed.place.source,
        "conflict": changed.conflict,
        "refusal": changed.refusal,
    }


def _write_patch(changes: RunChanges) -> int:
    """Write the patch, byte for byte; on a terminal with what would act on it spelled out. What is
    not in it is said on the error output, so that the output is a patch and nothing else."""
    from paddock.run.patch import ProjectPatch

    patch = ProjectPatch(changes)
    if sys.stdout.isatty():
        for line in b"".join(patch).split(b"\n"):
            say(printable(line.decode("utf-8", "replace").replace("\t", "    "), _MAX_LINE))
    else:
        sys.stdout.flush()
        for piece in patch:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    for remark in (*changes.remarks, *patch.remarks):
        warn(printable(remark, 4096))
    return 0 if patch.is_whole else 1
