"""An agent whose `.git` attacks whoever brings its commits back: nothing of it is run, nothing of
the host gets in, and only the branch is new.

Each attack is made by the agent itself, in a real sandbox, and then the commits are brought with
`paddock apply --branch` into a repository of the host.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.cli.main import _run
from paddock.state.home import Home
from unit.cli.commands.test_apply_branch import AGENT, git, make_repository
from unit.cli.conftest import Said
from unit.cli.recorded_files import make_recorded

THOROUGH = pytest.mark.thorough  # of attacks that are much alike, one is in the default suite
Bring = Callable[..., Said]
COMMIT = f"{AGENT} echo 1 > one; git add one; git commit -qm first"
# A commit of a tree that git itself would not make.
_TREE = r"""
python3 - <<'END'
import hashlib, os, subprocess, zlib
def put(kind, data):
    whole = b"%s %d\0" % (kind, len(data)) + data
    name = hashlib.sha1(whole).hexdigest()
    os.makedirs(f".git/objects/{name[:2]}", exist_ok=True)
    open(f".git/objects/{name[:2]}/{name[2:]}", "wb").write(zlib.compress(whole))
    return name
def tree(*entries):
    return put(b"tree", b"".join(
        b"%s %s\0" % (mode, name) + bytes.fromhex(inner) for mode, name, inner in entries))
blob = put(b"blob", CONTENT)
top = TREE
head = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
who = "agent <a@example.com> 1700000000 +0000"
text = f"tree {top}\nparent {head}\nauthor {who}\ncommitter {who}\n\nsly\n"
open(".git/refs/heads/main", "w").write(put(b"commit", text.encode()) + "\n")
END
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def bring(project: Path, capsys: pytest.CaptureFixture[str]) -> Bring:
    """Let the agent do it, and bring its commits. Whatever comes of it, the user's repository has
    nothing new but objects and perhaps the branch."""

    def run(script: str) -> Said:
        before = _everything(project)
        run = make_recorded(project, script).name
        capsys.readouterr()
        code = _run("apply", [run, "--branch", "agent"])
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        assert _everything(project) == before
        assert (project / ".git/refs/heads/agent").exists() == (code == 0)
        return Said(code, out, err)

    return run


def _everything(project: Path) -> dict[str, str]:
    """What lies in the project, but for objects and the new branch."""
    found = {}
    for path in sorted(project.rglob("*")):
        name = path.relative_to(project).as_posix()
        is_new = name.startswith(".git/objects/") or name.endswith("refs/heads/agent")
        if path.is_file() and not is_new:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_no_setting_and_no_hook_of_the_agent_is_run(
    project: Path, bring: Bring, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    run = f"touch {marker}"
    settings = ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.gitProxy",
                "core.alternateRefsCommand", "uploadpack.packObjectsHook", "credential.helper",
                "diff.external", "gpg.program", "filter.x.clean", "filter.x.smudge",
                "core.askPass", "alias.log", "alias.index-pack")  # fmt: skip
    hooks = ("reference-transaction", "post-checkout", "pre-auto-gc", "post-update", "update",
             "pre-receive", "fsmonitor-watchman")  # fmt: skip
    lines = [COMMIT, *(f"git config {name} '{run}'" for name in settings)]
    lines += ["git config core.hooksPath .git/own", "mkdir .git/own",
              "git config log.showSignature true", f"git config include.path {marker}.config",
              "printf '* filter=x diff=x' > .git/info/attributes"]  # fmt: skip
    for hook in (f".git/{place}/{name}" for place in ("hooks", "own") for name in hooks):
        lines.append(rf"printf '#!/bin/sh\n{run}\n' > {hook}; chmod +x {hook}")

    assert bring("\n".join(lines)).code == 0
    assert not marker.exists()
    assert git(project, "log", "--format=%s", "agent") == "first\nbase"


