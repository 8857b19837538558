"""The interface of those who answer requests."""

from __future__ import annotations

from abc import ABC, abstractmethod

from paddock.doors.network.exchange import HttpExchange
from paddock.gate.executors import Done
from paddock.model.action import Action


class Upstream(ABC):
    """Answers one request, after the gate has decided on it.

    There are three kinds: `LiveUpstream` asks the real server, `StandInUpstream` a stand-in of the
    world, and `RecordedUpstream` gives the answer of an earlier run. `DraftReadUpstream` is a live
    one that shows drafts in what it reads. `ScriptedUpstream` is a fake for tests.

    The contract of `answer`:

    1. It is called with the action that was decided on. An approver may have edited its arguments:
       they say what is sent, not the request of the client.
    2. It answers on `client`: `begin`, then `send` for each part, then `finish`. Headers are those
       of the server, with everything that it said about this hop; the layers behind `client` see to
       the rest. A refusal answers nothing: the caller tells the client what the receipt says.
    3. It returns when the last byte was taken. Nothing that it started goes on then, except for a
       connection that the pool keeps.
    4. The Done has what only the upstream knows: the status, where the answer came from. What the
       client was told is recorded by the layers.
    5. Where no answer can be given it raises: ClientDisconnected, MisplacedPlaceholder,
       SecretInClearText, Revoked, UpstreamUnreachable, DialError, StandInFailed, ConnLost or
       BadMessage (of the server; `proposal.fault` is that of the client).
    """

    @abstractmethod
    async def answer(self, action: Action, client: HttpExchange) -> Done: ...
