"""The interface of a stand-in. Its author writes an ASGI application; memory, forks, resets and
diffs come from the store that it is handed.

There are three kinds. A `Service` answers HTTP in Paddock's process. A `StreamService` also speaks
another protocol on some ports. A `LocalService` runs in a process of its own, which gets the bytes
as they come.
"""

from __future__ import annotations

import abc
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Protocol

from paddock.model.errors import InvalidInput
from paddock.world.changes import DocumentChange
from paddock.world.context import Context

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Seed = Mapping[str, Sequence[Mapping[str, Any]]]  # documents by kind
_SHOWN = 20


class Service:
    """A stand-in of one kind. One object of it serves one host of one world."""

    name: ClassVar[str] = ""
    is_prompt: ClassVar[bool] = False  # its application hardly ever waits, and starts no tasks
    timeout_s: ClassVar[float] = 30.0  # of its answers, unless the file says another
    options: ClassVar[Mapping[str, str]] = {}  # keys of the file besides seed, and what they mean
    is_rewindable: ClassVar[bool] = True  # all of its state is in the store, with its past

    def __init__(self, context: Context) -> None:
        self.context = context

    def check(self) -> None:
        """Raise InvalidInput for options that make no sense, before anything starts."""

    def app(self) -> ASGIApp:
        """Return the application that answers requests. Called once."""
        raise InvalidInput(f"{self.name} does not speak HTTP")

    def read_seed(self, words: Any) -> Seed:
        """Return the documents that `seed:` of the file means. Raises InvalidInput."""
        from paddock.world.seeds import load_seed  # most worlds begin empty

        return load_seed(words, self.context, self.context.project)

    def seed(self, data: Seed) -> None:
        """Fill the store. A document without an id gets one."""
        store = self.context.store
        for kind, documents in data.items():
            for document in documents:
                id = str(document.get("id") or self.context.new_id(f"{kind}_", 12))
                store.put(kind, id, {"id": id, **document})

    def invariants(self) -> list[str]:
        """Return what is broken, in sentences; an empty list when all is well."""
        return []

    def show(self) -> dict[str, Any]:
        """Return its state for people: how many documents of each kind, and the latest."""
        store = self.context.store
        return {
            kind: {
                "count": store.count(kind),
                "latest": store.find(kind, limit=_SHOWN, newest_first=True),
            }
            for kind in store.kinds()
        }

    # State that is not in the store. Most services have none.

    async def close(self) -> None:
        """End what it started."""

    async def reset(self) -> None:
        """Go back to the beginning; the store has been reset already."""

    async def copy_from(self, parent: Service) -> None:
        """Begin with the parent's state; the store has been forked already."""

    def extra_digest(self) -> str:
        """Return a digest of what is not in the store."""
        return ""

    def extra_changes(self) -> list[DocumentChange]:
        """Return what changed since the beginning, of what is not in the store."""
        return []


class Stream(Protocol):
    """A connection that is not HTTP, from the stand-in's side."""

    async def read(self, most: int = ...) -> bytes:
        """Return the next bytes, b"" at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def secure(self) -> None:
        """Go on in TLS, under the name that the agent called."""
        ...


class StreamService(Service, abc.ABC):
    """A stand-in that speaks something else than HTTP on some ports."""

    ports: ClassVar[frozenset[int]] = frozenset()  # empty: on all that are not usual for HTTP

    @abc.abstractmethod
    async def speak(self, stream: Stream) -> None:
        """Serve one connection to its end."""


class LocalService(Service, abc.ABC):
    """A stand-in that runs as a process of its own; what comes is passed on to it as it is."""

    is_http: ClassVar[bool] = True  # HTTP/1.1 is spoken with it; else bare bytes

    @abc.abstractmethod
    async def connect(self) -> socket.socket:
        """Return a non-blocking socket to it. Starts it at the first call. Raises StandInFailed."""

    @abc.abstractmethod
    async def stuck(self) -> None:
        """End it after it gave no answer in time: the next request gets a new process."""


class StandInFailed(Exception):
    """A stand-in did not answer as it should. That is its fault, not the agent's."""
