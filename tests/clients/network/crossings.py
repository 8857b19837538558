"""What the journal of a sandbox has about its network, one value an action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.waiting import eventually
from paddock import Sandbox
from paddock.journal.reader import Reader, Step
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
    reader = Reader(directory)
    found: list[Step] = []

    def is_settled() -> bool:
        found[:] = [s for s in reader.steps() if s.proposed and s.proposed.body["kind"] == kind]
        return all(step.settled for step in found)

    eventually(is_settled, 15, f"every {kind} action is settled")
    return [_crossing(reader, step) for step in found]


def requests(box: Sandbox) -> list[Crossing]:
    return crossings(box, "http")


def seen(crossing: Crossing) -> tuple[Any, ...]:
    """What most tests ask for: host, method, path, status, verdict."""
    return (crossing.host, *crossing.request, crossing.status, crossing.verdict)


def _crossing(reader: Reader, step: Step) -> Crossing:
    assert step.proposed and step.decided and step.settled
    asked, settled = reader.body(step.proposed), reader.body(step.settled)
    decided = step.decided.body
    return Crossing(
        asked["kind"],
        asked["name"],
        asked["arguments"],
        decided["verdict"],
        decided["decided_by"],
        settled["outcome"],
        settled.get("result"),
        settled.get("error"),
        asked.get("parent") is not None,
    )
