"""The result of a call: one text for the model, and the facts for the host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from paddock.doors.tools.errors import InvalidArguments, ToolDrafted, ToolError, ToolRefused
from paddock.doors.tools.plain import rendered
from paddock.model.action import Outcome, Receipt


class ToolResult(msgspec.Struct, frozen=True):
    """The answer to one call. Without an outcome it never became an action."""

    name: str
    text: str
    is_error: bool
    outcome: Outcome | None = None
    value: Any = None  # as the tool returned it; as JSON where something stood in for the tool
    why: str | None = None
    step: int | None = None
    draft_id: str | None = None
    cause: BaseException | None = None

    def __repr__(self) -> str:
        # Without the cause: nothing has masked what it says.
        return (
            f"ToolResult(name={self.name!r}, text={self.text!r}, is_error={self.is_error!r}, "
            f"outcome={self.outcome!r}, value={self.value!r}, why={self.why!r}, "
            f"step={self.step!r}, draft_id={self.draft_id!r})"
        )

    def unwrap(self) -> Any:
        """Return the value, for a caller in Python; raises a ToolError where there is none."""
        match self.outcome:
            case Outcome.DONE | Outcome.SIMULATED:
                return self.value
            case Outcome.FAILED | Outcome.FAULTED:
                raise ToolError(self.text, outcome=self.outcome, step=self.step) from self.cause
            case Outcome.DRAFTED:
                raise ToolDrafted(self.text, draft_id=self.draft_id, step=self.step)
            case Outcome.REFUSED:
                raise ToolRefused(self.text, outcome=self.outcome, step=self.step)
            case None:
                raise InvalidArguments(self.text)
        assert_never(self.outcome)


def of_receipt(name: str, receipt: Receipt, changed: Mapping[str, Any] | None) -> ToolResult:
    """Return the result of a call from its receipt. `changed` has the arguments that it was
    executed with, where a person gave others. A stand-in or a fault looks to the agent like the
    real thing."""
    return ToolResult(
        name=name,
        text=_text(name, receipt) + _told(changed),
        is_error=receipt.outcome in (Outcome.FAILED, Outcome.FAULTED, Outcome.REFUSED),
        outcome=receipt.outcome,
        value=receipt.result,
        why=_why(receipt),
        step=receipt.step,
        draft_id=receipt.draft_id,
        cause=receipt.exception.__cause__ if receipt.exception else None,
    )


def invalid(name: str, text: str) -> ToolResult:
    """Return the result of a call that was invalid: an unknown tool, or arguments that do not
    fit."""
    return ToolResult(name, text, is_error=True)


def _text(name: str, receipt: Receipt) -> str:
    match receipt.outcome:
        case Outcome.DONE | Outcome.SIMULATED:
            return rendered(receipt.result)
        case Outcome.FAILED | Outcome.FAULTED:
            return f"The tool {name} failed: {receipt.error}"
        case Outcome.REFUSED:
            return f"The call of {name} was refused and did not happen. Why: {receipt.error}"
        case Outcome.DRAFTED:
            return _drafted(name, receipt)
    assert_never(receipt.outcome)


def _drafted(name: str, receipt: Receipt) -> str:
    why = f" Why: {receipt.decision.why}" if receipt.decision else ""
    text = (
        f"The call of {name} was kept as draft {receipt.draft_id}, for a person to look at and to "
        f"send. It has not happened yet; do not repeat it.{why}"
    )
    preview = receipt.result.get("preview") if isinstance(receipt.result, Mapping) else None
    return text if preview is None else f"{text}\nWhat it would do: {rendered(preview)}"


def _why(receipt: Receipt) -> str | None:
    """Return the reason of a refusal, which may be a person's; else what was decided."""
    if receipt.outcome is Outcome.REFUSED or receipt.decision is None:
        return receipt.error
    return receipt.decision.why


def _told(changed: Mapping[str, Any] | None) -> str:
    if changed is None:
        return ""
    arguments = json.dumps(changed, ensure_ascii=False, default=str)
    return f"\nA person changed the arguments of this call to {arguments}"
