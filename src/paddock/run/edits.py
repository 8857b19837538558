"""Which recorded step an approver made of which other one."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.journal.reader import Step
from paddock.model.action import Outcome


def edited_as(step: Step, steps: Mapping[int, Step]) -> Step | None:
    """The step that an approver made of this one: its answer is what the agent got."""
    body = {} if step.settled is None else step.settled.body
    result = body.get("result") if body.get("outcome") == Outcome.REFUSED else None
    number = result.get("edited_as") if isinstance(result, Mapping) else None
    if not isinstance(number, int) or number <= step.number:
        return None
    new = steps.get(number)
    proposed = None if new is None else new.proposed
    return new if proposed is not None and proposed.body.get("parent") == step.number else None
