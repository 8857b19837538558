"""Constants that host processes and their keepers agree on. Standard library only."""

from __future__ import annotations

MAX_MESSAGE = 1 << 20
FIRST = 1  # the number of the first request, which says where the home is
