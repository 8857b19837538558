"""The host's end of a channel, over a real socket: operations, credit, death, relayed streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.fence.channel import Channel, StreamData, StreamEnd, StreamEvent
from paddock.fence.guest import wire
from paddock.model.errors import InvalidInput, SandboxDied
from unit.fence.scripted_peer import Wired, credit, end, event, frame, in_loop, until

WINDOW = wire.WINDOW


def data_in_chunks(number: int, size: int) -> list[bytes]:
    sizes = [wire.CHUNK] * (size // wire.CHUNK) + ([size % wire.CHUNK] if size % wire.CHUNK else [])
    return [frame(wire.DATA, number, bytes(n), 1) for n in sizes]


# ---- one operation -------------------------------------------------------------------------------


@in_loop
async def test_request_arrives_as_it_was_asked_and_its_ending_comes_back() -> None:
    async with Wired() as wired:
        asking = asyncio.ensure_future(wired.channel.ask("stat", path="/a\udcff"))
        number, request = await wired.peer.opened()
        assert request == {"op": "stat", "path": "/a\udcff"}
        await wired.peer.send(end(number, {"size": 3}))
        assert await asking == {"size": 3}


@in_loop
async def test_items_come_in_the_order_in_which_they_were_sent() -> None:
    async with Wired() as wired:
        with wired.channel.open("exec") as stream:
            number, _ = await wired.peer.opened()
            await wired.peer.send(
                event(number, {"pid": 7}),
                frame(wire.DATA, number, b"out", 1),
                frame(wire.DATA, number, b"err", 2),
                end(number, {"exit": 0}),
            )
            first, *rest = [await stream.next() for _ in range(4)]
            assert isinstance(first, StreamEvent)
            assert first.value == {"pid": 7}
            assert rest == [StreamData(1, b"out"), StreamData(2, b"err"), StreamEnd({"exit": 0})]


@in_loop
async def test_answers_find_their_own_streams() -> None:
    async with Wired() as wired:
        asking = [asyncio.ensure_future(wired.channel.ask("x", n=n)) for n in range(50)]
        opened = [await wired.peer.opened() for _ in range(50)]
        for number, request in reversed(opened):
            await wired.peer.send(end(number, {"n": request["n"]}))
        assert [(await one)["n"] for one in asking] == list(range(50))


@in_loop
async def test_large_frame_is_received_whole_between_small_ones() -> None:
    async with Wired() as wired:
        content = bytes(range(256)) * 4096
        with wired.channel.open("read") as stream:
            number, _ = await wired.peer.opened()
            sending = asyncio.ensure_future(
                wired.peer.send(
                    event(number, {}), frame(wire.DATA, number, content, 1), end(number, {"ok": 1})
                )
            )
            assert isinstance(await stream.next(), StreamEvent)
            item = await stream.next()
            assert isinstance(item, StreamData)
            assert bytes(item.content) == content
            assert await stream.end() == {"ok": 1}
            await sending


@in_loop
async def test_stream_that_is_left_makes_the_guest_forget_it() -> None:
    async with Wired() as wired:
        with wired.channel.open("exec"):
            number, _ = await wired.peer.opened()
        assert await wired.peer.next() == (wire.CLOSE, 0, number, b"")
        # What was under way towards it is nobody's, and harms nobody.
        await wired.peer.send(frame(wire.DATA, number, b"late", 1), end(number, {}))
        asking = asyncio.ensure_future(wired.channel.ask("ping"))
        number, _ = await wired.peer.opened()
        await wired.peer.send(end(number, {}))
        assert await asking == {}
        assert wired.lost == []


@in_loop
async def test_stream_that_has_ended_is_not_closed_once_more() -> None:
    async with Wired() as wired:
        with wired.channel.open("ping") as stream:
            number, _ = await wired.peer.opened()
            await wired.peer.send(end(number, {}))
            await stream.end()
        await wired.peer.quiet()


@in_loop
async def test_reader_of_a_stream_that_is_closed_under_it_is_told() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("exec")
        await wired.peer.opened()
        reading = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        stream.close()
        with pytest.raises(SandboxDied, match="closed"):
            await reading


@in_loop
async def test_call_within_a_stream_carries_its_number() -> None:
    async with Wired() as wired:
        with wired.channel.open("exec") as stream:
            number, _ = await wired.peer.opened()
            stream.call("signal", signal=9)
            kind, _, at, payload = await wired.peer.next()
            assert (kind, at) == (wire.CALL, number)
            assert wire.unpack(payload) == {"op": "signal", "signal": 9}


@pytest.mark.parametrize("value", [object(), 1 << 70, "\ud800", bytes(wire.MAX_PAYLOAD)])
@in_loop
async def test_request_that_cannot_be_sent_is_the_callers_fault_and_opens_nothing(
    value: Any,
) -> None:
    async with Wired() as wired:
        with pytest.raises(InvalidInput):
            wired.channel.open("exec", argument=value)
        await wired.peer.quiet()
        assert wired.lost == []


# ---- death ---------------------------------------------------------------------------------------


@in_loop
async def test_every_waiting_call_ends_at_once_when_the_peer_dies() -> None:
    async with Wired() as wired:
        asking = [asyncio.ensure_future(wired.channel.ask("sleep")) for _ in range(20)]
        stream = wired.channel.open("write")
        for _ in range(21):
            await wired.peer.opened()
        blocked = asyncio.ensure_future(stream.send(bytes(WINDOW + 1)))
        await asyncio.sleep(0.01)
        wired.peer.close()
        ended = await asyncio.wait_for(
            asyncio.gather(*asking, blocked, return_exceptions=True), timeout=5
        )
        assert all(isinstance(one, SandboxDied) for one in ended)
        assert all("box1" in str(one) and "guest exited" in str(one) for one in ended)
        assert wired.lost == ["the guest exited"]


@in_loop
async def test_call_after_death_fails_at_once_with_the_first_reason() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("exec")
        wired.channel.lose("its time is over")
        wired.channel.lose("something later")
        for call in (
            lambda: wired.channel.open("ping"),
            lambda: stream.call("signal", signal=9),
            wired.channel.check_alive,
        ):
            with pytest.raises(SandboxDied, match="its time is over"):
                call()
        with pytest.raises(SandboxDied, match="its time is over"):
            await wired.channel.writable()
        assert wired.lost == ["its time is over"]
        await wired.peer.hung_up_on()


@in_loop
async def test_what_arrived_before_death_can_still_be_read() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("exec")
        number, _ = await wired.peer.opened()
        await wired.peer.send(frame(wire.DATA, number, b"last words", 1))
        wired.peer.close()
        assert await stream.next() == StreamData(1, b"last words")
        with pytest.raises(SandboxDied):
            await stream.next()


# ---- credit --------------------------------------------------------------------------------------


@in_loop
async def test_sender_stops_at_its_credit_and_goes_on_when_given_more() -> None:
    async with Wired() as wired:
        with wired.channel.open("write") as stream:
            number, _ = await wired.peer.opened()
            sending = asyncio.ensure_future(stream.send(bytes(WINDOW + 5)))
            await wired.peer.take_data(WINDOW)
            await wired.peer.quiet()
            assert not sending.done()
            await wired.peer.send(credit(number, 3))
            assert len((await wired.peer.next())[3]) == 3
            await wired.peer.send(credit(number, 100))
            assert len((await wired.peer.next())[3]) == 2
            await sending


@in_loop
async def test_two_senders_on_one_stream_both_go_on_when_credit_comes() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("exec")
        number, _ = await wired.peer.opened()
        await asyncio.gather(stream.send(bytes(WINDOW)), wired.peer.take_data(WINDOW))
        senders = [asyncio.ensure_future(stream.send(b"more")) for _ in range(2)]
        await asyncio.sleep(0.01)
        await wired.peer.send(credit(number, WINDOW))
        done, waiting = await asyncio.wait(senders, timeout=2)
        assert (len(done), len(waiting)) == (2, 0)


@in_loop
async def test_two_senders_on_one_stream_both_hear_of_its_death() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("exec")
        await wired.peer.opened()
        await asyncio.gather(stream.send(bytes(WINDOW)), wired.peer.take_data(WINDOW))
        senders = [asyncio.ensure_future(stream.send(b"more")) for _ in range(2)]
        await asyncio.sleep(0.01)
        wired.peer.close()
        done, waiting = await asyncio.wait(senders, timeout=2)
        assert (len(done), len(waiting)) == (2, 0)
        assert all(isinstance(one.exception(), SandboxDied) for one in done)


@in_loop
async def test_sender_stops_quietly_when_the_guest_ends_the_stream() -> None:
    async with Wired() as wired:
        with wired.channel.open("write") as stream:
            number, _ = await wired.peer.opened()
            sending = asyncio.ensure_future(stream.send(bytes(WINDOW + 1)))
            await wired.peer.take_data(WINDOW)
            await wired.peer.send(end(number, {"error": {"errno": 28}}))
            await sending
            assert await stream.end() == {"error": {"errno": 28}}


@in_loop
async def test_credit_goes_back_as_data_is_taken_and_not_before() -> None:
    async with Wired() as wired:
        with wired.channel.open("read") as stream:
            number, _ = await wired.peer.opened()
            await wired.peer.send(*data_in_chunks(number, WINDOW))
            await wired.peer.quiet()  # nobody has read: the guest may send no more
            taken = given_back = 0
            while taken < WINDOW:
                item = await stream.next()
                assert isinstance(item, StreamData)
                taken += len(item.content)
            while given_back < WINDOW:
                kind, _, _, payload = await wired.peer.next()
                assert kind == wire.CREDIT
                given_back += wire.U32.unpack(payload)[0]
            assert given_back == WINDOW


@in_loop
async def test_data_beyond_the_credit_ends_the_machine() -> None:
    async with Wired() as wired:
        stream = wired.channel.open("read")
        other = asyncio.ensure_future(wired.channel.ask("ping"))
        number, _ = await wired.peer.opened()
        await wired.peer.send(*data_in_chunks(number, WINDOW), frame(wire.DATA, number, b"x", 1))
        with pytest.raises(SandboxDied, match="beyond credit"):
            await other
        assert "protocol" in wired.lost[0]
        with pytest.raises(SandboxDied, match="beyond credit"):
            await stream.end()


@given(st.lists(st.integers(min_value=1, max_value=3 * WINDOW // 2), min_size=1, max_size=4))
def test_any_amount_passes_when_both_ends_keep_to_the_credit(sizes: list[int]) -> None:
    @in_loop
    async def scenario() -> None:
        async with Wired() as wired:
            with wired.channel.open("write") as stream:
                number, _ = await wired.peer.opened()

                async def drain() -> int:
                    got = 0
                    while got < sum(sizes):
                        payload = (await wired.peer.next())[3]
                        got += len(payload)
                        await wired.peer.send(credit(number, len(payload)))
                    return got

                draining = asyncio.ensure_future(drain())
                for size in sizes:
                    await stream.send(bytes(size))
                assert await draining == sum(sizes)

    scenario()


# ---- relayed streams -----------------------------------------------------------------------------


class Receiver:
    """Another process's stream, as the channel sees it."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, bytes]] = []
        self.errors: list[Exception] = []

    def receive(self, kind: int, port: int, payload: bytes) -> None:
        self.frames.append((kind, port, bytes(payload)))

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


