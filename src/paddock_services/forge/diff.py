"""What changed from one tree to another, file by file."""

from __future__ import annotations

import difflib
from urllib.parse import quote

from paddock_services.forge import views
from paddock_services.forge.desk import Record
from paddock_services.forge.git import Files, Git, changed
from paddock_services.forge.wire import Call

MAX_FILES = 300
MAX_LINES = 3_000  # difflib takes the square of it
MAX_BYTES = 200_000


def file_changes(
    call: Call, repo: Record, git: Git, before: Files, after: Files, sha: str
) -> list[Record]:
    """As the forge lists them."""
    return [
        _file(call, repo, git, path, before.get(path), after.get(path), sha)
        for path in changed(before, after)[:MAX_FILES]
    ]


def _file(
    call: Call, repo: Record, git: Git, path: str, old: str | None, new: str | None, sha: str
) -> Record:
    status = "added" if old is None else "removed" if new is None else "modified"
    patch, added, removed = _patch(git.read(old) if old else b"", git.read(new) if new else b"")
    shown = {
        "sha": new or old,
        "filename": path,
        "status": status,
        "additions": added,
        "deletions": removed,
        "changes": added + removed,
        "blob_url": f"{call.html}/{repo['full_name']}/blob/{sha}/{quote(path)}",
        "raw_url": f"{call.html}/{repo['full_name']}/raw/{sha}/{quote(path)}",
        "contents_url": f"{views.repo_url(call, repo)}/contents/{quote(path)}?ref={sha}",
    }
    return shown if patch is None else {**shown, "patch": patch}


def _patch(old: bytes | None, new: bytes | None) -> tuple[str | None, int, int]:
    """The patch, and the lines that were added and removed. No patch: it is too large, or bytes."""
    texts = [_lines(old or b""), _lines(new or b"")]
    one, two = texts
    if one is None or two is None:
        return None, 0, 0
    lines = list(difflib.unified_diff(one, two, lineterm=""))[2:]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return "\n".join(lines), added, removed


def _lines(data: bytes) -> list[str] | None:
    if len(data) > MAX_BYTES or b"\0" in data:
        return None
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= MAX_LINES else None
