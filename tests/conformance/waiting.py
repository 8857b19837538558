"""Waiting without guessing: for a condition, and for calls in threads. Knows no sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
POLL_S = 0.02


def eventually(condition: Callable[[], T], timeout_s: float = 60.0, what: str = "") -> T:
    """The first true value of `condition`; the test fails if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s} s: {what or condition}; last value {value!r}")
        time.sleep(POLL_S)


class Calls:
    """Calls under way in threads of their own. A result is a value or the exception raised."""

    def __init__(self, calls: Iterable[Callable[[], Any]]) -> None:
        self._results: dict[int, Any] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(number, call), daemon=True)
            for number, call in enumerate(calls)
        ]
        for thread in self._threads:
            thread.start()

    def results(self, timeout_s: float) -> list[Any]:
        """All results in order; the test fails if one is missing after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        hanging = [n for n, thread in enumerate(self._threads) if thread.is_alive()]
        if hanging:
            pytest.fail(f"calls {hanging} of {len(self._threads)} hang after {timeout_s} s")
        return [self._results[number] for number in range(len(self._threads))]

    def _run(self, number: int, call: Callable[[], Any]) -> None:
        try:
            self._results[number] = call()
        except BaseException as error:
            self._results[number] = error


def result_of(call: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """One call that must not hang; its exception is raised here."""
    result = Calls([call]).results(timeout_s)[0]
    if isinstance(result, BaseException):
        raise result
    return result
