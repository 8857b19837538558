"""A forge with repositories, issues, pulls and files, shaped like GitHub's REST interface."""

from paddock_services.forge.service import Forge

__all__ = ["Forge"]
