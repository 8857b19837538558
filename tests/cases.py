"""Many cases of one claim in one test, where pytest's parametrisation would make a test of each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def for_each(
    names: str | Sequence[str], values: Iterable[Any], ids: object = None
) -> Callable[[Test], Test]:
    """Run the test with every value. It is written like `pytest.mark.parametrize`.

    All cases run, and a failure names its case. They share the fixtures of the test, so it suits
    tests that change nothing in them.
    """
    parameters = _split(names)
    cases = [_arguments(parameters, value) for value in values]
    labels = ids if isinstance(ids, Sequence) else [None] * len(cases)

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        fixtures = [one for name, one in signature.parameters.items() if name not in parameters]

        @functools.wraps(test)
        def run(**given: Any) -> None:
            failures: list[Exception] = []
            for case, label in zip(cases, labels, strict=True):
                try:
                    test(**given, **case)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {label or case}"[:2000])
                    failures.append(_as_exception(error))
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)

        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate


def _split(names: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _arguments(parameters: list[str], value: Any) -> dict[str, Any]:
    if isinstance(value, type(pytest.param())):
        values: Sequence[Any] = value.values
    else:
        values = [value] if len(parameters) == 1 else value
    return dict(zip(parameters, values, strict=True))


def _as_exception(error: BaseException) -> Exception:
    """`pytest.fail` raises what is no Exception, which an ExceptionGroup does not take."""
    if isinstance(error, Exception):
        return error
    failure = AssertionError(str(error))
    for note in error.__notes__:
        failure.add_note(note)
    return failure
