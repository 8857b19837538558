"""The recorded past of a replay or fork, as the gate asks it.

The agent's program runs again. Every action that it proposes is matched with a recorded step and
gets the recorded answer (`find`); nothing is decided anew, nobody is asked, nothing outside is
touched. What stays inside the fence (programs, files) is carried out again, because only so are the
files what they were.

Three things can end this:
1. The agent does something that the record does not have, or not in that order. That is a
   divergence: it is recorded, and the agent is stopped unless the options say otherwise.
2. A fork reaches its step: `on_live` restores the files, and from then on `find` returns None, so
   that the gate decides and carries out as in any run.
3. The agent ends. Recorded steps that did not come are a divergence too.

Order. Steps that were in flight together may come in any order; all others come as they came.
Answers go out in the recorded order: `find` holds an action until it is its turn, `turn` holds an
answer until all that was answered before it has been. Whoever waits is woken by `_move`. No wait is
without end: `Patience` knows how long things took in the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec.structs import replace

from paddock.doors.network.layers.pacer import Pacer
from paddock.doors.network.request import SENT
from paddock.gate.ledger import PastAction
from paddock.gate.recorded_answers import EditedStep, RecordedOutcome, ReplayDiverged
from paddock.gate.run_keys import run_key
from paddock.journal.errors import JournalBroken
from paddock.journal.log import RunLog
from paddock.journal.secrets.seal import Sealer
from paddock.journal.secrets.value_hmac import ValueHmac, hmac_leaves
from paddock.model.action import Action, Kind
from paddock.model.errors import InvalidInput, PaddockError
from paddock.model.events import BackgroundCounted, Diverged, TermsChanged, Varied
from paddock.model.steps import AGENT_STEP
from paddock.run.matching.candidates import told_by_body
from paddock.run.matching.compare import compare
from paddock.run.matching.matcher import Matcher
from paddock.run.matching.recorded_step import (
    ABSENT,
    ActionView,
    Background,
    Difference,
    DivergedBy,
    Early,
    Live,
    Mismatch,
    RecordedStep,
    StepMatch,
)
from paddock.run.matching.rules import Rules
from paddock.run.matching.text import visible
from paddock.run.matching.view import row_view, view_of
from paddock.run.order import policy_source
from paddock.run.replay.background import BackgroundTraffic
from paddock.run.replay.patience import PATIENCE_S, Patience
from paddock.run.replay.policy_epochs import PolicyEpoch, PolicyEpochs, PolicyHistory
from paddock.run.replay.recorded_run import RecordedRun, compared_arguments
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.run.session import ActiveRun, FinishedRun

# After so long without a move, a program that is held may itself hold what it waits for.
_STUCK_S = 2.0
QUIESCENCE_S = 0.5  # that an agent is left to take an answer before the next one
_MAX_RECORDED_DIFFERENCES = 20
OnLive = Callable[[], Awaitable[None]]
_REASONS = {
    DivergedBy.CHANGED: "something else was proposed",
    DivergedBy.EXTRA: "the record has nothing more",
    DivergedBy.MISSING: "this step did not come",
    DivergedBy.ORDER: "it came before what it came after",
    DivergedBy.UNKEPT: "the record does not have all of its answer",
}


class Divergence(msgspec.Struct, frozen=True):
    """The point at which a run left its record, and how."""

    kind: DivergedBy
    step: int | None
    differences: tuple[Difference, ...]
    recorded: ActionView | None
    proposed: ActionView | None

    @property
    def text(self) -> str:
        """Say it in one sentence."""
        where = "after its last step" if self.step is None else f"at step {self.step}"
        if self.kind is DivergedBy.UNKEPT and self.differences:
            return f"the record ends {where}: {self.differences[0].recorded!s:.300}"
        if self.differences:
            first = self.differences[0]
            change = f"{visible(first.at)} was {first.recorded!r:.200}, is {first.proposed!r:.200}"
            return f"it left its record {where}: {change}"
        return f"it left its record {where}: {_REASONS[self.kind]}"

    @property
    def event(self) -> Diverged:
        """The event that records it."""
        differences = [
            {
                "at": difference.at,
                "recorded": _shown(difference.recorded),
                "proposed": _shown(difference.proposed),
            }
            for difference in self.differences[:_MAX_RECORDED_DIFFERENCES]
        ]
        return Diverged(
            kind=str(self.kind),
            differences=differences,
            step=self.step,
            recorded=_view_fields(self.recorded),
            proposed=_view_fields(self.proposed),
        )


class ReplayOptions(msgspec.Struct, frozen=True):
    """Options of a replay."""

    rules: Rules  # what may differ, and what is background traffic
    until: int | None = None  # from this step on it is live
    patience_s: float = PATIENCE_S  # beyond how long it took in the record
    is_stopped: bool = True  # the agent, at the first divergence
    is_other_agent: bool = False  # its command was given anew, and is not compared


class CannotFork(InvalidInput):
    """The files at a step cannot be restored; the message says why, the hint where they can."""


class ReplaySession:
    """Answers the gate from a recorded run. Used on the engine's loop.

    It is made before the sandbox, which needs it, and attached to the run once that has started.
    """

    def __init__(
        self,
        home: Home,
        recorded: RecordedRun,
        history: PolicyHistory,
        options: ReplayOptions,
        on_live: OnLive | None = None,
    ) -> None:
        self._recorded = recorded
        self._history = history
        self._options = options
        self._on_live = on_live
        key = run_key(home, recorded.directory, recorded.root)
        self._keyed = ValueHmac(key)
        self._sealer = Sealer(key)
        self._matcher = Matcher(recorded.steps, options.rules)
        if options.until is not None:
            self._matcher.until(options.until)
        self._steps = {step.number: step for step in self._matcher.rows}
        self._optional = self._matcher.optional
        self._patience = Patience(recorded.timestamps, options.patience_s)
        self.background = BackgroundTraffic(recorded.run, self._matcher.rows)
        awaited = [step for step in self._matcher.rows if step.number not in self._optional]
        self._epochs = PolicyEpochs(history.epochs, awaited, self._change_policy)
        around_models = [
            self._steps.get(step.within or 0) for step in recorded.steps if step.kind is Kind.MODEL
        ]
        self._request_endpoints = {
            _endpoint(step.arguments) for step in around_models if step is not None
        }
        self._body_endpoints = {
            _endpoint(step.arguments) for step in told_by_body(self._matcher.rows)
        }
        self._moved = asyncio.Event()
        self._going_live = asyncio.Lock()
        self._inner_came: set[int] = set()  # steps inside others that came again
        self._refused: set[int] = set()
        self._open: set[int] = set()  # steps whose answers have begun and are not over
        self._has_begun = False
        self._is_live = False
        self._is_varied_recorded = False
        self._active: ActiveRun | None = None
        self._own_log: RunLog | None = None
        self.divergence: Divergence | None = None
        self.refusal: CannotFork | None = None

    # ---- the run that it belongs to --------------------------------------------------------------

    async def attach(self, run: ActiveRun) -> None:
        """Bind the session to the run that has started, before the agent does. New steps are
        numbered after those of the record."""
        self._active = run
        self._pacer = Pacer(run.box.machine.init_pid, QUIESCENCE_S)
        first_new = self._options.until or self._recorded.last_step + 1
        run.gate.count_from(first_new, self._recorded.inner_steps_from(first_new))
        await self._epochs.reach(0, is_answered=False)

    @property
    def _run(self) -> ActiveRun:
        assert self._active is not None, "the session was not attached to its run"
        return self._active

    async def _change_policy(self, epoch: PolicyEpoch, last_step: int) -> None:
        """Put a policy in force, and record it. What was done before counts for its limits, as they
        count."""
        gate, history = self._run.gate, self._history
        before = gate.policy
        gate.record(TermsChanged(epoch.at, policy_source(epoch.policy, epoch.file)))
        if epoch.policy.digest == before.digest:
            return
        # An answer is on its way. Nothing of a recorded past stays open but for requests.
        await self._run.box.network.change_terms(epoch.policy, cuts=False)
        done = self._recorded.done_before(min(epoch.at, last_step + 1))
        gate.count_past(
            PastAction(action, outcome, history.at(action.step or 0)) for action, outcome in done
        )

    # ---- what the gate asks (RecordedAnswers) ----------------------------------------------------

    async def find(self, action: Action) -> RecordedOutcome | None:
        try:
            return None if self._is_live else await self._find(action)
        except CannotFork as refusal:
            self.refusal = refusal
            self._move()
            raise ReplayDiverged(f"{refusal.message}.") from None
        except PaddockError as error:  # of the record, or of what it takes to go live
            raise self._diverge(_unusable(error), None) from None

    async def _find(self, action: Action) -> RecordedOutcome | None:
        view = self._agent_view(action) or self._view(action)
        inner = self._recorded.inner_step(action.parent or 0, action.kind)
        if inner is not None and inner.number not in self._inner_came:
            return self._inner_outcome(inner, view)
        is_stuck = False
        while True:
            match self._matcher.propose(view, is_stuck=is_stuck):
                case StepMatch(step, is_repeat):
                    self._move()
                    await self._epochs.reach(step.number, is_answered=False)
                    return self._outcome(step, is_repeat=is_repeat)
                case Background() as background:
                    # It wakes nobody: whoever waits must not wait for ever because of it.
                    return self._background_outcome(background, action)
                case Live():
                    await self._go_live()
                    return None
                case Mismatch() as mismatch:
                    raise self._diverge(mismatch, view)
                case Early(step, waits_for):
                    limit_s = self._patience.for_turn(step, waits_for)
                    may_be_stuck = not is_stuck and step is not None and step.is_contained
                    if may_be_stuck:
                        limit_s = min(limit_s, _STUCK_S)
                    if await self._patience.waits(self._moved, limit_s):
                        continue
                    if not may_be_stuck:
                        raise self._diverge(self._matcher.give_up(view), view)
                    is_stuck = True
                case _ as never:
                    assert_never(never)

    def find_refused(self, action: Action) -> RecordedOutcome | None:
        if self._is_live:
            return None
        view = self._view(action)
        rule = self._matcher.background_rule(view)
        if rule is not None:
            return self.background.refused(rule)
        match self._matcher.refused(view):
            case RecordedStep() as step:
                is_repeat = step.number in self._refused
                self._refused.add(step.number)
                return self._outcome(step, is_repeat=is_repeat)
            case Live():
                return None
            case Mismatch() as mismatch:
                raise self._diverge(mismatch, view)
            case _ as never:
                assert_never(never)

    def has_request(self, request: Action) -> bool:
        return not self._is_live and _endpoint(request.arguments) in self._request_endpoints

    def needs_body(self, request: Action) -> bool:
        return not self._is_live and _endpoint(request.arguments) in self._body_endpoints

    async def turn(self, outcome: RecordedOutcome) -> None:
        if outcome.background is not None:
            return
        step = self._steps[outcome.step]
        limit_s = self._patience.for_answer(step)
        while step.within is None and not self._matcher.may_answer(step):
            if not await self._patience.waits(self._moved, limit_s):
                raise self._diverge(self._matcher.give_up_answer(step), None)
        await self._until_over(step.answer_n)
        # An agent sees which of several was answered first only if it is left the time.
        await self._pacer.turn()
        await self._epochs.reach(step.number, is_answered=True)
        self._open.add(step.number)
        self._answered(step)

    def over(self, outcome: RecordedOutcome) -> None:
        if outcome.background is None:
            self._open.discard(outcome.step)
            self._answered(self._steps[outcome.step])

    # ---- parts of answers ------------------------------------------------------------------------

    async def _until(self, step: RecordedStep, n: int) -> None:
        """Hold a part of an answer that goes on until what came before it then has come again."""
        limit_s = self._patience.for_answer(step)
        while late := [
            earlier for earlier in self._matcher.before(n) if earlier.number != step.number
        ]:
            if not await self._patience.waits(self._moved, limit_s):
                raise self._diverge(Mismatch(DivergedBy.MISSING, late[0]), None)

    async def _until_end(self, step: RecordedStep, n: int) -> None:
        """Hold the end of an answer as its parts, and until the answers that were over before it
        then are over again, and have been taken."""
        await self._until(step, n)
        await self._until_over(n)
        await self._pacer.turn()

    async def _until_over(self, n: float) -> None:
        """Wait for answers that have begun, and were over before a record. Not for long: a client
        may be slow to take its answer, and the order of what is over matters to few agents."""
        while any((self._steps[number].settled_n or math.inf) <= n for number in self._open):
            if not await self._patience.waits(self._moved, _STUCK_S):
                return

    def _answered(self, step: RecordedStep) -> None:
        """Note that the agent may act on the answer from now on."""
        if step.within is None:
            self._matcher.answered(step)
        self._move()

    def _move(self) -> None:
        """Wake whoever waits: something has come, or was answered."""
        self._moved.set()
        self._moved = asyncio.Event()

    # ---- outcomes --------------------------------------------------------------------------------

    def _outcome(self, step: RecordedStep, *, is_repeat: bool = False) -> RecordedOutcome:
        number = step.number
        settled = self._recorded.settled(number)
        is_model = step.kind is Kind.MODEL
        return RecordedOutcome(
            run=self._recorded.run,
            step=number,
            decision=self._recorded.decision(number),
            outcome=settled.outcome,
            result=settled.result,
            error=settled.error,
            cost=settled.cost,
            answered_by=settled.answered_by,
            draft_id=settled.draft_id,
            is_repeat=is_repeat,
            is_unseen=step.is_unseen,
            edited=self._edited(number),
            inner=self._recorded.inner_entries(number) if is_model else (),
            diverged=partial(self._unanswerable, step),
            is_same_body=self._matcher.is_same_body,
            is_same_text=self._matcher.is_same_text,
            until=partial(self._until, step),
            until_end=partial(self._until_end, step),
            wait_s=self._patience.for_answer(step),
            pieces=self._recorded.pieces(number),
            unsealed=partial(self._unsealed, settled.result),
        )

    def _inner_outcome(self, step: RecordedStep, view: ActionView) -> RecordedOutcome:
        """Return the outcome of a step inside another one, which has been found already."""
        self._inner_came.add(step.number)
        differences = compare(row_view(step), view, self._options.rules)
        if differences:
            raise self._diverge(Mismatch(DivergedBy.CHANGED, step, differences), view)
        return self._outcome(step)

    def _background_outcome(self, match: Background, action: Action) -> RecordedOutcome:
        recorded = None
        if match.row is not None:
            recorded = self._outcome(match.row, is_repeat=match.is_repeat)
        return self.background.outcome(match, recorded, action, self._run.gate.policy)

    def _edited(self, step: int) -> EditedStep | None:
        edited = self._recorded.edited(step)
        if edited is None:
            return None
        action, entries = edited
        return EditedStep(action, self._outcome(self._steps[action.step or 0]), entries)

    def _unsealed(self, result: Any) -> list[tuple[str, str]]:
        """Return the credentials among the headers of an answer, which the journal seals."""
        text = result.get("sealed") if isinstance(result, Mapping) else None
        if text is None:
            return []
        pairs = self._sealer.unseal(str(text), self._recorded.root)
        return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]

    def _unanswerable(
        self, step: RecordedStep, at: str | None, recorded: Any, proposed: Any
    ) -> ReplayDiverged:
        kind = DivergedBy.UNKEPT if at is None else DivergedBy.CHANGED
        difference = Difference(at or "answer", recorded, proposed)
        return self._diverge(Mismatch(kind, step, (difference,)), None)

    # ---- what is compared ------------------------------------------------------------------------

    def _agent_view(self, action: Action) -> ActionView | None:
        """Return the view of the agent's own step for another version of the agent: that is its
        first step, whatever its command is."""
        is_first, self._has_begun = not self._has_begun, True
        own = self._steps.get(AGENT_STEP)
        if not is_first or own is None or not self._options.is_other_agent:
            return None
        return row_view(own) if action.kind is own.kind else None

    def _view(self, action: Action) -> ActionView:
        gate = self._run.gate
        if self._own_log is None:
            self._own_log = RunLog(gate.records.journal.directory)
        try:
            arguments = compared_arguments(self._own_log, action)
        except PaddockError as error:
            raise ReplayDiverged(f"What was proposed cannot be read: {error}") from None
        masked = gate.records.masked(arguments)
        keyed = dict(action.context.get("keyed") or {})
        if masked != arguments:
            keyed |= hmac_leaves(self._keyed, arguments, masked)
        view = view_of(action.kind, action.name, masked, keyed)
        return replace(view, sent=action.context.get(SENT))

    # ---- the end ---------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Finish a fork whose agent has ended. An agent that has not gone live has diverged, unless
        the fork begins after its last step: then it goes live now."""
        if self.end() is not None or self._is_live or self.refusal is not None:
            return
        first = self._steps.get(self._options.until or 0)
        if first is not None:
            if first.is_candidate and first.number not in self._optional:
                self._diverge(Mismatch(DivergedBy.MISSING, first), None)
            return
        try:
            await self._go_live()
        except CannotFork as refusal:
            self.refusal = refusal

    def end(self) -> Divergence | None:
        """Finish a replay whose agent has ended, and return its divergence: steps that never came
        are one."""
        if not self._is_live and self.divergence is None:
            missing = self._matcher.ended()
            if missing is not None:
                self._diverge(missing, None)
        self._record_counts()
        return self.divergence

    def conclude(self, result: FinishedRun) -> FinishedRun:
        """Return the result with how the past was replayed."""
        return replace(
            result,
            divergence=self.divergence,
            background=self.background.count,
            varied=self.varied,
        )

    @property
    def varied(self) -> dict[str, int]:
        """The differences that were allowed in matching steps, counted by label."""
        return dict(self._matcher.varied)

    def _record_counts(self) -> None:
        """Record how much background traffic there was, and what varied; each once."""
        events: list[BackgroundCounted | Varied | None] = []
        events.append(self.background.report(self._options.until))
        if self.varied and not self._is_varied_recorded:
            self._is_varied_recorded = True
            events.append(Varied(self.varied))
        for event in events:
            if event is not None and self._active is not None:
                with contextlib.suppress(JournalBroken):
                    self._active.gate.record(event)

    def _diverge(self, mismatch: Mismatch, view: ActionView | None) -> ReplayDiverged:
        """Record a divergence, and stop the agent where that is wanted."""
        recorded = None if mismatch.row is None else row_view(mismatch.row)
        divergence = Divergence(mismatch.kind, mismatch.step, mismatch.differences, recorded, view)
        self.record_divergence(divergence)
        self._move()
        return ReplayDiverged(f"{divergence.text[:1].upper()}{divergence.text[1:]}.")

    def record_divergence(self, divergence: Divergence) -> None:
        """Record a divergence. The first is what counts."""
        if self.divergence is not None:
            return
        self.divergence = divergence
        with contextlib.suppress(JournalBroken):
            self._run.gate.record(divergence.event)
        if self._options.is_stopped:
            self._run.stop()

    async def _go_live(self) -> None:
        """End the past, once; whoever comes meanwhile waits for it."""
        async with self._going_live:
            await self._epochs.reach(self._options.until or 0, is_answered=False)
            self._record_counts()
            if not self._is_live and self._on_live is not None:
                await self._on_live()
            self._is_live = True
            self._move()


def _endpoint(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(repr(arguments.get(key)) for key in ("method", "host", "port", "path"))


def _unusable(error: PaddockError) -> Mismatch:
    return Mismatch(DivergedBy.UNKEPT, None, (Difference("record", error.message, "needed"),))


def _shown(value: Any) -> Any:
    return "(absent)" if value is ABSENT else value


def _view_fields(view: ActionView | None) -> dict[str, Any] | None:
    return None if view is None else {"name": view.name, **view.parts}
