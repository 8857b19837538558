"""The commits of a run's agent, found in what it left of its `.git`."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import msgspec

from paddock.model.errors import NotFound
from paddock.model.printable import printable
from paddock.run.changes import ChangedRoot, RunChanges, open_source_directory, scratch_home
from paddock.state.agent_git import (
    Commit,
    Quarantine,
    Repository,
    check_new_branch,
    known_objects,
    repository_of,
)
from paddock.state.changes.change import FileChange
from paddock.state.home import Home
from paddock.state.tool_config import GIT, object_format

MAX_COMMITS = 10_000
_MAX_NAMED = 5


class BranchRequest(msgspec.Struct, frozen=True):
    """Which commits become a branch, and where."""

    branch: str  # the new one
    agent_branch: str | None = None  # None: the one that the agent was on
    to: str | None = None  # another working tree than the project's
    is_forced: bool = False  # over a branch that is there


class AgentCommits(msgspec.Struct, frozen=True):
    """The new commits of one branch of the agent, newest first, and where they are held."""

    branch: str | None  # None: the agent was on no branch
    tip: str
    commits: tuple[Commit, ...]
    worktree: Path  # of the user's repository that they build on
    quarantine: Quarantine


def bring_commits(changes: RunChanges, request: BranchRequest) -> AgentCommits:
    """Make the agent's commits a branch of the user's repository. Raises NotFound where there are
    none, Conflict for a branch that is there, IntegrityError for what git does not take."""
    worktree = _worktree(changes, request.to)
    repository_of(worktree)
    check_new_branch(worktree, request.branch, is_forced=request.is_forced)
    with commits_of(changes, request) as made:
        made.quarantine.fetch_into(worktree, request.branch, made.tip, is_forced=request.is_forced)
        return made


@contextlib.contextmanager
def commits_of(
    run_changes: RunChanges, request: BranchRequest | None = None
) -> Iterator[AgentCommits]:
    """Find the new commits of a branch of the agent, or of the one that it was on; they are held in
    quarantine for as long as this lasts. Raises NotFound where there are none."""
    branch = to = agent_branch = None
    if request is not None:
        branch, to, agent_branch = request.branch, request.to, request.agent_branch
    worktree, place = _worktree(run_changes, to), run_changes.project
    assert place is not None and place.source is not None
    changes = _repository_changes(run_changes, place)
    repository, known_commits = repository_of(worktree), known_objects(worktree, branch)
    source = open_source_directory(place.source)
    try:
        theirs = Repository(source, place.files, changes)
        if not theirs.is_there:
            raise NotFound("the agent left no .git that is a directory, and so no commit")
        name, tip, others = _chosen(theirs, agent_branch, known_commits)
    finally:
        os.close(source)
    with tempfile.TemporaryDirectory(prefix="commits-", dir=scratch_home(Home.find())) as scratch:
        quarantine = Quarantine(Path(scratch), repository, object_format(str(worktree)))
        quarantine.take(place.files)
        commits = tuple(quarantine.commits(tip, known_commits, MAX_COMMITS))
        if not commits:
            raise _nothing_new(name, others)
        yield AgentCommits(name, tip, commits, worktree, quarantine)


def _worktree(changes: RunChanges, to: str | None) -> Path:
    """Return the working tree whose repository gets the commits."""
    place = changes.project
    if place is None or place.source is None or not _repository_changes(changes, place):
        raise NotFound("the agent made no commit: .git of the project is as it was")
    return Path(place.source if to is None else to).absolute()


def _repository_changes(changes: RunChanges, place: ChangedRoot) -> list[FileChange]:
    return [
        changed.change
        for changed in changes.changed
        if changed.place == place and changed.change.path.split("/")[0] == GIT
    ]


def _chosen(
    theirs: Repository, branch: str | None, known: Container[str]
) -> tuple[str | None, str, dict[str, str]]:
    """Return the branch that is meant, its commit, and the branches that are not the user's."""
    branches = theirs.branches()
    new = {name: commit for name, commit in branches.items() if commit not in known}
    if branch is not None:
        if branch not in branches:
            raise NotFound(f"the agent has no branch {printable(branch, 100)}", hint=_named(new))
        return branch, branches[branch], new
    head = theirs.head()
    if head.commit is None:
        raise NotFound("the agent made no commit: its branch is empty", hint=_named(new))
    return head.branch, head.commit, new


def _nothing_new(branch: str | None, others: Mapping[str, str]) -> NotFound:
    on = "where it was" if branch is None else f"on {printable(branch, 100)}"
    hint = _named(others) if others else "paddock apply RUN writes the files that it changed"
    return NotFound(f"the agent made no commit {on} that your repository does not have", hint=hint)


def _named(branches: Mapping[str, str]) -> str | None:
    if not branches:
        return None
    names = [printable(name, 60) for name in branches]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    shown = ", ".join(names[:_MAX_NAMED])
    return f"its branches with new commits: {shown}{more}; name one with --from"
