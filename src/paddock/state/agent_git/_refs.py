"""The branches of a repository, as an agent left them or as the user has them, read without git.

What the agent saw is the user's repository with the changes of its own layer: a changed file is
read from the layer, every other one from the source. Only files count, and no link is followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.results import FileType
from paddock.state.changes.change import FileChange
from paddock.state.files.descent import CHANGED_UNDERNEATH, Descent, open_file
from paddock.state.files.tree_walk import status, walk
from paddock.state.tool_config import GIT

_MAX_HEAD = 4 << 10
_MAX_PACKED = 16 << 20  # some 200,000 references
_MAX_REFS = 100_000
_BRANCHES = "refs/heads/"
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class AgentHead(msgspec.Struct, frozen=True):
    """The position of a repository: on a branch, or on a commit alone. Without a commit it is
    empty."""

    branch: str | None
    commit: str | None


class Repository:
    """The `.git` directory of a project. `changes` are those of the agent, with paths of the
    project, and `layer` is where their files are; without them it is the user's own."""

    def __init__(
        self, source: int, layer: Path | None = None, changes: Iterable[FileChange] = ()
    ) -> None:
        self._source = source
        self._layer = layer
        self._changes: Mapping[str, FileChange] = {change.path: change for change in changes}

    @property
    def is_there(self) -> bool:
        """Return whether `.git` is a directory. One that is a file leads to a repository
        elsewhere."""
        own = self._changes.get(GIT)
        if own is not None:
            return own.kind != "deleted" and own.type is FileType.DIR
        st = status(GIT, self._source)
        return st is not None and stat.S_ISDIR(st.st_mode)

    def head(self) -> AgentHead:
        """Return where it is. Raises InvalidInput for a HEAD that git would not have written."""
        text = self._text(f"{GIT}/HEAD", _MAX_HEAD).strip()
        if text.startswith("ref:"):
            name = text.removeprefix("ref:").strip()
            if not name.startswith(_BRANCHES):
                raise InvalidInput("HEAD of the agent's repository is on nothing that is a branch")
            return AgentHead(name.removeprefix(_BRANCHES), self.references().get(name))
        if not _OBJECT_ID.fullmatch(text):
            raise InvalidInput("HEAD of the agent's repository cannot be read")
        return AgentHead(None, text)

    def branches(self) -> dict[str, str]:
        """Return the commit of each branch, by its name."""
        return {
            name.removeprefix(_BRANCHES): commit
            for name, commit in self.references().items()
            if name.startswith(_BRANCHES)
        }

    def references(self) -> dict[str, str]:
        """Return which object each reference names; symbolic ones have none of their own."""
        if self._text(f"{GIT}/reftable/tables.list", _MAX_HEAD):
            raise InvalidInput(
                "the repository keeps its references in reftables, which cannot be read here"
            )
        refs = dict(_packed(self._text(f"{GIT}/packed-refs", _MAX_PACKED)))
        for name in self._loose_names():
            value = self._text(f"{GIT}/{name}", _MAX_HEAD).strip()
            if _OBJECT_ID.fullmatch(value):
                refs[name] = value
        return refs

    def _loose_names(self) -> Iterator[str]:
        names = {path for path in self._changes if path.startswith(f"{GIT}/refs/")}
        with Descent(self._source) as descent:
            try:
                descent.go_to([GIT, "refs"])
            except OSError as error:
                if error.errno not in CHANGED_UNDERNEATH:
                    raise
            else:
                for name, st in walk(descent):
                    if not stat.S_ISDIR(st.st_mode):
                        names.add(descent.path_of(name))
                    if len(names) > _MAX_REFS:
                        break
        if len(names) > _MAX_REFS:
            raise InvalidInput(f"the repository has more than {_MAX_REFS} references")
        return (name.removeprefix(f"{GIT}/") for name in sorted(names))

    def _text(self, path: str, most: int) -> str:
        """Return the text of a file; nothing for what is none, is longer, or is deleted."""
        *parents, name = path.split("/")
        for depth in range(1, len(parents) + 1):
            above = self._changes.get("/".join(parents[:depth]))
            if above is not None and (above.kind == "deleted" or above.type is not FileType.DIR):
                return ""
        own = self._changes.get(path)
        if own is not None and (own.kind == "deleted" or own.type is not FileType.FILE):
            return ""
        root = self._source if own is None or self._layer is None else self._layer
        with Descent(root, lift=isinstance(root, Path)) as descent:
            try:
                descent.go_to(parents)
                fd = open_file(name, descent.fd, lift=isinstance(root, Path))
            except OSError as error:
                if error.errno in CHANGED_UNDERNEATH:
                    return ""
                raise
        if fd is None:
            return ""
        with os.fdopen(fd, "rb") as file:
            data = file.read(most + 1)
        return data.decode("utf-8", "replace") if len(data) <= most else ""


def _packed(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        value, _, name = line.partition(" ")
        if _OBJECT_ID.fullmatch(value) and name.startswith("refs/"):
            yield name, value
