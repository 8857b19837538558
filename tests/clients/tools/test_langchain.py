"""Tools of the real LangChain, behind the gate."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from paddock.doors.tools.langchain import from_langchain
from paddock.doors.tools.wrapping import wrap
from paddock.gate.gate import Gate
from paddock.model.errors import InvalidInput
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import REFUNDS, Past, file_for

langchain_core = pytest.importorskip("langchain_core", reason="langchain-core is not installed")
from langchain_core.callbacks import BaseCallbackHandler  # noqa: E402
from langchain_core.runnables import RunnableConfig  # noqa: E402
from langchain_core.tools import (  # noqa: E402
    BaseTool,
    InjectedToolArg,
    StructuredTool,
    Tool,
    ToolException,
)
from langchain_core.tools import tool as langchain_tool  # noqa: E402
from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: E402


@langchain_tool
def refund(amount: int, to: str = "ada") -> str:
    """Pays money back."""
    return f"paid {amount} to {to}"


@langchain_tool
async def search(q: str) -> str:
    """Finds tickets."""
    await asyncio.sleep(0)
    return q * 2


def tool_call(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "call-1", "name": name, "args": args}


def test_gated_tool_is_still_a_tool_of_langchain(gate: Gate) -> None:
    gated = from_langchain(gate, refund)
    assert isinstance(gated, StructuredTool)
    assert convert_to_openai_tool(gated) == convert_to_openai_tool(refund)
    assert (gated.name, gated.args) == (refund.name, refund.args)


def test_invoke_and_ainvoke_cross_the_gate(gate: Gate) -> None:
    gated = from_langchain(gate, refund)
    assert gated.invoke({"amount": 5}) == "paid 5 to ada"
    assert asyncio.run(gated.ainvoke({"amount": 6, "to": "bob"})) == "paid 6 to bob"
    assert [one.arguments for one in Past(gate).proposed()] == [
        {"amount": 5, "to": "ada"},
        {"amount": 6, "to": "bob"},
    ]


def test_async_tool_crosses_the_gate(gate: Gate) -> None:
    gated = from_langchain(gate, search)
    assert asyncio.run(gated.ainvoke({"q": "x"})) == "xx"
    assert Past(gate).settled()[0].result == "xx"


@pytest.mark.parametrize("is_async", [False, True])
def test_refusal_is_the_tools_output(gate: Gate, is_async: bool) -> None:
    gated = from_langchain(gate, refund)
    call = tool_call("refund", amount=95_000)
    message = asyncio.run(gated.ainvoke(call)) if is_async else gated.invoke(call)
    assert "Nobody gets that much." in message.content
    assert message.tool_call_id == "call-1"
    assert Past(gate).proposed()[0].context == {"tool_call_id": "call-1"}


def test_original_tool_is_as_it_was(gate: Gate) -> None:
    from_langchain(gate, refund)
    assert refund.invoke({"amount": 95_000}) == "paid 95000 to ada"
    assert Past(gate).steps() == []


@pytest.mark.parametrize("given", [{"amount": "many"}, {}, {"amount": 1, "to": 5}])
def test_arguments_that_do_not_fit_do_not_cross(gate: Gate, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        from_langchain(gate, refund).invoke(given)
    assert Past(gate).steps() == []


def test_function_inside_the_tool_cannot_be_used_past_the_gate(gate: Gate) -> None:
    gated = from_langchain(gate, refund)
    assert "Nobody gets that much." in gated.func(amount=95_000)  # type: ignore[attr-defined]
    assert "Nobody gets that much." in gated._run(amount=95_000, config={})
    assert gated.run({"amount": 95_000}).startswith("The call of refund was refused")


def test_coroutine_inside_the_tool_cannot_be_used_past_the_gate(opener: Opener) -> None:
    gate = opener(file_for("search", effect="write", stage="observe"))
    gated = from_langchain(gate, search)
    coroutine = gated.coroutine  # type: ignore[attr-defined]
    assert "refused" in asyncio.run(coroutine(q="x"))
    assert "refused" in asyncio.run(gated.ainvoke({"q": "x"}))


def test_tool_that_fails_fails_as_before(opener: Opener) -> None:
    gate = opener(file_for("bad", "handled"))

    def bad(x: int) -> str:
        raise ToolException(f"bad {x}")

    plain = StructuredTool.from_function(bad, description="Fails.")
    handled = StructuredTool.from_function(
        bad, name="handled", description="Fails.", handle_tool_error=True
    )
    with pytest.raises(ToolException, match="bad 1"):
        from_langchain(gate, plain).invoke({"x": 1})
    message = from_langchain(gate, handled).invoke(tool_call("handled", x=2))
    assert (message.content, message.status) == ("bad 2", "error")
    assert [one.outcome for one in Past(gate).settled()] == ["failed", "failed"]


def test_tool_with_an_artifact_gives_it_and_a_refusal_has_none(gate: Gate) -> None:
    @langchain_tool(response_format="content_and_artifact")
    def refund(amount: int) -> tuple[str, dict[str, int]]:
        """Pays money back."""
        return f"paid {amount}", {"amount": amount}

    gated = from_langchain(gate, refund)
    done = gated.invoke(tool_call("refund", amount=5))
    assert (done.content, done.artifact) == ("paid 5", {"amount": 5})
    refused = gated.invoke(tool_call("refund", amount=95_000))
    assert "Nobody" in refused.content and refused.artifact is None


class Lookup(BaseTool):
    """A class of its own, plain only."""

    name: str = "lookup"
    description: str = "Looks up."
    prefix: str = ">"

    def _run(self, key: str, run_manager: Any = None) -> str:
        return f"{self.prefix}{key}{run_manager is not None}"


def test_tool_that_is_a_class_crosses_the_gate_in_both_ways(opener: Opener) -> None:
    gate = opener(file_for("lookup"))
    gated = from_langchain(gate, Lookup(prefix="#"))
    assert isinstance(gated, Lookup)
    assert gated.invoke({"key": "a"}) == "#aTrue"
    assert asyncio.run(gated.ainvoke({"key": "b"})) == "#bTrue"
    assert [one.arguments for one in Past(gate).proposed()] == [{"key": "a"}, {"key": "b"}]


def test_tool_of_one_text_crosses_the_gate(opener: Opener) -> None:
    gate = opener(file_for("shout"))
    gated = from_langchain(gate, Tool("shout", str.upper, "Shouts."))
    assert gated.invoke("hi") == "HI"
    assert Past(gate).proposed()[0].arguments == {"tool_input": "hi"}


def test_config_and_callbacks_reach_the_tool_and_are_not_arguments(opener: Opener) -> None:
    gate = opener(file_for("who"))
    seen: list[str] = []

    class Handler(BaseCallbackHandler):
        def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            seen.append("start")

    @langchain_tool
    def who(greeting: str, config: RunnableConfig) -> str:
        """Greets."""
        return f"{greeting} {config['configurable']['user']}"

    gated = from_langchain(gate, who)
    config: RunnableConfig = {"configurable": {"user": "ada"}, "callbacks": [Handler()]}
    assert gated.invoke({"greeting": "hi"}, config) == "hi ada"
    assert seen == ["start"]
    assert Past(gate).proposed()[0].arguments == {"greeting": "hi"}


def test_injected_arguments_reach_the_tool_and_are_not_the_agents(opener: Opener) -> None:
    gate = opener(file_for("mine"))
    state = object()

    @langchain_tool
    def mine(x: int, state: Annotated[Any, InjectedToolArg]) -> bool:
        """Takes more than the agent gives."""
        return state is not None and x == 1

    assert from_langchain(gate, mine).invoke({"x": 1, "state": state}) is True
    assert Past(gate).proposed()[0].arguments == {"x": 1}


class Line(BaseModel):
    cents: int


def test_models_in_arguments_arrive_as_such(opener: Opener) -> None:
    gate = opener(file_for("total"))

    @langchain_tool
    def total(lines: list[Line]) -> int:
        """Adds up."""
        first = lines[0].cents
        lines[0].cents = 99
        return first

    assert from_langchain(gate, total).invoke({"lines": [{"cents": 5}]}) == 5
    assert Past(gate).proposed()[0].arguments == {"lines": [{"cents": 5}]}


def test_tool_with_a_json_schema_crosses_the_gate_with_all_that_it_gets(opener: Opener) -> None:
    gate = opener(file_for("loose"))
    schema = {
        "title": "loose",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
    }

    def loose(**kwargs: Any) -> dict[str, Any]:
        return kwargs

    made = StructuredTool(name="loose", description="x", args_schema=schema, func=loose)
    assert from_langchain(gate, made).invoke({"a": 1, "unseen": 3}) == {"a": 1, "unseen": 3, "b": 2}
    assert Past(gate).proposed()[0].arguments == {"a": 1, "unseen": 3, "b": 2}


def test_draft_is_the_tools_output(opener: Opener) -> None:
    gate = opener(REFUNDS.replace("broad", "draft"))
    text = from_langchain(gate, refund).invoke({"amount": 5})
    assert gate.drafts.all()[0].draft_id in text


def test_wrapped_function_makes_a_tool_of_langchain(gate: Gate) -> None:
    def refund(amount: int, to: str = "ada") -> str:
        """Pays money back."""
        return f"paid {amount} to {to}"

    made = StructuredTool.from_function(wrap(gate, refund))
    assert made.invoke({"amount": 5}) == "paid 5 to ada"
    assert set(made.args) == {"amount", "to"}
    assert len(Past(gate).steps()) == 1


def test_undeclared_tool_is_refused(opener: Opener) -> None:
    with pytest.raises(InvalidInput, match="does not declare the tool 'refund'"):
        from_langchain(opener(file_for("other")), refund)
