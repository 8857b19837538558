"""A repository of our own that holds what an agent committed, until git has checked it.

All settings that git reads here are ours. In the user's repository its own settings hold, as with
every `git fetch` there, but no hook of it is run, nothing is cleaned up, and nothing is asked.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from paddock.model.errors import Conflict, HostCannot, IntegrityError, InvalidInput
from paddock.model.printable import printable
from paddock.state.agent_git._objects import open_packs, write_loose_pack
from paddock.state.tool_config import GIT

_REF = "refs/heads/agent"
_CONFIG = """[core]
	bare = true
	bigFileThreshold = 64m
	packedGitLimit = 512m
	packedGitWindowSize = 64m
	repositoryFormatVersion = {version}
[pack]
	threads = 1
	window = 0
{extension}"""
_TIMEOUT_S = 600.0
# An agent chooses what git unpacks.
_MAX_CPU_S = 300
_MAX_MEMORY_BYTES = 4 << 30  # of addresses: packs of the user are mapped, too
_MAX_SUBJECT = 200
_MAX_SAID = 400
# What would run a program, ask somebody, or write more than the branch.
_FETCH_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.packedGitLimit=1g",
    "core.packedGitWindowSize=64m",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "transfer.fsckObjects=true",
)


class Commit(msgspec.Struct, frozen=True):
    """A commit of the agent. It wrote the subject."""

    id: str
    subject: str


class Quarantine:
    """The repository, in `place`, which must be an empty directory of ours. `repository` is the
    `.git` of the user, whose objects the agent's build on."""

    def __init__(self, place: Path, repository: Path, algorithm: str) -> None:
        self._place = place
        self._algorithm = algorithm
        # Not `git init`: no template of anybody is copied, and no default of a version holds.
        version, extension = 0, ""
        if algorithm != "sha1":
            version, extension = 1, f"[extensions]\n\tobjectFormat = {algorithm}\n"
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (place / name).mkdir(parents=True)
        (place / "HEAD").write_text(f"ref: {_REF}\n")
        (place / "config").write_text(_CONFIG.format(version=version, extension=extension))
        alternate = os.fsencode(repository / "objects")
        (place / "objects/info/alternates").write_bytes(_quoted(alternate) + b"\n")

    def take(self, layer: Path) -> None:
        """Index all objects of the agent's layer. Raises IntegrityError for a pack that is none."""
        with tempfile.TemporaryFile(dir=self._place) as loose:
            if write_loose_pack(layer, loose, self._algorithm):
                self._index(loose)
        for pack in open_packs(layer):
            self._index(pack)

    def commits(self, tip: str, known: Iterable[str], most: int) -> list[Commit]:
        """Return the commits that the tip has and the known ones do not, newest first, at most so
        many. Raises IntegrityError where the tip is no commit that is here."""
        kind = self._git(["cat-file", "-t", tip], "the agent's commit cannot be read")
        if kind.strip() != b"commit":
            raise IntegrityError("what the agent's branch is at is no commit")
        revisions = (tip, *(f"^{commit}" for commit in known))
        query = "".join(f"{revision}\n" for revision in revisions)
        listed = self._git(
            ["log", "--ignore-missing", "--no-show-signature", "--no-color", "--no-decorate",
             "--no-mailmap", "--no-notes", "-z", "--encoding=UTF-8", f"--max-count={most}",
             "--format=%H %s", "--stdin"],
            "the agent's commits cannot be listed", query.encode(),
        )  # fmt: skip
        lines = listed.decode("utf-8", "replace").split("\0")
        parts = [line.partition(" ") for line in lines if line]
        return [Commit(commit, subject[:_MAX_SUBJECT]) for commit, _, subject in parts]

    def fetch_into(self, worktree: Path, branch: str, tip: str, *, is_forced: bool = False) -> None:
        """Make the branch in the user's repository, or move it if that is forced. Git checks each
        object and that none is missing. Raises IntegrityError."""
        (self._place / _REF).write_text(f"{tip}\n")
        settings = [option for setting in _FETCH_SETTINGS for option in ("-c", setting)]
        name = f"refs/heads/{branch}"
        command = [
            "git", "-C", os.fspath(worktree), *settings, "fetch", "--quiet", "--no-tags",
            "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
            "--no-show-forced-updates", os.fspath(self._place),
            f"{'+' if is_forced else ''}{_REF}:{name}",
        ]  # fmt: skip
        done = _run(command, _environment(is_ours=False))
        if done.returncode:
            raise IntegrityError(f"git did not take the agent's commits: {_said(done)}")

    def _index(self, pack: IO[bytes]) -> None:
        self._git(["index-pack", "--stdin", "--fix-thin"], "a pack of the agent is broken", pack)

    def _git(self, words: Sequence[str], failure: str, given: IO[bytes] | bytes = b"") -> bytes:
        command = ["git", "--git-dir", os.fspath(self._place), *words]
        done = _run(command, _environment(is_ours=True), given)
        if done.returncode:
            raise IntegrityError(f"{failure}: {_said(done)}")
        return done.stdout