def test_no_hook_and_no_variable_of_the_user_has_a_part_in_it(
    project: Path, bring: Bring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    hook = project / ".git/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {marker} || true\n")
    hook.chmod(0o755)
    other = make_repository(tmp_path / "other")
    marker.unlink(missing_ok=True)
    for name, value in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other),
                        ("GIT_OBJECT_DIRECTORY", other / ".git/objects")):  # fmt: skip
        monkeypatch.setenv(name, str(value))

    assert bring(COMMIT).code == 0
    assert not marker.exists()
    assert not (other / ".git/refs/heads/agent").exists()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Another repository of the host, which the agent does not see, with one commit."""
    place = make_repository(tmp_path / "secret")
    git(place, "commit", "-q", "--amend", "-m", "secret")
    return place


@pytest.mark.parametrize(
    "attack",
    [
        "echo {secret}/.git/objects > .git/objects/info/alternates",
        "rm -rf .git/objects; ln -s {secret}/.git/objects .git/objects",
        pytest.param("echo {secret}/.git > .git/commondir", marks=THOROUGH),
        "rm -rf .git; echo 'gitdir: {secret}/.git' > .git",
        pytest.param("rm -rf .git; ln -s {secret}/.git .git", marks=THOROUGH),
        pytest.param(
            "for d in $(seq 0 255); do d=$(printf %02x $d); rm -rf .git/objects/$d;"
            " ln -s {secret}/.git/objects/$d .git/objects/$d; done",
            marks=THOROUGH,
        ),
        "git config remote.origin.url {secret}; git config remote.origin.promisor true;"
        " git config extensions.partialClone origin; git config core.repositoryFormatVersion 1",
    ],
)
def test_commits_of_another_repository_cannot_be_drawn_in(
    project: Path, bring: Bring, secret: Path, attack: str
) -> None:
    commit = git(secret, "rev-parse", "HEAD")
    point = f"echo {commit} > .git/refs/heads/main"
    said = bring(f"{COMMIT}; {attack.format(secret=secret)}; {point} || true")

    assert said.code == 1, said.out
    kept = subprocess.run(["git", "cat-file", "-e", commit], cwd=project, check=False)
    assert kept.returncode != 0


@pytest.mark.parametrize(
    "head",
    [
        "rm .git/HEAD; ln -s {secret}/.git/HEAD .git/HEAD",
        "rm .git/HEAD; mkfifo .git/HEAD",
        pytest.param("rm .git/HEAD; mkdir .git/HEAD", marks=THOROUGH),
        "echo 'ref: refs/heads/../../../../secret/.git/refs/heads/main' > .git/HEAD",
        pytest.param("echo 'ref: ../../secret/.git/HEAD' > .git/HEAD", marks=THOROUGH),
        "echo '--upload-pack=x' > .git/HEAD",
        pytest.param("yes | head -c 10000000 > .git/HEAD", marks=THOROUGH),
        pytest.param("printf '\\033[2J' > .git/refs/heads/main", marks=THOROUGH),
        "rm .git/refs/heads/main; ln -s {secret}/.git/refs/heads/main .git/refs/heads/main",
        pytest.param("rm .git/refs/heads/main; mkfifo .git/refs/heads/main", marks=THOROUGH),
        "git rev-parse HEAD^{{tree}} > tip; mv tip .git/refs/heads/main",
        pytest.param("mkdir .git/reftable; echo x > .git/reftable/tables.list", marks=THOROUGH),
    ],
)
def test_head_that_leads_elsewhere_leads_nowhere(bring: Bring, secret: Path, head: str) -> None:
    said = bring(f"{COMMIT}; {head.format(secret=secret)}")

    assert said.code in (1, 2)
    assert said.err.startswith("paddock: ")


_FILE = 'tree((b"100644", b"NAME", blob))'
_IN = 'tree((b"40000", b"NAME", tree((b"100644", b"config", blob))))'
_URL = r"""b'[submodule "x"]\n path = x\n url = -u./evil\n'"""
_NAME = r"""b'[submodule "../../hooks"]\n path = x\n url = ./x\n'"""


@pytest.mark.parametrize(
    ("tree", "content"),
    [
        (_IN.replace("NAME", ".git"), "b'x'"),
        pytest.param(_IN.replace("NAME", ".GIT"), "b'x'", marks=THOROUGH),
        pytest.param(_IN.replace("NAME", "git~1"), "b'x'", marks=THOROUGH),
        (_IN.replace("NAME", ".."), "b'x'"),
        pytest.param(_FILE.replace("NAME", "a/../../evil"), "b'x'", marks=THOROUGH),
        ('tree((b"120000", b".gitmodules", blob))', "b'/etc/passwd'"),
        (_FILE.replace("NAME", ".gitmodules"), _URL),
        (_FILE.replace("NAME", ".gitmodules"), _NAME),
        ('tree((b"100644", b"missing", "ab" * 20))', "b'x'"),
    ],
)
def test_objects_that_would_harm_at_a_checkout_are_not_taken(
    bring: Bring, tree: str, content: str
) -> None:
    script = _TREE.replace("CONTENT", content).replace("TREE", tree)
    said = bring(f"{COMMIT}\n{script}")

    assert said.code == 1
    assert "git did not take the agent's commits" in said.err


def test_objects_of_the_user_keep_their_content(project: Path, bring: Bring) -> None:
    """The agent writes other bytes under the name of an object that the user has."""
    blob = git(project, "rev-parse", "HEAD:a.txt")
    place = f".git/objects/{blob[:2]}/{blob[2:]}"
    script = rf"""{COMMIT}
