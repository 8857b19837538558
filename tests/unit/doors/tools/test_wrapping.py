"""Functions that cross the gate without their callers knowing more than before."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import pickle
import typing
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from paddock.doors.tools.errors import InvalidArguments, ToolDrafted, ToolError, ToolRefused
from paddock.doors.tools.wrapping import wrap
from paddock.gate.gate import Gate
from paddock.model.action import Outcome
from paddock.model.errors import InvalidInput
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import REFUNDS, Past, file_for


class Currency(enum.Enum):
    EURO = "eur"


@dataclasses.dataclass
class Money:
    amount: int
    currency: Currency = Currency.EURO


def refund(amount: int, /, to: str = "ada", *, fast: bool = False) -> tuple[int, str, bool]:
    """Pays money back."""
    return amount, to, fast


def test_wrapped_function_is_called_as_before(gate: Gate) -> None:
    wrapped = wrap(gate, refund)
    assert wrapped(1, "bob", fast=True) == (1, "bob", True)
    assert wrapped(1) == (1, "ada", False)
    assert [one.arguments for one in Past(gate).proposed()] == [
        {"amount": 1, "to": "bob", "fast": True},
        {"amount": 1, "to": "ada", "fast": False},
    ]


def test_wrapped_function_looks_as_before_but_does_not_hand_out_the_real_one(gate: Gate) -> None:
    wrapped = wrap(gate, refund)
    assert inspect.signature(wrapped) == inspect.signature(refund)
    assert typing.get_type_hints(wrapped) == typing.get_type_hints(refund)
    assert (wrapped.__name__, wrapped.__doc__) == ("refund", "Pays money back.")
    assert inspect.unwrap(wrapped) is wrapped


def test_async_function_stays_async(gate: Gate) -> None:
    async def search(q: str) -> str:
        await asyncio.sleep(0)
        return q * 2

    wrapped = wrap(gate, search)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped("a")) == "aa"


def test_generators_stay_generators(opener: Opener) -> None:
    gate = opener(file_for("count", "count_async"))

    def count(to: int) -> Iterator[int]:
        yield from range(to)

    async def count_async(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    async def collected() -> list[int]:
        return [one async for one in wrap(gate, count_async)(3)]

    assert list(wrap(gate, count)(3)) == [0, 1, 2]
    assert asyncio.run(collected()) == [0, 1, 2]


def test_objects_of_the_functions_own_types_arrive_as_such(opener: Opener) -> None:
    gate = opener(file_for("pay"))

    def pay(money: Money) -> Money:
        assert isinstance(money.currency, Currency)
        return dataclasses.replace(money, amount=money.amount + 1)

    given = Money(5)
    assert wrap(gate, pay)(given) == Money(6)
    assert Past(gate).proposed()[0].arguments == {"money": {"amount": 5, "currency": "eur"}}


def test_function_of_any_framework_is_decided_on(gate: Gate) -> None:
    calls: list[int] = []

    def pay_back(amount: int) -> None:
        calls.append(amount)

    wrapped = wrap(gate, pay_back, name="refund", effect="write")
    with pytest.raises(ToolRefused, match="Nobody gets that much") as caught:
        wrapped(95_000)
    assert caught.value.outcome is Outcome.REFUSED and calls == []


def test_what_the_function_raises_is_the_cause(gate: Gate) -> None:
    def refund(amount: int) -> None:
        raise KeyError("no such customer")

    with pytest.raises(ToolError, match="no such customer") as caught:
        wrap(gate, refund)(1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert not isinstance(caught.value, ToolRefused)


def test_draft_is_raised_with_its_id(opener: Opener) -> None:
    gate = opener(REFUNDS.replace("broad", "draft"))
    with pytest.raises(ToolDrafted) as caught:
        wrap(gate, refund, preview=refund)(1)
    assert caught.value.draft_id == gate.drafts.all()[0].draft_id
    assert '[1, "ada", false]' in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).draft_id == caught.value.draft_id


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), (("1",), {}), ((1,), {"other": 1}), ((object(),), {})],
)
def test_arguments_that_do_not_fit_are_raised_about(gate: Gate, args: Any, kwargs: Any) -> None:
    with pytest.raises(InvalidArguments):
        wrap(gate, refund)(*args, **kwargs)
    assert Past(gate).steps() == []


def test_arguments_may_be_called_like_those_of_wrap(opener: Opener) -> None:
    gate = opener(file_for("odd"))

    def odd(gate: int, function: int, name: int, effect: int, self: int, args: int) -> int:
        return gate + function + name + effect + self + args

    assert wrap(gate, odd)(1, 2, name=3, effect=4, self=5, args=6) == 21


def test_undeclared_function_is_not_wrapped(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="does not declare"):
        wrap(gate, lambda: 1, name="stray")


def test_method_is_wrapped_with_its_instance(opener: Opener) -> None:
    gate = opener(file_for("send"))

    class Mail:
        sender = "ada"

        def send(self, to: str) -> str:
            return f"{self.sender} -> {to}"

    assert wrap(gate, Mail().send)("eve") == "ada -> eve"
