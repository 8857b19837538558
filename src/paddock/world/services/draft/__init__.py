"""A stand-in that reads from the real host and captures writes.

The network door asks the draft what a request is (`Draft.is_write`, `Draft.needs_upstream`). A
write is stored and answered here (`writer`); it becomes a *shadow*, the record as the write left it
(`memory`). A read goes to the real host, and its answer comes back with the shadows laid over it
(`reader`, and `list_overlay` for lists). What was read is remembered within bounds, so that later
writes can be answered in the host's own shapes. The draft itself opens no connection.
"""

from paddock.world.services.draft.service import Draft

__all__ = ["Draft"]
