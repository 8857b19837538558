"""Mail that goes nowhere: SMTP and the send APIs of known providers, with one outbox behind them.

`service` is the front. A connection to a mail port is an SMTP `Session`, which takes bytes and
returns bytes; `mime` reads the messages that it accepts. Requests to the other ports come to
`MailApi` in `api`: `sendgrid`, `postmark` and `mailgun` read what a provider's client sends. All of
them make a `MailMessage`, and the `Outbox` stores it.
"""

from paddock_services.mail.service import Mail

__all__ = ["Mail"]
