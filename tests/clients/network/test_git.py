"""git over https, against git's own server program behind a small web server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite
from clients.network.crossings import requests, seen
from clients.network.inside import shell
from clients.network.site import Answer, Asked
from paddock import CommandExitException, Sandbox

NAMED = "git -c user.name=T -c user.email=t@example.com -c init.defaultBranch=main"
# Nothing of the settings of whoever runs the tests.
ALONE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
NO_PUSH = """
rules:
  - id: no-push
    match: {kind: http, host: git.example, method: POST, path: /**/git-receive-pack}
    decide: block
    why: This agent only reads.
"""


class Backend:
    """Repositories below a directory, served by `git http-backend`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __call__(self, asked: Asked) -> Answer:
        environment = {
            **ALONE,
            "GIT_PROJECT_ROOT": str(self._root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": asked.method,
            "PATH_INFO": asked.path,
            "QUERY_STRING": asked.query,
            "CONTENT_TYPE": asked.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(asked.body)),
            "HTTP_CONTENT_ENCODING": asked.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": asked.headers.get("git-protocol", ""),
        }
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=asked.body, env=environment, capture_output=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200").split()[0])
        return Answer(status, [body] if body else b"", headers)


def _git(directory: Path, *words: str) -> str:
    command = [*NAMED.split(), *words]
    done = subprocess.run(command, cwd=directory, env=ALONE, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A bare one with a commit in it."""
    work, bare = tmp_path / "work", tmp_path / "served" / "project.git"
    work.mkdir()
    _git(work, "init", "--quiet")
    (work / "hello.txt").write_text("hello\n")
    (work / "blob.bin").write_bytes(os.urandom(300_000))
    _git(work, "add", ".")
    _git(work, "commit", "--quiet", "-m", "first")
    _git(tmp_path, "clone", "--quiet", "--bare", "work", str(bare))
    _git(bare, "config", "http.receivepack", "true")
    return bare


@pytest.fixture
def sites(make_site: MakeSite, repository: Path) -> dict[str, str]:
    return {"git.example:443": make_site(Backend(repository.parent), "git.example").place}


def _clone(box: Sandbox, envs: dict[str, str]) -> None:
    shell(box, "git clone --quiet https://git.example/project.git", envs)


@pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
def test_clone_and_push_over_https(
    make_box: MakeBox, sites: dict[str, str], repository: Path, envs: dict[str, str]
) -> None:
    box = make_box(sites)
    _clone(box, envs)
    assert box.files.read("project/hello.txt") == "hello\n"
    # Larger than what git sends with a length: the rest goes in chunks.
    change = f"head -c 3000000 /dev/urandom > big && git add . && {NAMED} commit -qm second"
    shell(box, f"cd project && {change} && git push --quiet origin main", envs)
    assert _git(repository, "log", "--format=%s").split() == ["second", "first"]
    journal = requests(box)
    assert [seen(one)[1:] for one in journal] == [
        ("GET", "/project.git/info/refs", 200, "allow"),
        ("POST", "/project.git/git-upload-pack", 200, "allow"),
        ("POST", "/project.git/git-upload-pack", 200, "allow"),
        ("GET", "/project.git/info/refs", 200, "allow"),
        ("POST", "/project.git/git-receive-pack", 200, "allow"),
        ("POST", "/project.git/git-receive-pack", 200, "allow"),
    ]
    assert {one.host for one in journal} == {"git.example"}
    assert journal[-1].result["sent"]["bytes"] > 3_000_000
    assert box.alerts() == []


def test_rule_lets_an_agent_clone_and_not_push(
    make_box: MakeBox, sites: dict[str, str], repository: Path
) -> None:
    box = make_box(sites, NO_PUSH)
    _clone(box, {})
    change = f"cd project && echo more >> hello.txt && {NAMED} commit -qam second"
    with pytest.raises(CommandExitException) as failed:
        box.commands.run(f"{change} && git push origin main", timeout=60)
    assert "403" in failed.value.stderr
    assert _git(repository, "log", "--format=%s").split() == ["first"]
    last = requests(box)[-1]
    assert (last.request, last.verdict, last.rule, last.outcome) == (
        ("POST", "/project.git/git-receive-pack"), "block", "no-push", "refused",
    )  # fmt: skip
