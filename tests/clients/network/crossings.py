"""What the journal of a sandbox has about its network, one value an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.waiting import eventually
from paddock import Sandbox
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.state.home import Home


@dataclass(frozen=True, slots=True)
class Crossing:
    """An action that was settled."""

    kind: str
    name: str
    arguments: dict[str, Any]
    verdict: str
    rule: str
    outcome: str
    result: Any
    error: str | None
    is_of_a_command: bool

    @property
    def host(self) -> Any:
        return self.arguments.get("host")

    @property
    def request(self) -> tuple[Any, Any]:
        """Method and path."""
        return self.arguments.get("method"), self.arguments.get("path")

    @property
    def status(self) -> Any:
        return self.result.get("status") if isinstance(self.result, dict) else None


def crossings(box: Sandbox, kind: str) -> list[Crossing]:
    """All of one kind, in order, when none is under way any more: a client has its answer
    before the journal has the receipt."""
    directory = Home.find().runs / box.sandbox_id
    if not directory.exists():
        return []  # a journal begins with the first action
    log = RunLog(directory)
    steps: list[Step] = []

    def is_settled() -> bool:
        steps[:] = [step for step in log.steps() if step.kind == kind]
        return all(step.settled for step in steps)

    eventually(is_settled, 15, f"every {kind} action is settled")
    return [_crossing(log.whole_step(step)) for step in steps]


def requests(box: Sandbox) -> list[Crossing]:
    return crossings(box, "http")


def seen(crossing: Crossing) -> tuple[Any, ...]:
    """What most tests ask for: host, method, path, status, verdict."""
    return (crossing.host, *crossing.request, crossing.status, crossing.verdict)


def _crossing(step: Step) -> Crossing:
    proposed, decided, settled = step.proposed, step.decided, step.settled
    assert proposed and decided and settled
    return Crossing(
        proposed.kind,
        proposed.name,
        proposed.arguments,
        decided.verdict,
        decided.decided_by,
        settled.outcome,
        settled.result,
        settled.error,
        proposed.parent is not None,
    )
