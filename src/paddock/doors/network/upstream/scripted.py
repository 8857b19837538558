"""An upstream for tests: it answers what a test has written down."""

from __future__ import annotations

from paddock.doors.network.exchange import BufferedBody, Headers, HttpExchange, Response
from paddock.doors.network.upstream.base import Upstream
from paddock.doors.network.upstream.transfer import forward
from paddock.gate.executors import Done
from paddock.model.action import Action


class ScriptedUpstream(Upstream):
    """Gives the answers of a script one after the other, or raises them.

    ScriptedUpstream(scripted(200, b"hello"), ConnLost("the server has gone"))
    """

    def __init__(self, *script: Response | Exception) -> None:
        self.actions: list[Action] = []  # that it was called with
        self._script = list(script)

    async def answer(self, action: Action, client: HttpExchange) -> Done:
        self.actions.append(action)
        part = self._script.pop(0)
        if isinstance(part, Exception):
            raise part
        await forward(part, str(action.arguments["method"]), client)
        return Done(value=part.status, record={})


def scripted(status: int, *parts: bytes, headers: Headers | None = None) -> Response:
    """Return an answer with a body that comes in these parts."""
    return Response(status, b"", headers or [], BufferedBody(parts), "1.1")
