"""The decorator, and what it makes of functions and methods."""

from __future__ import annotations

import pytest

from paddock.doors.tools.definition import Tool, tool
from paddock.doors.tools.toolset import Tools
from paddock.gate.gate import Gate
from paddock.model.action import Effect
from paddock.model.errors import InvalidInput
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import file_for


@tool(effect="write", reversible=False)
def refund(amount: int, to: str = "ada") -> str:
    """Pays money back.

    Args:
        amount: In cents.
    """
    return f"{amount} to {to}"


class Mail:
    """Something with tools in it."""

    def __init__(self, sender: str) -> None:
        self.sender = sender

    def _would_send(self, to: str) -> str:
        return f"{self.sender} would write to {to}"

    @tool(effect="write", preview=_would_send)
    def send(self, to: str) -> str:
        """Sends a mail.

        Args:
            to: Whom.
        """
        return f"{self.sender} -> {to}"

    @staticmethod
    @tool
    def check(self: int) -> int:
        """The only parameter is really called self."""
        return self

    @classmethod
    def count(cls, of: str) -> str:
        return cls.__name__ + of


def test_tool_knows_its_name_words_schema_and_effect() -> None:
    assert (refund.name, refund.description) == ("refund", "Pays money back.")
    assert (refund.effect, refund.is_reversible) == (Effect.WRITE, False)
    assert refund.schema["properties"]["amount"]["description"] == "In cents."


def test_bare_decorator_leaves_the_effect_to_the_file() -> None:
    @tool
    def search(q: str) -> str:
        return q

    assert isinstance(search, Tool)
    assert search.effect is None and search.is_reversible is None


def test_calling_a_tool_past_the_gate_is_refused() -> None:
    with pytest.raises(TypeError, match="cross the gate"):
        refund(5)


def test_method_is_a_tool_of_its_instance(opener: Opener) -> None:
    gate = opener(file_for("send", effect="write"))
    for sender in ("ada", "bob"):
        tools = Tools(gate, [Mail(sender).send])
        assert tools.call("send", {"to": "eve"}).text == f"{sender} -> eve"
    schema = Mail("x").send.schema
    assert set(schema["properties"]) == {"to"}
    assert schema["properties"]["to"]["description"] == "Whom."


def test_preview_of_a_method_is_that_of_its_instance(opener: Opener) -> None:
    gate = opener(file_for("send", effect="write", stage="draft"))
    result = Tools(gate, [Mail("ada").send]).call("send", {"to": "eve"})
    assert "ada would write to eve" in result.text


def test_method_without_an_instance_is_no_tool(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="instance"):
        Tools(gate, [Mail.send])  # type: ignore[list-item]


def test_static_and_class_methods_can_be_tools(opener: Opener) -> None:
    gate = opener(file_for("check", "count"))
    tools = Tools(gate, [Mail.check, tool(Mail.count)])
    assert tools.call("check", {"self": 4}).value == 4
    assert tools.call("count", {"of": "s"}).value == "Mails"


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_decorator_above_another_kind_of_method_says_what_to_write(kind: type) -> None:
    with pytest.raises(InvalidInput, match="hint"):
        tool(kind(lambda x: x))


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "naïve", None])
def test_name_that_no_vendor_takes_is_refused(name: str | None) -> None:
    with pytest.raises(InvalidInput, match="name"):
        tool(name=name)(lambda: 1)


def test_unknown_effect_is_refused() -> None:
    with pytest.raises(InvalidInput, match="read, write, admin"):
        tool(effect="delete")


def test_preview_that_takes_other_arguments_is_refused() -> None:
    with pytest.raises(InvalidInput, match="preview"):

        @tool(effect="write", preview=lambda amount: amount)
        def pay(amount: int, to: str) -> None: ...


def test_tool_is_not_made_a_tool_twice() -> None:
    with pytest.raises(InvalidInput, match="already"):
        tool(refund)  # type: ignore[call-overload]
