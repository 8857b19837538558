"""The project that a run belongs to, by which `last` knows the runs of the directory at hand."""

from __future__ import annotations

import os

from paddock.policy.file import DEFAULT_NAME


def project_directory(start: str | os.PathLike[str] | None = None) -> str | None:
    """Return the nearest directory at or above `start` with a paddock.yaml, or `start` itself.

    Links are resolved, so that one directory has one name. Without `start` it is the working
    directory; None if that has been removed.
    """
    try:
        whole = os.path.realpath(os.getcwd() if start is None else start)
    except OSError:
        return None
    at = whole
    while not os.path.isfile(os.path.join(at, DEFAULT_NAME)):
        above = os.path.dirname(at)
        if above == at:
            return whole
        at = above
    return at
