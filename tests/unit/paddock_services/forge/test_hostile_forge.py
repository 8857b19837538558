"""That no request, however odd, makes the forge fail or break its state."""

from __future__ import annotations

import random
from pathlib import Path
from urllib.parse import quote

import pytest

from paddock_services.forge.service import ROUTES
from unit.paddock_services.chat.test_hostile import NASTY
from unit.paddock_services.forge.asking import Asking

SEED = {
    "repos": [
        {
            "full_name": "acme/site",
            "files": {"README.md": "# Site\n", "src/a.py": "A = 1\n"},
            "issues": ["one", {"title": "two", "labels": ["bug"]}],
            "pulls": [{"title": "three", "head": "fix", "files": {"src/a.py": "A = 2\n"}}],
        }
    ]
}
FIELDS = [
    "title", "body", "state", "state_reason", "labels", "assignees", "lock_reason", "head", "base",
    "draft", "merge_method", "sha", "commit_title", "reviewers", "event", "comments", "path",
    "line", "side", "start_line", "position", "commit_id", "subject_type", "content", "message",
    "branch", "ref", "name", "color", "description", "private", "archived", "default_branch",
    "auto_init",
]  # fmt: skip
QUERY = ["q", "page", "per_page", "state", "labels", "since", "assignee", "creator", "sort",
         "direction", "ref", "sha", "path", "recursive", "order", "head", "base"]  # fmt: skip
NAMES = {
    "owner": ["acme"],
    "repo": ["site", "none"],
    "number": ["1", "2", "3", "x"],
    "path:path": ["README.md", "src", "src/a.py", "new/b.txt"],
    "ref:path": ["heads/main", "heads/fix", "main"],
    "name:path": ["main", "fix"],
    "sha:path": ["main", "fix"],
    "login": ["acme", "agent"],
    "org": ["acme", "other"],
}


@pytest.mark.parametrize("seed", range(3))
def test_forge_answers_anything(tmp_path: Path, seed: int) -> None:
    hub, chance = Asking(tmp_path, SEED), random.Random(seed)
    likely = ["main", "fix", "open", "closed", "bug", "COMMENT", "src/a.py", "RIGHT", 1, "eA=="]
    routes = [name for name in ROUTES if name != "DELETE /repos/{owner}/{repo}"]
    for _ in range(600):
        method, path = chance.choice(routes).split(" ")
        for name in path.split("{")[1:]:
            key = name.partition("}")[0]
            value = str(chance.choice([*NAMES.get(key, ["1"]), chance.choice(NASTY)]))
            path = path.replace(f"{{{key}}}", quote(value))
        body = {
            name: chance.choice(likely if chance.random() < 0.6 else NASTY)
            for name in chance.sample(FIELDS, chance.randint(0, 10))
        }
        query = "&".join(
            f"{name}={quote(str(chance.choice(NASTY)))}"
            for name in chance.sample(QUERY, chance.randint(0, 3))
        )
        got = hub.ask(method, f"{path}?{query}", None if method == "GET" else body)
        assert got.status < 500, got.raw
    assert hub.forge.invariants() == []
    hub.store.close()
