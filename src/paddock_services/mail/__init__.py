"""Mail that goes nowhere: SMTP and the send APIs of known providers, and an outbox to look at."""

from paddock_services.mail.service import Mail

__all__ = ["Mail"]
