"""The engine: one event loop in one thread, which all sandboxes of this process live on.

Callers may be plain threads or other event loops; both hand coroutines over and wait. Sandboxes
therefore do not belong to the caller's loop, and bubblewrap's parent never goes away under it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from paddock.doors.machine.network.credential_supply import CredentialSupply
from paddock.doors.machine.pool import MachinePool
from paddock.fence.driver import Driver
from paddock.fence.offload import offload
from paddock.fence.registry import driver_class
from paddock.gate.run_gate import prepare_gates
from paddock.model.errors import PaddockError, SandboxError
from paddock.state.home import Home
from paddock.state.layers.layers import Layers

T = TypeVar("T")
CLOSE_S = 15.0


class Engine:
    """The loop, its driver, and the sandboxes that it holds."""

    _by_home: dict[tuple[str, int], Engine] = {}  # noqa: RUF012
    _guard = threading.Lock()

    def __init__(self, home: Home, driver: type[Driver] | None = None) -> None:
        """`driver` is for tests; everybody else has the default one."""
        self.home = home
        self._driver_class = driver or driver_class()
        self.loop = asyncio.new_event_loop()
        self.boxes: dict[str, Any] = {}
        self.pool = MachinePool(self.loop, self.driver)
        self.control: Any = None
        self.credentials = CredentialSupply(self.loop)  # for network doors
        self._bases: dict[str, int] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[Driver] | None = None
        self._thread = threading.Thread(target=self._main, name="paddock-engine", daemon=True)
        self._thread.start()

    @classmethod
    def current(cls) -> Engine:
        """Return the engine for the present `PADDOCK_HOME`, started when first needed.

        A forked child gets an engine of its own: the thread of the parent's did not come along.
        """
        home = Home.find()
        key = (os.fspath(home.root.absolute()), os.getpid())
        with cls._guard:
            engine = cls._by_home.get(key)
            if engine is None:
                engine = cls._by_home[key] = cls(home)
            return engine

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine and wait for it, from an ordinary thread."""
        if threading.current_thread() is self._thread:
            work.close()
            raise SandboxError("a synchronous call was made on the engine's own thread")
        call = _Call(work)
        try:
            self.loop.call_soon_threadsafe(call.begin)
            return call.result()
        except BaseException:
            # A KeyboardInterrupt of the caller must not leave the call running.
            self.loop.call_soon_threadsafe(call.cancel)
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the same from another event loop; cancelling the caller cancels the work."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def driver(self) -> Driver:
        """Return the driver, opened once; a failed opening may be tried again."""
        if self._driver is None or self._is_driver_gone():
            self._driver = asyncio.ensure_future(self._driver_class.open(self.home))
            self.remember(asyncio.ensure_future(_warm_up(self.home)))
        return await asyncio.shield(self._driver)

    def _is_driver_gone(self) -> bool:
        """Return whether the driver failed to open or was lost; a new one sweeps what that one
        left."""
        assert self._driver is not None
        if not self._driver.done():
            return False
        return self._driver.exception() is not None or self._driver.result().is_lost

    def remember(self, task: asyncio.Task[None]) -> None:
        """Wait for this work before the process ends."""
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    def close_in_child(self) -> None:
        """Close the sockets of the parent's engine in a forked child: nothing else of it came
        along."""
        if self.opened_driver is not None:
            self.opened_driver.close_in_child()
        for box in self.boxes.values():
            box.machine.channel.close_in_child()

    @property
    def opened_driver(self) -> Driver | None:
        """Return the driver if it is open already."""
        is_open = self._driver and self._driver.done() and not self._driver.exception()
        return self._driver.result() if self._driver and is_open else None

    def callback(
        self, function: Callable[[T], Any] | None, caller_loop: asyncio.AbstractEventLoop | None
    ) -> Callable[[T], Awaitable[None]] | None:
        """Return a user's function made awaitable here; it runs on a thread or on the caller's
        loop."""
        if function is None:
            return None

        async def deliver(value: T) -> None:
            if caller_loop is None:
                await offload(function, value)
            else:
                work = asyncio.run_coroutine_threadsafe(_called(function, value), caller_loop)
                await asyncio.wrap_future(work)

        return deliver

    def keep(self, base: str) -> None:
        """Count one more sandbox that compares itself with this layer."""
        self._bases[base] = self._bases.get(base, 0) + 1

    def release(self, base: str, layers: Layers) -> None:
        """Count one fewer; the last one takes the layer with it."""
        self._bases[base] -= 1
        if self._bases[base] == 0:
            del self._bases[base]
            self.remember(asyncio.ensure_future(offload(layers.destroy, base)))

    @contextlib.contextmanager
    def keeping(self, base: str, layers: Layers) -> Iterator[None]:
        self.keep(base)
        try:
            yield
        finally:
            self.release(base, layers)

    def close(self, *, is_waiting: bool = True) -> None:
        """End every sandbox of this process and the driver, which may be left to go alone."""
        if not self._thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._close(is_waiting), self.loop).result(CLOSE_S)
        except (TimeoutError, concurrent.futures.TimeoutError):
            pass  # the keeper ends everything when it sees this process go
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CLOSE_S)
            if not self._thread.is_alive():
                self.loop.close()

    async def _close(self, is_waiting: bool) -> None:
        await self.credentials.close()
        await self.pool.drain()
        stops = [box.end("the host process is closing") for box in list(self.boxes.values())]
        await asyncio.gather(*stops, return_exceptions=True)
        await asyncio.gather(*self._removals, return_exceptions=True)
        if self.control is not None:
            self.control.close()
        if self.opened_driver is not None:
            self.opened_driver.close(is_waiting=is_waiting)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


async def _called(function: Callable[[T], Any], value: T) -> None:
    result = function(value)
    if inspect.isawaitable(result):
        await result


def _after_fork_in_child() -> None:
    for engine in list(Engine._by_home.values()):
        engine.close_in_child()
    Engine._by_home.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


@atexit.register
def close_all() -> None:
    """Ends all sandboxes of this process; the keeper does the same if this never runs."""
    for (_, pid), engine in list(Engine._by_home.items()):
        if pid == os.getpid():
            engine.close(is_waiting=False)  # it has nothing left that anybody waits for
    Engine._by_home.clear()


class _Call(Generic[T]):
    """One coroutine of a waiting thread. Two turns of the loop less than the library's way: half a
    command's time is spent on the way there and back."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._done = threading.Lock()
        self._done.acquire()
        self._task: asyncio.Task[None] | None = None
        self._value: T
        self._error: BaseException | None = None

    def begin(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def result(self) -> T:
        self._done.acquire()
        try:
            if self._error is not None:
                raise self._error
            return self._value
        finally:
            self._error = None  # it holds the frames that hold it

    async def _run(self) -> None:
        try:
            self._value = await self._work
        except asyncio.CancelledError as error:
            self._error = concurrent.futures.CancelledError(*error.args)
            raise
        except BaseException as error:
            self._error = error
        finally:
            self._done.release()


async def _warm_up(home: Home) -> None:
    """Load what the first action needs, which takes a while, while the keeper gets up."""
    with contextlib.suppress(PaddockError):  # the first action will say it
        await offload(prepare_gates, home)
