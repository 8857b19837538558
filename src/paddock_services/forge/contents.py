"""Files of a repository by path. Each write is a commit."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, required_text, text_field
from paddock_services.forge.errors import GithubError, not_found
from paddock_services.forge.git import Files, NewCommit, clashes, is_path, tree_names
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.views import show_git_commit

_READMES = ("readme.md", "readme.rst", "readme.txt", "readme")
_RAW = "application/vnd.github.raw; charset=utf-8"


class Checkout(msgspec.Struct, frozen=True):
    """The files of a repository at a branch, a tag or a commit."""

    repo: Repo
    ref: str
    head: str | None  # the commit; None: the repository is empty
    files: Files


def get_contents(call: GithubCall) -> Reply:
    checkout = _read_checkout(call)
    path = call.params.get("path", "").strip("/")
    if path in checkout.files:
        return _reply_with_file(call, checkout, path)
    entries = _list_directory(checkout, path)
    if not entries and path:
        raise not_found()
    return Reply(entries)


def get_readme(call: GithubCall) -> Reply:
    checkout = _read_checkout(call)
    for path in checkout.files:
        if path.lower() in _READMES:
            return _reply_with_file(call, checkout, path)
    raise not_found()


def put_file(call: GithubCall) -> Reply:
    repo, path = call.writable_repo(), call.params["path"]
    if not is_path(path):
        raise GithubError(422, "path contains a malformed path component")
    data = _decode(text_field(call.body, "content", "Content"))
    checkout = _write_checkout(repo, call.body)
    is_new = path not in checkout.files
    _check_sha(checkout.files, path, text_field(call.body, "sha", "Content"))
    if is_new and clashes(checkout.files, path):
        raise GithubError(422, "path is a file or folder that is there already")
    checkout.files[path] = repo.git.write_blob(data)
    commit = _commit(call, checkout, call.body)
    entry = _show_entry(checkout, path, "file", checkout.files[path])
    return Reply({"content": entry, "commit": commit}, 201 if is_new else 200)


def delete_file(call: GithubCall) -> Reply:
    repo, path = call.writable_repo(), call.params["path"]
    fields = {**call.query, **call.body}
    checkout = _write_checkout(repo, fields)
    if path not in checkout.files:
        raise not_found()
    _check_sha(checkout.files, path, text_field(fields, "sha", "Content"))
    del checkout.files[path]
    return Reply({"content": None, "commit": _commit(call, checkout, fields)})


def _read_checkout(call: GithubCall) -> Checkout:
    repo, ref = call.repo(), call.query.get("ref")
    name = ref or repo.default_branch
    head = repo.git.resolve(name)
    if head is None and ref:
        raise GithubError(404, f"No commit found for the ref {name[:200]}")
    if head is None:
        raise GithubError(404, "This repository is empty.")
    return Checkout(repo, name, head, repo.git.files(head))


def _write_checkout(repo: Repo, fields: Mapping[str, Any]) -> Checkout:
    """Return the branch to write to. The first file of an empty repository creates it."""
    branch = text_field(fields, "branch", "Content") or repo.default_branch
    branch = branch.removeprefix("refs/heads/")
    head = repo.git.branch(branch)
    if head is None and repo.git.refs("refs/heads/"):
        raise GithubError(404, f"Branch {branch[:200]} not found")
    return Checkout(repo, branch, head, repo.git.files(head))


def _check_sha(files: Files, path: str, sha: str | None) -> None:
    """Check that whoever changes a file has seen it as it is now."""
    if path in files and sha is None:
        raise GithubError(422, 'Invalid request.\n\n"sha" wasn\'t supplied.')
    if sha != files.get(path):
        raise GithubError(409, f"{path} does not match {(sha or '')[:40]}")


def _decode(content: str | None) -> bytes:
    if content is None:
        raise GithubError(422, 'Invalid request.\n\n"content" wasn\'t supplied.')
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (ValueError, binascii.Error) as error:
        raise GithubError(422, "content is not valid Base64") from error


def _commit(call: GithubCall, checkout: Checkout, fields: Mapping[str, Any]) -> Record:
    repo = checkout.repo
    message = required_text(fields, "message", "Content")
    author = call.hub.commit_author(call.login)
    parents = (checkout.head,) if checkout.head else ()
    now = call.hub.tick()
    new = NewCommit(checkout.files, message, parents, author, now)
    sha = repo.git.commit(checkout.ref, new)
    repo.record["updated_at"] = now
    repo.save()
    return show_git_commit(repo, repo.git.get_commit(sha) or {})


def _reply_with_file(call: GithubCall, checkout: Checkout, path: str) -> Reply:
    sha = checkout.files[path]
    data = checkout.repo.git.read_blob(sha) or b""
    if "raw" in call.headers.get("accept", ""):
        return Reply(data, headers={"content-type": _RAW})
    entry = _show_entry(checkout, path, "file", sha)
    content = base64.encodebytes(data).decode()
    return Reply({**entry, "content": content, "encoding": "base64"})


def _list_directory(checkout: Checkout, path: str) -> list[Record]:
    trees = tree_names(checkout.files)
    prefix = f"{path}/" if path else ""
    entries: dict[str, Record] = {}
    for file in sorted(checkout.files):
        if not file.startswith(prefix):
            continue
        name, slash, _ = file.removeprefix(prefix).partition("/")
        if name in entries:
            continue
        full = prefix + name
        kind, sha = ("dir", trees[full]) if slash else ("file", checkout.files[file])
        entries[name] = _show_entry(checkout, full, kind, sha)
    return list(entries.values())


def _show_entry(checkout: Checkout, path: str, kind: str, sha: str) -> Record:
    repo, is_file = checkout.repo, kind == "file"
    ref, quoted = quote(checkout.ref), quote(path)
    object_kind = "blob" if is_file else "tree"
    raw = f"https://raw.githubusercontent.com/{repo.full_name}/{ref}/{quoted}"
    return {
        "type": kind,
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": sha,
        "size": repo.git.blob_size(sha) if is_file else 0,
        "url": f"{repo.url}/contents/{quoted}?ref={ref}",
        "html_url": f"{repo.page}/{object_kind}/{ref}/{quoted}",
        "git_url": f"{repo.url}/git/{object_kind}s/{sha}",
        "download_url": raw if is_file else None,
    }


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/contents": get_contents,
    "GET /repos/{owner}/{repo}/contents/{path:path}": get_contents,
    "PUT /repos/{owner}/{repo}/contents/{path:path}": put_file,
    "DELETE /repos/{owner}/{repo}/contents/{path:path}": delete_file,
    "GET /repos/{owner}/{repo}/readme": get_readme,
}
