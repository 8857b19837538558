"""A stand-in that the user wrote: any ASGI application, served from a pen."""

from paddock.world.services.app.service import App

__all__ = ["App"]