@in_loop
async def test_relayed_stream_gets_its_frames_as_they_are() -> None:
    async with Wired() as wired:
        receiver = Receiver()
        number = wired.channel.relay(receiver, wire.pack({"op": "exec"}))
        assert await wired.peer.opened() == (number, {"op": "exec"})
        sent = [(wire.DATA, 1, b"raw"), (wire.CREDIT, 0, wire.U32.pack(5)), (wire.END, 0, b"\xc1")]
        await wired.peer.send(*(frame(k, number, p, port) for k, port, p in sent))
        await until(lambda: len(receiver.frames) == 3)
        assert receiver.frames == sent  # not even an ending that makes no sense is read on the way
        wired.channel.send(wire.CALL, number, b"payload")
        assert await wired.peer.next() == (wire.CALL, 0, number, b"payload")


@in_loop
async def test_relayed_stream_hears_of_the_death_and_none_begins_after_it() -> None:
    async with Wired() as wired:
        receiver = Receiver()
        wired.channel.relay(receiver, wire.pack({"op": "exec"}))
        wired.peer.close()
        await until(lambda: receiver.errors)
        assert isinstance(receiver.errors[0], SandboxDied)
        with pytest.raises(SandboxDied):
            wired.channel.relay(receiver, wire.pack({"op": "exec"}))


