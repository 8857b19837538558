"""A stand-in that is any program which listens on loopback, in a pen."""

from paddock.world.services.command.service import Command

__all__ = ["Command"]
