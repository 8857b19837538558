"""A help desk with the shape of Zendesk's Support API.

`service` is the front: `ZendeskApi` finds out which agent calls and which handler the path has.
Handlers are functions from a `ZendeskCall` to a `Reply` in `tickets`, `users` and `search`; they
work on the records of the `Desk`. What an agent may set on a ticket is in `ticket_fields`.
"""

from paddock_services.tickets.service import Tickets

__all__ = ["Tickets"]
