"""`paddock changes`: what a run added, modified and deleted, against the sources that it saw."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.run.changed import Changed, RunChanges

# A larger file is not shown line by line.
_MAX_DIFF_BYTES = 1 << 20
_MAX_LINE = 2000


def main(words: list[str]) -> int:
    from paddock.cli.output import say, say_json, sentences

    options = _parser().parse_intermixed_args(words)
    with sentences():
        from paddock.cli.journals import find_journal
        from paddock.run.changed import changes_of_run

        directory = find_journal(options.run, is_quiet=options.json)
        with changes_of_run(directory, options.step) as found:
            if options.json:
                say_json(as_json(found))
                return 0
            say("\n".join(change_lines(found)))
            if options.diff:
                for one in found.changed:
                    for line in _diff_lines(one):
                        say(line)
    return 0


def _parser() -> argparse.ArgumentParser:
    from paddock.cli.journals import RUN_HELP
    from paddock.cli.numbers import step

    parser = argparse.ArgumentParser(prog="paddock changes", description=__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--step", type=step, metavar="K", help="as it was before this step")
    parser.add_argument("--diff", action="store_true", help="line by line")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def change_lines(found: RunChanges) -> list[str]:
    """A line for each change, what is to be said of it, and the counts."""
    from paddock.cli.output import counts
    from paddock.model.plain import plain

    lines = [f"{one.change.kind:8}  {plain(one.path, 4096)}{'/' if _is_directory(one) else ''}"
             f"{_warning(one)}" for one in found.changed]  # fmt: skip
    lines += [f"note: {plain(remark, 4096)}" for remark in found.remarks]
    kinds = [one.change.kind for one in found.changed if is_counted(one)]
    told = counts({kind: kinds.count(kind) for kind in kinds}, ("added", "modified", "deleted"))
    return [*lines, told or ("no file changed" if found.changed else "nothing changed")]


def is_counted(one: Changed) -> bool:
    """Directories are listed and not counted, but for one of a source that is gone: it is gone as
    one."""
    is_gone = one.change.kind == "deleted" and one.place.source is not None
    return is_gone or not _is_directory(one)


def _is_directory(one: Changed) -> bool:
    from paddock.model.results import FileType

    return one.change.type is FileType.DIR


def as_json(found: RunChanges) -> dict[str, Any]:
    return {
        "run": found.run,
        "tree": found.tree,
        "changes": [change_json(one) for one in found.changed],
        "remarks": list(found.remarks),
    }


def change_json(one: Changed) -> dict[str, Any]:
    change = one.change
    about: dict[str, Any] = {"path": one.path, "kind": change.kind, "type": change.type.value}
    about |= {"size_bytes": change.size, "source": one.place.source}
    return about | {"conflict": one.conflict, "refusal": one.refusal}


def _warning(one: Changed) -> str:
    said = one.refusal or one.conflict
    return f"  ({said})" if said else ""


def _diff_lines(one: Changed) -> Iterator[str]:
    from paddock.model.plain import plain
    from paddock.model.results import FileType

    if one.change.type is not FileType.FILE:
        return
    old = None if one.change.kind == "added" else _source_bytes(one)
    new = None if one.change.kind == "deleted" else _bytes(os.fspath(one.place.files), one)
    if one.place.source is None and one.change.kind != "added":
        yield f"--- {plain(one.path, 4096)}: what it was in the workspace is not shown"
        return
    texts = [_text(data) for data in (old, new)]
    if None in texts:
        yield f"--- {plain(one.path, 4096)}: not text, or too large"
        return
    name = plain(one.path, 4096)
    left, right = ([] if text is None else text.splitlines() for text in texts)
    for line in difflib.unified_diff(left, right, f"a{name}", f"b{name}", lineterm=""):
        yield plain(line, _MAX_LINE)


def _source_bytes(one: Changed) -> bytes | None:
    from paddock.run.changed import open_source_directory

    if one.place.source is None:
        return None
    fd = open_source_directory(one.place.source)
    try:
        return _bytes(fd, one)
    finally:
        os.close(fd)


def _bytes(root: str | int, one: Changed) -> bytes | None:
    """A file's bytes, if it is one and not too large. No link is followed on the way."""
    from pathlib import Path

    from paddock.state.descent import Descent, open_file

    *parents, name = one.change.path.split("/")
    with Descent(root if isinstance(root, int) else Path(root), lift=False) as descent:
        try:
            descent.go_to(parents)
            fd = open_file(name, descent.fd)
        except OSError:
            return None
        if fd is None:
            return None
        try:
            data = os.pread(fd, _MAX_DIFF_BYTES + 1, 0)
        finally:
            os.close(fd)
    return data if len(data) <= _MAX_DIFF_BYTES else b"\0"


def _text(data: bytes | None) -> str | None:
    if data is None:
        return ""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
