"""A peer that keeps to no rules: what it sends ends the machine or is dropped; no call hangs."""

from __future__ import annotations

import asyncio
import resource

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from paddock.fence import channel as channels
from paddock.fence.guest import wire
from paddock.model.errors import SandboxDied
from unit.fence.scripted_peer import Wired, end, event, frame, in_loop


@pytest.mark.parametrize(
    "bad",
    [
        frame(99, 1),
        wire.HEADER.pack(wire.MAX_PAYLOAD + 1, wire.DATA, 1, 1),
        frame(wire.EVENT, 1, b"\xc1"),
        frame(wire.EVENT, 1, wire.pack([1])),
        frame(wire.END, 1, b""),
        frame(wire.END, 1, b"\x81\x90\x01"),
    ],
)
@in_loop
async def test_frame_that_is_not_the_protocol_ends_the_machine(bad: bytes) -> None:
    async with Wired() as wired:
        asking = asyncio.ensure_future(wired.channel.ask("ping"))
        await wired.peer.opened()
        await wired.peer.send(bad)
        with pytest.raises(SandboxDied, match="broke the protocol"):
            await asyncio.wait_for(asking, timeout=2)
        assert len(wired.lost) == 1
        await wired.peer.hung_up_on()


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.binary(min_size=1, max_size=300), st.booleans())
def test_any_bytes_leave_the_channel_alive_or_lost_with_a_reason(
    noise: bytes, is_framed: bool
) -> None:
    @in_loop
    async def scenario() -> None:
        async with Wired() as wired:
            stream = wired.channel.open("exec")
            await wired.peer.opened()
            kind = noise[0] % 8 + 1
            await wired.peer.send(frame(kind, 1, noise[1:], noise[-1]) if is_framed else noise)
            wired.peer.close()
            with pytest.raises(SandboxDied):
                while True:
                    await asyncio.wait_for(stream.next(), timeout=2)
            assert len(wired.lost) == 1

    scenario()


@in_loop
async def test_frames_for_streams_that_never_were_are_ignored() -> None:
    async with Wired() as wired:
        kinds = (wire.DATA, wire.EVENT, wire.END, wire.CREDIT, wire.EOF, wire.OPEN, wire.CALL)
        await wired.peer.send(*(frame(kind, 4_000_000_000, b"\xc1junk") for kind in kinds))
        asking = asyncio.ensure_future(wired.channel.ask("ping"))
        number, _ = await wired.peer.opened()
        await wired.peer.send(end(number, {}))
        assert await asking == {}


async def flood(wired: Wired, one: bytes, count: int) -> None:
    """Sends until the channel hangs up, or all is sent; then the channel has seen all of it."""
    batch = one * 2000
    try:
        for _ in range(count // 2000):
            await wired.peer.send(batch)
    except ConnectionError:
        return
    for _ in range(20):
        await asyncio.sleep(0.01)


@in_loop
async def test_flood_of_events_that_nobody_reads_ends_the_machine() -> None:
    async with Wired() as wired:
        wired.channel.open("watch")
        number, _ = await wired.peer.opened()
        one = event(number, {"x": "x" * (1 << 20)})
        with pytest.raises(ConnectionError):
            for _ in range(channels.MAX_QUEUED_EVENT_BYTES >> 19):
                await wired.peer.send(one)
        assert "too many events" in wired.lost[0]


@pytest.mark.parametrize(
    "one",
    [frame(wire.EVENT, 1, b"\x80"), frame(wire.DATA, 1, b"", 1)],
    ids=["empty events", "empty data"],
)
@in_loop
async def test_flood_of_empty_frames_that_nobody_reads_is_bounded_too(one: bytes) -> None:
    async with Wired() as wired:
        stream = wired.channel.open("watch")
        await wired.peer.opened()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await flood(wired, one, 600_000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert wired.lost or len(stream._items) < 300_000, f"{grown >> 10} MiB for 6 MB of frames"


@in_loop
async def test_events_that_are_read_as_they_come_may_go_on_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A watch lives for days; what counts is what lies unread, not what has passed.
    monkeypatch.setattr(channels, "MAX_QUEUED_EVENT_BYTES", 4096)
    async with Wired() as wired:
        with wired.channel.open("watch") as stream:
            number, _ = await wired.peer.opened()
            for n in range(100):
                await wired.peer.send(event(number, {"n": n, "pad": bytes(100)}))
                assert (await stream.event())["n"] == n
        assert wired.lost == []
