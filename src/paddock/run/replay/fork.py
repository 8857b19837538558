"""Fork: a second future for a recorded run.

The agent is started again and everything before a step is answered from the record; from there on
it goes its own way, with the files and the world of that step, under its own policy. No earlier
approval is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace as with_changes

from paddock.doors.machine.engine import Engine
from paddock.doors.machine.sources import BoxSources, HostSecrets
from paddock.doors.network.inside_api.state import InsideState
from paddock.doors.trust import NO_TRUST, Trust, check_trust
from paddock.fence.offload import offload
from paddock.fence.processes.quiescence import concurrency, wait_until_quiescent
from paddock.gate.signed_journals import check_step_signed, check_trusted
from paddock.journal.errors import JournalBroken
from paddock.model.action import Kind
from paddock.model.errors import (
    HostCannot,
    IntegrityError,
    InvalidInput,
    OutOfSpace,
    PaddockError,
)
from paddock.model.events import ForkRefused, Lineage, WentLive, WorldChanged
from paddock.model.steps import AGENT_STEP
from paddock.policy.decide import Policy
from paddock.run.files import home_of, restore_files, store_of
from paddock.run.matching.background import marked
from paddock.run.matching.fork_points import check_forkable, places
from paddock.run.matching.recorded_step import RecordedStep
from paddock.run.matching.rules import Rules
from paddock.run.order import Order, changed, order_of, sets_of, with_sets
from paddock.run.replay.past_world import past_world
from paddock.run.replay.policy_epochs import PolicyEpoch, PolicyHistory
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.replay import (
    PastOptions,
    placeholder_tokens,
    recorded_order,
    rules_for,
)
from paddock.run.replay.session import CannotFork, ReplayOptions, ReplaySession
from paddock.run.session import (
    REFUSED,
    ActiveRun,
    FinishedRun,
    Nobody,
    RunMode,
    RunSession,
    Watcher,
    called,
)
from paddock.state.files.descent import shown
from paddock.state.home import Home
from paddock.state.trees.held_files import NotWrittenByAgent
from paddock.state.trees.known_states import node_at, unlike_any
from paddock.state.trees.restore import NotStored, Restored

if TYPE_CHECKING:
    from paddock.world.world import World

LAST = "last"
_QUIESCENCE_S = 0.5  # for what is under way to come to its next step
_REQUESTS = (Kind.HTTP, Kind.MODEL, Kind.TOOL, Kind.CODE, Kind.FILE)
_MAX_KEPT_NAMED = 20  # in the journal: an agent may have any number


class ForkOptions(msgspec.Struct, frozen=True):
    """The differences of a fork from its original. What is None stays as it was recorded."""

    at: int | str  # a step, or `last`: behind all that is whole
    policy: str | None = None
    stage: str | None = None
    sets: tuple[str, ...] = ()
    faults: Any = None
    command: tuple[str, ...] | None = None
    seed: int | str | None = None
    is_state_only: bool = False  # the files and the world of the step, without its past
    past: PastOptions = msgspec.field(default_factory=PastOptions)

    def recorded(self) -> dict[str, Any]:
        """Return what makes this fork different, for the journal."""
        options = {
            "policy": self.policy,
            "stage": self.stage,
            "set": list(self.sets) or None,
            "faults": self.faults,
            "command": None if self.command is None else list(self.command),
            "seed": self.seed,
            "beside": list(self.past.beside) or None,
            "drops_beside": self.past.drops_beside or None,
            "state_only": self.is_state_only or None,
        }
        return {name: value for name, value in options.items() if value is not None}


OnEnd = Callable[[ForkOptions, FinishedRun], None]


def fork(
    directory: Path,
    options: ForkOptions | Sequence[ForkOptions],
    *,
    count: int = 1,
    jobs: int | None = None,
    watch: Watcher | Sequence[Watcher] | None = None,
    on_end: OnEnd | None = None,
    trust: Trust = NO_TRUST,
) -> list[FinishedRun]:
    """Fork a run, `count` times for each of the options, as many at once as there are cores (or
    `jobs`). `on_end` is told of each fork when it has ended. Raises InvalidInput where there is no
    such step, or no fork can begin there, and NotTrusted where a paddock file of its past or its
    future asks something of the host that nobody agreed to."""
    kinds = [options] if isinstance(options, ForkOptions) else list(options)
    wanted = [
        with_changes(kind, seed=_seed(kind, number)) for kind in kinds for number in range(count)
    ]
    engine = Engine.current()
    recorded = RecordedRun(directory, check_trusted(directory, engine.home))
    for kind in kinds:
        if isinstance(kind.at, int):
            check_step_signed(directory, kind.at, recorded.last_step)
    history = PolicyHistory.of(recorded)
    plans = [plan_fork(engine.home, recorded, history, kind, trust) for kind in wanted]
    watchers = list(watch) if isinstance(watch, Sequence) else [watch] * len(plans)
    return called(engine, _run_all(engine, plans, watchers, jobs or os.cpu_count() or 1, on_end))


class ForkPlan(msgspec.Struct, frozen=True):
    """One fork, checked."""

    recorded: RecordedRun
    options: ForkOptions
    at: int
    past: PolicyHistory  # the policies that the past was under
    order: Order  # with the policy of the future
    rules: Rules  # for matching the past


def plan_fork(
    home: Home,
    recorded: RecordedRun,
    history: PolicyHistory,
    options: ForkOptions,
    trust: Trust = NO_TRUST,
) -> ForkPlan:
    """Check that the fork is possible. Raises InvalidInput and NotTrusted."""
    rules = rules_for(recorded, options.past)
    steps = marked(recorded.steps, rules.beside)
    at = places(steps)[-1] if options.at == LAST else int(options.at)
    at = _outer_step(recorded, at)
    _check_step(recorded, steps, options, at)
    first = recorded_order(home, recorded, history, options.command, options.past.envs or {})
    present = history.order_at(first, at)
    check_trust(first.policy, trust)
    if options.policy is None:
        check_trust(present.policy, trust)
    policy = _future_policy(present, options, trust)
    policy = changed(policy, stage=options.stage, faults=options.faults, seed=options.seed)
    order = with_changes(present, policy=policy, file=options.policy or present.file)
    before = tuple(epoch for epoch in history.epochs if epoch.at < at)
    past = PolicyHistory(history.first, (*before, PolicyEpoch(at, policy, order.file)))
    return ForkPlan(recorded, options, at, past, order, rules)


def _check_step(
    recorded: RecordedRun, steps: Sequence[RecordedStep], options: ForkOptions, at: int
) -> None:
    """Raise InvalidInput if no fork can begin at this step."""
    if not options.is_state_only:
        refused = check_forkable(steps, at)
        if refused is not None:
            instead = " or ".join(map(str, refused.instead))
            raise InvalidInput(
                f"{recorded.run} cannot be forked at step {at}: {refused.why}",
                hint=f"it can be at step {instead}" if instead else None,
            )
    if (why := recorded.why_unrecorded(at)) is not None:
        with_files = [step for step in places(steps) if recorded.why_unrecorded(step) is None]
        nearest = min(with_files, key=lambda step: abs(step - at), default=None)
        raise InvalidInput(
            f"{recorded.run} cannot be forked at step {at}: its files were not recorded: {why}",
            hint=None if nearest is None else f"it can be at step {nearest}",
        )
    if options.is_state_only and options.command is None:
        raise InvalidInput("a fork of the state alone needs a command", hint="say -- COMMAND")


def _future_policy(order: Order, options: ForkOptions, trust: Trust) -> Policy:
    if options.policy is not None:
        changed_order = order_of(
            ["true"], cwd=order.cwd, file=options.policy, sets=options.sets, trust=trust
        )
        return changed_order.policy
    if options.sets:
        terms = order.policy.terms
        return with_sets(order.policy_text, terms.base, terms.file, sets_of(options.sets))
    return order.policy


def _outer_step(recorded: RecordedRun, at: int) -> int:
    """Return the step as a part of whose answer this one came: it has no beginning of its own."""
    for step in recorded.steps:
        if step.number == at and step.within is not None:
            return _outer_step(recorded, step.within)
    return at


def _seed(options: ForkOptions, number: int) -> int | str | None:
    """Return the random seed of one of several forks: the first has that of the past."""
    if number == 0:
        return options.seed
    if isinstance(options.seed, int):
        return options.seed + number
    return number


async def _run_all(
    engine: Engine,
    plans: Sequence[ForkPlan],
    watchers: Sequence[Watcher | None],
    jobs: int,
    on_end: OnEnd | None,
) -> list[FinishedRun]:
    slots = asyncio.Semaphore(jobs)

    async def run_fork(plan: ForkPlan, watch: Watcher | None) -> FinishedRun:
        async with slots:
            result = await _run_fork(engine, plan, watch or Nobody())
            if on_end is not None:
                on_end(plan.options, result)
            return result

    pairs = zip(plans, watchers, strict=True)
    results = await asyncio.gather(*(run_fork(*pair) for pair in pairs), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result  # the others have come to their end, and are on record
    return [result for result in results if isinstance(result, FinishedRun)]


async def _run_fork(engine: Engine, plan: ForkPlan, watch: Watcher) -> FinishedRun:
    if plan.options.is_state_only:
        mode: RunMode = StateForkMode(engine.home, plan)
        return await RunSession(engine, plan.order, watch, mode).run()
    past = ForkMode(engine.home, plan)
    # The agent begins under the first policy of its past.
    order = with_changes(plan.order, policy=plan.past.first)
    result = await RunSession(engine, order, watch, past).run()
    if past.refusal is not None:
        raise past.refusal
    return result


class _ForkMode(RunMode):
    """The base of all forks: they have the secrets of their future with the placeholders of their
    past, and the world of their step."""

    kind = "fork"

    def __init__(self, home: Home, plan: ForkPlan) -> None:
        super().__init__()
        recorded = plan.recorded
        self._home = home
        self._plan = plan
        self.lineage = Lineage(recorded.run, recorded.root, plan.at, plan.options.recorded())
        secrets = HostSecrets(plan.order.policy, placeholder_tokens(recorded))
        self.sources = BoxSources(secrets, WorldOfStep(home, plan))
        self.sandbox_policy = plan.order.policy
        self.host_envs = recorded.configured.envs

    async def begin(self, run: ActiveRun) -> None:
        """Record how far the stores of the world are: whoever forks this run further can tell
        whether they have their past yet."""
        if run.box.world is not None:
            run.gate.record(WorldChanged(run.box.world.positions()))


class ForkMode(_ForkMode):
    """A run whose past is answered from a recorded one, and which goes on live from a step."""

    def __init__(self, home: Home, plan: ForkPlan) -> None:
        super().__init__(home, plan)
        recorded, options = plan.recorded, plan.options
        self._run: ActiveRun | None = None
        replay_options = ReplayOptions(
            plan.rules,
            until=plan.at,
            patience_s=options.past.patience_s,
            is_other_agent=options.command is not None,
        )
        self._session = self.answers = ReplaySession(
            home, recorded, plan.past, replay_options, on_live=self._go_live
        )
        self.inside = InsideState(run=recorded.run)

    @property
    def refusal(self) -> CannotFork | None:
        """Why it could not go live at its step."""
        return self._session.refusal

    async def begin(self, run: ActiveRun) -> None:
        """Put back the files that were in the workspace before the agent began."""
        self._run = run
        await super().begin(run)
        run.recorder.follow(self._plan.recorded, until=self._plan.at)
        await self._session.attach(run)
        tree = self._plan.recorded.tree_at(AGENT_STEP)
        if tree is not None:
            await restore_files(run.box, tree, run.recorder, is_fresh=True)

    async def finish(self) -> None:
        await self._session.finish()

    def conclude(self, result: FinishedRun) -> FinishedRun:
        return self._session.conclude(result)

    async def _go_live(self) -> None:
        """End the past: the files are made what they were at the step."""
        assert self._run is not None
        await _go_live(self._run, self._plan, self._restore_files)

    async def _restore_files(self, run: ActiveRun, tree: str) -> Restored:
        """Restore the files of the step. Those of an agent that does one thing after the other can
        be made exactly what they were when it proposes the step again. Of one that does several
        things at once, some are further than they were then and some not so far: each writes its
        own part, and none may be helped."""
        recorded, box, recorder = self._plan.recorded, run.box, run.recorder
        init_pid = box.machine.init_pid
        if not has_overlaps(recorded.steps) and concurrency(init_pid) < 2:
            return await restore_files(box, tree, recorder, first=recorded.tree_at(AGENT_STEP))
        await wait_until_quiescent(init_pid, _QUIESCENCE_S)
        present = await recorder.look()
        if present is None or present.tree == tree:
            return Restored()
        states = [*recorded.trees.values()]
        if recorded.last_tree:
            states.append(recorded.last_tree)
        kept = await offload(unlike_any, store_of(self._home), present.tree, tree, states)
        return Restored(kept=tuple(map(shown, kept)))


class StateForkMode(_ForkMode):
    """A run that begins with the files, the world and the memory of a step, without its past."""

    def __init__(self, home: Home, plan: ForkPlan) -> None:
        super().__init__(home, plan)
        recorded = plan.recorded
        # An agent with a past declares its memory again by itself; this one has none.
        self.inside = InsideState(recorded.memory_at(plan.at), recorded.run)

    async def begin(self, run: ActiveRun) -> None:
        await super().begin(run)
        run.gate.count_from(self._plan.at)
        await _go_live(run, self._plan, self._restore_files)

    async def _restore_files(self, run: ActiveRun, tree: str) -> Restored:
        return await restore_files(run.box, tree, run.recorder, is_fresh=True)


def has_overlaps(steps: Sequence[RecordedStep]) -> bool:
    """Return whether two requests were ever open at the same time."""
    open_until = -math.inf
    for step in sorted(steps, key=lambda step: step.proposed_n):
        if step.kind not in _REQUESTS or not step.is_candidate or step.is_contained:
            continue
        if step.proposed_n < open_until:
            return True
        open_until = math.inf if step.settled_n is None else step.settled_n
    return False


RestoreFiles = Callable[[ActiveRun, str], Awaitable[Restored]]


async def _go_live(run: ActiveRun, plan: ForkPlan, restore: RestoreFiles) -> None:
    """Restore the files of the fork's step and record that it is live. Raises CannotFork."""
    tree = plan.recorded.tree_at(plan.at)
    try:
        restored = Restored() if tree is None else await restore(run, tree)
    except OutOfSpace:
        raise
    except (HostCannot, IntegrityError) as error:
        raise _refuse(run, plan, error) from None
    except OSError as error:
        why = HostCannot(f"its files cannot be read: {error.strerror or error}")
        raise _refuse(run, plan, why) from None
    # What programs hold open stays as they wrote it, and may differ from what was recorded.
    run.gate.record(
        WentLive(
            at=plan.at,
            policy_digest=plan.order.policy.digest,
            files_restored=len(restored.changed),
            files_kept=len(restored.kept),
            kept=list(restored.kept[:_MAX_KEPT_NAMED]),
        )
    )


