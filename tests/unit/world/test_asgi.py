"""Applications of anybody, called in this process: what they do wrong is theirs, and every wait
ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from cases import for_each
from paddock.world import asgi
from paddock.world.asgi import HttpAnswer, WorldRequest
from paddock.world.service import ASGIApp, StandInFailed

App = Callable[[Any, Any, Any], Awaitable[None]]
SHORT_S = 0.2
LONG_S = 20.0
START = {"type": "http.response.start", "status": 200, "headers": [(b"x", b"1")]}
HEAD = WorldRequest("GET", "/")


@pytest.fixture(autouse=True, params=[False, True], ids=["", "prompt"])
def is_prompt(request: pytest.FixtureRequest) -> bool:
    """Nothing may depend on whether an application has a task of its own from the beginning."""
    WAYS["is_prompt"] = request.param
    return bool(request.param)


WAYS: dict[str, bool] = {}


async def call(app: App, request: WorldRequest, timeout_s: float = 30.0) -> HttpAnswer:
    return await asgi.call(app, request, timeout_s=timeout_s, **WAYS)


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def sends(*messages: Any) -> App:
    """An application that sends these, calls what is callable, and ends."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for one in messages:
            await (one() if callable(one) else send(one))

    return app


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise KeyError("its own mistake")


async def read(answer: HttpAnswer) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    return b"".join([one async for one in answer.body])


def run(app: App, request: WorldRequest = HEAD, timeout_s: float = LONG_S) -> HttpAnswer:
    """The answer, with all of its body."""

    async def whole() -> HttpAnswer:
        answer = await call(app, request, timeout_s=timeout_s)
        return HttpAnswer(answer.status, answer.headers, await read(answer))

    return asyncio.run(asyncio.wait_for(whole(), LONG_S))


def test_an_answer_that_comes_at_once_is_bytes() -> None:
    app = sends({**START, "status": 201}, part(b"hello", more=False))

    async def main() -> None:
        answer = await call(app, HEAD)
        assert answer == HttpAnswer(201, [(b"x", b"1")], b"hello")

    asyncio.run(main())


def test_an_answer_without_headers_and_body_is_one() -> None:
    bare = {"type": "http.response.start", "status": 204}
    assert run(sends(bare, {"type": "http.response.body"})) == HttpAnswer(204, [], b"")


def test_the_application_sees_the_request_as_it_came() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        seen["message"] = [await receive()]
        while seen["message"][-1]["more_body"]:
            seen["message"].append(await receive())
        await sends(START, part(b"", more=False))(scope, receive, send)

    headers = [(b"Host", b"api.example"), (b"X-Twice", b"1"), (b"x-twice", b"2")]
    run(
        app,
        WorldRequest("POST", "/a%20b/%C3%A9%2Fx", "q=%20&q", headers, b"body", host="api.example"),
    )
    assert (seen["type"], seen["method"], seen["scheme"]) == ("http", "POST", "https")
    assert (seen["path"], seen["raw_path"]) == ("/a b/é/x", b"/a%20b/%C3%A9%2Fx")
    assert seen["query_string"] == b"q=%20&q"
    assert seen["server"] == ("api.example", 443)
    assert seen["headers"] == [(b"host", b"api.example"), (b"x-twice", b"1"), (b"x-twice", b"2")]
    assert b"".join(one["body"] for one in seen["message"]) == b"body"
    assert not seen["message"][-1]["more_body"]


def test_paths_that_are_no_text_do_not_fail() -> None:
    for path in ("/%FF%00", "/é\u4e2d", "//", "*", ""):
        assert run(sends(START, part(b"ok", more=False)), WorldRequest("GET", path)).body == b"ok"


def test_applications_share_nothing_between_requests() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((dict(scope["state"]), dict(scope["extensions"])))
        scope["state"]["mine"] = scope["extensions"]["mine"] = True
        await sends(START, part(b"", more=False))(scope, receive, send)

    run(app)
    run(app)
    assert seen == [({}, {})] * 2


