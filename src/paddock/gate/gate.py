"""The crossing. `cross(action)` is the only way to an effect: it is proposed, decided, asked where
that is wanted, carried out by the executor that the decision names, and settled. Every part is in
the journal; what cannot be recorded does not happen, and what fails on the way is a no.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paddock.gate.alerts import Alert, Alerts
from paddock.gate.approvals import (
    EDITED,
    YES,
    Approval,
    Approvals,
    Question,
    answered_body,
    asked_by,
    digest_of,
    why_no,
)
from paddock.gate.asking import Approver, wait_for_answer
from paddock.gate.crossing import Crossing
from paddock.gate.drafts import Drafts
from paddock.gate.execution import Execution
from paddock.gate.executors import (
    Done,
    Live,
    Means,
    Preview,
    Rebuild,
    Refused,
    Spoil,
    StandIn,
    never,
    refusal,
    said_by,
)
from paddock.gate.faults import FaultPlan
from paddock.gate.ledger import NOTHING, Ledger, Reservation
from paddock.gate.store import GateStore
from paddock.gate.unmasking import restored
from paddock.journal.bodies import as_json
from paddock.journal.errors import JournalBroken
from paddock.journal.mask import Masker
from paddock.journal.records import Type
from paddock.journal.texts import decided_text, proposed_text, settled_text
from paddock.journal.writer import Entry, Journal
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, Receipt, Verdict
from paddock.model.errors import InvalidInput
from paddock.policy.decide import Policy

MAX_EDITS = 5  # of one action, one after the other
_NOT_DONE = {Outcome.REFUSED, Outcome.DRAFTED, Outcome.SIMULATED, Outcome.FAULTED}


class Gate:
    """The gate of one run. May be used from any event loop."""

    def __init__(
        self,
        policy: Policy,
        journal: Journal,
        store: GateStore,
        *,
        masker: Masker | None = None,
        approvers: Sequence[Approver] = (),
        world: StandIn | None = None,
        past: StandIn | None = None,
    ) -> None:
        self.policy = policy
        self.run = journal.run
        self.approvals = Approvals(store)
        self.drafts = Drafts(store)
        self.alerts = Alerts(self._write_alert)
        self._journal = journal
        self._ledger = Ledger(store, policy.agent, journal.run)
        # What is spent in a world counts in that world: the real budget is left alone.
        world_run = f"world of {journal.run}"  # an account of its own, for each run and over all
        self._world_ledger = Ledger(store, world_run, world_run)
        self._masker = masker
        self._approvers = tuple(approvers)
        seed = policy.world.seed if policy.world is not None else 0
        self.faults = FaultPlan(policy.faults, seed) if policy.faults else None
        self._execution = Execution(journal, world, past, self._keep_draft, self._tell)
        self._execution.keeps_answers = any("stale" in one.words for one in policy.faults)
        self._steps = itertools.count(1)
        self._observed: list[Entry] = []
        self._writing = threading.Lock()

    async def cross(
        self,
        action: Action,
        live: Live,
        preview: Preview | None = None,
        rebuild: Rebuild | None = None,
        simulate: Live | None = None,
        spoil: Spoil | None = None,
    ) -> Receipt:
        """Carries out an action, or not. A blocked action is a receipt, not an exception."""
        step = next(self._steps)
        means = Means(live, preview, rebuild, simulate, spoil)
        try:
            return await self._finish(self._propose(step, action, means))
        except JournalBroken as error:
            why = f"It could not be recorded, so it was not done: {error.message}"
            return Receipt(Outcome.REFUSED, step, error=why, exception=Refused(why))

    def refuse(self, action: Action, decided_by: str, why: str) -> Receipt:
        """Writes down an action that its door cannot let pass, whatever the rules say."""
        step = next(self._steps)
        action = action.at(step)
        decision = Decision(Verdict.BLOCK, decided_by, why, action.effect)
        try:
            proposed = Entry(Type.PROPOSED, proposed_text(action), step)
            position = self._write(proposed, Entry(Type.DECIDED, decided_text(decision), step))
        except JournalBroken as error:
            return Receipt(Outcome.REFUSED, step, error=why, decision=decision, exception=error)
        crossing = Crossing(step, action, decision, NOTHING, position, Means(never))
        return self._settle(crossing, refusal(why))

    def lets_pass(self, action: Action) -> bool:
        """Whether the action is allowed and counts for no limit: such a program is observed only,
        anything else has to cross."""
        if self.faults is not None and self.faults.concerns(action.kind):
            return False  # one may strike it
        decision = self.policy.decide(action)
        # Not by who decided: a rule may have any name.
        is_stood_in = self.policy.stand_in(action) is not None
        passing = (Verdict.ALLOW, Verdict.SIMULATE) if is_stood_in else (Verdict.ALLOW,)
        return decision.verdict in passing and not self.policy.amounts(action)

    def observe(self, body: Mapping[str, Any], step: int | None = None) -> None:
        """Notes what the fence saw happen. It is written with the next record, before that step is
        acknowledged, or by `flush`."""
        self._observed.append(Entry(Type.OBSERVED, as_json(body), step))

    def flush(self) -> None:
        """Writes what was observed. Raises JournalBroken."""
        try:
            if self._observed:
                self._write()
        except JournalBroken:
            self._observed.clear()  # nobody will ever write them: they must not pile up
            raise

    def note(self, body: Mapping[str, Any], step: int | None = None) -> None:
        """Writes down what is neither an action nor an observation. Raises JournalBroken."""
        self._write(Entry(Type.NOTED, as_json(body), step))

    def _write_alert(self, alert: Alert) -> None:
        about = {"what": "alert", "alert": alert.name, "times": alert.times, **alert.about}
        self.note(about, alert.step)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, summary: Mapping[str, Any] | None = None) -> None:
        """Ends the journal with a signed head."""
        self.flush()
        self._journal.close(as_json(dict(summary or {})))

    def _write(self, *entries: Entry) -> int:
        """With one write, in order: what was observed so far, and these."""
        with self._writing:  # two threads must not take the same observations
            observed = list(self._observed)
            position = self._journal.extend((*observed, *entries))
            del self._observed[: len(observed)]
            return position

    def _propose(self, step: int, action: Action, means: Means, edits: int = 0) -> Crossing:
        action = action.at(step)
        decision, reservation = self._decide(action)
        proposed = Entry(Type.PROPOSED, proposed_text(action), step)
        decided = Entry(Type.DECIDED, decided_text(decision), step)
        try:
            position = self._write(proposed, decided)
        except BaseException:
            self._give_back(reservation)
            raise
        return Crossing(step, action, decision, reservation, position, means, edits)

    def _decide(self, action: Action) -> tuple[Decision, Reservation]:
        try:
            reservation = self._reserved(action)
            decision = self.policy.decide(action, reservation.spent)
            return self._struck(action, decision), reservation
        except Exception as error:
            self._tell("deciding", error, action.step)
            why = "It could not be decided, and that means no."
            return Decision(Verdict.BLOCK, "error", why, Effect.ADMIN), NOTHING

    def _struck(self, action: Action, decision: Decision) -> Decision:
        """A fault on purpose strikes only what would have been carried out."""
        then = decision.verdict
        if self.faults is None or then not in (Verdict.ALLOW, Verdict.SIMULATE):
            return decision
        is_real = then is Verdict.ALLOW and action.kind is Kind.HTTP
        words = self.faults.strike(action, action.step or 0, decision.effect, is_real=is_real)
        if words is None:
            return decision
        why = "A fault on purpose."
        return replace(decision, verdict=Verdict.FAULT, decided_by=str(words["id"]), why=why,
                       fault=words, once_approved=then)  # fmt: skip

    def _reserved(self, action: Action) -> Reservation:
        charges = self.policy.amounts(action)
        if not charges:
            return NOTHING
        stand_in = self.policy.stand_in(action)
        is_real = stand_in is None or stand_in.is_real(action)
        return (self._ledger if is_real else self._world_ledger).reserve(charges)

    async def _finish(self, crossing: Crossing, approved_by: str | None = None) -> Receipt:
        """To its end, whatever that is. An action that somebody has approved is not asked again."""
        decision = crossing.decision
        verdict = decision.verdict if approved_by is None else decision.once_approved
        try:
            if verdict is Verdict.ASK:
                done, approved_by = await self._ask(crossing)
            else:
                done = await self._execution.carry_out(crossing, verdict)
        except JournalBroken:
            raise
        except BaseException as error:  # what came of it is not known: it may have happened
            why = f"It was interrupted: {type(error).__name__}"
            with contextlib.suppress(JournalBroken):
                self._settle(crossing, Done(outcome=Outcome.FAILED, error=why))
            raise
        if isinstance(done, Approval):
            return await self._edited(crossing, done)
        return self._settle(crossing._replace(answered_by=approved_by), done)

    async def _keep_draft(self, crossing: Crossing) -> tuple[str, Any]:
        preview = await self._previewed(crossing)
        action, agent = self._masked_action(crossing.action), self.policy.agent
        return self.drafts.add(self.run, agent, crossing.step, action, preview), preview

    async def _ask(self, crossing: Crossing) -> tuple[Done | Approval, str | None]:
        """What came of it and who said yes; or the answer that edits it."""
        try:
            approval = self._put_question(crossing, await self._previewed(crossing))
            answer = await wait_for_answer(self.approvals, approval, self._approvers)
            self._write(Entry(Type.ANSWERED, answered_body(answer), crossing.step))
            if answer.state not in YES:
                no = replace(refusal(why_no(answer)), record={"approval": answer.approval_id})
                return no, None
            if approval.policy != self.policy.digest:
                return refusal("The terms changed while it was asked. Try it again."), None
            self.approvals.use(answer, self._digest(crossing.action))
            if answer.state == EDITED:
                return answer, None
        except JournalBroken:
            raise
        except Exception as error:
            self._tell("asking", error, crossing.step)
            return refusal("It could not be asked, and that means no."), None
        done = await self._execution.carry_out(crossing, crossing.decision.once_approved)
        return done, answer.answered_by

    def _put_question(self, crossing: Crossing, preview: Any) -> Approval:
        from paddock.gate.proposals import asking_terms  # most runs ask nobody

        action = crossing.action
        question = Question(
            run=self.run,
            agent=self.policy.agent,
            step=crossing.step,
            action=self._masked_action(action),
            decision=crossing.decision,
            preview=preview,
            policy=self.policy.digest,
            digest=self._digest(action),
            timeout_s=self.policy.approvals.timeout_s,
            terms=asking_terms(self.policy, action, crossing.decision),
        )
        approval = self.approvals.ask(question)
        body = {"approval": approval.approval_id, "digest": approval.digest, "preview": preview}
        try:
            self._write(Entry(Type.ASKED, as_json(body), crossing.step))
        except BaseException:
            self.approvals.withdraw(approval.approval_id)
            raise
        return approval

    async def _edited(self, crossing: Crossing, answer: Approval) -> Receipt:
        """The approver's own arguments are a new action, decided on like any other. The yes holds
        for what was asked; a rule that had not asked before asks again."""
        by = answer.answered_by
        try:
            edited = self._rewritten(crossing, answer)
        except Exception as error:
            why = error.message if isinstance(error, InvalidInput) else "It could not be edited."
            self._tell("editing", error, crossing.step)
            return self._settle(crossing, refusal(why))
        self._settle(crossing, Done(outcome=Outcome.REFUSED, error=Refused(f"{by} edited it")))
        new = self._propose(next(self._steps), edited, crossing.means, crossing.edits + 1)
        is_asked_anew = not set(asked_by(new.decision)) <= set(asked_by(crossing.decision))
        is_settled = new.decision.verdict is Verdict.ASK and not is_asked_anew
        return await self._finish(new, by if is_settled else None)

    def _rewritten(self, crossing: Crossing, answer: Approval) -> Action:
        assert answer.edited is not None
        if crossing.edits >= MAX_EDITS:
            raise InvalidInput(f"It was edited more than {MAX_EDITS} times.")
        action, rebuild = crossing.action, crossing.means.rebuild
        shown = self._masked_action(action).arguments
        arguments = restored(answer.edited, shown, action.arguments)
        edited = (
            replace(action, arguments=arguments) if rebuild is None else rebuild(action, arguments)
        )
        return replace(edited, parent=crossing.step)

    def _settle(self, crossing: Crossing, done: Done | Receipt) -> Receipt:
        if isinstance(done, Receipt):
            return done  # it was settled as another step, or with an answer
        if crossing.reservation.rows and not self._counts(crossing, done.outcome):
            self._give_back(crossing.reservation)
        error, said = done.error, said_by(done.error)
        receipt = Receipt(
            outcome=done.outcome,
            step=crossing.step,
            result=done.value,
            error=said,
            decision=crossing.decision,
            answered_by=crossing.answered_by,
            draft_id=done.draft_id,
            cost=done.cost,
            exception=error if isinstance(error, BaseException) else None,
        )
        try:
            self._write_settled(receipt, done.recorded)
        except JournalBroken as broken:
            why = f"What came of it could not be recorded: {broken.message}"
            return replace(receipt, outcome=Outcome.FAILED, error=why, exception=broken)
        return receipt

    def _counts(self, crossing: Crossing, outcome: Outcome) -> bool:
        """Whether what was reserved is spent. What a stand-in did counts in its world."""
        if outcome is Outcome.SIMULATED:
            return self.policy.stand_in(crossing.action) is not None
        return outcome not in _NOT_DONE

    def _write_settled(self, receipt: Receipt, recorded: Any) -> None:
        try:
            body = settled_text(receipt, recorded)
            self._write(Entry(Type.SETTLED, body, receipt.step))
        except JournalBroken:
            raise
        except Exception as error:  # a result that cannot be written must not hide that it happened
            self._tell("writing down a result", error, receipt.step)
            plain = replace(receipt, result=None, cost={})
            self._write(Entry(Type.SETTLED, settled_text(plain), receipt.step))

    async def _previewed(self, crossing: Crossing) -> Any:
        """What would come of it, where the action has a dry run. It must not have an effect."""
        if crossing.means.preview is None:
            return None
        try:
            return self._masked(as_json(await crossing.means.preview(crossing.action)))
        except Exception as error:
            return self._masked({"error": f"no preview: {said_by(error)}"})

    def _give_back(self, reservation: Reservation) -> None:
        with contextlib.suppress(Exception):  # then it stays spent, which only tightens
            self._ledger.release(reservation)

    def _digest(self, action: Action) -> str:
        return digest_of(action, self.policy.digest, self.run)

    def _tell(self, doing: str, error: Exception, step: int | None) -> None:
        """Writes down what went wrong with us. The agent is told that it did, not what: paths and
        states of the host are not its business."""
        with contextlib.suppress(Exception):
            self.note({"what": f"failed while {doing}", "error": said_by(error)}, step)

    def _masked_action(self, action: Action) -> Action:
        """As it may be shown and kept. Numbers stay what they are: it may be sent one day."""
        if self._masker is None:
            return action
        arguments, context = self._masker.mask(action.arguments), self._masker.mask(action.context)
        return replace(action, arguments=arguments, context=context)

    def _masked(self, value: Any) -> Any:
        plain = as_json(value)
        return plain if self._masker is None else self._masker.mask(plain)
