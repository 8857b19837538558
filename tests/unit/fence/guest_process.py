"""The real guest in a process of its own, without a fence around it, at the end of a real channel.

Only for operations that touch the test's own files and processes: see `fence.fake`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from paddock.fence.channel import GuestStream, StreamData, StreamEnd, StreamEvent
from paddock.fence.fake.driver import start_guest


class Guest:
    """A context; `channel` is what a sandbox's own would be."""

    async def __aenter__(self) -> Guest:
        self.lost: list[str] = []
        self.channel, self.process = await start_guest("guest")
        self.channel.when_lost(self.lost.append)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.channel.lose("the test is over")
        await asyncio.sleep(0)
        await asyncio.to_thread(self.process.wait, 10)

    async def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        return await self.channel.ask(op, **arguments)

    async def run(self, argv: list[str], *, stdin: bytes | None = None, **more: Any) -> Ran:
        """A program, to its end."""
        ask = {"argv": argv, "cwd": "/", "env": {}, "stdin": stdin is not None, **more}
        with self.channel.open("exec", **ask) as stream:
            if stdin is not None:
                await stream.send(stdin)
                stream.send_eof()
            return await finish(stream)


class Ran:
    """What a program printed and how it ended."""

    def __init__(self) -> None:
        self.output: dict[int, bytes] = {1: b"", 2: b""}
        self.ending: dict[str, Any] = {}


async def finish(stream: GuestStream) -> Ran:
    """Reads a stream to its end."""
    ran = Ran()
    while True:
        item = await stream.next()
        if isinstance(item, StreamData):
            ran.output[item.port] += item.content
        elif isinstance(item, StreamEnd):
            ran.ending = item.value
            return ran


async def started(stream: GuestStream) -> int:
    """The pid that a stream begins with."""
    first = await stream.next()
    assert isinstance(first, StreamEvent), first
    pid: int = first.value["pid"]
    return pid


async def until_output(stream: GuestStream, wanted: bytes) -> bytes:
    """Reads data until it has some text."""
    seen = b""
    while wanted not in seen:
        item = await stream.next()
        assert not isinstance(item, StreamEnd), (seen, item)
        if isinstance(item, StreamData):
            seen += item.content
    return seen


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in b"ZX"
    except OSError:
        return True