def repository_of(worktree: Path) -> Path:
    """Return the repository that git uses in a directory, which must be the top of its working
    tree: git would also take one that lies further up. Raises InvalidInput and HostCannot."""
    command = ["git", "-C", os.fspath(worktree), "rev-parse", "--path-format=absolute",
               "--show-toplevel", "--git-common-dir"]  # fmt: skip
    done = _run(command, _environment(is_ours=False))
    lines = os.fsdecode(done.stdout).split("\n")
    where = printable(worktree, 400)
    if done.returncode and os.path.lexists(worktree / GIT):
        raise HostCannot(f"git does not use the repository of {where}: {_said(done)}")
    if done.returncode or len(lines) < 2 or lines[0] != os.path.realpath(worktree):
        raise InvalidInput(
            f"{where} is no git repository",
            hint="commits can only be brought into one; paddock apply RUN writes the files",
        )
    return Path(lines[1])


def known_objects(worktree: Path, besides: str | None = None) -> set[str]:
    """Return what the references of the user's repository name, besides one branch."""
    command = ["git", "-C", os.fspath(worktree), "for-each-ref",
               "--format=%(objectname) %(refname)"]  # fmt: skip
    done = _run(command, _environment(is_ours=False))
    if done.returncode:
        raise HostCannot(f"git cannot read {printable(worktree, 400)}: {_said(done)}")
    lines = [line.partition(" ") for line in os.fsdecode(done.stdout).split("\n") if line]
    return {digest for digest, _, name in lines if name != f"refs/heads/{besides}"}


def check_new_branch(worktree: Path, branch: str, *, is_forced: bool) -> None:
    """Raise InvalidInput for what git takes for no name of a branch, and Conflict for one that is
    there, unless it may be replaced."""
    done = _run(["git", "check-ref-format", f"refs/heads/{branch}"], _environment(is_ours=True))
    if done.returncode or branch.startswith("-") or branch == "HEAD":
        raise InvalidInput(f"--branch: {printable(branch, 100)!r} is no name for a branch")
    name = f"refs/heads/{branch}"
    command = ["git", "-C", os.fspath(worktree), "show-ref", "--verify", "--quiet", name]
    done = _run(command, _environment(is_ours=False))
    if done.returncode not in (0, 1):
        raise HostCannot(f"git cannot read {printable(worktree, 400)}: {_said(done)}")
    if done.returncode == 0 and not is_forced:
        raise Conflict(f"there is a branch {branch} already", hint="say --force to replace it")


def _environment(*, is_ours: bool) -> dict[str, str]:
    """Return the variables for git. In our repository no setting of the user or the host holds; in
    the user's they do, because they also say whose repositories git trusts."""
    kept = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    kept |= {"GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}
    if is_ours:
        nothing = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
        return {**kept, "HOME": "/nonexistent", **dict.fromkeys(nothing, os.devnull)}
    own = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
    return {**kept, **{name: os.environ[name] for name in own if name in os.environ}}


def _run(
    command: list[str], environment: dict[str, str], given: IO[bytes] | bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, check=False, timeout=_TIMEOUT_S,
            preexec_fn=_limit, cwd="/", text=False,
            stdin=None if isinstance(given, bytes) else given,
            input=given if isinstance(given, bytes) else None,
        )  # fmt: skip
    except FileNotFoundError:
        raise HostCannot("git is not installed", hint="install git, then try again") from None
    except subprocess.TimeoutExpired:
        raise HostCannot(f"git took more than {_TIMEOUT_S:.0f} s and was stopped") from None


def _limit() -> None:
    for kind, most in ((resource.RLIMIT_CPU, _MAX_CPU_S), (resource.RLIMIT_AS, _MAX_MEMORY_BYTES)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return what git said, in which an agent may have chosen words."""
    text = done.stderr.decode("utf-8", "replace").strip()
    lines = [re.sub(r"^(fatal|error|warning): ", "", line) for line in text.splitlines() if line]
    return printable("; ".join(lines) or f"it ended with {done.returncode}", _MAX_SAID)


def _quoted(path: bytes) -> bytes:
    """Return a name as git reads it in a list of alternates: like a string of C."""
    letters = (f"\\{byte:03o}" if byte in b'"\\' or not 0x20 <= byte < 0x7F else chr(byte)
               for byte in path)  # fmt: skip
    return b'"%s"' % "".join(letters).encode()
