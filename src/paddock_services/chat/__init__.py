"""A workspace that people talk in, with the shape of Slack's Web API."""

from paddock_services.chat.service import Chat

__all__ = ["Chat"]
