"""`paddock files`: the files that a run had written, as they were at a step or at its end."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from paddock.cli.output import say, say_json
from paddock.cli.parser import CommandParser, command
from paddock.cli.render.table import terminal_table
from paddock.model.errors import InvalidInput, NotFound
from paddock.model.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.state.trees.nodes import Node
    from paddock.state.trees.store import TreeStore


def make_parser() -> CommandParser:
    parser = CommandParser(prog="paddock files", description=__doc__)
    parser.add_run()
    about = "a file, or a directory and all in it; whole, or from the project on"
    parser.add_argument("path", metavar="PATH", nargs="?", help=about)
    parser.add_step("as they were before this step")
    parser.add_flag("--cat", "the bytes of the file at PATH")
    parser.add_json()
    return parser


@command(make_parser, is_intermixed=True)
def main(options: argparse.Namespace) -> int:
    from paddock.cli.journals import find_journal

    directory = find_journal(options.run, is_quiet=options.json)
    options.path = _inside(directory, options.path)
    return _cat(directory, options) if options.cat else _list(directory, options)


def _list(directory: Path, options: argparse.Namespace) -> int:
    store, tree = _open_tree(directory, options.step)
    entries = [entry for entry in store.entries(tree) if _is_wanted(entry[0], options.path)]
    if options.path is not None and not entries:
        raise _not_recorded(options.path)
    if options.json:
        files = [_as_json(path, node) for path, node in entries]
        say_json({"tree": tree, "is_whole": not store.tree(tree).is_cut, "files": files})
        return 0
    rows = [(_mode(node), node.size, f"{printable(path or '/', 4096)}{_more(node)}")
            for path, node in entries]  # fmt: skip
    say(terminal_table(("MODE", "BYTES", "PATH"), rows))
    if store.tree(tree).is_cut:
        say("(there were more files than are recorded)")
    return 0


def _cat(directory: Path, options: argparse.Namespace) -> int:
    from paddock.state.trees.nodes import NodeKind

    if options.path is None:
        raise InvalidInput("--cat needs the PATH of a file")
    store, tree = _open_tree(directory, options.step)
    node = next((node for path, node in store.entries(tree) if path == options.path), None)
    if node is None or node.kind is NodeKind.WHITEOUT:
        raise _not_recorded(options.path)
    if node.kind is not NodeKind.FILE:
        raise InvalidInput(f"{printable(options.path, 200)} is a {node.kind.value}, not a file")
    sys.stdout.flush()
    for chunk in store.open_blob(node):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    return 0


def _not_recorded(path: str) -> NotFound:
    return NotFound(
        f"{printable(path, 200)} is not among the recorded files",
        hint="what the agent only read is in the sources of its mounts",
    )


def _inside(directory: Path, path: str | None) -> str | None:
    """Return a path inside the sandbox; a relative path is below the project of the run."""
    if path is None or path.startswith("/"):
        return path
    import posixpath

    from paddock.run.changes import configuration_of

    project = configuration_of(directory).cwd
    if not project.startswith("/"):
        raise InvalidInput("this run had no project: say the whole PATH", hint="/home/user/...")
    return posixpath.normpath(posixpath.join(project, path))


def _open_tree(directory: Path, step: int | None) -> tuple[TreeStore, str]:
    from paddock.run.files import home_of, store_of, tree_at

    return store_of(home_of(directory)), tree_at(directory, step)


def _is_wanted(path: str, wanted: str | None) -> bool:
    if wanted is None:
        return True
    wanted = wanted.rstrip("/")
    return path == wanted or path.startswith(f"{wanted}/")


def _mode(node: Node) -> str:
    import stat

    from paddock.state.trees.nodes import NodeKind

    kinds = {NodeKind.FILE: stat.S_IFREG, NodeKind.DIR: stat.S_IFDIR, NodeKind.FIFO: stat.S_IFIFO}
    if node.kind in kinds:
        return stat.filemode(kinds[node.kind] | node.mode)
    return "l" if node.kind is NodeKind.SYMLINK else "-"


def _more(node: Node) -> str:
    from paddock.state.trees.nodes import NodeKind

    if node.kind is NodeKind.SYMLINK:
        return f" -> {printable(node.target, 1000)}"
    if node.kind is NodeKind.WHITEOUT:
        return "  (deleted)"
    return "" if node.is_kept else "  (this version was not stored)"


def _as_json(path: str, node: Node) -> dict[str, Any]:
    from paddock.state.trees.nodes import NodeKind

    about: dict[str, Any] = {"path": path or "/", "kind": node.kind.value}
    if node.kind in (NodeKind.FILE, NodeKind.DIR, NodeKind.FIFO):
        about["mode"] = node.mode
    if node.kind is NodeKind.FILE:
        about |= {"size_bytes": node.size, "is_kept": node.is_kept}
        # A file in parts has the digest of their list, not that of its bytes.
        about["list_sha256" if node.is_split else "sha256"] = node.digest
    if node.kind is NodeKind.SYMLINK:
        about["target"] = node.target
    return about
