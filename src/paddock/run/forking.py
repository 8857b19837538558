"""A second future for a recorded run: the agent is started again, everything before a step is
answered from the record, and from there on it goes its own way: with the files and the world of
that step, under its own terms, with nobody's earlier yes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.network.inside_state import InsideState
from paddock.doors.network.pacing import Pacer
from paddock.doors.trust import NO_TRUST, Trust, check_trust
from paddock.fence.offload import offload
from paddock.gate.signed_journals import check_step_signed, check_trusted
from paddock.journal.errors import JournalBroken
from paddock.model.errors import (
    HostCannot,
    IntegrityError,
    InvalidInput,
    OutOfSpace,
    PaddockError,
)
from paddock.model.values import dataclass
from paddock.policy.decide import Policy
from paddock.run.again import AGENT, ForkRefused, LivedThrough, Manner
from paddock.run.epochs import Epoch, change_terms, epochs_of, order_at
from paddock.run.files import home_of, store_of
from paddock.run.lines import are_several
from paddock.run.matching.besides import marked
from paddock.run.matching.forkable import check_forkable, last_place, places
from paddock.run.matching.rows import Row
from paddock.run.matching.rules import Rules
from paddock.run.order import Order, changed, order_of, sets_of, with_sets
from paddock.run.patience import PATIENCE_S
from paddock.run.replaying import (
    STILL_S,
    lived_through,
    order_again,
    restore_files,
    rules_for,
    tokens_of,
)
from paddock.run.running import REFUSED, Ended, Nobody, Performance, Stage, Watcher, called
from paddock.run.tape import Tape
from paddock.run.worlds import note_world, past_world
from paddock.state.descent import shown
from paddock.state.trees.held import NotWrittenByAgent
from paddock.state.trees.known_states import node_at, unlike_any
from paddock.state.trees.restoring import NotStored, Restored
from paddock.world.world import World

if TYPE_CHECKING:
    from paddock.gate.gate import Gate
    from paddock.run.recording import StateRecorder

LAST = "last"
_MAX_KEPT_NAMED = 20  # in the journal: an agent may have any number


@dataclass(frozen=True, slots=True)
class ForkWords:
    """What is to be other than it was. What is not said stays."""

    at: int | str  # a step, or `last`: behind all that is whole
    policy: str | None = None
    stage: str | None = None
    sets: tuple[str, ...] = ()
    faults: Any = None
    command: tuple[str, ...] | None = None
    seed: int | str | None = None
    vary: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # in the past, besides what is usual or the file says
    drops_beside: bool = False  # only what `beside` says here
    is_state_only: bool = False
    patience_s: float = PATIENCE_S
    envs: Mapping[str, str] = field(default_factory=dict)  # values that are not on record

    def said(self) -> dict[str, Any]:
        """For the journal: what makes this fork different."""
        known = {
            "policy": self.policy,
            "stage": self.stage,
            "set": list(self.sets) or None,
            "faults": self.faults,
            "command": None if self.command is None else list(self.command),
            "seed": self.seed,
            "beside": list(self.beside) or None,
            "drops_beside": self.drops_beside or None,
            "state_only": self.is_state_only or None,
        }
        return {name: value for name, value in known.items() if value is not None}


Over = Callable[[ForkWords, Ended], None]


def fork(
    directory: Path,
    words: ForkWords | Sequence[ForkWords],
    *,
    count: int = 1,
    jobs: int | None = None,
    watch: Watcher | Sequence[Watcher] | None = None,
    over: Over | None = None,
    trust: Trust = NO_TRUST,
) -> list[Ended]:
    """Futures of one run, `count` of each kind, as many at once as there are cores (or `jobs`).
    `over` is told of each when it has ended. Raises InvalidInput where there is no such step, or
    no future can begin there, and NotTrusted where a paddock file of its past or its future asks
    something of the host that nobody agreed to."""
    kinds = [words] if isinstance(words, ForkWords) else list(words)
    wanted = [replace(kind, seed=_seed(kind, n)) for kind in kinds for n in range(count)]
    engine = Engine.current()
    tape = Tape.read(directory, check_trusted(directory, engine.home))
    for kind in kinds:
        if isinstance(kind.at, int):
            check_step_signed(directory, kind.at, tape.last_step)
    plans = [plan_of(tape, one, trust) for one in wanted]
    watchers = list(watch) if isinstance(watch, Sequence) else [watch] * len(plans)
    return called(engine, _all(engine, plans, watchers, jobs or os.cpu_count() or 1, over))


@dataclass(frozen=True, slots=True)
class Plan:
    """One fork, checked."""

    tape: Tape
    words: ForkWords
    at: int
    before: Policy  # the terms that the past began with
    epochs: tuple[Epoch, ...]  # those it came under, and at the end those of the future
    order: Order  # with those of the future
    rules: Rules  # for the past


def plan_of(tape: Tape, words: ForkWords, trust: Trust = NO_TRUST) -> Plan:
    """Raises InvalidInput and NotTrusted."""
    rules = rules_for(tape, words.vary, words.beside, drops_beside=words.drops_beside)
    rows = marked(tape.rows, rules.beside)
    at = _outer(tape, last_place(rows) if words.at == LAST else int(words.at))
    if not words.is_state_only:
        refused = check_forkable(rows, at)
        if refused is not None:
            instead = " or ".join(map(str, refused.instead))
            raise InvalidInput(
                f"{tape.run} cannot be forked at step {at}: {refused.why}",
                hint=f"it can be at step {instead}" if instead else None,
            )
    if (why := tape.why_unrecorded(at)) is not None:
        raise InvalidInput(
            f"{tape.run} cannot be forked at step {at}: its files were not recorded: {why}",
            hint=_recorded_places(tape, rows, at),
        )
    if words.is_state_only and words.command is None:
        raise InvalidInput("a fork of the state alone needs a command", hint="say -- COMMAND")
    first, epochs = order_again(tape, words.command, words.envs), epochs_of(tape)
    then = order_at(first, epochs, at)
    check_trust(first.policy, trust)
    if words.policy is None:
        check_trust(then.policy, trust)
    policy = _policy(then, words, trust)
    policy = changed(policy, stage=words.stage, faults=words.faults, seed=words.seed)
    order = replace(then, policy=policy, file=words.policy or then.file)
    past = [one for one in epochs if one.at < at]
    terms = (*past, Epoch(at, policy, order.file))
    return Plan(tape, words, at, first.policy, terms, order, rules)


def _recorded_places(tape: Tape, rows: Sequence[Row], at: int) -> str | None:
    known = [step for step in places(rows) if tape.why_unrecorded(step) is None]
    nearest = min(known, key=lambda step: abs(step - at), default=None)
    return None if nearest is None else f"it can be at step {nearest}"


def _policy(order: Order, words: ForkWords, trust: Trust) -> Policy:
    if words.policy is not None:
        return order_of(
            ["true"], cwd=order.cwd, file=words.policy, sets=words.sets, trust=trust
        ).policy
    if words.sets:
        terms = order.policy.terms
        return with_sets(order.policy_text, terms.base, terms.file, sets_of(words.sets))
    return order.policy


def _outer(tape: Tape, at: int) -> int:
    """A step that is part of another's answer has no beginning of its own."""
    row = next((row for row in tape.rows if row.step == at), None)
    return at if row is None or row.is_within is None else _outer(tape, row.is_within)


