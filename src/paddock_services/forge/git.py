"""Commits, trees, blobs and references of a repository.

A commit points to a tree that is stored flat: one mapping from path to blob for the whole
repository. The nested trees that git has are only computed to give commits and directories the
SHA-1 names that git would give them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.world.store import Store

Files = dict[str, str]  # path -> SHA of the blob
Record = dict[str, Any]
MAX_PATH = 4_096
_MAX_DEPTH = 64
_MAX_WALK = 10_000  # commits that are read for one request
_FILE_MODE = "100644"
_TREE_MODE = "40000"


class NewCommit(msgspec.Struct, frozen=True):
    """A commit to be made."""

    files: Files
    message: str
    parents: tuple[str, ...]
    author: Mapping[str, str]  # name and email
    time: float


class Git:
    """The objects and references of one repository."""

    def __init__(self, store: Store, repo_id: int) -> None:
        self._store = store
        self._repo_id = repo_id

    def write_blob(self, data: bytes) -> str:
        sha = _sha("blob", data)
        if not self._store.has("blobs", sha):
            digest = self._store.put_blob(data)
            self._store.put("blobs", sha, {"sha": sha, "digest": digest, "size": len(data)})
        return sha

    def read_blob(self, sha: str) -> bytes | None:
        blob = self._store.get("blobs", sha)
        return None if blob is None else self._store.blob(blob["digest"])

    def blob_size(self, sha: str) -> int:
        blob = self._store.get("blobs", sha)
        return 0 if blob is None else int(blob["size"])

    def commit(self, branch: str, new: NewCommit) -> str:
        """Make a commit, move the branch to it and return its SHA."""
        tree = tree_names(new.files)[""]
        if not self._store.has("trees", tree):
            self._store.put("trees", tree, {"sha": tree, "files": new.files})
        signature = f"{new.author['name']} <{new.author['email']}> {int(new.time)} +0000"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in new.parents)]
        lines += [f"author {signature}", f"committer {signature}", "", new.message]
        sha = _sha("commit", "\n".join(lines).encode())
        record = {
            "sha": sha,
            "repo": self._repo_id,
            "tree": tree,
            "parents": list(new.parents),
            "message": new.message,
            "author": dict(new.author),
            "time": new.time,
        }
        self._store.put("commits", f"{self._repo_id}:{sha}", record)
        self.set_ref(f"refs/heads/{branch}", sha)
        return sha

    def get_commit(self, sha: str) -> Record | None:
        commit = self._store.get("commits", f"{self._repo_id}:{sha}")
        if commit is not None and "time" not in commit:  # stored by an earlier version
            return {**commit, "time": commit["moment"]}
        return commit

    def files(self, sha: str | None) -> Files:
        """Return the files of a commit; there are none where there is no such commit."""
        commit = self.get_commit(sha) if sha else None
        return self.tree_files(commit["tree"]) or {} if commit else {}

    def tree_files(self, sha: str) -> Files | None:
        tree = self._store.get("trees", sha)
        return None if tree is None else dict(tree["files"])

    def ref(self, name: str) -> str | None:
        """Return the commit that a full reference (`refs/heads/main`) points to."""
        ref = self._store.get("refs", f"{self._repo_id}:{name}")
        return None if ref is None else str(ref["sha"])

    def branch(self, name: str) -> str | None:
        return self.ref(f"refs/heads/{name}")

    def refs(self, prefix: str) -> list[tuple[str, str]]:
        refs = self._store.find("refs", {"repo": self._repo_id})
        return sorted((ref["ref"], ref["sha"]) for ref in refs if ref["ref"].startswith(prefix))

    def set_ref(self, name: str, sha: str) -> None:
        record = {"repo": self._repo_id, "ref": name, "sha": sha}
        self._store.put("refs", f"{self._repo_id}:{name}", record)

    def delete_ref(self, name: str) -> bool:
        return self._store.delete("refs", f"{self._repo_id}:{name}")

    def resolve(self, name: str) -> str | None:
        """Return the commit of a branch, a tag, a full reference or a SHA."""
        for full in (f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}", name):
            sha = self.ref(full)
            if sha is not None:
                return sha
        return name if self.get_commit(name) is not None else None

    def history(self, sha: str) -> list[Record]:
        """Return a commit and all of its ancestors, the latest first."""
        commits: dict[str, Record] = {}
        queue = [sha]
        while queue and len(commits) < _MAX_WALK:
            name = queue.pop(0)
            commit = None if name in commits else self.get_commit(name)
            if commit is not None:
                commits[name] = commit
                queue += commit["parents"]
        return sorted(commits.values(), key=lambda commit: -commit["time"])

    def merge_base(self, base: str, head: str) -> str | None:
        ancestors = {commit["sha"] for commit in self.history(base)}
        shared = (c["sha"] for c in self.history(head) if c["sha"] in ancestors)
        return next(shared, None)

    def between(self, base: str, head: str) -> list[Record]:
        """Return the commits that head has and base has not, the oldest first."""
        ancestors = {commit["sha"] for commit in self.history(base)}
        return [c for c in reversed(self.history(head)) if c["sha"] not in ancestors]


def merge(base: Files, ours: Files, theirs: Files) -> Files | None:
    """Merge two changes file by file. None means a conflict: both changed the same file, or one has
    a file where the other has a directory."""
    merged = dict(ours)
    for path in base.keys() | theirs.keys():
        before, after = base.get(path), theirs.get(path)
        if before == after or ours.get(path) == after:
            continue
        if ours.get(path) != before:
            return None
        if after is None:
            merged.pop(path, None)
        else:
            merged[path] = after
    has_conflict = any(clashes(merged, path) for path in theirs if path in merged)
    return None if has_conflict else merged


def changed_paths(before: Files, after: Files) -> list[str]:
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))


def is_path(path: str) -> bool:
    """Return whether a file can have this path."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or len(parts) > _MAX_DEPTH or "\0" in path:
        return False
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in parts)


def clashes(files: Iterable[str], path: str) -> bool:
    """Return whether the path is below a file, or is a directory of other files."""
    paths = set(files)
    parts = path.split("/")
    if any("/".join(parts[:count]) in paths for count in range(1, len(parts))):
        return True
    return any(other.startswith(f"{path}/") for other in paths)


def tree_names(files: Files) -> dict[str, str]:
    """Return the SHA of every directory's tree by path; "" is the whole repository."""
    names: dict[str, str] = {}
    _name_tree("", files, names)
    return names


def _name_tree(directory: str, files: Files, names: dict[str, str]) -> str:
    """Name the tree of a directory and of those below it. Paths in `files` start from there."""
    directories: dict[str, Files] = {}
    entries: list[tuple[str, str, str]] = []  # sort key, mode and name as git stores them, SHA
    for path, sha in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            directories.setdefault(name, {})[rest] = sha
        else:
            entries.append((name, f"{_FILE_MODE} {name}", sha))
    for name, inner in directories.items():
        sha = _name_tree(f"{directory}{name}/", inner, names)
        entries.append((f"{name}/", f"{_TREE_MODE} {name}", sha))
    entries.sort(key=lambda entry: entry[0].encode())
    raw = b"".join(f"{head}\0".encode() + bytes.fromhex(sha) for _, head, sha in entries)
    tree = _sha("tree", raw)
    names[directory.rstrip("/")] = tree
    return tree


def _sha(kind: str, data: bytes) -> str:
    whole = f"{kind} {len(data)}\0".encode() + data
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()
