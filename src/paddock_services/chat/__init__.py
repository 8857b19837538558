"""A chat workspace with the shape of Slack's Web API.

`service` is the front: a request to `/api/METHOD` comes to `SlackApi`, which reads its arguments
from the query, a form or JSON into `Arguments` and calls the function of that method with the
`Workspace`. The methods are grouped by their prefix (`conversations`, `messages`, `users`,
`files`), each module with its table `METHODS`. What a message may look like is checked in `blocks`.
"""

from paddock_services.chat.service import Chat

__all__ = ["Chat"]