def test_a_request_in_parts_is_read_as_it_comes() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"x" * 65_536
            await asyncio.sleep(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        size = 0
        while True:
            message = await receive()
            size += len(message["body"])
            if not message["more_body"]:
                break
        await sends(START, part(str(size).encode(), more=False))(scope, receive, send)

    assert run(app, WorldRequest("PUT", "/", body=chunks())).body == str(200 * 65_536).encode()


def test_an_application_that_does_not_read_the_request_still_answers() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"
        raise AssertionError("nobody asked for more")

    app = sends(START, part(b"ok", more=False))
    assert run(app, WorldRequest("PUT", "/", body=chunks())).body == b"ok"


def test_a_huge_answer_in_parts_arrives_whole_and_is_never_held_whole() -> None:
    ahead = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal ahead
        await send(START)
        for number in range(500):
            ahead = number
            await send(part(b"x" * 100_000))
        await send(part(b"", more=False))

    async def main() -> None:
        answer = await call(app, HEAD)
        assert not isinstance(answer.body, bytes)
        size = count = 0
        async for one in answer.body:
            assert ahead - count <= 40  # back-pressure: it cannot run away from its reader
            size, count = size + len(one), count + 1
        assert size == 50_000_000

    asyncio.run(asyncio.wait_for(main(), LONG_S))


def test_parts_come_when_they_are_made() -> None:
    gate = asyncio.Event()

    async def main() -> None:
        app = sends(START, part(b"first"), gate.wait, part(b"second", more=False))
        answer = await call(app, HEAD)
        assert not isinstance(answer.body, bytes)
        parts = aiter(answer.body)
        assert await anext(parts) == b"first"
        gate.set()
        assert await anext(parts) == b"second"
        with pytest.raises(StopAsyncIteration):
            await anext(parts)

    asyncio.run(asyncio.wait_for(main(), LONG_S))


@for_each(
    ("app", "why"),
    [
        (sends(fail), "KeyError"),
        (sends(START, fail), "KeyError"),
        (sends(START, part(b"x"), fail), "KeyError"),
        (sends(), "without an answer"),
        (sends(START), "in the middle"),
        (sends(START, part(b"x")), "in the middle"),
        (sends(START, START), "begins once"),
        (sends(START, part(b"x"), START, part(b"y", more=False)), "begins once"),
        (sends(part(b"x")), "before the status"),
        (sends(START, part(b"x", more=False), part(b"y")), "had ended"),
        (sends({"type": "http.response.start"}), "KeyError"),
        (sends({"type": "http.response.start", "status": "x"}), "ValueError"),
        (sends({**START, "headers": [("text", "text")]}), "TypeError"),
        (sends({**START, "headers": [b"x"]}), "ValueError"),
        (sends(START, {"type": "http.response.body", "body": "text"}), "TypeError"),
        (sends({}), "KeyError"),
    ],
)
def test_an_application_that_raises_or_breaks_the_protocol_has_failed(app: App, why: str) -> None:
    with pytest.raises(StandInFailed, match=why):
        run(app)


@pytest.mark.parametrize(
    ("app", "why"),
    [
        (sends(forever), "no answer within 0.2 s"),
        (sends(START, forever), "no answer within 0.2 s"),
        (sends(START, part(b"x"), forever), "silent for 0.2 s"),
    ],
)
def test_an_application_that_hangs_is_cut_off(app: App, why: str) -> None:
    with pytest.raises(StandInFailed, match=why):
        run(app, timeout_s=SHORT_S)


def test_one_that_is_cut_off_is_told() -> None:
    told: list[str] = []

    async def wait() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    for app in (sends(wait), sends(START, part(b"x"), wait)):
        with pytest.raises(StandInFailed):
            run(app, timeout_s=SHORT_S)
    assert told == ["cancelled"] * 2


def test_a_stream_may_take_longer_than_the_limit_of_one_wait() -> None:
    async def pause() -> None:
        await asyncio.sleep(SHORT_S / 2)

    body = [message for _ in range(6) for message in (part(b"x"), pause)]
    assert run(sends(START, *body, part(b"", more=False)), timeout_s=SHORT_S).body == b"x" * 6


def test_a_reader_who_stops_ends_the_application() -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send(START)
            while True:
                await send(part(b"x"))
        finally:
            ended.append("ended")

    async def main() -> None:
        answer = await call(app, HEAD)
        assert not isinstance(answer.body, bytes)
        async with aclosing(answer.body) as parts:  # type: ignore[type-var]
            async for _ in parts:
                break
        await asyncio.sleep(0)
        assert ended == ["ended"]

    asyncio.run(asyncio.wait_for(main(), LONG_S))


def test_a_caller_who_is_cancelled_ends_the_application() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await forever()
        finally:
            ended.append("ended")

    async def main() -> None:
        task = asyncio.create_task(call(sends(wait), HEAD))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert ended == ["ended"]

    asyncio.run(main())


def test_a_starlette_application_needs_no_lifespan() -> None:
    starlette = pytest.importorskip("starlette.applications")
    from starlette.requests import Request
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    async def echo(request: Request) -> JSONResponse:
        return JSONResponse({"name": request.path_params["name"], "body": await request.json()})

    async def stream(request: Request) -> StreamingResponse:
        return StreamingResponse(iter([b"a", b"b"]), media_type="text/event-stream")

    routes = [Route("/e/{name}", echo, methods=["POST"]), Route("/s", stream)]
    app: ASGIApp = starlette.Starlette(routes=routes)
    answer = run(app, WorldRequest("POST", "/e/x%20y", body=b'{"n": 1}'))
    assert answer.body == b'{"name":"x y","body":{"n":1}}'
    assert run(app, WorldRequest("GET", "/s")).body == b"ab"
    assert run(app, WorldRequest("GET", "/none")).status == 404


def test_many_requests_at_once_do_not_mix() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        body = (await receive())["body"]
        await send(START)
        for _ in range(5):
            await send(part(body))
            await asyncio.sleep(0)
        await send(part(b"", more=False))

    async def main() -> None:
        requests = [WorldRequest("POST", "/", body=bytes([n])) for n in range(100)]
        answers = await asyncio.gather(*(call(app, one) for one in requests))
        bodies = await asyncio.gather(*map(read, answers))
        assert bodies == [bytes([n]) * 5 for n in range(100)]

    asyncio.run(asyncio.wait_for(main(), LONG_S))


def test_work_after_the_answer_does_not_hold_it_up() -> None:
    async def main() -> None:
        for app in (
            sends(START, part(b"all", more=False), forever),
            sends(START, part(b"a"), part(b"ll", more=False), forever),
        ):
            answer = await call(app, HEAD, timeout_s=SHORT_S)
            assert await asyncio.wait_for(read(answer), 2) == b"all"

    asyncio.run(main())


def test_work_after_the_answer_is_done() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("done")

    async def main() -> None:
        for app in (
            sends(START, part(b"all", more=False), work),
            sends(START, part(b"a"), part(b"ll", more=False), work),
        ):
            answer = await call(app, HEAD)
            assert await read(answer) == b"all"
            await asyncio.sleep(0.1)

    asyncio.run(main())
    assert done == ["done"] * 2


def test_an_answer_that_is_thrown_away_unread_ends_the_application() -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send(START)
            while True:
                await send(part(b"x"))
        finally:
            ended.append("ended")

    async def main() -> None:
        answer = await call(app, HEAD)
        await answer.body.aclose()  # type: ignore[union-attr]
        await asyncio.sleep(0.01)
        assert ended == ["ended"]

    asyncio.run(main())


def test_an_application_that_listens_for_a_disconnect_hears_none_while_somebody_reads() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        listening = asyncio.create_task(receive())
        await send(START)
        for _ in range(6):
            await asyncio.sleep(SHORT_S / 2)
            await send(part(b"gone" if listening.done() else b"."))
        await send(part(b"", more=False))
        listening.cancel()

    assert run(app, timeout_s=SHORT_S).body == b"." * 6


def test_an_application_hears_a_disconnect_when_its_answer_has_ended() -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(START)
        await send(part(b"x", more=False))
        heard.append((await receive())["type"])

    async def main() -> None:
        await read(await call(app, HEAD))

    asyncio.run(asyncio.wait_for(main(), 2))
    assert heard == ["http.disconnect"]


def test_an_application_that_cancels_itself_has_failed() -> None:
    async def cancel() -> None:
        raise asyncio.CancelledError

    for app in (sends(cancel), sends(START, part(b"x"), cancel)):
        with pytest.raises(StandInFailed):
            run(app)


def test_an_application_that_exits_has_failed() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(StandInFailed):
        run(sends(leave))


def test_a_slow_upload_is_not_the_fault_of_the_application() -> None:
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(6):
            await asyncio.sleep(SHORT_S / 2)
            yield b"x"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["more_body"]:
            body += message["body"]
        await sends(START, part(body, more=False))(scope, receive, send)

    assert run(app, WorldRequest("PUT", "/", body=slow()), timeout_s=SHORT_S).body == b"x" * 6


def test_an_upload_that_breaks_is_never_taken_for_a_whole_one() -> None:
    done: list[bytes] = []

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        done.append(body)
        await sends(START, part(body, more=False))(scope, receive, send)

    with pytest.raises(StandInFailed, match="the body of the request broke off"):
        run(app, WorldRequest("PUT", "/", body=broken()))
    assert done == []


@for_each(
    "messages",
    [
        [{**START, "headers": [(b"content-length", 5)]}, part(b"", more=False)],
        [START, {"type": "http.response.body", "body": 7}],
        [{**START, "status": 99}, part(b"", more=False)],
        [{**START, "status": 1000}, part(b"", more=False)],
        [{**START, "status": -1}, part(b"", more=False)],
    ],
)
def test_numbers_are_no_bytes_and_not_every_number_is_a_status(messages: list[Any]) -> None:
    with pytest.raises(StandInFailed):
        run(sends(*messages))
