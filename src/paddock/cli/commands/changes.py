"""`paddock changes`: what a run added, modified and deleted, against the sources that it saw."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from paddock.cli.parser import RUN_HELP, CommandParser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.run.changes import ChangedPath, ChangedRoot, RunChanges

_MAX_LINE = 2000  # of a patch on a terminal


def main(words: list[str]) -> int:
    from paddock.cli.output import say, say_json, sentences

    options = make_parser().parse_intermixed_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.run.changes import changes_of_run

        directory = find_journal(options.run, is_quiet=options.json)
        with changes_of_run(directory, options.step) as found:
            if options.json:
                say_json(as_json(found))
                return 0
            if options.diff:
                return _write_patch(found)
            say("\n".join(change_lines(found)))
    return 0


def make_parser() -> CommandParser:
    from paddock.cli.render.numbers import step

    parser = CommandParser(prog="paddock changes", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--step", type=step, metavar="K", help="as it was before this step")
    parser.add_argument("--diff", action="store_true", help="as a patch that git apply takes")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def change_lines(found: RunChanges) -> list[str]:
    """Return a line for each change, with what is to be said of it, and the counts."""
    from paddock.cli.output import counts
    from paddock.model.plain import plain
    from paddock.state.tool_config import is_in_repository

    lines = folded_lines(found, found.changed)
    lines += [f"note: {plain(remark, 4096)}" for remark in found.remarks]
    kinds = [
        one.change.kind
        for one in found.changed
        if is_counted(one) and not is_in_repository(one.change.path)
    ]
    told = counts({kind: kinds.count(kind) for kind in kinds}, ("added", "modified", "deleted"))
    return [*lines, told or ("no file changed" if found.changed else "nothing changed")]


def folded_lines(found: RunChanges, changed: Sequence[ChangedPath]) -> list[str]:
    """Return a line for each of the changes; what lies in a repository is one line."""
    from paddock.model.plain import plain
    from paddock.state.tool_config import is_in_repository

    inner = [one for one in changed if is_in_repository(one.change.path)]
    outer = [one for one in changed if one not in inner] if inner else changed
    lines = [f"{one.change.kind:8}  {plain(one.path, 4096)}{'/' if _is_directory(one) else ''}"
             f"{_warning(one)}" for one in outer]  # fmt: skip
    return [*lines, *_repository_lines(found, inner)]


def _repository_lines(found: RunChanges, inner: list[ChangedPath]) -> Iterator[str]:
    """`modified  /srv/app/.git (14 files: 2 commits on main)`."""
    from paddock.model.plain import plain
    from paddock.state.tool_config import repository_path

    repositories: dict[tuple[ChangedRoot, str], list[ChangedPath]] = {}
    for one in inner:
        repositories.setdefault((one.place, repository_path(one.change.path)), []).append(one)
    for (place, path), changes in repositories.items():
        files = sum(not _is_directory(one) for one in changes)
        own = next((one.change.kind for one in changes if one.change.path == path), "modified")
        told = _commits(found) if place == found.project and path == ".git" else ""
        count = "1 file" if files == 1 else f"{files} files"
        yield f"{own:8}  {plain(f'{place.target}/{path}', 4096)} ({count}{told})"


def _commits(found: RunChanges) -> str:
    """Return what the agent committed on the branch that it was on, as far as that can be told."""
    from paddock.model.errors import NotFound, PaddockError
    from paddock.model.plain import plain
    from paddock.run.commits import commits_of

    try:
        with commits_of(found) as made:
            number = len(made.commits)
            on = "" if made.branch is None else f" on {plain(made.branch, 100)}"
    except NotFound:
        return ": no new commit"
    except PaddockError:  # `apply --branch` says what is wrong with it
        return ""
    count = "1 commit" if number == 1 else f"{number} commits"
    return f": {count}{on}; as a branch: paddock apply {plain(found.run, 60)} --branch NAME"


def is_counted(one: ChangedPath) -> bool:
    """Directories are listed and not counted, but for one of a source that is gone: it is gone as
    one."""
    is_gone = one.change.kind == "deleted" and one.place.source is not None
    return is_gone or not _is_directory(one)


def _is_directory(one: ChangedPath) -> bool:
    from paddock.model.results import FileType

    return one.change.type is FileType.DIR


def as_json(found: RunChanges) -> dict[str, Any]:
    return {
        "run": found.run,
        "tree": found.tree,
        "changes": [change_json(one) for one in found.changed],
        "remarks": list(found.remarks),
    }


def change_json(one: ChangedPath) -> dict[str, Any]:
    change = one.change
    about: dict[str, Any] = {"path": one.path, "kind": change.kind, "type": change.type.value}
    about |= {"size_bytes": change.size, "source": one.place.source}
    return about | {"conflict": one.conflict, "refusal": one.refusal}


def _warning(one: ChangedPath) -> str:
    said = one.refusal or one.conflict
    return f"  ({said})" if said else ""


def _write_patch(found: RunChanges) -> int:
    """Write the patch, byte for byte; on a terminal with what would act on it spelled out. What is
    not in it is said on the error output, so that the output is a patch and nothing else."""
    from paddock.cli.output import say, warn
    from paddock.model.plain import plain
    from paddock.run.patch import ProjectPatch

    patch = ProjectPatch(found)
    if sys.stdout.isatty():
        for line in b"".join(patch).split(b"\n"):
            say(plain(line.decode("utf-8", "replace").replace("\t", "    "), _MAX_LINE))
    else:
        sys.stdout.flush()
        for piece in patch:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    for remark in (*found.remarks, *patch.remarks):
        warn(plain(remark, 4096))
    return 0 if patch.is_whole else 1
