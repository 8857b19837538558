"""The other end of a channel, played by a test: reads frames and sends whatever it is told to."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from paddock.fence.channel import Channel
from paddock.fence.guest import wire

PATIENCE_S = 10.0
Frame = tuple[int, int, int, bytes]


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test that is a coroutine, and lets none of them wait for ever."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), PATIENCE_S)

        asyncio.run(bounded())

    return run


async def until(condition: Callable[[], Any]) -> None:
    """Waits for something that tells nobody when it has happened."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def frame(kind: int, number: int, payload: bytes = b"", port: int = 0) -> bytes:
    """A frame as bytes, also one that an honest end would not send."""
    return wire.HEADER.pack(len(payload), kind, port, number) + payload


def event(number: int, value: dict[str, Any]) -> bytes:
    return frame(wire.EVENT, number, wire.pack(value))


def end(number: int, value: dict[str, Any]) -> bytes:
    return frame(wire.END, number, wire.pack(value))


def credit(number: int, size: int) -> bytes:
    return frame(wire.CREDIT, number, wire.U32.pack(size))


class Peer:
    """One end of a real socket pair; a `Channel` holds the other."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decoder = wire.FrameDecoder()
        self._frames: list[Frame] = []

    async def send(self, *frames: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, b"".join(frames))

    async def next(self) -> Frame:
        """The next frame that the channel sent."""
        while not self._frames:
            data = await asyncio.get_running_loop().sock_recv(self._sock, 1 << 20)
            if not data:
                raise EOFError("the channel hung up")
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def opened(self) -> tuple[int, dict[str, Any]]:
        """The number and the request of the next stream that is opened."""
        kind, _, number, payload = await self.next()
        assert kind == wire.OPEN
        return number, wire.unpack_map(payload)

    async def take_data(self, size: int) -> None:
        """Reads data until there were so many bytes of it."""
        while size > 0:
            kind, _, _, payload = await self.next()
            assert kind == wire.DATA
            size -= len(payload)

    async def quiet(self, seconds: float = 0.05) -> None:
        """Nothing comes for a moment."""
        with_frame = asyncio.ensure_future(self.next())
        done, _ = await asyncio.wait([with_frame], timeout=seconds)
        if done:
            raise AssertionError(f"unexpected frame {with_frame.result()[:3]}")
        with_frame.cancel()
        await asyncio.gather(with_frame, return_exceptions=True)

    async def hung_up_on(self) -> None:
        """The channel closes its end, whatever it still had to say."""
        try:
            while True:
                await self.next()
        except (EOFError, ConnectionError):
            return

    def close(self) -> None:
        self._sock.close()


class Wired:
    """A channel and its peer, as a context; `lost` has the reasons that the owner was given."""

    def __init__(self) -> None:
        self.lost: list[str] = []

    async def __aenter__(self) -> Wired:
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
        self.channel = await Channel.connect(ours, "box1")
        self.channel.when_lost(self.lost.append)
        self.peer = Peer(theirs)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.channel.lose("the test is over")
        self.peer.close()
        await asyncio.sleep(0)
