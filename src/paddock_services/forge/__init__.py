"""A forge with the shape of GitHub's REST API.

`service` is the front: a request comes to `GithubApi`, which finds out who calls and which handler
the path has. Handlers are functions from a `GithubCall` to a `Reply`, grouped by resource (`repos`,
`issues`, `comments`, `pulls`, `reviews`, `contents`, `refs`, `search`), each module with its table
of routes. They work on a `Repo` of the `Hub` (the records in the store) and on its `Git` objects;
`views` turns records into what clients expect.
"""

from paddock_services.forge.service import Forge

__all__ = ["Forge"]