@in_loop
async def test_relayed_stream_that_was_forgotten_gets_no_more() -> None:
    async with Wired() as wired:
        receiver = Receiver()
        number = wired.channel.relay(receiver, wire.pack({"op": "exec"}))
        wired.channel.forget(number)
        await wired.peer.send(frame(wire.DATA, number, b"late", 1))
        wired.peer.close()
        await until(lambda: wired.lost)
        assert (receiver.frames, receiver.errors) == ([], [])


def test_channel_before_its_connection_sends_nothing() -> None:
    @in_loop
    async def scenario() -> None:
        Channel("box1").send(wire.DATA, 1, b"x")

    scenario()


# ---- held back -----------------------------------------------------------------------------------


@in_loop
async def test_requests_that_are_held_back_arrive_in_order_when_released() -> None:
    async with Wired() as wired:
        before = wired.channel.open("exec")
        number, _ = await wired.peer.opened()
        wired.channel.hold()
        sending = asyncio.ensure_future(before.send(b"input"))
        later = asyncio.ensure_future(wired.channel.ask("read"))
        urgent = asyncio.ensure_future(wired.channel.ask_at_once("usage"))
        at_once, request = await wired.peer.opened()
        assert request["op"] == "usage"
        await wired.peer.send(end(at_once, {"cpu": 1}))
        assert await urgent == {"cpu": 1}
        await wired.peer.quiet()
        wired.channel.release()
        held, request = await wired.peer.opened()
        assert request["op"] == "read"
        await wired.peer.send(end(held, {"done": True}))
        assert await later == {"done": True}
        await sending
        assert await wired.peer.next() == (wire.DATA, 0, number, b"input")


@in_loop
async def test_death_ends_what_is_held_back() -> None:
    async with Wired() as wired:
        wired.channel.hold()
        asking = asyncio.ensure_future(wired.channel.ask("read"))
        await asyncio.sleep(0)
        wired.channel.lose("it is over")
        with pytest.raises(SandboxDied, match="it is over"):
            await asking
        wired.channel.release()
