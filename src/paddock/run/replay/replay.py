"""Replay: the agent's own program runs again, and everything that it wants from outside is answered
from its record. Nothing real is touched, no secret is needed, nobody is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace as with_changes

from paddock.doors.machine.engine import Engine
from paddock.doors.machine.sources import BoxSources, NoWorld, PlaceholderSecrets
from paddock.doors.network.inside_api.environment import faketime_envs
from paddock.doors.network.inside_api.state import InsideState
from paddock.doors.trust import NO_TRUST, Trust, check_trust
from paddock.gate.run_keys import run_key
from paddock.gate.signed_journals import check_trusted
from paddock.journal.secrets.value_hmac import ValueHmac
from paddock.model.errors import InvalidInput
from paddock.model.events import Lineage
from paddock.model.steps import AGENT_STEP
from paddock.policy.background import USUAL, background_rule
from paddock.run.configuration import given_envs, stdin_of
from paddock.run.files import restore_files
from paddock.run.matching.recorded_step import Difference, DivergedBy
from paddock.run.matching.rules import Rules, vary_of
from paddock.run.matching.timestamps import SLACK_S, Timestamps
from paddock.run.order import TIMEOUT_S, Order
from paddock.run.replay.patience import PATIENCE_S
from paddock.run.replay.policy_epochs import PolicyHistory
from paddock.run.replay.recorded_run import RecordedRun
from paddock.run.replay.session import Divergence, ReplayOptions, ReplaySession
from paddock.run.session import ActiveRun, FinishedRun, Nobody, RunMode, RunSession, Watcher, called
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.run.state_recorder import StateRecorder

ON_DIVERGENCE = ("stop", "block", "live")
RECORDED = "recorded"
CLOCKS = (RECORDED, "real")
_LONGEST_S = 24 * 3600.0


class PastOptions(msgspec.Struct, frozen=True):
    """The differences that are allowed while a recorded past is replayed, and values that are given
    anew."""

    vary: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # background traffic, besides what is usual or the file says
    drops_beside: bool = False  # only what `beside` says here
    patience_s: float = PATIENCE_S  # beyond how long things took in the record
    # Values of variables that the recorded run was given: they are not on record, and come from
    # the environment if they are not given here.
    envs: Mapping[str, str] | None = None


def replay(
    directory: Path,
    *,
    command: Sequence[str] | None = None,
    on_divergence: str = "stop",
    clock: str = RECORDED,
    past: PastOptions | None = None,
    watch: Watcher | None = None,
    trust: Trust = NO_TRUST,
) -> FinishedRun:
    """Replay a run to its end, or to where it leaves its record. With a `command`, another version
    of the agent is run against the same past. The clock inside begins at the recorded timestamp
    where libfaketime is installed, unless it is to be the real one. Raises InvalidInput."""
    if on_divergence not in ON_DIVERGENCE:
        choices = ", ".join(ON_DIVERGENCE)
        raise InvalidInput(f"on divergence: {on_divergence!r} is none of {choices}")
    if clock not in CLOCKS:
        raise InvalidInput(f"clock: {clock!r} is none of {', '.join(CLOCKS)}")
    past = past or PastOptions()
    engine = Engine.current()
    recorded = RecordedRun(directory, check_trusted(directory, engine.home))
    history = PolicyHistory.of(recorded)
    options = ReplayOptions(
        rules_for(recorded, past),
        patience_s=past.patience_s,
        is_stopped=on_divergence != "block",
        is_other_agent=command is not None,
    )
    order = recorded_order(engine.home, recorded, history, command, past.envs or {})
    check_trust(order.policy, trust)
    envs = faketime_envs(recorded.window[0]) if clock == RECORDED else {}
    mode = ReplayMode(engine.home, recorded, history, options, envs=envs)
    result = called(engine, RunSession(engine, order, watch or Nobody(), mode).run())
    if on_divergence == "live" and _can_continue(result):
        return _continue_live(directory, recorded, result, command, past, watch, trust)
    return result


def _can_continue(result: FinishedRun) -> bool:
    """Return whether there is a step to go on from: with another exit code alone all was done."""
    divergence = result.divergence
    if divergence is None:
        return False
    return divergence.step is not None or divergence.kind is not DivergedBy.CHANGED


def _continue_live(
    directory: Path,
    recorded: RecordedRun,
    result: FinishedRun,
    command: Sequence[str] | None,
    past: PastOptions,
    watch: Watcher | None,
    trust: Trust,
) -> FinishedRun:
    """Go on from where the agent left the record, as a fork: with a world, and for real."""
    from paddock.run.replay.fork import ForkOptions, fork

    assert result.divergence is not None
    at = result.divergence.step or recorded.last_step + 1
    options = ForkOptions(at, command=None if command is None else tuple(command), past=past)
    [continued] = fork(directory, options, watch=watch, trust=trust)
    return with_changes(continued, left=result.divergence)


class ReplayMode(RunMode):
    """A run whose answers all come from a recorded one. The agent begins with the files that it had
    then, or with those that are given in their place."""

    kind = "replay"

    def __init__(
        self,
        home: Home,
        recorded: RecordedRun,
        history: PolicyHistory,
        options: ReplayOptions,
        *,
        envs: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__(files)
        self._has_own_files = files is not None
        self._recorded = recorded
        self.envs = envs or {}
        self._session = self.answers = ReplaySession(home, recorded, history, options)
        self._recorder: StateRecorder | None = None
        self.lineage = Lineage(recorded.run, recorded.root)
        self.sources = BoxSources(PlaceholderSecrets(placeholder_tokens(recorded)), NoWorld())
        self.host_envs = recorded.configured.envs
        self.inside = InsideState(run=recorded.run)

    async def begin(self, run: ActiveRun) -> None:
        """Put back the files that were in the workspace before the agent began."""
        self._recorder = run.recorder
        await self._session.attach(run)
        await super().begin(run)
        tree = None if self._has_own_files else self._recorded.tree_at(AGENT_STEP)
        if tree is not None:
            await restore_files(run.box, tree, run.recorder, is_fresh=True)

    def conclude(self, result: FinishedRun) -> FinishedRun:
        session, exit_code = self._session, self._recorded.exit_code
        if session.end() is None and exit_code not in (None, result.exit_code):
            difference = Difference("exit_code", exit_code, result.exit_code)
            session.record_divergence(
                Divergence(DivergedBy.CHANGED, None, (difference,), None, None)
            )
        return with_changes(session.conclude(result), differs=self._different_files())

    def _different_files(self) -> tuple[str, ...]:
        """Return the steps at which the files are not what they were: an agent may write what it
        likes."""
        if self._recorder is None:
            return ()
        return tuple(
            f"files at step {step}"
            for step, tree in self._recorder.trees.items()
            if self._recorded.tree_at(step) not in (None, tree)
        )


def rules_for(recorded: RecordedRun, past: PastOptions) -> Rules:
    """Return what may differ: what is declared, and the present time. Background traffic is what
    the options say and, unless that is dropped, what the file says or else the usual."""
    # With libfaketime the present is the recorded time.
    now = (recorded.window[0] - SLACK_S, time.time() + _LONGEST_S)
    moments = Timestamps.of_run(*recorded.window, now)
    declared: Sequence[str] = ()
    if not past.drops_beside:
        of_file = recorded.configured.beside
        declared = USUAL if of_file is None else of_file
    texts = dict.fromkeys((*declared, *past.beside))
    return Rules(
        tuple(vary_of(text) for text in (*recorded.configured.vary, *past.vary)),
        moments,
        tuple(background_rule(text) for text in texts),
    )


def recorded_order(
    home: Home,
    recorded: RecordedRun,
    history: PolicyHistory,
    command: Sequence[str] | None,
    envs: Mapping[str, str],
) -> Order:
    """Return the order of the recorded run. Raises InvalidInput where it cannot be given again."""
    argv = tuple(command) if command else recorded.command
    if not argv:
        raise InvalidInput(f"{recorded.run} does not say what was run", hint="say -- COMMAND")
    cwd = Path(recorded.opened.cwd or ".")
    if not cwd.is_dir():
        raise InvalidInput(f"the project of {recorded.run} is not there any more: {cwd}")
    configured = recorded.configured
    keyed = ValueHmac(run_key(home, recorded.directory, recorded.root))
    return Order(
        command=argv,
        cwd=cwd,
        policy=history.first,
        file=configured.policy.name,
        envs=given_envs(configured, keyed, envs, os.environ),
        seed=recorded.opened.seed or "",
        timeout_s=configured.timeout_s or TIMEOUT_S,
        stdin=stdin_of(configured),
    )


def placeholder_tokens(recorded: RecordedRun) -> dict[str, str]:
    """Return the random part of each secret's placeholder, by name: the agent may have written the
    placeholder down."""
    tokens = {}
    for name, value in recorded.configured.envs.items():
        front, _, token = value.rpartition("_")
        if front == f"paddock_{name}":
            tokens[name] = token
    return tokens
