"""Functions that misbehave, and callers of all kinds: the host goes on, nothing waits for ever."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from paddock.doors.tools import running
from paddock.doors.tools.definition import tool
from paddock.doors.tools.result import ToolResult
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from paddock.model.action import Outcome
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import Past, file_for


@pytest.fixture
def gate(opener: Opener) -> Gate:
    return opener(file_for("f", "g"))


def one_tool(gate: Gate, function: Callable[..., Any]) -> Tools:
    return Tools(gate, [tool(name="f")(function)])


Caller = Callable[[Tools], ToolResult]


def waiting(tools: Tools) -> ToolResult:
    return tools.call("f")


def awaiting(tools: Tools) -> ToolResult:
    return asyncio.run(tools.acall("f"))


def waiting_in_a_loop(tools: Tools) -> ToolResult:
    async def inside() -> ToolResult:
        return tools.call("f")

    return asyncio.run(inside())


callers = pytest.mark.parametrize("caller", [waiting, awaiting, waiting_in_a_loop])


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Hostile:
    """Fails at whatever is tried with it."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


def raising(error: BaseException) -> Callable[[], None]:
    def f() -> None:
        raise error

    return f


def raising_async(error: BaseException) -> Callable[[], Any]:
    async def f() -> None:
        raise error

    return f


ERRORS = [
    ValueError("bad value"),
    Unprintable(),
    StopIteration(1),
    StopAsyncIteration(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError("mine"),
    BaseExceptionGroup("some", [SystemExit(1), ValueError("x")]),
    RecursionError("deep"),
    MemoryError(),
    OSError(2, "missing", "\ud800"),
]


@callers
@pytest.mark.parametrize("make", [raising, raising_async])
@pytest.mark.parametrize("error", ERRORS, ids=lambda one: type(one).__name__)
def test_whatever_a_tool_raises_is_an_answer(
    gate: Gate, caller: Caller, make: Callable[..., Any], error: BaseException
) -> None:
    result = caller(one_tool(gate, make(error)))
    assert result.is_error and result.outcome is Outcome.FAILED
    is_wrapped = make is raising_async and isinstance(error, StopIteration)
    assert ("RuntimeError" if is_wrapped else type(error).__name__) in result.text
    [settled] = Past(gate).settled()
    assert settled.outcome == "failed"
    assert type(error).__name__ in settled.error or is_wrapped


@callers
@pytest.mark.parametrize("value", [Hostile(), [Hostile()], {"a": Hostile()}, object, Unprintable()])
def test_result_that_cannot_be_shown_is_named_by_its_type(
    gate: Gate, caller: Caller, value: Any
) -> None:
    result = caller(one_tool(gate, lambda: value))
    assert result.outcome is Outcome.DONE and result.value is value
    assert result.text
    assert Past(gate).settled()[0].outcome == "done"


def test_result_that_goes_round_is_shown_and_ends(gate: Gate) -> None:
    ring: list[Any] = []
    ring.extend([ring, ring])
    assert one_tool(gate, lambda: ring).call("f").outcome is Outcome.DONE


@callers
def test_generator_has_run_to_its_end_when_the_call_is_settled(gate: Gate, caller: Caller) -> None:
    ended: list[str] = []

    def items() -> Iterator[int]:
        yield 1
        yield 2
        ended.append("plain")

    async def items_async() -> AsyncIterator[int]:
        yield 3
        await asyncio.sleep(0)
        yield 4
        ended.append("async")

    assert caller(one_tool(gate, items)).value == [1, 2]
    assert caller(one_tool(gate, items_async)).value == [3, 4]
    assert caller(one_tool(gate, lambda: map(ended.append, ["lazy"]))).value == [None]
    assert ended == ["plain", "async", "lazy"]
    assert [one.result for one in Past(gate).settled()][:2] == [[1, 2], [3, 4]]


@callers
def test_generator_that_fails_or_does_not_end_is_a_failed_call(
    gate: Gate, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MAX_ITEMS", 50)
    closed: list[str] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append("plain")

    async def endless_async() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append("async")

    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("half way")

    for function, words in ((endless, "more than 50"), (endless_async, "more than 50"),
                            (failing, "half way")):  # fmt: skip
        result = caller(one_tool(gate, function))
        assert result.outcome is Outcome.FAILED and words in result.text
    assert closed == ["plain", "async"]


@callers
def test_plain_function_that_returns_a_coroutine_is_awaited(gate: Gate, caller: Caller) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "came"

    class Callable_:
        async def __call__(self) -> str:
            return await later()

    assert caller(one_tool(gate, lambda: later())).value == "came"
    assert caller(one_tool(gate, Callable_())).value == "came"


def test_plain_caller_and_plain_tool_share_a_thread(gate: Gate) -> None:
    with sqlite3.connect(":memory:") as connection:  # refuses to be used on another thread
        tools = one_tool(gate, lambda: connection.execute("SELECT 7").fetchone()[0])
        assert tools.call("f").value == 7
    connection.close()


def test_plain_tool_does_not_hold_up_the_loop_of_an_async_caller(gate: Gate) -> None:
    is_released = threading.Event()
    tools = one_tool(gate, lambda: is_released.wait(30))

    async def main() -> Any:
        call = asyncio.ensure_future(tools.acall("f"))
        await asyncio.sleep(0.05)
        is_released.set()  # reached only if the loop was free meanwhile
        return (await call).value

    assert asyncio.run(main()) is True


def test_context_variables_of_the_caller_reach_the_tool(gate: Gate) -> None:
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")
    tools = one_tool(gate, lambda: tenant.get())

    async def main() -> list[Any]:
        tenant.set("ada")
        return [(await tools.acall("f")).value, tools.call("f").value]

    assert asyncio.run(main()) == ["ada", "ada"]
    tenant.set("bob")
    assert tools.call("f").value == "bob"


def test_what_a_tool_leaves_running_ends_with_a_plain_call(gate: Gate) -> None:
    seen: list[str] = []

    async def careless() -> None:
        async def rest() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                seen.append("ended")

        seen.append(repr(asyncio.ensure_future(rest()))[:5])
        await asyncio.sleep(0)

    assert one_tool(gate, careless).call("f").outcome is Outcome.DONE
    assert seen[-1] == "ended"


def test_ctrl_c_stops_a_plain_tool_of_a_plain_caller(gate: Gate) -> None:
    with pytest.raises(KeyboardInterrupt):
        one_tool(gate, raising(KeyboardInterrupt())).call("f")
    [settled] = Past(gate).settled()
    assert "interrupted" in settled.error


def test_tool_on_another_thread_cannot_pretend_that_ctrl_c_was_pressed(gate: Gate) -> None:
    result = awaiting(one_tool(gate, raising(KeyboardInterrupt())))
    assert result.outcome is Outcome.FAILED


def test_many_plain_calls_at_once_from_many_threads_all_end(gate: Gate) -> None:
    inner = Tools(gate, [tool(name="g")(lambda n: n)])

    def outer(n: int) -> int:
        time.sleep(0.001)
        return int(inner.call("g", {"n": n}).value) + 1

    tools = one_tool(gate, outer)
    found: dict[int, Any] = {}

    def work(n: int) -> None:
        found[n] = tools.call("f", {"n": n}).value

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {n: n + 1 for n in range(32)}
    assert len(Past(gate).steps()) == 64


def test_deep_recursion_of_a_tool_is_an_answer(gate: Gate) -> None:
    def down() -> int:
        def deeper(n: int) -> int:
            return deeper(n + 1) + 1

        return deeper(0)

    assert "RecursionError" in one_tool(gate, down).call("f").text
