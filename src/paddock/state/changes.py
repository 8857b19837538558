"""What an agent changed in a tree, and writing chosen changes back: the names that others import.

One rule for what is listed, whichever way it was found:
- every new file, link and directory is listed, also those inside a new directory;
- a deletion is listed once, at the highest path that is gone: a directory that is gone is one
  change, and what was inside it is not listed;
- a name that has become something else (a file now a directory) is one `modified` of its new type,
  and what is inside a directory that came this way is `added`;
- a directory is `modified` only if its own mode is other than before.
Times, owners and attributes are not changes, and neither is the tree's own top directory.
Changes come in the order of a walk: a directory before what is in it.
"""

from __future__ import annotations

from paddock.state.apply import Applied, apply_changes
from paddock.state.change import Change, Kind
from paddock.state.overlay import overlay_changes
from paddock.state.scans import Stamp, scan, scan_changes

__all__ = [
    "Applied",
    "Change",
    "Kind",
    "Stamp",
    "apply_changes",
    "overlay_changes",
    "scan",
    "scan_changes",
]
