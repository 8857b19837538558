"""The person in the demo: answers what the agent asks for, through the store that
`paddock approvals` answers through, from a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from paddock.model.errors import PaddockError

if TYPE_CHECKING:
    from paddock.gate.approvals import Approval, Approvals

NAME = "you"
_EXPECTED = "ch_noah_year"  # the one large refund that is in order
_YES = "the plan was cancelled, and the sum is right"
_NO = "nobody promised this customer anything"
_LOOKS_S = 0.05
_LONGEST_S = 10.0


class DemoPerson:
    """Looks for questions until it is left."""

    def __init__(self, approvals: Approvals, think_s: float = 0.0) -> None:
        self._approvals = approvals
        self._think_s = think_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="demo-person", daemon=True)
        self._run: str | None = None  # whose questions are answered, and nobody else's

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(_LONGEST_S)

    def begin(self, run: str) -> None:
        """Answer the questions of this run from now on."""
        self._run = run

    def _look(self) -> None:
        while not self._is_over.wait(_LOOKS_S):
            if self._run is not None:
                for question in self._approvals.all(run=self._run):
                    self._is_over.wait(self._think_s)
                    self._answer(question)

    def _answer(self, question: Approval) -> None:
        with contextlib.suppress(PaddockError):  # somebody else was first: then it is answered
            if _charge(question.content) == _EXPECTED:
                self._approvals.approve(question.approval_id, NAME, _YES)
            else:
                self._approvals.deny(question.approval_id, NAME, _NO)


def _charge(content: Mapping[str, Any]) -> Any:
    body = (content.get("arguments") or {}).get("body")
    return body.get("charge") if isinstance(body, dict) else None
