"""What host processes and their keepers agree on."""

from __future__ import annotations

# Above every range that distributions and container managers hand out, below the signed limit.
FIRST_UID = 1_900_000_000
UID_COUNT = 65_536
# On-disk owner of all layers: mapped to each sandbox's uid.
LAYER_OWNER = (FIRST_UID - 1, FIRST_UID - 1)
MAX_MESSAGE = 1 << 20
MAX_LIBRARIES = 8  # of bubblewrap, as descriptors of a message; it has one
