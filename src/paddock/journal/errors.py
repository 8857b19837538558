"""The errors that are the journal's own. What they mean: the action must not happen."""

from __future__ import annotations

from paddock.model.errors import HostCannot, OutOfSpace
from paddock.model.space import is_out_of_space


class JournalBroken(HostCannot):
    """The journal cannot be written any more; whatever was to be recorded must not be done."""


class JournalFull(JournalBroken, OutOfSpace):
    """The journal cannot be written because its disk is full or its run has used up its share."""


class BudgetExceeded(OutOfSpace):
    """The budget of the run has no room for a value that is of no use unless it is kept whole."""


def broken(what: str, error: OSError) -> JournalBroken:
    """Return the error for what could not be done to a journal's files."""
    kind = JournalFull if is_out_of_space(error) else JournalBroken
    return kind(f"{what}: {error.strerror or error}")
