"""The uids of this host that sandboxes use. Standard library only: keepers import it."""

from __future__ import annotations

# Above every range that distributions and container managers hand out, below the signed limit.
FIRST_UID = 1_900_000_000
UID_COUNT = 65_536
# The owner on disk of all layers: mapped to each sandbox's uid.
LAYER_OWNER = (FIRST_UID - 1, FIRST_UID - 1)
