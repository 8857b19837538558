"""Files of a repository: read, written and deleted, each write a commit."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.git import (
    Files,
    NewCommit,
    Person,
    clashes,
    is_path,
    tree_names,
)
from paddock_services.forge.wire import Call, Failed, Reply, Router, not_found, text


class Contents:
    """The files, by path and branch."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}"
        router.add("GET", f"{base}/contents/{{path*}}", self.get)
        router.add("PUT", f"{base}/contents/{{path*}}", self.put)
        router.add("DELETE", f"{base}/contents/{{path*}}", self.delete)
        router.add("GET", f"{base}/readme", self.readme)

    def get(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        files, name = self._files(call, repo)
        path = call.names["path"].strip("/")
        if path in files:
            return self._sent(call, repo, name, path, files[path])
        inside = {one: sha for one, sha in files.items() if not path or one.startswith(f"{path}/")}
        if not inside and path:
            raise not_found()
        return Reply(self._folder(call, repo, name, path, inside, files))

    def readme(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        files, name = self._files(call, repo)
        for path, sha in files.items():
            if path.lower() in ("readme.md", "readme.rst", "readme.txt", "readme"):
                return self._sent(call, repo, name, path, sha)
        raise not_found()

    def _sent(self, call: Call, repo: Record, name: str, path: str, sha: str) -> Reply:
        if "raw" in call.headers.get("accept", ""):
            kind = "application/vnd.github.raw; charset=utf-8"
            return Reply(self._desk.git.read(sha), headers={"content-type": kind})
        return Reply(self._file(call, repo, name, path, sha))

    def _files(self, call: Call, repo: Record) -> tuple[Files, str]:
        name = call.query.get("ref") or repo["default_branch"]
        sha = self._desk.git.resolve(repo["id"], name)
        if sha is None:
            if call.query.get("ref"):
                raise Failed(404, f"No commit found for the ref {name[:200]}")
            raise Failed(404, "This repository is empty.")
        return self._desk.git.files(repo["id"], sha), name

    def _file(self, call: Call, repo: Record, name: str, path: str, sha: str) -> Record:
        data = self._desk.git.read(sha) or b""
        entry = self._entry(call, repo, name, path, sha, "file")
        encoded = base64.encodebytes(data).decode()
        return {**entry, "content": encoded, "encoding": "base64"}

    def _entry(self, call: Call, repo: Record, name: str, path: str, sha: str, kind: str) -> Record:
        url = f"{views.repo_url(call, repo)}/contents/{quote(path)}?ref={quote(name)}"
        what = "blob" if kind == "file" else "tree"
        html = f"{call.html}/{repo['full_name']}/{what}/{quote(name)}/{quote(path)}"
        git = f"{views.repo_url(call, repo)}/git/{what}s/{sha}"
        raw = f"https://raw.githubusercontent.com/{repo['full_name']}/{quote(name)}/{quote(path)}"
        return {
            "type": kind,
            "name": path.rsplit("/", 1)[-1],
            "path": path,
            "sha": sha,
            "size": self._desk.git.size(sha) if kind == "file" else 0,
            "url": url,
            "html_url": html,
            "git_url": git,
            "download_url": raw if kind == "file" else None,
            "_links": {"self": url, "git": git, "html": html},
        }

    def _folder(
        self, call: Call, repo: Record, name: str, path: str, inside: Files, files: Files
    ) -> list[Record]:
        trees = tree_names(files)
        start = len(path) + 1 if path else 0
        found: dict[str, Record] = {}
        for full in sorted(inside):
            first, slash, _ = full[start:].partition("/")
            whole = full[:start] + first
            kind, sha = ("dir", trees[whole]) if slash else ("file", inside[full])
            if first not in found:
                found[first] = self._entry(call, repo, name, whole, sha, kind)
        return list(found.values())

    def put(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        path = call.names["path"]
        if not is_path(path):
            raise Failed(422, "path contains a malformed path component")
        data = _decoded(text(body, "content", "Content"))
        branch, head, files = self._target(repo, body)
        is_new = path not in files
        _check_sha(path, files, text(body, "sha", "Content"))
        if is_new and clashes(files, path):
            raise Failed(422, "path is a file or folder that is there already")
        files[path] = self._desk.git.write(data)
        commit = self._commit(call, repo, body, branch, head, files)
        shown = self._entry(call, repo, branch, path, files[path], "file")
        return Reply({"content": shown, "commit": commit}, 201 if is_new else 200)

    def delete(self, call: Call) -> Reply:
        repo, path = self._desk.writable(call), call.names["path"]
        body = {**call.query, **call.body()}
        branch, head, files = self._target(repo, body)
        if path not in files:
            raise not_found()
        _check_sha(path, files, text(body, "sha", "Content"))
        del files[path]
        return Reply(
            {"content": None, "commit": self._commit(call, repo, body, branch, head, files)}
        )

    def _target(self, repo: Record, body: Mapping[str, Any]) -> tuple[str, str | None, Files]:
        """The branch to write to, its latest commit and its files."""
        branch = (text(body, "branch", "Content") or repo["default_branch"]).removeprefix(
            "refs/heads/"
        )
        head = self._desk.git.ref(repo["id"], f"refs/heads/{branch}")
        is_empty = not self._desk.git.refs(repo["id"], "refs/heads/")
        if head is None and not is_empty:
            raise Failed(404, f"Branch {branch[:200]} not found")
        return branch, head, self._desk.git.files(repo["id"], head) if head else {}

    def _commit(
        self, call: Call, repo: Record, body: Mapping[str, Any], branch: str, head: str | None,
        files: Files,
    ) -> Record:  # fmt: skip
        message = text(body, "message", "Content", required=True) or ""
        git, parents = self._desk.git, (head,) if head else ()
        author = _author(body.get("author") or body.get("committer"), self._desk.person(call.login))
        moment = self._desk.tick()
        sha = git.commit(repo["id"], NewCommit(files, message, parents, author, moment))
        git.set_ref(repo["id"], f"refs/heads/{branch}", sha)
        self._desk.store.put("repos", repo["full_name"].lower(), {**repo, "updated_at": moment})
        return views.git_commit(call, repo, git.get(repo["id"], sha) or {})


def _check_sha(path: str, files: Files, sha: str | None) -> None:
    """Who changes a file must have seen it as it is."""
    if path in files and sha is None:
        raise Failed(422, 'Invalid request.\n\n"sha" wasn\'t supplied.')
    if path in files and sha != files[path]:
        raise Failed(409, f"{path} does not match {(sha or '')[:40]}")
    if path not in files and sha is not None:
        raise Failed(409, f"{path} does not match {sha[:40]}")


def _decoded(content: str | None) -> bytes:
    if content is None:
        raise Failed(422, 'Invalid request.\n\n"content" wasn\'t supplied.')
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (ValueError, binascii.Error) as error:
        raise Failed(422, "content is not valid Base64") from error


def _author(given: Any, default: Person) -> Person:
    if not isinstance(given, dict):
        return default
    name, email = given.get("name"), given.get("email")
    if not (isinstance(name, str) and isinstance(email, str)):
        return default
    bad = set("<>\n\0")
    return default if bad & set(name + email) else Person(name[:200], email[:200])
