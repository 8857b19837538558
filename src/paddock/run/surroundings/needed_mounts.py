"""The result of a search: the mounts, what is hidden in them, and the command to run. Values
only."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import msgspec

_OWN_STATE = ".paddock"


class NeededMount(msgspec.Struct, frozen=True):
    """One tree or file of the host that the sandbox gets to see, and why."""

    source: str
    target: str
    mode: str  # read | overlay
    why: str
    hidden: tuple[str, ...] = ()  # in the source, relative to it
    is_directory: bool = False

    def __str__(self) -> str:
        how = f" as {self.target}" if self.target != self.source else ""
        return f"{self.source}{how} ({self.why})"

    def words(self) -> dict[str, Any]:
        """Return it as `Sandbox.create` takes a mount."""
        options = {"source": self.source, "target": self.target, "mode": self.mode}
        # A directory that hides something is an overlay inside, whose files have locks of their
        # own: without that each lock of the agent would be asked about (`file_locks`).
        hidden = self.hidden or ((_OWN_STATE,) if self.is_directory else ())
        return {**options, **({"hidden": list(hidden)} if hidden else {})}


class Surroundings(msgspec.Struct, frozen=True):
    """A command, and all that it needs of the host."""

    argv: tuple[str, ...]
    cwd: str
    mounts: tuple[NeededMount, ...]  # the project first
    envs: Mapping[str, str]
    omitted: tuple[str, ...] = ()  # what was found and is not mounted, each with the reason

    @property
    def project(self) -> NeededMount:
        """The overlay that the command runs in."""
        return self.mounts[0]

    @property
    def hidden(self) -> tuple[str, ...]:
        """The paths inside the mounts that the sandbox does not see."""
        return tuple(posixpath.join(m.target, path) for m in self.mounts for path in m.hidden)

    def mount_words(self) -> list[dict[str, Any]]:
        """Return them as `Sandbox.create(mounts=...)` takes them."""
        return [mount.words() for mount in self.mounts]
