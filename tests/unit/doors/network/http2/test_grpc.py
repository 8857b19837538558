"""gRPC with its own client and server, through both sides of the door's HTTP/2."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from unit.doors.network.http2_peers import WAIT_S, relay_to

MIB = 1 << 20
_SIZES = [
    ("grpc.max_receive_message_length", 16 * MIB),
    ("grpc.max_send_message_length", 16 * MIB),
]
was_cancelled = threading.Event()


def _echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.set_trailing_metadata((("seen", "yes"), ("raw-bin", b"\x00\xff")))
    return request


def _refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today: 50 %")


def _collect(requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
    return b"%d" % sum(len(one) for one in requests)


def _count(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for number in range(int(request)):
        yield b"%d" % number


def _talk(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    for one in requests:
        yield one.upper()


def _hang(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    context.add_callback(was_cancelled.set)
    yield b"first"
    while context.is_active():
        time.sleep(0.01)


_CALLS: dict[str, Any] = {
    "Echo": grpc.unary_unary_rpc_method_handler(_echo),
    "Refuse": grpc.unary_unary_rpc_method_handler(_refuse),
    "Collect": grpc.stream_unary_rpc_method_handler(_collect),
    "Count": grpc.unary_stream_rpc_method_handler(_count),
    "Talk": grpc.stream_stream_rpc_method_handler(_talk),
    "Hang": grpc.unary_stream_rpc_method_handler(_hang),
}


@contextlib.asynccontextmanager
async def channel() -> AsyncIterator[grpc.Channel]:
    """A client's channel to a real server, with the relay between them."""
    server = grpc.server(ThreadPoolExecutor(8), options=_SIZES)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Service", _CALLS),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        async with relay_to(port) as relay:
            with grpc.insecure_channel(f"127.0.0.1:{relay}", options=_SIZES) as made:
                yield made
    finally:
        await asyncio.to_thread(server.stop(None).wait, WAIT_S)


def through_relay(call: Callable[[grpc.Channel], Any]) -> Any:
    async def run() -> Any:
        async with channel() as made, asyncio.timeout(60):
            return await asyncio.to_thread(call, made)

    return asyncio.run(run())


def test_unary_call_comes_back_with_its_trailers() -> None:
    def call(made: grpc.Channel) -> None:
        reply, about = made.unary_unary("/t.Service/Echo").with_call(b"hello", timeout=WAIT_S)
        assert reply == b"hello"
        trailers = dict(about.trailing_metadata())
        assert trailers["seen"] == "yes" and trailers["raw-bin"] == b"\x00\xff"

    through_relay(call)


def test_messages_of_five_mebibytes_pass_both_ways() -> None:
    sent = bytes(range(256)) * (5 * MIB // 256)
    assert through_relay(lambda made: made.unary_unary("/t.Service/Echo")(sent, timeout=60)) == sent


def test_status_and_words_of_a_refusal_arrive() -> None:
    def call(made: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            made.unary_unary("/t.Service/Refuse")(b"", timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == "not today: 50 %"

    through_relay(call)


def test_unknown_method_is_answered_by_the_head_alone() -> None:
    def call(made: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            made.unary_unary("/t.Service/Nothing")(b"", timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    through_relay(call)


def test_client_stream_is_collected() -> None:
    parts = [b"x" * 100_000] * 50
    reply = through_relay(
        lambda made: made.stream_unary("/t.Service/Collect")(iter(parts), timeout=60)
    )
    assert reply == b"5000000"


def test_server_stream_keeps_its_order() -> None:
    replies = through_relay(
        lambda made: list(made.unary_stream("/t.Service/Count")(b"500", timeout=60))
    )
    assert replies == [b"%d" % number for number in range(500)]


def test_each_side_of_a_conversation_waits_for_the_other() -> None:
    def call(made: grpc.Channel) -> None:
        may_go_on = threading.Semaphore(1)

        def say() -> Iterator[bytes]:
            for number in range(20):
                assert may_go_on.acquire(timeout=WAIT_S)
                yield b"word %d" % number

        heard = []
        for reply in made.stream_stream("/t.Service/Talk")(say(), timeout=60):
            heard.append(reply)
            may_go_on.release()
        assert heard == [b"WORD %d" % number for number in range(20)]

    through_relay(call)


def test_many_calls_at_a_time_get_their_own_answers() -> None:
    def call(made: grpc.Channel) -> None:
        echo = made.unary_unary("/t.Service/Echo")
        calls = [echo.future(b"%d" % n * 1000, timeout=60) for n in range(100)]
        assert [one.result() for one in calls] == [b"%d" % n * 1000 for n in range(100)]

    through_relay(call)


@pytest.mark.parametrize("ends_by", ["cancel", "deadline"])
def test_end_of_a_call_by_the_client_reaches_the_server(ends_by: str) -> None:
    was_cancelled.clear()

    def call(made: grpc.Channel) -> None:
        timeout = WAIT_S if ends_by == "cancel" else 1
        replies = made.unary_stream("/t.Service/Hang")(b"", timeout=timeout)
        assert next(replies) == b"first"
        if ends_by == "cancel":
            replies.cancel()
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
        expected = {"cancel": "CANCELLED", "deadline": "DEADLINE_EXCEEDED"}[ends_by]
        assert caught.value.code().name == expected
        assert was_cancelled.wait(WAIT_S)

    through_relay(call)