def _seed(words: ForkWords, number: int) -> int | str | None:
    """The first future has the chance of the past; each further one its own."""
    if number == 0:
        return words.seed
    if isinstance(words.seed, int):
        return words.seed + number
    return number


async def _all(
    engine: Engine,
    plans: Sequence[Plan],
    watchers: Sequence[Watcher | None],
    jobs: int,
    over: Over | None,
) -> list[Ended]:
    slots = asyncio.Semaphore(jobs)

    async def one(plan: Plan, watch: Watcher | None) -> Ended:
        async with slots:
            ended = await Fork(engine, plan, watch or Nobody()).play()
            if over is not None:
                over(plan.words, ended)
            return ended

    pairs = zip(plans, watchers, strict=True)
    every = await asyncio.gather(*(one(*pair) for pair in pairs), return_exceptions=True)
    if failed := [found for found in every if isinstance(found, BaseException)]:
        raise failed[0]  # the others have come to their end, and are on record
    return [found for found in every if isinstance(found, Ended)]


class Fork:
    """One future while it goes."""

    def __init__(self, engine: Engine, plan: Plan, watch: Watcher) -> None:
        self._engine = engine
        self._plan = plan
        self._box: Box | None = None
        self._gate: Gate | None = None
        self._recorder: StateRecorder | None = None
        tape, words = plan.tape, plan.words
        self._manner = manner = Manner(
            plan.rules,
            until=plan.at,
            epochs=plan.epochs,
            patience_s=words.patience_s,
            go_live=self._go_live,
            stop=lambda: self._performance.stop(),
            is_other_agent=words.command is not None,
        )
        self._past: LivedThrough | None = None
        if not words.is_state_only:
            self._past = lived_through(engine.home, tape, manner)
        lineage = {"run": tape.run, "at": plan.at, "root": tape.root, "words": words.said()}
        before = plan.order if self._past is None else replace(plan.order, policy=plan.before)
        stage = Stage(
            kind="fork",
            past=self._past,
            lineage=lineage,
            prepare=self._prepare,
            ready=self._ready,
            sandbox=plan.order.policy,
            begin=self._begin,
            finish=None if self._past is None else self._past.finish,
            inside=InsideState(_memory(plan), tape.run),
            told=tape.setting.get("envs") or {},
        )
        self._performance = Performance(engine, before, watch, stage)

    async def play(self) -> Ended:
        ended = await self._performance.play()
        if self._past is None:
            return ended
        past = self._past
        if past.refusal is not None:
            raise past.refusal
        return replace(
            ended, divergence=past.divergence, beside=past.asides.count, varied=past.varied
        )

    def _prepare(self, box: Box) -> None:
        self._box = box
        self._manner.pace = Pacer(box.machine.init_pid, STILL_S).turn
        box.opens_world = self._open_world
        box.network.tokens = tokens_of(self._plan.tape)
        box.network.live_policy = self._plan.order.policy

    def _ready(self, box: Box, gate: Gate, recorder: StateRecorder) -> None:
        self._gate, self._recorder = gate, recorder
        note_world(box, gate)
        if self._past is not None:
            recorder.follow(self._plan.tape, until=self._plan.at)
            self._past.attend(gate)
            self._past.epochs.change = partial(change_terms, box, gate, self._plan.tape)
        else:
            gate.count_from(self._plan.at)

    async def _begin(self, box: Box) -> None:
        """A fork without a past has its state from the beginning."""
        if self._past is None:
            await self._go_live()
            return
        await self._past.epochs.come(0, is_answered=False)
        if (tree := self._plan.tape.tree_at(1)) is not None:
            await restore_files(box, tree, self._recorder, is_fresh=True)

    async def _open_world(self, box: Box) -> World | None:
        terms = self._plan.order.policy.world
        if terms is None or not terms.stand_ins:
            return None
        plan, home = self._plan, self._engine.home
        past = await offload(partial(past_world, home, plan))
        project = Path(plan.order.policy.terms.base or plan.order.cwd)
        directory = home.worlds / box.sandbox_id
        opening = partial(World.open, directory, box.sandbox_id, terms, project, past)
        return await offload(opening)

    async def _go_live(self) -> None:
        """The past is over, and its terms with it: files as they were."""
        box, gate, plan = self._box, self._gate, self._plan
        assert box is not None and gate is not None
        try:
            restored = await self._restore_files(box)
        except OutOfSpace:
            raise
        except (HostCannot, IntegrityError) as error:
            raise self._refuse(error, gate) from None
        except OSError as error:
            why = error.strerror or str(error)
            raise self._refuse(HostCannot(f"its files cannot be read: {why}"), gate) from None
        policy = plan.order.policy.digest
        note = {"what": "live", "at": plan.at, "policy_digest": policy,
                "files_restored": len(restored.changed)}  # fmt: skip
        if restored.kept:
            # What programs hold open stays as they wrote it, and is other than it was recorded.
            note["files_kept"] = len(restored.kept)
            note["kept"] = list(restored.kept[:_MAX_KEPT_NAMED])
        gate.note(note)

    def _refuse(self, error: PaddockError, gate: Gate) -> ForkRefused:
        """Ends a fork whose files cannot be had back, and says where they can."""
        plan = self._plan
        message = f"{plan.tape.run} cannot be forked at step {plan.at}: {error.message}"
        instead = nearest_place(plan.tape, plan.rules, plan.at, error)
        hint = error.hint if instead is None else f"it can be at step {instead}"
        with contextlib.suppress(JournalBroken):
            gate.note({"what": "fork refused", "at": plan.at, "why": error.message,
                       **({} if instead is None else {"instead": instead})})  # fmt: skip
        self._performance.stop(REFUSED)
        return ForkRefused(message, hint=hint)

    async def _restore_files(self, box: Box) -> Restored:
        tape, at, recorder = self._plan.tape, self._plan.at, self._recorder
        tree = tape.tree_at(at)
        assert recorder is not None
        if tree is None:
            return Restored()
        if self._past is None:
            return await restore_files(box, tree, recorder, is_fresh=True)
        if not await are_several(tape, box.machine.init_pid):
            return await restore_files(box, tree, recorder, first=tape.tree_at(AGENT))
        # Several are at work: each of them writes its own part, and none may be helped.
        now = await recorder.look()
        if now is None or now.tree == tree:
            return Restored()
        store = store_of(self._engine.home)
        states = [*tape.trees.values(), *([tape.last_tree] if tape.last_tree else [])]
        kept = await offload(unlike_any, store, now.tree, tree, states)
        return Restored(kept=tuple(map(shown, kept)))


def nearest_place(tape: Tape, rules: Rules, at: int, error: PaddockError) -> int | None:
    """The nearest step at which a restore does not fail for the same reason; None if there is none,
    or if the reason does not depend on the step."""
    store = store_of(home_of(tape.directory))

    def works(step: int) -> bool:
        tree = tape.tree_at(step)
        if tree is None:
            return False
        if isinstance(error, NotWrittenByAgent):
            node = node_at(store, tree, error.root, error.parts)
            return node == error.now
        assert isinstance(error, NotStored)
        found = (node_at(store, tree, root, parts) for root, parts in error.paths)
        return all(node is None or store.is_kept(node) for node in found)

    if not isinstance(error, NotWrittenByAgent | NotStored):
        return None
    candidates = sorted(places(marked(tape.rows, rules.beside)), key=lambda step: abs(step - at))
    with contextlib.suppress(PaddockError):
        return next((step for step in candidates if step != at and works(step)), None)
    return None


def _memory(plan: Plan) -> dict[str, Any]:
    """What the agent had declared: one with a past declares it again by itself."""
    return plan.tape.memory_at(plan.at) if plan.words.is_state_only else {}
