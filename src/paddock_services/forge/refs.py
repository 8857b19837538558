"""Branches, references, commits, trees and blobs, as far as clients ask for them."""

from __future__ import annotations

import base64
import re

from paddock_services.forge import views
from paddock_services.forge.desk import Desk, Record
from paddock_services.forge.diff import file_changes
from paddock_services.forge.git import changed, tree_names
from paddock_services.forge.wire import Call, Failed, Reply, Router, not_found, paged, text

_REF = re.compile(r"refs/(?:heads|tags)/[^\s~^:?*\[\\\x00-\x1f]{1,200}")


class Refs:
    """What names lead to which commits, and what is in those."""

    def __init__(self, desk: Desk, router: Router) -> None:
        self._desk = desk
        base = "/repos/{owner}/{repo}"
        router.add("GET", f"{base}/branches", self.branches)
        router.add("GET", f"{base}/branches/{{name*}}", self.branch)
        router.add("GET", f"{base}/tags", self.tags)
        router.add("GET", f"{base}/commits", self.commits)
        router.add("GET", f"{base}/commits/{{ref*}}", self.commit)
        router.add("GET", f"{base}/compare/{{range*}}", self.compare)
        router.add("GET", f"{base}/git/refs", self.refs)
        router.add("POST", f"{base}/git/refs", self.create)
        router.add("GET", f"{base}/git/refs/{{ref*}}", self.ref)
        router.add("GET", f"{base}/git/ref/{{ref*}}", self.ref)
        router.add("GET", f"{base}/git/matching-refs/{{ref*}}", self.matching)
        router.add("PATCH", f"{base}/git/refs/{{ref*}}", self.move)
        router.add("DELETE", f"{base}/git/refs/{{ref*}}", self.delete)
        router.add("GET", f"{base}/git/commits/{{sha}}", self.git_commit)
        router.add("GET", f"{base}/git/trees/{{sha*}}", self.tree)
        router.add("GET", f"{base}/git/blobs/{{sha}}", self.blob)

    def branches(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.git.refs(repo["id"], "refs/heads/")
        return paged(call, found, lambda one: self._short(call, repo, *one))

    def _short(self, call: Call, repo: Record, ref: str, sha: str) -> Record:
        name = ref.split("/", 2)[2]
        url = f"{views.repo_url(call, repo)}/commits/{sha}"
        return {"name": name, "commit": {"sha": sha, "url": url}, "protected": False}

    def tags(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.git.refs(repo["id"], "refs/tags/")
        return paged(call, found, lambda one: self._short(call, repo, *one))

    def branch(self, call: Call) -> Reply:
        repo, name = self._desk.repo(call), call.names["name"]
        sha = self._desk.git.ref(repo["id"], f"refs/heads/{name}")
        if sha is None:
            raise Failed(404, "Branch not found")
        full = views.commit(call, repo, self._commit(repo, sha))
        url = f"{views.repo_url(call, repo)}/branches/{name}"
        links = {"self": url, "html": f"{call.html}/{repo['full_name']}/tree/{name}"}
        return Reply({"name": name, "commit": full, "protected": False, "_links": links,
                      "protection_url": f"{url}/protection"})  # fmt: skip

    def _commit(self, repo: Record, name: str) -> Record:
        sha = self._desk.git.resolve(repo["id"], name)
        found = self._desk.git.get(repo["id"], sha) if sha else None
        if found is None:
            raise Failed(422, f"No commit found for SHA: {name[:200]}")
        return found

    def commits(self, call: Call) -> Reply:
        repo, git = self._desk.repo(call), self._desk.git
        name = call.query.get("sha") or repo["default_branch"]
        sha = git.resolve(repo["id"], name)
        if sha is None:
            if call.query.get("sha"):
                raise not_found()
            raise Failed(409, "Git Repository is empty.")
        found = git.history(repo["id"], sha)
        path = call.query.get("path")
        if path:
            found = [one for one in found if self._touches(repo, one, path)]
        return paged(call, found, lambda one: views.commit(call, repo, one))

    def _touches(self, repo: Record, commit: Record, path: str) -> bool:
        git = self._desk.git
        before = git.files(repo["id"], commit["parents"][0]) if commit["parents"] else {}
        paths = changed(before, git.files(repo["id"], commit["sha"]))
        return any(one == path or one.startswith(f"{path.rstrip('/')}/") for one in paths)

    def commit(self, call: Call) -> Reply:
        repo, git = self._desk.repo(call), self._desk.git
        one = self._commit(repo, call.names["ref"])
        before = git.files(repo["id"], one["parents"][0]) if one["parents"] else {}
        files = file_changes(call, repo, git, before, git.files(repo["id"], one["sha"]), one["sha"])
        stats = {name: sum(file[name] for file in files) for name in ("additions", "deletions")}
        stats["total"] = sum(stats.values())
        return Reply({**views.commit(call, repo, one), "stats": stats, "files": files})

    def compare(self, call: Call) -> Reply:
        repo, git = self._desk.repo(call), self._desk.git
        base_name, _, head_name = call.names["range"].partition("...")
        base, head = self._commit(repo, base_name), self._commit(repo, head_name)
        root = git.merge_base(repo["id"], base["sha"], head["sha"])
        if root is None:
            raise not_found()
        ahead = git.between(repo["id"], base["sha"], head["sha"])
        behind = git.between(repo["id"], head["sha"], base["sha"])
        status = (
            ("diverged" if behind else "ahead") if ahead else "behind" if behind else "identical"
        )
        files = file_changes(call, repo, git, git.files(repo["id"], root),
                             git.files(repo["id"], head["sha"]), head["sha"])  # fmt: skip
        return Reply(
            {
                "url": f"{views.repo_url(call, repo)}/compare/{call.names['range']}",
                "base_commit": views.commit(call, repo, base),
                "merge_base_commit": views.commit(call, repo, self._commit(repo, root)),
                "status": status,
                "ahead_by": len(ahead),
                "behind_by": len(behind),
                "total_commits": len(ahead),
                "commits": [views.commit(call, repo, one) for one in ahead],
                "files": files,
            }
        )

    def refs(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.git.refs(repo["id"])
        return paged(call, found, lambda one: views.ref(call, repo, *one))

    def matching(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.git.refs(repo["id"], f"refs/{call.names['ref']}")
        return paged(call, found, lambda one: views.ref(call, repo, *one))

    def ref(self, call: Call) -> Reply:
        repo, name = self._desk.repo(call), f"refs/{call.names['ref']}"
        sha = self._desk.git.ref(repo["id"], name)
        if sha is None:
            raise not_found()
        return Reply(views.ref(call, repo, name, sha))

    def create(self, call: Call) -> Reply:
        repo, body = self._desk.writable(call), call.body()
        name = text(body, "ref", "Reference", required=True) or ""
        sha = text(body, "sha", "Reference", required=True) or ""
        if not _REF.fullmatch(name) or ".." in name or name.endswith(("/", ".lock", ".")):
            raise Failed(422, f"{name[:200]} is not a valid ref name.")
        if self._desk.git.get(repo["id"], sha) is None:
            raise Failed(422, "Object does not exist")
        if self._desk.git.ref(repo["id"], name) is not None:
            raise Failed(422, "Reference already exists")
        self._desk.tick()
        self._desk.git.set_ref(repo["id"], name, sha)
        return Reply(views.ref(call, repo, name, sha), 201)

    def move(self, call: Call) -> Reply:
        repo, body, git = self._desk.writable(call), call.body(), self._desk.git
        name = f"refs/{call.names['ref']}"
        old, sha = git.ref(repo["id"], name), text(body, "sha", "Reference", required=True) or ""
        if old is None:
            raise Failed(422, "Reference does not exist")
        if git.get(repo["id"], sha) is None:
            raise Failed(422, "Object does not exist")
        if body.get("force") is not True and git.merge_base(repo["id"], old, sha) != old:
            raise Failed(422, "Update is not a fast forward")
        self._desk.tick()
        git.set_ref(repo["id"], name, sha)
        return Reply(views.ref(call, repo, name, sha))

    def delete(self, call: Call) -> Reply:
        repo, name = self._desk.writable(call), f"refs/{call.names['ref']}"
        if name == f"refs/heads/{repo['default_branch']}":
            raise Failed(422, "Cannot delete the default branch")
        if not self._desk.git.delete_ref(repo["id"], name):
            raise Failed(422, "Reference does not exist")
        self._desk.tick()
        return Reply(None, 204)

    def git_commit(self, call: Call) -> Reply:
        repo = self._desk.repo(call)
        found = self._desk.git.get(repo["id"], call.names["sha"])
        if found is None:
            raise not_found()
        return Reply(views.git_commit(call, repo, found))

    def tree(self, call: Call) -> Reply:
        repo, git, name = self._desk.repo(call), self._desk.git, call.names["sha"]
        commit = git.resolve(repo["id"], name)
        files = git.files(repo["id"], commit) if commit else git.tree(name)
        if files is None:
            raise not_found()
        trees, is_recursive = tree_names(files), "recursive" in call.query
        url = f"{views.repo_url(call, repo)}/git"
        entries: list[Record] = [
            {
                "path": path,
                "mode": "040000",
                "type": "tree",
                "sha": sha,
                "url": f"{url}/trees/{sha}",
            }
            for path, sha in trees.items()
            if path and (is_recursive or "/" not in path)
        ]
        entries += [
            {"path": path, "mode": "100644", "type": "blob", "sha": sha, "size": git.size(sha),
             "url": f"{url}/blobs/{sha}"}
            for path, sha in files.items()
            if is_recursive or "/" not in path
        ]  # fmt: skip
        entries.sort(key=lambda one: str(one["path"]))
        whole = trees[""]
        shown = {"sha": whole, "url": f"{url}/trees/{whole}", "tree": entries, "truncated": False}
        return Reply(shown)

    def blob(self, call: Call) -> Reply:
        repo, sha = self._desk.repo(call), call.names["sha"]
        data = self._desk.git.read(sha)
        if data is None:
            raise not_found()
        encoded = base64.encodebytes(data).decode()
        url = f"{views.repo_url(call, repo)}/git/blobs/{sha}"
        return Reply({"sha": sha, "node_id": views.node_id("Blob", sha), "size": len(data),
                      "url": url, "content": encoded, "encoding": "base64"})  # fmt: skip
