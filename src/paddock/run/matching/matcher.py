"""Which recorded step a proposed action is, and whether it is its turn.

Steps that were in flight together may come in any order; all others come as they came. No time in
here: the caller waits, and says when it has waited long enough.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from paddock.gate.recorded_answers import is_same_body
from paddock.model.action import Kind
from paddock.run.matching.background import BackgroundSteps, marked
from paddock.run.matching.bindings import Bindings
from paddock.run.matching.candidates import MAX_SIMILAR, Candidates
from paddock.run.matching.compare import ViewComparison, compare
from paddock.run.matching.recorded_step import (
    BEYOND_BUDGET,
    ActionView,
    Difference,
    DivergedBy,
    Early,
    Live,
    MatchResult,
    Mismatch,
    RecordedStep,
    StepMatch,
)
from paddock.run.matching.rules import STRICT, Rules
from paddock.run.matching.sequence import MAX_NAMED, Turns
from paddock.run.matching.view import row_view
from paddock.run.matching.volatile import BODY

# What follows the last chunk of an upload that AWS's SDKs send in chunks of their own.
_CHECKSUMS = re.compile(r"(?<=\r\n0\r\n)(?:x-amz-checksum-[a-z0-9]+:[^\r\n]*\r\n)+(?=\r\n\Z)")


class Matcher:
    """The recorded steps of a run, and which of them have come again. Used from one thread.

    A Match is taken: its caller waits for `may_answer(row)`, gives the recorded answer, and calls
    `answered(row)`. A contained row is carried out again; `answered(row)` when it has ended."""

    def __init__(self, rows: Iterable[RecordedStep], rules: Rules = STRICT) -> None:
        self._all = sorted(marked(rows, rules.beside), key=lambda row: row.number)
        self._rows = [row for row in self._all if row.is_candidate]
        self._by_step = {row.number: row for row in self._rows}
        self._rules = rules
        self._bindings = Bindings()
        self.varied: Counter[str] = Counter()  # what was different and let vary, by label
        self._optional = _questions_again(self._rows)
        self._turns = Turns(self._rows, self._optional)
        self._candidates = Candidates(self._rows, rules, self._turns)
        self._refusals = {row.number: row_view(row) for row in self._all if _is_refusal(row)}
        self._refused: set[int] = set()
        self._asked: dict[bytes, RecordedStep] = {}  # questions for names that have come
        self._repeats = {
            row.number: row.repeats for row in self._rows if row.repeats
        }  # still to come
        self._background = BackgroundSteps(self._all, rules.beside)
        self._begins_in_background = False
        self._end: int | None = None
        self._outstanding: set[int] = set()  # of the steps before `_end`

    def until(self, k: int) -> None:
        """Limit the past to the steps before k: what comes when all of them are over is live."""
        self._end = k
        past = [row for row in self._rows if row.number < k]
        self._background = BackgroundSteps(
            [row for row in self._all if row.number < k], self._rules.beside
        )
        self._begins_in_background = any(row.number == k and row.background for row in self._all)
        self._turns = Turns(past, self._optional)
        self._candidates = Candidates(self._rows, self._rules, self._turns)
        self._outstanding = {row.number for row in self._rows if self._is_awaited(row)}

    @property
    def rows(self) -> tuple[RecordedStep, ...]:
        """All steps, by number; background traffic is marked."""
        return tuple(self._all)

    @property
    def optional(self) -> frozenset[int]:
        """Steps that may come again, or not."""
        return self._optional | {row.number for row in self._all if row.background is not None}

    def background_rule(self, view: ActionView) -> str | None:
        """Return the rule that makes a proposed action background traffic; None if none does."""
        return self._background.rule_of(view)

    @property
    def is_live(self) -> bool:
        """Return whether there is an end of the past, and it is reached."""
        return self._end is not None and not self._outstanding

    def propose(self, view: ActionView, *, is_stuck: bool = False) -> MatchResult:
        """Return what a proposed action is. A Match is taken; an Early one is to be proposed again.

        `is_stuck` says that a program was held for others that do not come. Whoever starts it by
        vfork stands still meanwhile, in Python with the interpreter's lock, so that the other
        threads, whose steps it waits for, cannot make them. Then it is taken out of its turn: it
        stays inside the fence, and gets no answer that another step should have had first."""
        # What comes by the clock does not begin the future, unless that begins with such a step.
        if not (self.is_live and self._begins_in_background):
            background = self._background.take(view)
            if background is not None:
                return background
        if self.is_live:
            return Live()
        equal = self._candidates.equal(view, self._bindings)
        again = self._asked.get(view.digest)
        if equal is None:
            again = again or self._repeated(view)
            return self._unknown(view) if again is None else StepMatch(again, is_repeat=True)
        row = equal.row
        waits_for = self._waits_for(row)
        if waits_for and not (is_stuck and row.is_contained and again is None):
            return Early(row, waits_for) if again is None else StepMatch(again, is_repeat=True)
        if not row.is_answerable:
            why = (Difference("answer", row.unkept, None),) if row.unkept else ()
            return Mismatch(DivergedBy.UNKEPT, row, why)
        self._bindings.add(equal.pairs)
        self.varied.update(equal.varied)
        self._take(row, view)
        return StepMatch(row)

    def give_up(self, view: ActionView) -> Mismatch:
        """Return the mismatch for an early action that has waited long enough."""
        equal = self._candidates.equal(view, self._bindings)
        if equal is None:
            early = self._awaited_end()
            return self._diverged(view) if early is None else _too_early(None, early.waits_for)
        row = equal.row
        return _too_early(row, self._waits_for(row))

    def may_answer(self, row: RecordedStep) -> bool:
        """Return whether the row may be answered now: answers go out in the recorded order."""
        return self._turns.may_answer(row)

    def held_by(self, row: RecordedStep) -> tuple[RecordedStep, ...]:
        """Return the rows that were answered before this one, and were not yet."""
        return () if row.settled_n is None else self._turns.before(row.answer_n)

    def before(self, n: int) -> tuple[RecordedStep, ...]:
        """Return those that were answered before a record, and were not yet."""
        return self._turns.before(n)

    def give_up_answer(self, row: RecordedStep) -> Mismatch:
        """Return the mismatch for a step that waited too long to be answered: a step that was
        answered before it never came."""
        late = [held for held in self.held_by(row) if not self._turns.has_come(held)]
        late += islice(self._turns.still_to_come(row.answer_n), 1)
        if late:
            return Mismatch(DivergedBy.MISSING, late[0])
        return _too_early(row, self.held_by(row))

    def answered(self, row: RecordedStep) -> None:
        """Note that the step was answered, or has ended."""
        self._turns.answer(row)
        self._outstanding.discard(row.number)

    def refused(self, view: ActionView) -> RecordedStep | Mismatch | Live:
        """Match an action that a door refuses by itself: it equals any recorded refusal, however
        often it comes."""
        if self.is_live:
            return Live()
        refusals = self._equal_refusals(view)
        if not refusals:
            return self._newly_refused(view)
        self._refused.update(refusals)
        return next(row for row in self._all if row.number == refusals[0])

    def is_same_body(self, recorded: Mapping[str, Any], came: Mapping[str, Any]) -> bool:
        """Return whether a body that streamed by, and is compared when its answer is given, may be
        the recorded one."""
        if is_same_body(recorded, came):
            return True
        if self._rules.lets_any_body and recorded.get("bytes") and came.get("bytes"):
            return True
        stable = recorded.get("stable")
        if isinstance(stable, Mapping) and stable == came.get("stable"):
            self.varied.update([f"{BODY} without {stable['without']}"])
            return True
        texts = [_uploaded_text(record) for record in (recorded, came)]
        return all(texts) and self.is_same_text(*texts)

    def is_same_text(self, recorded: str, came: str) -> bool:
        """Return whether a message of a WebSocket may be the recorded one. It is compared as a body
        is: JSON value by value, and what is declared of `body` holds."""
        views = [ActionView(Kind.HTTP, "", {"body": _as_value(text)}) for text in (recorded, came)]
        comparison = ViewComparison(self._rules, self._bindings, limit=1)
        if comparison.run(*views):
            return False
        self._bindings.add(comparison.pairs)
        self.varied.update(comparison.varied(*views))
        return True

    def missing(self) -> tuple[RecordedStep, ...]:
        """Return the steps that have not come. DNS queries that repeat or that failed are not
        missed."""
        return tuple(row for row in self._all if self._is_missing(row))

    def ended(self) -> Mismatch | None:
        """Return the divergence of an agent that has ended, if steps are missing."""
        missing = self.missing()
        if missing:
            return Mismatch(DivergedBy.MISSING, missing[0])
        return self._too_few_repeats()

    def _too_few_repeats(self) -> Mismatch | None:
        """Return the mismatch for a refusal that came less often than counted. DNS queries are
        excepted, because their number depends on the resolver, and so are forks, because a count
        does not say how much of it belongs to their past."""
        for step, left in self._repeats.items():
            row = self._by_step[step]
            if left and self._end is None and row.kind is not Kind.DNS:
                came = Difference("refused again", row.repeats, row.repeats - left)
                return Mismatch(DivergedBy.MISSING, row, (came,))
        return None

    def _repeated(self, view: ActionView) -> RecordedStep | None:
        """Return the refusal whose further repetitions were only counted, and take one of that
        count. Between which other steps they came is not recorded, so any position is right."""
        for step, left in self._repeats.items():
            row = self._by_step[step]
            if left and self._turns.has_come(row) and self._is_equal(row, view):
                self._repeats[step] -= 1
                return row
        return None

    def _is_equal(self, row: RecordedStep, view: ActionView) -> bool:
        recorded = self._candidates.view(row)
        return recorded.digest == view.digest or not compare(recorded, view, self._rules, 1)

    def _take(self, row: RecordedStep, view: ActionView) -> None:
        self._turns.come(row)
        if row.kind is Kind.DNS:
            self._asked[view.digest] = row
        if row.is_contained or row.is_unseen:
            self._outstanding.discard(row.number)

    def _waits_for(self, row: RecordedStep) -> tuple[RecordedStep, ...]:
        if self._end is not None and row.number >= self._end:
            return self._still_out()
        return () if self._turns.is_turn(row) else self._turns.before(row.proposed_n)

    def _still_out(self) -> tuple[RecordedStep, ...]:
        out = (row for row in self._rows if row.number in self._outstanding)
        return tuple(islice(out, MAX_NAMED))

    def _unknown(self, view: ActionView) -> Early | Mismatch:
        """Handle an action that equals no recorded step: it follows the past, or is a mismatch."""
        return self._awaited_end() or self._diverged(view)

    def _awaited_end(self) -> Early | None:
        """Return Early if all of the past has come and only answers are outstanding: the next
        action is live soon."""
        out = self._still_out()
        if not out or not all(self._turns.has_come(row) for row in out):
            return None
        return Early(None, out)

    def _diverged(self, view: ActionView) -> Mismatch:
        rows = list(islice(self._turns.next_ones(), MAX_SIMILAR))
        if self._end is not None:
            rows = [row for row in rows if row.number < self._end]
        if not rows:
            return Mismatch(DivergedBy.EXTRA, None)
        row, differences = self._candidates.closest(view, rows, self._bindings)
        if row.is_whole:
            return Mismatch(DivergedBy.CHANGED, row, differences)
        why = Difference("record", f"what was proposed is not whole: {BEYOND_BUDGET}", None)
        return Mismatch(DivergedBy.UNKEPT, row, (why, *differences))

    def _equal_refusals(self, view: ActionView) -> list[int]:
        refusals = self._refusals.items()
        exact = [step for step, refusal in refusals if refusal.digest == view.digest]
        return exact or [
            step for step, refusal in refusals if not compare(refusal, view, self._rules, 1)
        ]

    def _newly_refused(self, view: ActionView) -> Mismatch:
        """Return the mismatch for a refusal that the record does not have: there the door let the
        action reach the gate, or it did not come at all."""
        diverged = self._diverged(view)
        if diverged.row is None or diverged.differences:
            return diverged
        return replace(diverged, differences=(Difference("is_refused_by_door", False, True),))

    def _is_awaited(self, row: RecordedStep) -> bool:
        """Return whether the row has to be over before the past is."""
        if self._end is None or row.number >= self._end or row.number in self._optional:
            return False
        only_comes = row.is_contained or row.is_unseen
        return not (self._turns.has_come(row) if only_comes else self._turns.is_answered(row))

    def _is_missing(self, row: RecordedStep) -> bool:
        if row.within is not None or row.background is not None:
            return False
        if self._end is not None and row.number >= self._end:
            return False
        if row.is_refused_by_door:
            return row.kind is not Kind.DNS and row.number not in self._refused
        return row.number not in self._optional and not self._turns.has_come(row)


def _questions_again(rows: Iterable[RecordedStep]) -> frozenset[int]:
    """Return the DNS queries that repeat an earlier one. How often a name is queried depends on the
    resolver's timeouts and on nothing that the agent does."""
    seen: set[bytes] = set()
    again: set[int] = set()
    for row in rows:
        if row.kind is not Kind.DNS:
            continue
        digest = row_view(row).digest
        if digest in seen:
            again.add(row.number)
        seen.add(digest)
    return frozenset(again)


def _as_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _uploaded_text(record: Mapping[str, Any]) -> str:
    """Return the text of an upload without the checksum trailer that AWS's SDKs append; empty if
    there is none or not all of it was stored."""
    text = record.get("body")
    if not isinstance(text, str) or record.get("is_cut"):
        return ""
    return _CHECKSUMS.sub("", text)


def _is_refusal(row: RecordedStep) -> bool:
    return row.is_refused_by_door and row.within is None and row.background is None


def _too_early(row: RecordedStep | None, waits_for: tuple[RecordedStep, ...]) -> Mismatch:
    steps = ", ".join(str(step.number) for step in waits_for)
    after = f"after step {steps} was answered" if steps else "later"
    return Mismatch(DivergedBy.ORDER, row, (Difference("order", after, "before that"),))
