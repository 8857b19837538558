"""Files that tools obey are held back by whatever writes changes into the caller's directories."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.state.changes.overlay import overlay_changes
from paddock.state.changes.write_back import (
    NO_CONSENT,
    Applied,
    Consent,
    apply_changes,
    held_changes,
)
from paddock.state.tool_config import Governing, Protection

PADDOCK_FILE = "version: 1\nagent: a\nstage: observe\nrules: []\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A real repository with a commit, and some files of a developer."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text("a")
    (place / "docs").mkdir()
    (place / "docs" / "index.md").write_text("d")
    git(place, "init", "-q")
    git(place, "add", "a.txt")
    git(place, "commit", "-q", "-m", "first")
    return place


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    place = tmp_path / "layer"
    place.mkdir()
    return place


def git(place: Path, *words: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *names, *words], cwd=place, env=environment, check=False,
                          capture_output=True, text=True)  # fmt: skip
    return done.stdout + done.stderr


def put(layer: Path, path: str, text: str = "evil") -> None:
    file = layer / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def whiteout(layer: Path, path: str) -> None:
    file = layer / path
    file.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(file, stat.S_IFCHR, os.makedev(0, 0))


def write_back(layer: Path, project: Path, consent: Consent = NO_CONSENT) -> dict[str, str]:
    changes = overlay_changes(layer, project)
    done = apply_changes(layer, project, changes, consent=consent)
    return {one.path: one.status for one in done}


def held(layer: Path, project: Path) -> dict[str, str]:
    found = held_changes(layer, project, overlay_changes(layer, project))
    return {path: one.protection.value for path, one in found.items()}


def test_paddock_file_is_written_only_when_it_is_named(layer: Path, project: Path) -> None:
    (project / "paddock.yaml").write_text("old")
    put(layer, "paddock.yaml")
    put(layer, "deep/down/paddock.yaml")
    put(layer, "a.txt", "new")
    done = write_back(layer, project)
    assert done["paddock.yaml"] == done["deep/down/paddock.yaml"] == "held"
    assert done["a.txt"] == "applied"
    assert (project / "paddock.yaml").read_text() == "old"
    assert not (project / "deep" / "down" / "paddock.yaml").exists()
    done = write_back(layer, project, Consent(frozenset({"paddock.yaml"})))
    assert done["paddock.yaml"] == "applied"
    assert done["deep/down/paddock.yaml"] == "held"


def test_to_have_been_asked_is_not_enough_for_a_paddock_file(layer: Path, project: Path) -> None:
    put(layer, "paddock.yaml")
    put(layer, "Makefile")
    agreed = Consent(agreed=frozenset({"paddock.yaml", "Makefile"}))
    assert write_back(layer, project, agreed) == {"Makefile": "applied", "paddock.yaml": "held"}


def test_paddock_file_of_another_name_is_known_by_what_it_says(layer: Path, project: Path) -> None:
    (project / "bot.yaml").write_text(PADDOCK_FILE)
    put(layer, "bot.yaml", "harmless: true\n")
    put(layer, "new.json", '{"version": 1, "agent": "x", "stage": "broad"}')
    put(layer, "other.yaml", "version: 3\nservices: {}\n")
    assert held(layer, project) == {"bot.yaml": "named", "new.json": "named"}


def test_files_that_a_paddock_file_names_are_held(layer: Path, project: Path) -> None:
    said = PADDOCK_FILE + (
        "sandbox: {mounts: [{source: docs, target: /docs, mode: write}]}\n"
        "secrets:\n"
        "  A: {from: 'command:./tools/token.sh --fast', to: [a.example]}\n"
        "  B: {from: {command: [python3, tools/b.py]}, to: [a.example]}\n"
        "  C: {from: 'file:secret.txt', to: [a.example]}\n"
        "world:\n"
        "  a.example: {service: payments, seed: seeds/a.json}\n"
        "  b.example: {service: app, app: 'shop.main:app'}\n"
        "  c.example: {service: command, run: [python3, fake.py], state: start, port: 1}\n"
    )
    (project / "sub").mkdir()
    (project / "sub" / "paddock.yaml").write_text(said)
    named = ("tools/token.sh", "tools/b.py", "secret.txt", "seeds/a.json", "shop/main.py",
             "fake.py", "start/any/file")  # fmt: skip
    for path in (*named, "docs/index.md", "payments", "app.txt"):
        put(layer, f"sub/{path}")
    found = {path for path in held(layer, project) if (layer / path).is_file()}
    assert found == {f"sub/{path}" for path in named}


def test_paddock_file_from_elsewhere_protects_what_it_names(layer: Path, project: Path) -> None:
    content = {"secrets": {"A": {"from": f"command:{project}/bin/token"}}}
    governing = Governing(str(project / "a.txt"), str(project.parent), content)
    put(layer, "bin/token")
    put(layer, "a.txt")
    changes = overlay_changes(layer, project)
    assert set(held_changes(layer, project, changes, governing=governing)) == {"a.txt", "bin/token"}


SPELLINGS = ["PADDOCK.YAML", "paddock.yaml.", "paddock.yaml ", "padd\u200cock.yaml",
             "p\uff41ddock.yaml", "paddoc\u212a.yaml", "paddock.yaml::$DATA", ".GIT/config",
             ".g\u200cit/config", ".git./config", "GIT~1/config", ".Git/hooks/post-checkout",
             ".HG/hgrc", "Scenarios_x.py"]  # fmt: skip


@pytest.mark.parametrize("path", SPELLINGS)
def test_other_spellings_of_a_name_are_that_name(layer: Path, project: Path, path: str) -> None:
    put(layer, path)
    assert "applied" not in write_back(layer, project).values()


def test_commits_are_written_back_and_settings_are_not(layer: Path, project: Path) -> None:
    allowed = ("objects/ab/cdef", "objects/pack/p.pack", "objects/info/commit-graph",
               "refs/heads/x", "logs/HEAD", "HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD",
               "COMMIT_EDITMSG", "index", "packed-refs", "refs/remotes/origin/HEAD")  # fmt: skip
    forbidden = ("config", "config.worktree", "hooks/pre-commit", "info/attributes",
                 "commondir", "gitdir", "modules/m/config", "modules/m/HEAD",
                 "worktrees/w/gitdir", "objects/info/alternates", "OBJECTS/x", "description",
                 "sharedindex.1", "refs.x", "Index")  # fmt: skip
    for path in (*allowed, *forbidden):
        put(layer, f".git/{path}")
    found = held(layer, project)
    assert {path for path in found if Path(layer / path).is_file()} == {
        f".git/{p}" for p in forbidden
    }


def test_to_name_an_existing_repository_does_not_name_its_hooks(layer: Path, project: Path) -> None:
    put(layer, ".git/hooks/pre-commit")
    put(layer, ".git/refs/heads/new", "0" * 40)
    done = write_back(layer, project, Consent(frozenset({".git"})))
    assert done[".git/hooks/pre-commit"] == "held"
    assert done[".git/refs/heads/new"] == "applied"
    named = Consent(frozenset({".git/hooks/pre-commit"}))
    assert write_back(layer, project, named)[".git/hooks/pre-commit"] == "applied"


def test_links_in_a_repository_are_held(layer: Path, project: Path) -> None:
    (layer / ".git" / "objects").mkdir(parents=True)
    (layer / ".git" / "objects" / "info").symlink_to("../../docs")
    (layer / ".git" / "refs").symlink_to("../docs")
    found = held(layer, project)
    assert {".git/objects/info", ".git/refs"} <= found.keys()


def plant_repository(place: Path, marker: Path, layout: str) -> None:
    """What makes git run a command in a directory: a repository whose settings name one."""
    place.mkdir(parents=True, exist_ok=True)
    config = f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {marker}; false"\n'
    if layout == "commondir":
        git(place.parent, "init", "-q", "--bare", "real")
        (place.parent / "real" / "config").write_text(config + "\tbare = false\n\tworktree = ..\n")
        (place / "HEAD").write_text("ref: refs/heads/x\n")
        (place / "commondir").write_text("../real\n")
    else:
        for name in ("objects", "refs"):
            (place / name).mkdir()
            (place / name / "keep").write_text("")
        (place / "HEAD").write_text("ref: refs/heads/x\n")
        (place / "config").write_text(config + "\tbare = false\n\tworktree = .\n")


@pytest.mark.parametrize("where", ["docs/.git", "docs", "new/.git", "new", "."])
def test_no_directory_becomes_a_repository(layer: Path, tmp_path: Path, where: str) -> None:
    """The whole attack: git, started afterwards in any directory of the tree, runs nothing."""
    project, marker = tmp_path / "plain", tmp_path / "owned"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "index.md").write_text("d")
    plant_repository(layer / where, marker, "bare")
    written = project if where == "." else project / where
    control = tmp_path / "control"
    plant_repository(control / where, marker, "bare")
    git(control / where, "status")
    assert marker.exists(), "the attack itself must work"
    marker.unlink()
    write_back(layer, project)
    for place in {project, written, written.parent, project / "docs"}:
        if place.is_dir():
            git(place, "status")
    assert not marker.exists()


def test_repository_made_in_two_goes_is_held(layer: Path, tmp_path: Path) -> None:
    project = tmp_path / "plain"
    project.mkdir()
    put(layer, "d/HEAD", "ref: refs/heads/x\n")
    assert write_back(layer, project)["d/HEAD"] == "applied"  # alone it is no repository
    put(layer, "d/objects/x")
    put(layer, "d/refs/x")
    put(layer, "d/config")
    done = write_back(layer, project)
    assert {done[path] for path in ("d/objects/x", "d/refs/x", "d/config")} == {"held"}


def test_commondir_makes_a_repository_too(layer: Path, tmp_path: Path) -> None:
    project = tmp_path / "plain"
    project.mkdir()
    put(layer, "d/HEAD", "ref: refs/heads/x\n")
    put(layer, "d/commondir", "../other\n")
    assert set(write_back(layer, project).values()) == {"applied", "held"}
    assert not (project / "d" / "HEAD").exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_git_directory_is_not_replaced(layer: Path, project: Path, kind: str) -> None:
    if kind == "file":
        put(layer, ".git", "gitdir: docs\n")
    else:
        (layer / ".git").symlink_to("docs")
    assert write_back(layer, project) == {".git": "held"}
    assert (project / ".git" / "HEAD").is_file()


def test_gitfile_of_a_worktree_is_not_changed(layer: Path, tmp_path: Path) -> None:
    project = tmp_path / "worktree"
    project.mkdir()
    (project / ".git").write_text("gitdir: /elsewhere\n")
    put(layer, ".git", "gitdir: docs\n")
    assert write_back(layer, project) == {".git": "held"}


def test_existing_bare_repository_gets_data_only(layer: Path, tmp_path: Path) -> None:
    project = tmp_path / "plain"
    project.mkdir()
    git(project, "init", "-q", "--bare", "store")
    put(layer, "store/config")
    put(layer, "store/hooks/update")
    put(layer, "store/refs/heads/x", "0" * 40)
    done = write_back(layer, project)
    assert done["store/config"] == done["store/hooks/update"] == "held"
    assert done["store/refs/heads/x"] == "applied"


@pytest.mark.parametrize("source", [".git", ".git/hooks", "store/hooks"])
def test_tree_inside_of_a_repository_is_a_part_of_it(
    layer: Path, project: Path, source: str
) -> None:
    git(project, "init", "-q", "--bare", "store")
    put(layer, "pre-commit")
    put(layer, "config")
    assert set(write_back(layer, project / source).values()) == {"held"}


def test_what_is_protected_is_not_deleted(layer: Path, project: Path) -> None:
    (project / "paddock.yaml").write_text(PADDOCK_FILE)
    (project / "inner" / "deep").mkdir(parents=True)
    (project / "inner" / "deep" / "paddock.yaml").write_text(PADDOCK_FILE)
    git(project / "docs", "init", "-q")
    for path in ("paddock.yaml", "inner", "docs", ".git/HEAD", ".git/refs"):
        whiteout(layer, path)
    assert set(write_back(layer, project).values()) == {"held"}
    assert (project / "inner" / "deep" / "paddock.yaml").is_file()
    assert (project / "docs" / ".git" / "HEAD").is_file()


def test_directory_with_a_paddock_file_is_not_replaced_by_a_link(
    layer: Path, project: Path
) -> None:
    (project / "inner").mkdir()
    (project / "inner" / "paddock.yaml").write_text(PADDOCK_FILE)
    (layer / "inner").symlink_to("docs")
    assert write_back(layer, project) == {"inner": "held"}


ASKED = [".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".vscode/tasks.json",
         ".idea/x.xml", ".envrc", ".pre-commit-config.yaml", ".husky/pre-commit",
         "package.json", "sub/package.json", ".npmrc", "Makefile", "GNUmakefile",
         "build/rules.mk", "conftest.py", "tests/conftest.py", "sitecustomize.py",
         "lib/usercustomize/__init__.py", "x.pth", "pyproject.toml", "setup.py", "tox.ini",
         "vite.config.ts", ".eslintrc.js", "Cargo.toml", ".cargo/config.toml", "MAKEFILE",
         ".VSCode/tasks.json", ".mcp.json", ".devcontainer/devcontainer.json",
         ".gitmodules", ".venv/bin/activate", "env/bin/activate", "env/pyvenv.cfg",
         "AGENTS.md", ".opencode/plugin.js", ".devcontainer.json", "tasks.py", "lib/shared.gradle",
         "Fastfile", ".rubocop.yml", "python3._pth"]  # fmt: skip


def test_files_of_other_tools_are_asked_about(layer: Path, project: Path) -> None:
    for path in (
        *ASKED,
        "src/build/x.py",
        "make/file.py",
        "src/config.js",
        ".gitignore",
        "package.md",
    ):
        put(layer, path)
    found = held(layer, project)
    assert {path for path in found if (layer / path).is_file()} == set(ASKED)
    assert set(found.values()) == {"asked"}


def test_directory_of_a_tool_is_named_as_a_whole(layer: Path, project: Path) -> None:
    put(layer, ".vscode/tasks.json")
    put(layer, "sub/Makefile")
    done = write_back(layer, project, Consent(frozenset({".vscode", "sub"})))
    assert done[".vscode/tasks.json"] == "applied"
    assert done["sub/Makefile"] == "held"


def test_environment_of_paddock_is_asked_about(layer: Path, tmp_path: Path) -> None:
    """Wherever the running Paddock lies, and in every virtual environment."""
    put(layer, "state/new_module.py")
    package = Path(sys.modules["paddock"].__file__ or "").parent
    found = held_changes(layer, package, overlay_changes(layer, package))
    assert found["state/new_module.py"].protection is Protection.ASKED
    project = tmp_path / "plain"
    (project / "env").mkdir(parents=True)
    (project / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    put(layer, "env/bin/activate")
    assert held(layer, project)["env/bin/activate"] == "asked"


def test_tree_inside_of_a_tools_directory_is_a_part_of_it(layer: Path, tmp_path: Path) -> None:
    place = tmp_path / ".github" / "workflows"
    place.mkdir(parents=True)
    put(layer, "ci.yml")
    assert held(layer, place) == {"ci.yml": "asked"}


def test_held_says_why(layer: Path, project: Path) -> None:
    put(layer, "Makefile")
    changes = overlay_changes(layer, project)
    assert apply_changes(layer, project, changes) == [
        Applied("Makefile", "added", "held", "a build tool obeys it")
    ]


def test_files_that_the_settings_of_git_name_are_held(layer: Path, project: Path) -> None:
    git(project, "config", "core.hooksPath", "tools/hooks")
    git(project, "config", "include.path", "../team.conf")
    git(project, "config", "diff.x.textconv", "sh show.sh --all")
    for path in ("tools/hooks/pre-commit", "team.conf", "show.sh", "tools/other", "main"):
        put(layer, path)
    found = {path for path in held(layer, project) if (layer / path).is_file()}
    assert found == {"tools/hooks/pre-commit", "team.conf", "show.sh"}


SETTINGS_THAT_NAME_A_PROGRAM = (
    "[core] hooksPath = tools\n",
    '[core]\n\thooksPath = "tools" ; of the team\n',
    "[core]\n\thooksPath = too\\\nls\n",
    '[alias]\n\tst = "!f() { tools/run.sh; }; f"\n',
    "[pager]\n\tlog = tools/run.sh\n",
    '[remote "x"]\n\tuploadpack = ./tools/run.sh\n',
)


@pytest.mark.parametrize("settings", SETTINGS_THAT_NAME_A_PROGRAM)
def test_settings_of_git_are_read_as_git_reads_them(
    layer: Path, project: Path, settings: str
) -> None:
    with (project / ".git/config").open("a") as file:
        file.write(settings)
    put(layer, "tools/run.sh")
    assert write_back(layer, project)["tools/run.sh"] == "held"


def test_settings_that_other_settings_include_count(layer: Path, project: Path) -> None:
    git(project, "config", "includeIf.gitdir:/.path", "../team/first")
    (project / "team").mkdir()
    (project / "team/first").write_text("[include]\n\tpath = second\n")
    (project / "team/second").write_text("[core]\n\thooksPath = tools\n")
    for path in ("team/first", "team/second", "tools/pre-commit", "team/other"):
        put(layer, path)
    assert set(held(layer, project)) - {"tools"} == {
        "team/first", "team/second", "tools/pre-commit"
    }  # fmt: skip


@pytest.mark.parametrize("layout", ["worktree", "directory", "gitfile", "home"])
def test_settings_count_wherever_the_repository_lies(
    layer: Path, project: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    target, hooks = project, "tools"
    if layout == "home":
        monkeypatch.setenv("HOME", str(project.parent))
        (project.parent / ".gitconfig").write_text("[core]\n\thooksPath = tools\n")
    elif layout == "directory":
        target, hooks = project / "docs", "docs/tools"
    if layout != "home":
        git(project, "config", "core.hooksPath", hooks)
    if layout == "worktree":
        target = project.parent / "second"
        git(project, "worktree", "add", "-q", str(target))
    elif layout == "gitfile":
        (project / ".git").rename(project / ".bare")
        (project / ".git").write_text("gitdir: ./.bare\n")
    put(layer, "tools/pre-commit")
    assert write_back(layer, target)["tools/pre-commit"] == "held"


def test_paddock_file_above_the_tree_protects_what_it_names(layer: Path, project: Path) -> None:
    command = "secrets: {k: {from: {command: [sh, -c, 'x=1;docs/token.sh|cat']}, to: [a.test]}}\n"
    (project / "paddock.yaml").write_text(PADDOCK_FILE + command)
    put(layer, "token.sh")
    put(layer, "other.sh")
    assert set(held(layer, project / "docs")) == {"token.sh"}


@pytest.mark.parametrize(
    "link",
    [".git/hooks/pre-commit", "Makefile", ".github/workflows/ci.yml", "paddock.yaml", ".vscode"],
)
def test_what_a_link_of_an_obeyed_name_leads_to_is_held(
    layer: Path, project: Path, link: str
) -> None:
    (project / "scripts").mkdir()
    (project / "scripts/real").write_text("good")
    (project / "second").symlink_to("scripts/real")
    place = project / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.path.relpath(project / "second", place.parent))
    for path in ("scripts/real", "second", "scripts/other"):
        put(layer, path)
    assert set(held(layer, project)) == {"scripts/real", "second"}


def test_link_to_a_directory_around_it_holds_nothing(layer: Path, project: Path) -> None:
    (project / "docs/.vscode").symlink_to("..")
    put(layer, "docs/index.md")
    assert held(layer, project) == {}


def test_link_that_a_paddock_file_names_is_followed(layer: Path, project: Path) -> None:
    command = "secrets: {k: {from: {command: [./token]}, to: [a.test]}}\n"
    (project / "paddock.yaml").write_text(PADDOCK_FILE + command)
    (project / "token").symlink_to("docs/token.sh")
    put(layer, "docs/token.sh")
    assert set(held(layer, project)) == {"docs/token.sh"}


def test_paddock_file_of_the_run_above_the_tree_protects_what_it_names(
    layer: Path, project: Path
) -> None:
    (project.parent / "elsewhere").symlink_to(project)
    content = {"secrets": {"k": {"from": {"command": ["./docs/token.sh"]}}}}
    base = str(project.parent / "elsewhere")
    governing = Governing(f"{base}/agent.conf", base, content)
    put(layer, "token.sh")
    target = project / "docs"
    found = held_changes(layer, target, overlay_changes(layer, target), governing=governing)
    assert set(found) == {"token.sh"}


def link(place: Path, target: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


NAMING = {
    "git": ("dev/hooks", "pre-commit"),
    "paddock": ("dev/tools/token.sh", ""),
    "absolute": ("dev/tools/token.sh", ""),
    "variable": ("dev/tools/token.sh", ""),
    "obeyed link": ("dev/real.mk", ""),
}


def name_path(project: Path, way: str) -> str:
    """Make something name a path below `dev`, and return the path of a file there."""
    path, name = NAMING[way]
    if way == "git":
        git(project, "config", "core.hooksPath", path)
    elif way == "obeyed link":
        link(project / "Makefile", path)
    else:
        start = {"paddock": "", "absolute": f"{project}/", "variable": "$PWD/"}[way]
        secret = f"secrets: {{k: {{from: 'command:sh {start}{path}', to: [a.test]}}}}\n"
        (project / "paddock.yaml").write_text(PADDOCK_FILE + secret)
    return f"{path}/{name}".rstrip("/")


@pytest.mark.parametrize("way", NAMING)
@pytest.mark.parametrize("before", ["link", "nothing", "directory", "file", "dangling link"])
def test_link_above_a_named_path_is_held(layer: Path, project: Path, way: str, before: str) -> None:
    """The agent makes `dev` lead to a directory of its own."""
    named = name_path(project, way)
    if before == "link":
        (project / "shared").mkdir()
    if before.endswith("link"):
        link(project / "dev", "shared")
    elif before == "directory":
        put(project, named, "good")
    elif before == "file":
        put(project, "dev", "good")
    link(layer / "dev", "x")
    put(layer, named.replace("dev/", "x/", 1))
    assert write_back(layer, project)["dev"] == "held"
    assert not (project / named).exists() or (project / named).read_text() == "good"


@pytest.mark.parametrize("way", ["git", "paddock"])
def test_link_above_a_named_path_is_neither_removed_nor_made_a_directory(
    layer: Path, project: Path, way: str
) -> None:
    named = name_path(project, way)
    (project / "shared").mkdir()
    link(project / "dev", "shared")
    whiteout(layer, "dev")
    assert write_back(layer, project) == {"dev": "held"}
    (layer / "dev").unlink()
    put(layer, named)
    done = write_back(layer, project)
    assert done["dev"] == done[named] == "held"
    assert (project / "dev").is_symlink()


def test_every_link_on_the_way_to_a_named_path_is_held(layer: Path, project: Path) -> None:
    git(project, "config", "core.hooksPath", "dev/hooks")
    link(project / "dev", "first/second")
    link(project / "first", "third")
    (project / "third").mkdir()
    link(project / "third/second", "../fourth")
    link(layer / "first", "docs")
    link(layer / "third", "docs")
    put(layer, "fourth/hooks/pre-commit")
    link(layer / "fourth/other", "hooks")
    found = set(held(layer, project))
    assert {"first", "third", "fourth/hooks", "fourth/hooks/pre-commit"} <= found
    assert not {"fourth/other", "fourth"} & found


def test_directory_above_a_named_path_is_made(layer: Path, project: Path) -> None:
    git(project, "config", "core.hooksPath", "dev/hooks")
    put(layer, "dev/readme", "fine")
    link(layer / "dev/other", "readme")
    assert set(write_back(layer, project).values()) == {"applied"}


def test_other_spelling_of_a_directory_above_a_named_path_is_held(
    layer: Path, project: Path
) -> None:
    git(project, "config", "core.hooksPath", "dev/hooks")
    link(layer / "DEV", "docs")
    assert write_back(layer, project) == {"DEV": "held"}


def test_links_in_a_named_directory_are_followed(layer: Path, project: Path) -> None:
    git(project, "config", "core.hooksPath", "dev/hooks")
    link(project / "dev/hooks/pre-commit", "../../scripts/check.sh")
    link(project / "scripts/check.sh", "real.sh")
    link(project / "dev/other", "../scripts/other.sh")
    for path in ("scripts/check.sh", "scripts/real.sh", "scripts/other.sh"):
        put(layer, path)
    assert set(held(layer, project)) == {"scripts/check.sh", "scripts/real.sh"}


@pytest.mark.parametrize(
    "script",
    [
        'exec "$PWD/scripts/token.sh"',
        "${PWD}/scripts/token.sh",
        "$(git rev-parse --show-toplevel)/scripts/token.sh",
        "`pwd`/scripts/token.sh",
        "~+/scripts/token.sh",
        '"./scripts"/token.sh',
        "./scr\\ipts/token.sh",
        "x=1;'./scr'ipts/token.sh",
        "d=scripts; ./$d/token.sh",
        "cd scripts && ./token.sh",
        "./scripts/tok*.sh",
        "./scripts/$1.sh",
        "PATH=./scripts:$PATH token.sh",
        "env PATH=scripts:/bin token.sh",
        "python3 -c 'import os; os.execl(f\"{os.getcwd()}/scripts/token.sh\")'",
        "make -C scripts/",
    ],
)
def test_path_in_a_command_for_a_shell_is_held_however_it_is_spelled(
    layer: Path, project: Path, script: str
) -> None:
    content = {"secrets": {"k": {"from": {"command": ["sh", "-c", script]}}}}
    governing = Governing(None, str(project), content)
    put(layer, "scripts/token.sh")
    put(layer, "other/token.txt")
    changes = overlay_changes(layer, project)
    found = held_changes(layer, project, changes, governing=governing)
    assert "scripts/token.sh" in found
    assert "other/token.txt" not in found


@pytest.mark.parametrize(
    ("settings", "is_held"),
    [
        ("[init]\n\ttemplateDir = PROJECT/tools\n", True),
        ("[init]\n\ttemplateDir = tools\n", True),
        ("[alias]\n\tpush = !tools/run.sh\n", True),
        ("[pager]\n\tfetch = tools/run.sh\n", True),
        ("[alias]\n\turl = !tools/run.sh\n", True),
        ('[remote "x"]\n\turl = ext::sh tools/run.sh\n', True),
        ("[user]\n\tname = Jane Tools\n", False),
        ("[init]\n\tdefaultBranch = tools\n", False),
        ('[branch "x"]\n\tremote = tools\n\tmerge = refs/heads/tools\n', False),
        ('[remote "x"]\n\turl = tools\n\tfetch = +refs/heads/tools:refs/remotes/tools\n', False),
        ('[url "https://x/"]\n\tinsteadOf = tools\n', False),
        ("[color]\n\tui = tools\n", False),
    ],
)
def test_settings_of_git_are_skipped_one_by_one(
    layer: Path, project: Path, monkeypatch: pytest.MonkeyPatch, settings: str, is_held: bool
) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    (project.parent / ".gitconfig").write_text(settings.replace("PROJECT", str(project)))
    put(layer, "tools/run.sh")
    assert ("tools/run.sh" in held(layer, project)) is is_held


def test_value_of_a_setting_of_git_is_no_python_module(layer: Path, project: Path) -> None:
    git(project, "config", "credential.helper", "store")
    put(layer, "store.py")
    put(layer, "store")
    assert set(held(layer, project)) == {"store"}


@pytest.mark.parametrize(
    "name", ["x\n.pth", "a\n.mk", "z\n.paddock.yaml", "\n.gradle", "scenarios_\n.py"]
)
def test_line_break_in_a_name_hides_nothing(layer: Path, project: Path, name: str) -> None:
    put(layer, name)
    assert write_back(layer, project) == {name: "held"}


def test_paddock_file_by_content_is_known_under_every_spelling(layer: Path, project: Path) -> None:
    for name in ("bot.YAML", "bot.yaml.", "bot.yml "):
        put(layer, name, PADDOCK_FILE)
    assert set(write_back(layer, project).values()) == {"held"}
