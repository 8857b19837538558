"""Records the state around each step where it has changed: the files when an action is proposed,
the world when it is over. From that a later fork comes back to any step."""

from __future__ import annotations

import contextlib
from bisect import bisect, insort
from functools import partial
from typing import TYPE_CHECKING

from paddock.fence.offload import offload
from paddock.journal.errors import JournalBroken
from paddock.model.action import Action, Outcome, Receipt
from paddock.model.errors import OutOfSpace
from paddock.model.events import FilesNotRecorded, FilesRecorded, WorldChanged
from paddock.model.space import is_out_of_space
from paddock.state.disk_space import full_disk

if TYPE_CHECKING:
    from paddock.doors.machine.box import Box
    from paddock.gate.gate import Gate
    from paddock.run.replay.recorded_run import RecordedRun
    from paddock.state.trees.recorder import Recorded, Recorder

_TOUCHES_WORLD = (Outcome.SIMULATED, Outcome.DRAFTED, Outcome.FAILED)


class StateRecorder:
    """One for each run. Files are read on a thread, the world on the engine's loop."""

    def __init__(self, box: Box, gate: Gate) -> None:
        self._box = box
        self._gate = gate
        self._files: Recorder | None = None
        self._noted = RecordedTree()
        self._positions: dict[str, int] = {} if box.world is None else box.world.positions()
        self._past: RecordedRun | None = None  # of a fork: its steps before the first live one
        self._past_trees: dict[int, str] = {}
        self._live_from = 0
        self.trees: dict[int, str] = {}  # as it was at each step of this run, for who compares

    async def before(self, action: Action) -> None:
        """Record the files as the agent left them when it proposed the action."""
        step = action.step
        if self._past is not None and step is not None and step < self._live_from:
            self._note_past(self._past, step)
            return
        files = await self.look(step)
        if files is None or step is None:
            return
        self.trees[step] = files.tree
        event = FilesRecorded(files.tree, len(files.changed), is_cut=not files.is_whole)
        self._note(event, step)

    def follow(self, past: RecordedRun, until: int) -> None:
        """Give the steps before one the files that they have in the record, whenever they come: in
        the past of a fork they are what they were, and at its end they are made so."""
        self._past, self._past_trees, self._live_from = past, past.trees_by_step(), until

    def _note_past(self, past: RecordedRun, step: int) -> None:
        if (why := past.unrecorded.get(step)) is not None:
            self._note_unrecorded(why, step)
        if (tree := self._past_trees.get(step)) is not None:
            self._note(FilesRecorded(tree, 0), step)

    def _note(self, event: FilesRecorded, step: int) -> None:
        """Record the files of a step, and those of others that need it now."""
        for number in self._noted.missing(step, event.tree):
            files = event if number == step else FilesRecorded(self._noted.looked[number], 0)
            self._gate.record(files, number)

    def after(self, receipt: Receipt) -> None:
        world = self._box.world
        if world is None or receipt.outcome not in _TOUCHES_WORLD:
            return
        positions = world.positions()
        if positions != self._positions:
            self._positions = positions
            self._gate.record(WorldChanged(positions), receipt.step)

    async def ended(self) -> None:
        """Record the files as they are at the end, while the sandbox still exists."""
        files = await self.look(is_final=True)
        if files is None:
            return
        # Of the whole run: what the last step changed is not what is asked at the end.
        event = FilesRecorded(
            files.tree,
            files.total,
            is_cut=not files.is_whole,
            is_last=True,
            unstored=files.unstored,
        )
        with contextlib.suppress(JournalBroken):
            self._gate.record(event)

    async def look(self, step: int | None = None, *, is_final: bool = False) -> Recorded | None:
        """Return what the files are now. None when they cannot be read any more, or not be stored:
        that is noted for the step, so that no earlier state is taken for its own."""
        quick = None if is_final or self._files is None else self._files.unchanged()
        if quick is not None:
            return quick  # most actions follow one that changed no file: no thread for those
        try:
            return await offload(partial(self._look, is_final=is_final))
        except OutOfSpace as full:
            self._box.fail(full)
            self._note_unrecorded(full.message, step)
            return None
        except OSError as error:
            if is_out_of_space(error):
                self._box.fail(full_disk(self._box.engine.home.root, error))
            self._note_unrecorded(str(error), step)
            return None

    def _note_unrecorded(self, error: str, step: int | None) -> None:
        with contextlib.suppress(JournalBroken):
            self._gate.record(FilesNotRecorded(error), step)

    @property
    def files(self) -> Recorder | None:
        """The recorder that has recorded the files so far."""
        return self._files

    def _look(self, *, is_final: bool) -> Recorded:
        if self._files is None:
            from paddock.run.files import recorder_of

            budget = self._gate.records.journal.budget
            self._files = recorder_of(self._box, budget.take_file)
        return self._files.record(is_final=is_final)


class RecordedTree:
    """At which steps the files have to be written down, so that each step's own are those of the
    last one at or before it that has some. Steps in flight together are looked at in any order."""

    def __init__(self) -> None:
        self.looked: dict[int, str] = {}
        self._steps: list[int] = []  # that were looked at, in order
        self._written: list[int] = []  # those of them that were written down

    def missing(self, step: int, tree: str) -> list[int]:
        """Return the steps that need an event now: this one, if a reader would assume another tree
        for it, and then the next one that was recorded before and relied on the earlier tree."""
        insort(self._steps, step)
        self.looked[step] = tree
        at = bisect(self._written, step)
        before = self._written[max(at - 1, 0) : at]
        if before and self.looked[before[0]] == tree:
            return []
        at = bisect(self._steps, step)
        after = self._steps[at : at + 1]
        needed = [step, *(number for number in after if number not in self._written)]
        for number in needed:
            insort(self._written, number)
        return needed
