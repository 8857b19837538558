"""A stand-in that is any program which listens on loopback."""

from paddock.world.services.command.service import Command

__all__ = ["Command"]