def _refuse(run: ActiveRun, plan: ForkPlan, error: PaddockError) -> CannotFork:
    """End a fork whose files cannot be restored, and say where they can."""
    message = f"{plan.recorded.run} cannot be forked at step {plan.at}: {error.message}"
    instead = nearest_step(plan, error)
    hint = error.hint if instead is None else f"it can be at step {instead}"
    with contextlib.suppress(JournalBroken):
        run.gate.record(ForkRefused(plan.at, error.message, instead))
    run.stop(REFUSED)
    return CannotFork(message, hint=hint)


def nearest_step(plan: ForkPlan, error: PaddockError) -> int | None:
    """Return the nearest step at which a restore does not fail for the same reason; None if there
    is none, or if the reason does not depend on the step."""
    if not isinstance(error, NotWrittenByAgent | NotStored):
        return None
    recorded, at = plan.recorded, plan.at
    store = store_of(home_of(recorded.directory))

    def works(step: int) -> bool:
        tree = recorded.tree_at(step)
        if tree is None:
            return False
        if isinstance(error, NotWrittenByAgent):
            return node_at(store, tree, error.root, error.parts) == error.now
        nodes = (node_at(store, tree, root, parts) for root, parts in error.paths)
        return all(node is None or store.is_kept(node) for node in nodes)

    steps = places(marked(recorded.steps, plan.rules.beside))
    with contextlib.suppress(PaddockError):
        for step in sorted(steps, key=lambda step: abs(step - at)):
            if step != at and works(step):
                return step
    return None


class WorldOfStep:
    """Opens the stand-ins of a fork's policy as they were at its step."""

    def __init__(self, home: Home, plan: ForkPlan) -> None:
        self._home = home
        self._plan = plan

    async def open(self, home: Home, sandbox_id: str, policy: Policy) -> World | None:
        plan = self._plan
        terms = plan.order.policy.world
        if terms is None or not terms.stand_ins:
            return None
        from paddock.world.world import World

        past = await offload(past_world, self._home, plan)
        project = Path(plan.order.policy.terms.base or plan.order.cwd)
        open_world = partial(World.open, home.worlds / sandbox_id, sandbox_id, terms, project, past)
        return await offload(open_world)
