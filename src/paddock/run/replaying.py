"""A recorded run, played again: the agent's own program runs, and all that it wants from outside is
answered from the record. Nothing real is touched, no secret is needed, nobody is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.network.inside_envs import faketime_envs
from paddock.doors.network.inside_state import InsideState
from paddock.doors.network.pacing import Pacer
from paddock.doors.trust import NO_TRUST, Trust, check_trust
from paddock.fence.offload import offload
from paddock.gate.run_keys import run_key
from paddock.gate.signed_journals import check_trusted
from paddock.journal.keyed import Keyed
from paddock.journal.sealing import Sealer
from paddock.model.errors import InvalidInput
from paddock.policy.beside import USUAL, beside_of
from paddock.run.again import AGENT, Divergence, LivedThrough, Manner
from paddock.run.epochs import change_terms, epochs_of
from paddock.run.matching.moments import SLACK_S, Moments
from paddock.run.matching.rows import Difference, DivergedBy
from paddock.run.matching.rules import Rules, vary_of
from paddock.run.order import TIMEOUT_S, Order, policy_in
from paddock.run.patience import PATIENCE_S
from paddock.run.running import Ended, Nobody, Performance, Stage, Watcher, called
from paddock.run.setting import given_envs, stdin_in
from paddock.run.tape import Tape
from paddock.state.home import Home
from paddock.world.world import World

if TYPE_CHECKING:
    from paddock.gate.gate import Gate
    from paddock.run.recording import StateRecorder
    from paddock.state.trees.restoring import Restored

Begin = Callable[[Box], Awaitable[None]]
MODES = ("stop", "block", "live")
RECORDED = "recorded"
CLOCKS = (RECORDED, "real")
STILL_S = 0.5  # that an agent is left to take an answer
_LONGEST_S = 24 * 3600.0


def replay(
    directory: Path,
    *,
    command: Sequence[str] | None = None,
    on_divergence: str = "stop",
    vary: Sequence[str] = (),
    beside: Sequence[str] = (),
    drops_beside: bool = False,
    patience_s: float = PATIENCE_S,
    clock: str = RECORDED,
    watch: Watcher | None = None,
    trust: Trust = NO_TRUST,
    envs: Mapping[str, str] | None = None,
) -> Ended:
    """Plays it again, to its end or to where it leaves its record. The clock inside begins at the
    recorded moment where libfaketime is installed, unless it is to be the real one; what goes on
    as a fork has the real one. `patience_s` is beyond how long things took in the record.
    Only `beside` goes on beside it, if it `drops_beside` what is usual and what its file says.
    `envs` are variables that the recorded run was given: their values are not on record, and come
    from the environment if they are not given here.
    Raises InvalidInput."""
    if on_divergence not in MODES:
        raise InvalidInput(f"on divergence: {on_divergence!r} is none of {', '.join(MODES)}")
    if clock not in CLOCKS:
        raise InvalidInput(f"clock: {clock!r} is none of {', '.join(CLOCKS)}")
    engine = Engine.current()
    tape = Tape.read(directory, check_trusted(directory, engine.home))
    manner = Manner(
        rules_for(tape, vary, beside, drops_beside=drops_beside),
        epochs=epochs_of(tape),
        patience_s=patience_s,
        is_stopped=on_divergence != "block",
        is_other_agent=command is not None,
    )
    order = order_again(tape, command, envs or {})
    check_trust(order.policy, trust)
    clock_envs = faketime_envs(tape.window[0]) if clock == RECORDED else {}
    played = Replay(engine, tape, order, manner, watch or Nobody(), envs=clock_envs)
    ended = called(engine, played.play())
    if on_divergence == "live" and _is_left(ended):
        past = {"vary": tuple(vary), "beside": tuple(beside), "drops_beside": drops_beside}
        past |= {"patience_s": patience_s, "envs": dict(envs or {})}
        return _go_on(directory, tape, ended, command, past, watch, trust)
    return ended


def _is_left(ended: Ended) -> bool:
    """Whether there is a step to go on from: with another exit code alone all was done."""
    found = ended.divergence
    return found is not None and (found.step is not None or found.kind != DivergedBy.CHANGED)


def _go_on(
    directory: Path,
    tape: Tape,
    ended: Ended,
    command: Sequence[str] | None,
    past: Mapping[str, Any],
    watch: Watcher | None,
    trust: Trust,
) -> Ended:
    """From where it left the record it goes on as a fork: with a world, and for real."""
    from paddock.run.forking import ForkWords, fork

    assert ended.divergence is not None
    at = ended.divergence.step or tape.last_step + 1
    words = ForkWords(at, command=None if command is None else tuple(command), **past)
    return replace(fork(directory, words, watch=watch, trust=trust)[0], left=ended.divergence)


class Replay:
    """One replay while it goes."""

    def __init__(
        self,
        engine: Engine,
        tape: Tape,
        order: Order,
        manner: Manner,
        watch: Watcher,
        begin: Begin | None = None,
        envs: Mapping[str, str] | None = None,
    ) -> None:
        """`begin` puts the files there that the agent began with; those of the record, if it is
        not given."""
        self._tape = tape
        self._manner = manner
        manner.stop = lambda: self._performance.stop()
        self._past = lived_through(engine.home, tape, manner)
        self._recorder: StateRecorder | None = None
        stage = Stage(
            kind="replay",
            past=self._past,
            lineage={"run": tape.run, "root": tape.root},
            prepare=self._prepare,
            ready=self._ready,
            begin=begin or self._begin,
            inside=InsideState(run=tape.run),
            envs=envs or {},
            told=tape.setting.get("envs") or {},
        )
        self._performance = Performance(engine, order, watch, stage)

    async def play(self) -> Ended:
        ended = await self._performance.play(self._conclude)
        past, differs = self._past, self._differences()
        beside = past.asides.count
        return replace(
            ended,
            divergence=past.divergence,
            differs=differs,
            beside=beside,
            varied=past.varied,
        )

    def _conclude(self, ended: Ended) -> None:
        """While the journal is open: what did not come, and how it ended."""
        was = self._tape.exit_code
        if self._past.end() is None and was is not None and ended.exit_code != was:
            found = Difference("exit_code", was, ended.exit_code)
            self._past.note(Divergence(str(DivergedBy.CHANGED), None, (found,), None, None))

    def _prepare(self, box: Box) -> None:
        box.opens_world = _no_world
        self._manner.pace = Pacer(box.machine.init_pid, STILL_S).turn
        box.network.tokens = tokens_of(self._tape)
        box.network.is_dry = True

    def _ready(self, box: Box, gate: Gate, recorder: StateRecorder) -> None:
        self._recorder = recorder
        self._past.attend(gate)
        self._past.epochs.change = partial(change_terms, box, gate, self._tape)

    async def _begin(self, box: Box) -> None:
        """What was put into the workspace before the agent began is there again."""
        await self._past.epochs.come(0, is_answered=False)
        tree = self._tape.tree_at(AGENT)
        if tree is not None:
            await restore_files(box, tree, self._recorder, is_fresh=True)

    def _differences(self) -> tuple[str, ...]:
        """Steps at which the files are not what they were: an agent may write what it likes."""
        if self._recorder is None:
            return ()
        found = self._recorder.trees.items()
        steps = [step for step, tree in found if self._tape.tree_at(step) not in (None, tree)]
        return tuple(f"files at step {step}" for step in steps)


async def restore_files(
    box: Box,
    tree: str,
    recorder: StateRecorder | None,
    *,
    is_fresh: bool = False,
    first: str | None = None,
) -> Restored:
    """Makes the files of the sandbox that tree, but for what its processes hold. Raises
    HostCannot."""
    from paddock.run.files import restore_into
    from paddock.state.trees.restoring import Restored

    known = None if recorder is None else await recorder.look()
    if known is not None and known.tree == tree:
        return Restored()
    files = None if recorder is None else recorder.files
    async with box.still():
        return await offload(
            partial(restore_into, box, tree, files, is_fresh=is_fresh, first=first)
        )


async def _no_world(box: Box) -> World | None:
    return None


def lived_through(home: Home, tape: Tape, manner: Manner) -> LivedThrough:
    """The record, ready to be met."""
    key = run_key(home, tape.directory, tape.root)
    return LivedThrough(tape, manner, Keyed(key), Sealer(key))


def rules_for(
    tape: Tape, vary: Sequence[str], beside: Sequence[str] = (), *, drops_beside: bool = False
) -> Rules:
    """What may differ: what is declared, and the present moment. What goes on beside: what is said
    here, and, unless that is dropped, what the file says or else the usual."""
    # With libfaketime the present is the recorded one.
    now = (tape.window[0] - SLACK_S, time.time() + _LONGEST_S)
    moments = Moments.of_run(*tape.window, now)
    usual = () if drops_beside else USUAL if tape.beside is None else tape.beside
    texts = dict.fromkeys((*usual, *beside))
    return Rules(
        tuple(vary_of(one) for one in (*tape.vary, *vary)),
        moments,
        tuple(beside_of(one) for one in texts),
    )


def order_again(tape: Tape, command: Sequence[str] | None, envs: Mapping[str, str]) -> Order:
    """The order of the recorded run. Raises InvalidInput where it cannot be given again."""
    policy = tape.setting.get("policy") or {}
    words = tuple(command) if command else tape.command
    if not words:
        raise InvalidInput(f"{tape.run} does not say what was run", hint="say -- COMMAND")
    keyed = Keyed(run_key(Home.find(), tape.directory, tape.root))
    cwd = Path(str(tape.opened.get("cwd") or "."))
    if not cwd.is_dir():
        raise InvalidInput(f"the project of {tape.run} is not there any more: {cwd}")
    return Order(
        command=words,
        cwd=cwd,
        policy=policy_in(policy),
        file=policy.get("name"),
        envs=given_envs(tape.setting, keyed, envs, os.environ),
        seed=str(tape.opened.get("seed") or ""),
        timeout_s=float(tape.setting.get("timeout_s") or TIMEOUT_S),
        stdin=stdin_in(tape.setting),
    )


def tokens_of(tape: Tape) -> dict[str, str]:
    """The chance in the placeholders of secrets, by name: the agent may have written them down."""
    found = {}
    for name, value in (tape.setting.get("envs") or {}).items():
        front, _, token = str(value).rpartition("_")
        if front == f"paddock_{name}":
            found[name] = token
    return found
