"""A help desk with the shape of Zendesk's Support API."""

from paddock_services.tickets.service import Tickets

__all__ = ["Tickets"]
