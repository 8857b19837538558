"""Users and repositories."""

from __future__ import annotations

from paddock.world.kit import Reply
from paddock_services.forge.call import GithubCall, Routes, required_text, text_field
from paddock_services.forge.errors import invalid, not_found
from paddock_services.forge.git import NewCommit
from paddock_services.forge.hub import Record, Repo
from paddock_services.forge.views import show_repo, show_user, timestamp

_RECORDS = ("issues", "pulls", "comments", "reviews", "review_comments", "labels", "refs",
            "commits")  # fmt: skip


def get_me(call: GithubCall) -> Reply:
    return Reply(_show_profile(call, call.login))


def get_user(call: GithubCall) -> Reply:
    login = call.params["login"]
    if not call.hub.user(login) and not _owned(call, login) and login != call.user:
        raise not_found()
    return Reply(_show_profile(call, login))


def list_my_repos(call: GithubCall) -> Reply:
    return _list(call, call.hub.visible_repos(call.login))


def list_user_repos(call: GithubCall) -> Reply:
    return _list(call, _owned(call, call.params["login"]))


def create_repo(call: GithubCall) -> Reply:
    owner = call.params.get("org", call.login)
    name = required_text(call.body, "name", "Repository")
    description = text_field(call.body, "description", "Repository")
    is_private = call.body.get("private") is True
    repo = call.hub.create_repo(f"{owner}/{name}", private=is_private, description=description)
    if call.body.get("auto_init") is True:
        files = {"README.md": repo.git.write_blob(f"# {name}\n".encode())}
        author = call.hub.commit_author(call.login)
        new = NewCommit(files, "Initial commit", (), author, repo.record["created_at"])
        repo.git.commit(repo.default_branch, new)
    return Reply(show_repo(repo), 201)


def get_repo(call: GithubCall) -> Reply:
    return Reply(show_repo(call.repo()))


def edit_repo(call: GithubCall) -> Reply:
    """Change a repository. An archived one can be changed, or it would stay archived for ever."""
    repo, body = call.repo(), call.body
    call.require_login()
    branch = text_field(body, "default_branch", "Repository")
    if branch:
        if repo.git.branch(branch) is None:
            raise invalid("Repository", "default_branch")
        repo.record["default_branch"] = branch
    if "description" in body:
        repo.record["description"] = text_field(body, "description", "Repository")
    for flag in ("private", "archived"):
        if isinstance(body.get(flag), bool):
            repo.record[flag] = body[flag]
    repo.record["updated_at"] = call.hub.tick()
    repo.save()
    return Reply(show_repo(repo))


def delete_repo(call: GithubCall) -> Reply:
    repo = call.repo()
    call.require_login()
    call.hub.tick()
    for kind in _RECORDS:
        for id in call.store.ids(kind):
            record = call.store.get(kind, id)
            if record is not None and record["repo"] == repo.id:
                call.store.delete(kind, id)
    call.store.delete("repos", repo.full_name.lower())
    return Reply(None, 204)


def _owned(call: GithubCall, login: str) -> list[Repo]:
    repos = call.hub.visible_repos(call.user)
    return [repo for repo in repos if repo.owner.lower() == login.lower()]


def _list(call: GithubCall, repos: list[Repo]) -> Reply:
    return call.page(repos, show_repo)


def _show_profile(call: GithubCall, login: str) -> Record:
    user = call.hub.user(login)
    created = timestamp(call.hub.context.start)
    return {
        **show_user(call.hub, login),
        "name": user.get("name", login),
        "email": user.get("email"),
        "public_repos": len(_owned(call, login)),
        "followers": 0,
        "following": 0,
        "created_at": created,
        "updated_at": created,
    }


ROUTES: Routes = {
    "GET /user": get_me,
    "GET /user/repos": list_my_repos,
    "POST /user/repos": create_repo,
    "GET /users/{login}": get_user,
    "GET /users/{login}/repos": list_user_repos,
    "GET /orgs/{login}": get_user,
    "GET /orgs/{login}/repos": list_user_repos,
    "POST /orgs/{org}/repos": create_repo,
    "GET /repos/{owner}/{repo}": get_repo,
    "PATCH /repos/{owner}/{repo}": edit_repo,
    "DELETE /repos/{owner}/{repo}": delete_repo,
}
