"""A stand-in that reads from the real host and captures writes.

The network door asks it what a request is (`is_write`, `needs_upstream` of `DraftService`). A
write is stored and answered here (`writer`); it becomes a *shadow*, the record as the write left it
(`memory`). A read goes to the real host, and its answer comes back with the shadows laid over it
(`reader`, and `list_overlay` for lists). What was read is remembered within bounds, so that later
writes can be answered in the host's own shapes. The draft itself opens no connection.
"""

from paddock.world.services.draft.service import DraftService

__all__ = ["DraftService"]
