"""What became of files and of the world at one step, as lines. Read from the trees and stores that
the run left; where they are gone, that is said.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.cli.step_panes import heading
from paddock.model.errors import PaddockError
from paddock.model.plain import plain
from paddock.model.plural import many
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.run.rereading import Frame, Past
    from paddock.state.trees.diffing import Change
    from paddock.state.trees.nodes import Node
    from paddock.state.trees.store import TreeStore

_MAX_TEXT = 64 << 10  # bytes of a file that is compared line by line
_MAX_FILES = 200
_MAX_DIFFS = 20
_MAX_LINES = 400  # of one file
_MAX_FIELDS = 200


def files_pane(past: Past, frame: Frame) -> list[str]:
    """What is other from here to the next step."""
    before, after = frame.tree, past.tree_after(frame.step)
    if before is None or after is None:
        return ["No files were recorded here."]
    if before == after:
        return ["No file changed until the next step."]
    from paddock.run.files import store_of

    try:
        store = store_of(Home.find())
        return list(_files(store, store.diff(before, after)))
    except (PaddockError, OSError) as error:
        return [plain(f"the files cannot be compared: {error}", 400)]


def world_pane(past: Past, frame: Frame) -> list[str]:
    """What this step changed in the stand-ins, field by field."""
    from paddock.cli.world_data import differences
    from paddock.world.kept import open_kept

    try:
        with open_kept(Home.find().root, str(past.opened.get("run"))) as world:
            found = [
                (one.name, difference)
                for one in world.services
                for difference in differences(one, frame.step, frame.step)
            ]
    except (PaddockError, OSError) as error:
        return [plain(str(error), 400)]
    lines: list[str] = []
    for name, difference in found:
        one = difference.change
        lines.append(heading(plain(f"{name}: {one.kind} {one.id} {difference.what}", 200)))
        for field in difference.fields[:_MAX_FIELDS]:
            was = "" if field.is_new else f"{_json(field.before)} -> "
            now = "gone" if field.is_gone else _json(field.after)
            lines.append(f"{plain(field.field, 100)}: {was}{now}")
    return lines or ["No stand-in changed at this step."]


def _files(store: TreeStore, changes: list[Change]) -> Iterator[str]:
    for number, change in enumerate(changes[:_MAX_FILES]):
        yield heading(f"{change.kind} {plain(change.path, 400)}")
        if number < _MAX_DIFFS:
            yield from _diff(store, change)
    if len(changes) > _MAX_FILES:
        yield f"({many(len(changes) - _MAX_FILES, 'more file')})"


def _diff(store: TreeStore, change: Change) -> Iterator[str]:
    before, after = (_text(store, node) for node in (change.before, change.after))
    if before is None or after is None:
        yield "(it is no text, or too long to compare)"
        return
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    for number, line in enumerate(lines):
        if number >= _MAX_LINES:
            yield "(there is more)"
            return
        if number >= 2:  # the names of the two files stand above already
            yield plain(line, 1000)


def _text(store: TreeStore, node: Node | None) -> str | None:
    from paddock.state.trees.nodes import NodeKind

    if node is None or node.kind is NodeKind.WHITEOUT:
        return ""
    if node.kind is not NodeKind.FILE or node.size > _MAX_TEXT or not store.is_kept(node):
        return None
    try:
        return b"".join(store.open_blob(node)).decode()
    except UnicodeDecodeError:
        return None


def _json(value: object) -> str:
    return plain(json.dumps(value, ensure_ascii=False, default=str), 400)
