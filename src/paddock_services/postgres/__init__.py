"""A real PostgreSQL as a stand-in, with a database of its own for each world.

All worlds of a Paddock home share one server (`cluster`), which runs in a pen. A `keeper` process
starts it and ends it after the last user. `databases` creates, forks, resets and drops the database
and role of a world. A client's connection goes through `proxy`, which replaces user and database in
the startup message (`wire`). `compare` computes digests and changes, as the world's own role.
"""

from paddock_services.postgres.service import Postgres

__all__ = ["Postgres"]
