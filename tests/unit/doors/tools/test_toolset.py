"""Tools at a gate: what is declared, what is decided, what the agent is told, what is recorded."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from paddock.doors.tools.definition import tool
from paddock.doors.tools.toolset import Tools
from paddock.gate.approvals import Approval, digest_of
from paddock.gate.gate import Gate
from paddock.model.action import Action, Effect, Kind, Outcome
from paddock.model.errors import InvalidInput
from paddock.model.events import Settled
from unit.doors.tools.conftest import Opener
from unit.doors.tools.sets import REFUNDS, Past, file_for
from unit.gate.gates import answered

DRAFTS = REFUNDS.replace("stage: broad", "stage: draft")


@tool(effect="write")
def refund(amount: int, to: str = "ada") -> dict[str, Any]:
    """Pays money back."""
    return {"paid": amount, "to": to}


@tool(effect="read")
async def search(q: str) -> list[str]:
    """Finds tickets."""
    await asyncio.sleep(0)
    return [q, q]


def test_plain_and_async_tools_answer_both_kinds_of_callers(gate: Gate) -> None:
    tools = Tools(gate, [refund, search])

    async def both() -> list[Any]:
        return [
            (await tools.acall("refund", {"amount": 1})).value,
            (await tools.acall("search", '{"q": "x"}')).value,
            tools.call("refund", {"amount": 2}).value,  # on the thread of a running loop
            tools.call("search", {"q": "y"}).value,
        ]

    expected = [{"paid": 1, "to": "ada"}, ["x", "x"], {"paid": 2, "to": "ada"}, ["y", "y"]]
    assert asyncio.run(both()) == expected
    assert tools.call("refund", {"amount": 3}).text == '{"paid": 3, "to": "ada"}'
    assert tools.call("search", {"q": "z"}).text == '["z", "z"]'


def test_call_and_result_are_in_the_journal(gate: Gate) -> None:
    tools = Tools(gate, [refund])
    tools.call("refund", {"amount": 1}, context={"tool_call_id": "c1", "model": "m"})
    [proposed], [settled] = Past(gate).proposed(), Past(gate).settled()
    assert proposed.arguments == {"amount": 1, "to": "ada"}
    assert (proposed.kind, proposed.name, proposed.effect) == ("tool", "refund", "write")
    assert proposed.context == {"tool_call_id": "c1", "model": "m"}
    assert settled == Settled(Outcome.DONE, {"paid": 1, "to": "ada"})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("refund", {"amount": "1"}),
        ("refund", {}),
        ("refund", {"amount": 1, "more": 1}),
        ("refund", "{"),
        ("refund", None),
        ("no_such_tool", {}),
        ("search", {"q": 1}),
        (None, {}),
        ("x" * 10_000, {}),
    ],
)
def test_call_that_does_not_fit_never_becomes_an_action(
    gate: Gate, name: Any, arguments: Any
) -> None:
    result = Tools(gate, [refund, search]).call(name, arguments, context={"tool_call_id": "c"})
    assert result.is_error and result.outcome is None and result.step is None
    past = Past(gate)
    assert past.steps() == []
    [invalid] = past.invalid_calls()
    assert invalid.context == {"tool_call_id": "c"}
    assert invalid.why == result.text


def test_undeclared_tool_is_refused_when_the_set_is_made(gate: Gate) -> None:
    @tool(effect="read")
    def stray() -> None: ...

    with pytest.raises(InvalidInput, match=r"(?s)support-bot.*stray.*add stray: \{effect: read\}"):
        Tools(gate, [stray])


def test_code_that_is_looser_than_the_file_is_refused(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="'refund' has the effect read in code, and write"):
        Tools(gate, [tool(effect="read", name="refund")(lambda amount: 1)])
    with pytest.raises(InvalidInput, match="'refund' is reversible in code, and not"):
        Tools(gate, [tool(effect="write", reversible=True, name="refund")(lambda amount: 1)])
    with pytest.raises(InvalidInput, match="'edit' has the effect read in code, and write"):
        Tools(gate, [tool(effect="read", name="edit")(lambda mode: 1)])


def test_code_that_is_stricter_than_the_file_holds(gate: Gate) -> None:
    tools = Tools(gate, [tool(effect="admin", reversible=False, name="note")(lambda: 1)])
    tools_of_search = Tools(gate, [tool(effect="write", name="search")(lambda: 1)])
    assert "No rule allows this admin action" in _asked_why(gate, tools, "note")
    tools_of_search.call("search", {})
    assert Past(gate).proposed()[-1].effect == "write"


def _asked_why(gate: Gate, tools: Tools, name: str) -> str:
    seen: list[str] = []

    def deny(approval: Approval) -> None:
        seen.append(approval.content["why"])
        gate.approvals.deny(approval.approval_id, "eve")

    asyncio.run(answered(gate, tools.acall(name, {}), deny))
    return seen[0]


def test_effect_that_the_code_leaves_out_is_the_files(gate: Gate) -> None:
    def edit(mode: str = "update") -> str:
        return mode

    tools = Tools(gate, [tool(edit), tool(name="note")(lambda: 1)])
    for call in (("edit", {"mode": "show"}), ("edit", {}), ("note", {})):
        tools.call(*call)
    effects = [step.decided.effect for step in Past(gate).steps() if step.decided]
    assert effects == ["read", "write", "write"]  # a default counts like what is given
    assert [one.is_reversible for one in Past(gate).proposed()] == [False, False, True]


def test_two_tools_of_one_name_are_refused(gate: Gate) -> None:
    with pytest.raises(InvalidInput, match="two tools"):
        Tools(gate, [refund, tool(effect="write", name="refund")(lambda: 1)])


def test_refusal_tells_why(gate: Gate) -> None:
    result = Tools(gate, [refund]).call("refund", {"amount": 95_000})
    assert result.outcome is Outcome.REFUSED and result.is_error
    assert "did not happen" in result.text and "Nobody gets that much." in result.text
    assert result.why == "Nobody gets that much."


def test_no_of_a_person_tells_who_and_why(gate: Gate) -> None:
    tools = Tools(gate, [refund])

    def deny(approval: Approval) -> None:
        gate.approvals.deny(approval.approval_id, "eve", "not today")

    result = asyncio.run(answered(gate, tools.acall("refund", {"amount": 6000}), deny))
    assert "eve said no: not today" in result.text
    assert result.why == "eve said no: not today"


def test_draft_tells_its_id_and_what_it_would_do(opener: Opener) -> None:
    gate = opener(DRAFTS)
    would = tool(effect="write", name="refund", preview=lambda amount: {"left": 10 - amount})
    tools = Tools(gate, [would(lambda amount: pytest.fail("it happened"))])
    result = tools.call("refund", {"amount": 4})
    [draft] = gate.drafts.all()
    assert result.outcome is Outcome.DRAFTED and not result.is_error
    assert result.draft_id == draft.draft_id and draft.draft_id in result.text
    assert '{"left": 6}' in result.text and "has not happened yet" in result.text


def test_draft_can_be_sent_through_the_gate_again(opener: Opener) -> None:
    drafted = Tools(opener(DRAFTS), [refund])
    drafted.call("refund", {"amount": 4})
    [draft] = drafted.gate.drafts.all()
    sending = opener()
    tools = Tools(sending, [refund])
    receipt = asyncio.run(sending.cross(draft.action, tools.carry_out))
    assert receipt.result == {"paid": 4, "to": "ada"}


def test_simulated_tool_is_refused_because_nothing_stands_in_for_it(opener: Opener) -> None:
    rules = "rules:\n  - {id: s, match: {kind: tool}, decide: simulate}\n"
    gate = opener(file_for("refund", effect="write", rules=rules))
    result = Tools(gate, [refund]).call("refund", {"amount": 4})
    assert result.outcome is Outcome.REFUSED and result.is_error
    assert "Nothing stands in for 'refund'." in result.text


def test_fault_looks_like_a_failure_of_the_tool(opener: Opener) -> None:
    rules = (
        "rules:\n  - {id: f, match: {kind: tool}, decide: fault, fault: {error: Bank is closed.}}\n"
    )
    gate = opener(file_for("refund", effect="write", rules=rules))
    result = Tools(gate, [refund]).call("refund", {"amount": 4})
    assert result.text == "The tool refund failed: Bank is closed."
    assert result.is_error and result.outcome is Outcome.FAULTED


def test_what_was_approved_is_what_runs(gate: Gate) -> None:
    ran: list[dict[str, Any]] = []

    @tool(effect="write", name="refund")
    def greedy(amount: int, lines: list[dict[str, int]]) -> None:
        ran.append({"amount": amount, "lines": [dict(one) for one in lines]})
        lines[0]["cents"] = 99
        lines.append({"cents": 1})

    given = {"amount": 6000, "lines": [{"cents": 5}]}
    tools = Tools(gate, [greedy])
    digests: list[str] = []

    def approve(approval: Approval) -> None:
        # Whoever made the call still holds its arguments, and changes them while it is asked.
        given["amount"] = 1
        given["lines"][0]["cents"] = 77  # type: ignore[index]
        digests.append(approval.digest)
        gate.approvals.approve(approval.approval_id, "eve")

    asyncio.run(answered(gate, tools.acall("refund", given), approve))
    assert ran == [{"amount": 6000, "lines": [{"cents": 5}]}]
    assert Past(gate).proposed()[0].arguments == ran[0]
    action = Action(Kind.TOOL, "refund", ran[0], Effect.WRITE)
    assert digests == [digest_of(action, gate.policy.digest, gate.run)]


def test_persons_edit_is_what_runs_and_the_model_is_told(gate: Gate) -> None:
    tools = Tools(gate, [refund])

    def lower(approval: Approval) -> None:
        edited = {**approval.content["arguments"], "amount": 10}
        gate.approvals.edit(approval.approval_id, "eve", edited)

    result = asyncio.run(answered(gate, tools.acall("refund", {"amount": 6000}), lower))
    assert result.value == {"paid": 10, "to": "ada"}
    assert 'changed the arguments of this call to {"amount": 10, "to": "ada"}' in result.text


@pytest.mark.parametrize("edited", [{"amount": "10", "to": "x"}, {"amount": 10}, {"to": "x"}])
def test_persons_edit_that_does_not_fit_the_tool_does_nothing(
    gate: Gate, edited: dict[str, Any]
) -> None:
    calls: list[int] = []

    @tool(effect="write", name="refund")
    def counted(amount: int, to: str = "ada") -> None:
        calls.append(amount)

    def spoil(approval: Approval) -> None:
        gate.approvals.edit(approval.approval_id, "eve", edited)

    call = Tools(gate, [counted]).acall("refund", {"amount": 6000})
    result = asyncio.run(answered(gate, call, spoil))
    assert result.is_error and calls == []


def test_thirty_two_calls_at_once_are_thirty_two_steps(gate: Gate) -> None:
    tools = Tools(gate, [refund, search])

    async def crowd() -> list[Any]:
        calls = [
            tools.acall("refund", {"amount": n}) if n % 2 else tools.acall("search", {"q": str(n)})
            for n in range(32)
        ]
        return await asyncio.gather(*calls)

    results = asyncio.run(crowd())
    assert [one.step for one in results] == list(range(1, 33))
    expected = [{"paid": n, "to": "ada"} if n % 2 else [str(n)] * 2 for n in range(32)]
    assert [one.value for one in results] == expected
    assert [one.result for one in Past(gate).settled()] == expected


def test_tool_called_by_a_tool_names_the_step_that_it_belongs_to(opener: Opener) -> None:
    gate = opener(file_for("outer", "inner", "free"))
    tools: Tools

    @tool
    async def outer() -> str:
        here = await tools.acall("inner", {})
        return here.text + tools.call("inner", {}).text

    @tool
    def inner() -> str:
        return tools.call("free", {}).text

    @tool
    def free() -> str:
        return "x"

    tools = Tools(gate, [outer, inner, free])
    assert tools.call("outer").value == "xx"
    tools.call("free")
    found = [(one.name, one.parent) for one in Past(gate).proposed()]
    assert found == [
        ("outer", None), ("inner", 1), ("free", 2), ("inner", 1), ("free", 4), ("free", None),
    ]  # fmt: skip


def test_step_of_another_run_is_no_parent(opener: Opener) -> None:
    mine, other = opener(file_for("outer")), opener(file_for("inner"))
    inner = Tools(other, [tool(name="inner")(lambda: 1)])
    Tools(mine, [tool(name="outer")(lambda: inner.call("inner").value)]).call("outer")
    assert Past(other).proposed()[0].parent is None


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_that_calls_itself_for_ever_ends(opener: Opener, is_async: bool) -> None:
    gate = opener(file_for("again"))
    tools: Tools

    def again() -> str:
        return tools.call("again").text

    async def again_async() -> str:
        return (await tools.acall("again")).text

    tools = Tools(gate, [tool(name="again")(again_async if is_async else again)])
    assert "deep" in tools.call("again").text
    assert len(Past(gate).steps()) == 16


def test_cancelled_call_is_settled_as_interrupted(opener: Opener) -> None:
    gate = opener(file_for("slow", effect="write"))
    has_begun = asyncio.Event()

    @tool
    async def slow() -> None:
        has_begun.set()
        await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.ensure_future(Tools(gate, [slow]).acall("slow"))
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    [settled] = Past(gate).settled()
    assert settled.outcome == "failed" and "interrupted" in settled.error


async def _sleep_long() -> None:
    await asyncio.sleep(60)


def test_time_limit_of_the_caller_holds(opener: Opener) -> None:
    tools = Tools(opener(file_for("slow")), [tool(name="slow")(_sleep_long)])

    async def limited() -> None:
        async with asyncio.timeout(0.1):
            await tools.acall("slow")

    with pytest.raises(TimeoutError):
        asyncio.run(limited())


def test_arguments_larger_than_a_rule_may_look_at_are_blocked(gate: Gate) -> None:
    @tool(effect="write", name="refund")
    def wide(amount: int, text: list[str]) -> None:
        pytest.fail("it happened")

    result = Tools(gate, [wide]).call("refund", {"amount": 2**70, "text": []})
    assert result.outcome is Outcome.REFUSED


def test_journal_that_cannot_be_written_means_that_nothing_happens(gate: Gate) -> None:
    calls: list[int] = []
    tools = Tools(gate, [tool(effect="write", name="refund")(lambda amount: calls.append(amount))])
    gate._journal.abandon()
    result = tools.call("refund", {"amount": 1})
    assert result.is_error and "recorded" in result.text and calls == []
    assert tools.call("no_such_tool").is_error


@dataclasses.dataclass
class Ticket:
    id: int
    title: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "Done."),
        ("a text", "a text"),
        (7, "7"),
        ([1, "é"], '[1, "é"]'),
        (Ticket(1, "t"), '{"id": 1, "title": "t"}'),
        ({1}, "[1]"),
        (float("nan"), "NaN"),
        (b"\x00", "AA=="),
        (2**80, str(2**80)),
    ],
    ids=repr,
)
def test_result_of_each_type_reads_well_and_is_recorded(
    opener: Opener, value: Any, text: str
) -> None:
    gate = opener(file_for("give"))
    result = Tools(gate, [tool(name="give")(lambda: value)]).call("give")
    assert result.text == text
    assert Past(gate).settled()[0].outcome == "done"
