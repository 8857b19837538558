"""The commits that an agent made, brought into the repository of the user as a branch.

What an agent leaves in `.git` is not a repository to us but a heap of files from a stranger. Git is
never run in it: settings, hooks, alternates, links, grafts and replacements of the agent are not
read by anybody. Instead

1. `_refs` reads which commit its branches are at: plain files of bounded size, no link followed.
2. `_objects` takes the objects out of it. Loose ones are unpacked and written into a new pack; the
   packs are taken as they are, without their indexes. So the names of objects are what git computes
   from their bytes, as with objects that come over a network.
3. `_quarantine` makes a repository of our own out of both, beside the objects of the user's (as its
   alternate), and has git fetch from there into the user's repository, with every object checked
   (`transfer.fsckObjects`). Of the user's repository only objects and the one branch are written.
"""

from __future__ import annotations

from paddock.state.agent_git._quarantine import (
    Commit,
    Quarantine,
    check_new_branch,
    known_objects,
    repository_of,
)
from paddock.state.agent_git._refs import AgentHead, Repository

__all__ = [
    "AgentHead",
    "Commit",
    "Quarantine",
    "Repository",
    "check_new_branch",
    "known_objects",
    "repository_of",
]
