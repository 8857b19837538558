"""Read real, write fake: reads come from the real host, writes are kept and show in later reads."""

from paddock.world.services.draft.service import Draft

__all__ = ["Draft"]
