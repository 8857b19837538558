"""A real PostgreSQL as a stand-in, with a database of its own for each world."""

from paddock_services.postgres.service import Postgres

__all__ = ["Postgres"]
