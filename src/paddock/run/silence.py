"""Steps whose answer no agent ever saw: it had stopped waiting, or had ended. Of these a replay
only needs to know that they came; nothing that an agent did can depend on what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.journal.reader import Step
from paddock.model.action import Kind

_KINDS = frozenset({Kind.HTTP, Kind.MODEL})
_AGENT = 1  # the step that is the agent's own program


def is_silent(step: Step, steps: Mapping[int, Step], begun_n: int | None) -> bool:
    """Whether nothing of its answer reached the agent."""
    proposed, settled = step.proposed, step.settled
    if proposed is None or settled is None or proposed.body.get("kind") not in _KINDS:
        return False
    agent = steps.get(_AGENT)
    end = None if agent is None else agent.settled
    if end is not None and (settled.n if begun_n is None else begun_n) > end.n:
        return True
    return begun_n is None and bool(_result(step, steps).get("left"))


def _result(step: Step, steps: Mapping[int, Step]) -> Mapping[str, Any]:
    result = None if step.settled is None else step.settled.body.get("result")
    if not isinstance(result, Mapping):
        return {}
    inner = result.get("model_step")
    if isinstance(inner, int) and inner > step.number and inner in steps:
        return _result(steps[inner], steps)
    return result
