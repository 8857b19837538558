"""Commits, trees and blobs of the forge, with the names that git would give them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from paddock.world.context import Context

Files = dict[str, str]  # path -> name of the blob
MAX_PATH = 4_096
_MAX_WALK = 10_000  # commits that are looked at for one question
_MODE = "100644"


class Person(msgspec.Struct, frozen=True):
    """Who wrote something."""

    name: str
    email: str


class NewCommit(msgspec.Struct, frozen=True):
    """A commit to be made."""

    files: Files
    message: str
    parents: tuple[str, ...]
    author: Person
    moment: float


class Git:
    """The objects of all repositories, and the references of each."""

    def __init__(self, context: Context) -> None:
        self._store = context.store

    def write(self, data: bytes) -> str:
        """Keeps a blob."""
        sha = _sha("blob", data)
        if not self._store.has("blobs", sha):
            digest = self._store.put_blob(data)
            self._store.put("blobs", sha, {"sha": sha, "digest": digest, "size": len(data)})
        return sha

    def read(self, sha: str) -> bytes | None:
        found = self._store.get("blobs", sha)
        return None if found is None else self._store.blob(found["digest"])

    def size(self, sha: str) -> int:
        found = self._store.get("blobs", sha)
        return 0 if found is None else int(found["size"])

    def commit(self, repo: int, new: NewCommit) -> str:
        trees = tree_names(new.files)
        if not self._store.has("trees", trees[""]):
            self._store.put("trees", trees[""], {"sha": trees[""], "files": new.files})
        stamp = f"{new.author.name} <{new.author.email}> {int(new.moment)} +0000"
        lines = [f"tree {trees['']}", *(f"parent {one}" for one in new.parents)]
        lines += [f"author {stamp}", f"committer {stamp}", "", new.message]
        sha = _sha("commit", "\n".join(lines).encode())
        self._store.put(
            "commits",
            f"{repo}:{sha}",
            {
                "sha": sha,
                "repo": repo,
                "tree": trees[""],
                "parents": list(new.parents),
                "message": new.message,
                "author": {"name": new.author.name, "email": new.author.email},
                "moment": new.moment,
            },
        )
        return sha

    def get(self, repo: int, sha: str) -> dict[str, Any] | None:
        return self._store.get("commits", f"{repo}:{sha}")

    def files(self, repo: int, sha: str) -> Files:
        commit = self.get(repo, sha)
        tree = self._store.get("trees", commit["tree"]) if commit else None
        return dict(tree["files"]) if tree else {}

    def tree(self, sha: str) -> Files | None:
        found = self._store.get("trees", sha)
        return None if found is None else dict(found["files"])

    def ref(self, repo: int, name: str) -> str | None:
        """The commit that a full reference (refs/heads/main) names."""
        found = self._store.get("refs", f"{repo}:{name}")
        return None if found is None else str(found["sha"])

    def refs(self, repo: int, prefix: str = "refs/") -> list[tuple[str, str]]:
        found = self._store.find("refs", {"repo": repo})
        return sorted((one["ref"], one["sha"]) for one in found if one["ref"].startswith(prefix))

    def set_ref(self, repo: int, name: str, sha: str) -> None:
        self._store.put("refs", f"{repo}:{name}", {"repo": repo, "ref": name, "sha": sha})

    def delete_ref(self, repo: int, name: str) -> bool:
        return self._store.delete("refs", f"{repo}:{name}")

    def resolve(self, repo: int, name: str) -> str | None:
        """A branch, a tag, a full reference or a commit."""
        for full in (f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}", name):
            sha = self.ref(repo, full)
            if sha is not None:
                return sha
        return name if self.get(repo, name) is not None else None

    def history(self, repo: int, sha: str) -> list[dict[str, Any]]:
        """A commit and all before it, the latest first."""
        found: dict[str, dict[str, Any]] = {}
        waiting = [sha]
        while waiting and len(found) < _MAX_WALK:
            one = waiting.pop(0)
            commit = None if one in found else self.get(repo, one)
            if commit is not None:
                found[one] = commit
                waiting += commit["parents"]
        return sorted(found.values(), key=lambda one: -one["moment"])

    def merge_base(self, repo: int, one: str, two: str) -> str | None:
        known = {commit["sha"] for commit in self.history(repo, one)}
        return next((c["sha"] for c in self.history(repo, two) if c["sha"] in known), None)

    def between(self, repo: int, base: str, head: str) -> list[dict[str, Any]]:
        """What head has and base has not, the oldest first."""
        known = {commit["sha"] for commit in self.history(repo, base)}
        return [c for c in reversed(self.history(repo, head)) if c["sha"] not in known]


def merge(base: Files, ours: Files, theirs: Files) -> Files | None:
    """Both changes in one. None: they touch the same files, or the same name as file and folder."""
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
    return merged if not any(clashes(merged, path) for path in theirs if path in merged) else None


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths that are not the same."""
    return sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))


def is_path(path: str) -> bool:
    """Whether a file can have this path."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or len(parts) > 64 or "\0" in path:
        return False
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in parts)


def clashes(files: Iterable[str], path: str) -> bool:
    """Whether the path would be below a file, or a file where a folder is."""
    known = set(files)
    parts = path.split("/")
    if any("/".join(parts[:count]) in known for count in range(1, len(parts))):
        return True
    return any(one.startswith(f"{path}/") for one in known)


def tree_names(files: Mapping[str, str]) -> dict[str, str]:
    """The name of each folder's tree, by path; the whole is ""."""
    names: dict[str, str] = {}
    _name_tree("", files, names)
    return names


def _name_tree(folder: str, files: Mapping[str, str], names: dict[str, str]) -> str:
    """`files` are those below the folder, with paths from there."""
    below: dict[str, dict[str, str]] = {}
    entries: list[tuple[str, str, str]] = []
    for path, sha in files.items():
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = sha
        else:
            entries.append((first, _MODE, sha))
    for name, inner in below.items():
        entries.append((name, "40000", _name_tree(f"{folder}{name}/", inner, names)))
    entries.sort(key=lambda one: (one[0] + "/" if one[1] == "40000" else one[0]).encode())
    raw = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(sha) for name, mode, sha in entries)
    names[folder.rstrip("/")] = _sha("tree", raw)
    return names[folder.rstrip("/")]


def _sha(kind: str, data: bytes) -> str:
    whole = f"{kind} {len(data)}\0".encode() + data
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest()
