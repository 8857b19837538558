"""The one error that is the journal's own. What it means: the action must not happen."""

from __future__ import annotations

from paddock.model.errors import HostCannot


class JournalBroken(HostCannot):
    """The journal cannot be written any more; whatever was to be recorded must not be done."""
