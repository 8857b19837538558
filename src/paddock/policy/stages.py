"""The verdict that each stage leaves for an action out of the fence. A stage only tightens.

| stage   | write                                          | admin                           |
|---------|------------------------------------------------|---------------------------------|
| observe | block                                          | block                           |
| draft   | simulate, as a draft                           | simulate, as a draft            |
| approve | ask                                            | ask                             |
| narrow  | - if reversible and a rule allows it; else ask | ask                             |
| broad   | -                                              | - if a rule allows it; else ask |
"""

from __future__ import annotations

from typing import assert_never

from paddock.model.action import Effect, Stage, Verdict


def ceiling(
    stage: Stage, effect: Effect, *, is_reversible: bool, is_granted: bool
) -> tuple[Verdict, str]:
    """Return the loosest verdict that the stage leaves, and why."""
    if not effect.is_write:
        return Verdict.ALLOW, ""
    match stage:
        case Stage.OBSERVE:
            return Verdict.BLOCK, "In the stage observe nothing outside may be changed."
        case Stage.DRAFT:
            return Verdict.SIMULATE, "In the stage draft a change becomes a draft."
        case Stage.APPROVE:
            return Verdict.ASK, "In the stage approve a person confirms each change."
        case Stage.NARROW:
            return _narrow(effect, is_reversible=is_reversible, is_granted=is_granted)
        case Stage.BROAD:
            if effect is Effect.ADMIN and not is_granted:
                return Verdict.ASK, "No rule allows this admin action, so a person is asked."
            return Verdict.ALLOW, ""
    assert_never(stage)


def _narrow(effect: Effect, *, is_reversible: bool, is_granted: bool) -> tuple[Verdict, str]:
    if effect is Effect.ADMIN:
        return Verdict.ASK, "In the stage narrow a person confirms each admin action."
    if not is_granted:
        return Verdict.ASK, "In the stage narrow a person confirms what no rule allows."
    if not is_reversible:
        return Verdict.ASK, "In the stage narrow a person confirms what cannot be undone."
    return Verdict.ALLOW, ""
