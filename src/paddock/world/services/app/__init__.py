"""A stand-in that the user wrote: any ASGI application, served in a pen."""

from paddock.world.services.app.service import App

__all__ = ["App"]
