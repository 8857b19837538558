"""A second future for a recorded run: the agent is started again, everything before a step is
answered from the record, and from there on it goes its own way: with the files and the world of
that step, under its own terms, with nobody's earlier yes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.network.inside_state import InsideState
from paddock.doors.network.pacing import Pacer
from paddock.fence.offload import offload
from paddock.model.errors import InvalidInput
from paddock.model.values import dataclass
from paddock.policy.decide import Policy
from paddock.run.again import LivedThrough, Manner
from paddock.run.epochs import Epoch, change_terms, epochs_of, order_at
from paddock.run.lines import around_of
from paddock.run.matching.besides import marked
from paddock.run.matching.forkable import check_forkable, last_place
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
from paddock.run.running import Ended, Nobody, Performance, Stage, Watcher, called
from paddock.run.tape import Tape
from paddock.run.trusting import check_trusted
from paddock.run.worlds import note_world, past_world
from paddock.world.world import World

if TYPE_CHECKING:
    from paddock.gate.gate import Gate
    from paddock.run.recording import StateRecorder

LAST = "last"


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
) -> list[Ended]:
    """Futures of one run, `count` of each kind, as many at once as there are cores (or `jobs`).
    `over` is told of each when it has ended. Raises InvalidInput where there is no such step, or
    no future can begin there."""
    kinds = [words] if isinstance(words, ForkWords) else list(words)
    wanted = [replace(kind, seed=_seed(kind, n)) for kind in kinds for n in range(count)]
    engine = Engine.current()
    check_trusted(directory, engine.home)
    tape = Tape.read(directory)
    plans = [plan_of(tape, one) for one in wanted]
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


def plan_of(tape: Tape, words: ForkWords) -> Plan:
    """Raises InvalidInput."""
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
    elif words.command is None:
        raise InvalidInput("a fork of the state alone needs a command", hint="say -- COMMAND")
    first, epochs = order_again(tape, words.command), epochs_of(tape)
    then = order_at(first, epochs, at)
    policy = changed(_policy(then, words), stage=words.stage, faults=words.faults, seed=words.seed)
    order = replace(then, policy=policy, file=words.policy or then.file)
    past = [one for one in epochs if one.at < at]
    terms = (*past, Epoch(at, policy, order.file))
    return Plan(tape, words, at, first.policy, terms, order, rules)


def _policy(order: Order, words: ForkWords) -> Policy:
    if words.policy is not None:
        return order_of(["true"], cwd=order.cwd, file=words.policy, sets=words.sets).policy
    if words.sets:
        return with_sets(order.policy_text, order.policy.terms.base, sets_of(words.sets))
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
            inside=InsideState(_memory(plan), tape.run),
            told=tape.setting.get("envs") or {},
        )
        self._performance = Performance(engine, before, watch, stage)

    async def play(self) -> Ended:
        ended = await self._performance.play()
        if self._past is None:
            return ended
        past = self._past
        return replace(ended, divergence=past.divergence, beside=past.asides.count)

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
            recorder.follows = self._plan.tape.trees_without(self._past.optional)
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
        assert self._recorder is not None
        self._recorder.follows = None
        restored = await self._restore_files(box)
        policy = plan.order.policy.digest
        gate.note({"what": "live", "at": plan.at, "policy_digest": policy,
                   "files_restored": restored})  # fmt: skip

    async def _restore_files(self, box: Box) -> int:
        tree = self._plan.tape.tree_at(self._plan.at)
        if tree is None:
            return 0
        if self._past is None:
            return await restore_files(box, tree, self._recorder, is_fresh=True)
        around = await around_of(self._plan.tape, self._plan.at, box.machine.init_pid)
        return await restore_files(box, tree, self._recorder, around=around)


def _memory(plan: Plan) -> dict[str, Any]:
    """What the agent had declared: one with a past declares it again by itself."""
    return plan.tape.memory_at(plan.at) if plan.words.is_state_only else {}