chmod u+w {place}
python3 -c 'import zlib; open("{place}", "wb").write(zlib.compress(b"blob 4\0evil"))'"""

    assert bring(script).code == 0
    assert git(project, "show", "agent:a.txt") == "one\ntwo\nthree"


@pytest.mark.parametrize(
    "attack",
    [
        r"put(b'blob 3\0' + bytes(1 << 24))",  # a bomb
        r"put(b'blob 50\0x')",
        pytest.param("put(b'no object')", marks=THOROUGH),
        pytest.param("open(place(), 'wb').write(os.urandom(1000))", marks=THOROUGH),
        pytest.param("open(place(), 'wb').write(b'')", marks=THOROUGH),
        "os.mkfifo(place())",
        "os.symlink('/dev/zero', place())",
    ],
)
def test_what_is_no_object_harms_no_other(project: Path, bring: Bring, attack: str) -> None:
    script = f"""{COMMIT}
python3 - <<'END'
import os, secrets, zlib
def place():
    os.makedirs(".git/objects/ab", exist_ok=True)
    return ".git/objects/ab/" + secrets.token_hex(19)
def put(data):
    open(place(), "wb").write(zlib.compress(data))
{attack}
END
"""
    assert bring(script).code == 0
    assert git(project, "log", "--format=%s", "agent") == "first\nbase"


def test_object_that_claims_more_than_any_memory_is_refused(bring: Bring) -> None:
    write = r"zlib.compress(b\"blob 9999999999999\\0x\")"
    put = f'open(\\".git/objects/ab/{"c" * 38}\\", \\"wb\\").write({write})'
    said = bring(f'{COMMIT}; mkdir -p .git/objects/ab; python3 -c "import zlib; {put}"')

    assert said.code == 2
    assert "an object of the agent has more than" in said.err


@pytest.mark.parametrize("data", ["b'PACK' + bytes(100)", "os.urandom(5000)"])
def test_pack_that_is_none_is_refused(bring: Bring, data: str) -> None:
    put = f"open('.git/objects/pack/pack-' + 'a' * 40 + '.pack', 'wb').write({data})"
    said = bring(f'{COMMIT}; mkdir -p .git/objects/pack; python3 -c "import os; {put}"')

    assert said.code == 1
    assert "a pack of the agent is broken" in said.err


def test_nothing_beside_a_pack_is_believed(project: Path, bring: Bring) -> None:
    """Neither its index, nor files that say what git may leave out of account."""
    script = f"""{COMMIT}; git gc -q; cd .git/objects/pack; chmod u+w *
for f in *.idx; do head -c 2000 /dev/urandom > $f; touch ${{f%.idx}}.promisor; done
head -c 5000 /dev/urandom > multi-pack-index; mkdir -p ../info
rm -f ../info/commit-graph; head -c 5000 /dev/urandom > ../info/commit-graph"""

    assert bring(script).code == 0
    assert git(project, "log", "--format=%s", "agent") == "first\nbase"


def test_grafts_and_replacements_are_not_brought(project: Path, bring: Bring) -> None:
    script = f"""{COMMIT}; git rev-parse HEAD > .git/shallow; mkdir -p .git/refs/replace .git/info
git rev-parse HEAD > .git/info/grafts
cp .git/refs/heads/main .git/refs/replace/$(cat .git/refs/heads/main)"""

    assert bring(script).code == 0
    assert git(project, "log", "--format=%s", "agent") == "first\nbase"
    names = git(project, "for-each-ref", "--format=%(refname)").split()
    assert names == ["refs/heads/agent", "refs/heads/main"]


def test_words_of_the_agent_do_not_act_on_the_terminal(bring: Bring) -> None:
    said = bring(f"{COMMIT}; git commit -q --allow-empty -m \"$(printf '\\033[2J\\033]0;x')\"")

    assert said.code == 0
    assert r"\x1b[2J" in said.out


def test_nothing_is_left_beside_the_runs(bring: Bring) -> None:
    bring(COMMIT)
    assert os.listdir(Home.find().cache / "changes") == []
