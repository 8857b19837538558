"""Branches, tags, references and commits, and the objects of the git database."""

from __future__ import annotations

import re

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, required_text
from paddock_services.forge.diff import diff_files
from paddock_services.forge.errors import GithubError, not_found
from paddock_services.forge.git import changed_paths, tree_names
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.views import (
    show_commit,
    show_file_diff,
    show_ref,
)

_REF = re.compile(r"refs/(?:heads|tags)/[^\s~^:?*\[\\\x00-\x1f]{1,200}")


def list_branches(call: GithubCall) -> Reply:
    return _list_refs(call, "refs/heads/")


def list_tags(call: GithubCall) -> Reply:
    return _list_refs(call, "refs/tags/")


def _list_refs(call: GithubCall, prefix: str) -> Reply:
    repo = call.repo()

    def show(ref: tuple[str, str]) -> Record:
        name, sha = ref
        commit = {"sha": sha, "url": f"{repo.url}/commits/{sha}"}
        return {"name": name.removeprefix(prefix), "commit": commit, "protected": False}

    return call.page(repo.git.refs(prefix), show)


def get_branch(call: GithubCall) -> Reply:
    repo, name = call.repo(), call.params["name"]
    sha = repo.git.branch(name)
    if sha is None:
        raise GithubError(404, "Branch not found")
    commit = show_commit(repo, _commit(repo, sha))
    return Reply({"name": name, "commit": commit, "protected": False})


def list_commits(call: GithubCall) -> Reply:
    repo, start = call.repo(), call.query.get("sha")
    sha = repo.git.resolve(start or repo.default_branch)
    if sha is None and start:
        raise not_found()
    if sha is None:
        raise GithubError(409, "Git Repository is empty.")
    commits = repo.git.history(sha)
    path = call.query.get("path")
    if path:
        commits = [commit for commit in commits if _touches(repo, commit, path)]
    return call.page(commits, lambda commit: show_commit(repo, commit))


def get_commit(call: GithubCall) -> Reply:
    repo = call.repo()
    commit = _commit(repo, call.params["ref"])
    diffs = diff_files(repo.git, *_before_and_after(repo, commit))
    additions = sum(diff.additions for diff in diffs)
    deletions = sum(diff.deletions for diff in diffs)
    shown = show_commit(repo, commit)
    shown["stats"] = {
        "additions": additions,
        "deletions": deletions,
        "total": additions + deletions,
    }
    shown["files"] = [show_file_diff(repo, diff, commit["sha"]) for diff in diffs]
    return Reply(shown)


def get_ref(call: GithubCall) -> Reply:
    repo, name = call.repo(), f"refs/{call.params['ref']}"
    sha = repo.git.ref(name)
    if sha is None:
        raise not_found()
    return Reply(show_ref(repo, name, sha))


def create_ref(call: GithubCall) -> Reply:
    repo = call.writable_repo()
    name = required_text(call.body, "ref", "Reference")
    sha = required_text(call.body, "sha", "Reference")
    if not _REF.fullmatch(name) or ".." in name or name.endswith(("/", ".lock", ".")):
        raise GithubError(422, f"{name[:200]} is not a valid ref name.")
    if repo.git.get_commit(sha) is None:
        raise GithubError(422, "Object does not exist")
    if repo.git.ref(name) is not None:
        raise GithubError(422, "Reference already exists")
    call.hub.tick()
    repo.git.set_ref(name, sha)
    return Reply(show_ref(repo, name, sha), 201)


def delete_ref(call: GithubCall) -> Reply:
    repo, name = call.writable_repo(), f"refs/{call.params['ref']}"
    if name == f"refs/heads/{repo.default_branch}":
        raise GithubError(422, "Cannot delete the default branch")
    if not repo.git.delete_ref(name):
        raise GithubError(422, "Reference does not exist")
    call.hub.tick()
    return Reply(None, 204)


def get_tree(call: GithubCall) -> Reply:
    repo, name = call.repo(), call.params["sha"]
    sha = repo.git.resolve(name)
    files = repo.git.files(sha) if sha else repo.git.tree_files(name)
    if files is None:
        raise not_found()
    trees = tree_names(files)
    git = f"{repo.url}/git"
    entries: list[Record] = []
    for path, tree in trees.items():
        if path:
            entry = {"path": path, "mode": "040000", "type": "tree", "sha": tree}
            entries.append({**entry, "url": f"{git}/trees/{tree}"})
    for path, blob in files.items():
        entry = {"path": path, "mode": "100644", "type": "blob", "sha": blob}
        size = repo.git.blob_size(blob)
        entries.append({**entry, "size": size, "url": f"{git}/blobs/{blob}"})
    if "recursive" not in call.query:
        entries = [entry for entry in entries if "/" not in entry["path"]]
    entries.sort(key=lambda entry: str(entry["path"]))
    url = f"{git}/trees/{trees['']}"
    return Reply({"sha": trees[""], "url": url, "tree": entries, "truncated": False})


def _commit(repo: Repo, name: str) -> Record:
    sha = repo.git.resolve(name)
    commit = repo.git.get_commit(sha) if sha else None
    if commit is None:
        raise GithubError(422, f"No commit found for SHA: {name[:200]}")
    return commit


def _before_and_after(repo: Repo, commit: Record) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files of a commit's first parent, and of the commit."""
    parent = commit["parents"][0] if commit["parents"] else None
    return repo.git.files(parent), repo.git.files(commit["sha"])


def _touches(repo: Repo, commit: Record, path: str) -> bool:
    changed = changed_paths(*_before_and_after(repo, commit))
    return any(file == path or file.startswith(f"{path.rstrip('/')}/") for file in changed)


ROUTES: Routes = {
    "GET /repos/{owner}/{repo}/branches": list_branches,
    "GET /repos/{owner}/{repo}/branches/{name:path}": get_branch,
    "GET /repos/{owner}/{repo}/tags": list_tags,
    "GET /repos/{owner}/{repo}/commits": list_commits,
    "GET /repos/{owner}/{repo}/commits/{ref:path}": get_commit,
    "POST /repos/{owner}/{repo}/git/refs": create_ref,
    "GET /repos/{owner}/{repo}/git/ref/{ref:path}": get_ref,
    "DELETE /repos/{owner}/{repo}/git/refs/{ref:path}": delete_ref,
    "GET /repos/{owner}/{repo}/git/trees/{sha:path}": get_tree,
}
