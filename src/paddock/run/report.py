"""What a run came to, from its journal alone: who, under which terms, what was decided, what was
done, what it cost, what is left to look at. Nothing is verified or printed here.

`ReportFold` takes the records of a run one after the other and counts. They come from a journal, or
from its writer while the run goes on. A journal from elsewhere may say anything, so lists and the
names that are counted are bounded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from paddock.journal.codec import body_of
from paddock.journal.log import RunLog
from paddock.journal.plain_values import as_json
from paddock.journal.run_directory import is_held
from paddock.model.action import Outcome, Verdict
from paddock.model.events import (
    Alert,
    Answered,
    Asked,
    BackgroundCounted,
    BoundariesProved,
    BudgetUsedUp,
    Closed,
    Decided,
    Diverged,
    FilesNotRecorded,
    FilesRecorded,
    JsonObject,
    LeftOut,
    Lineage,
    Marked,
    Opened,
    PromptReported,
    Proposed,
    Record,
    Recovered,
    RefusedAgain,
    Settled,
    Varied,
    WentLive,
    WorldEnded,
)
from paddock.model.steps import AGENT_STEP, whole_number

RUNNING, ENDED, INTERRUPTED = "running", "ended", "interrupted"
MAX_LISTED = 1000  # drafts, marks, alerts that differ: of an agent that makes any number
_MAX_NAMES = 200  # faults, prompts, answers: few in an honest journal
_MAX_STEPS = 20
_ANSWERS = ("approved", "edited", "denied")  # every other answer is none in time
_NOT_OPENED = Opened(run="", agent="")


class Answers(msgspec.Struct, frozen=True):
    """Counts of people's answers to approval requests."""

    asked: int = 0
    approved: int = 0
    edited: int = 0
    denied: int = 0
    expired: int = 0  # nobody answered in time, or the question was withdrawn


class FilesChanged(msgspec.Struct, frozen=True):
    """The writable files at the end, as they were last recorded. Names are filled in by whoever has
    the trees."""

    tree: str | None
    changed: int
    unstored: int = 0  # files whose bytes are not in the store
    is_cut: bool = False  # there were more files than are recorded
    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class AlertSeen(msgspec.Struct, frozen=True):
    """Alerts of one name about one thing."""

    name: str
    about: Mapping[str, Any]
    times: int
    steps: tuple[int, ...]  # the first ones


class Spent(msgspec.Struct, frozen=True):
    """The cost of model calls. Money is known only where prices are."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0


class WorldLeft(msgspec.Struct, frozen=True):
    """The stand-ins as the run left them: changes of each, and the invariants that are broken."""

    changes: Mapping[str, int]
    broken: Mapping[str, tuple[str, ...]]
    digest: str | None = None
    positions: Mapping[str, int] = {}
    error: str | None = None


class BeyondBudget(msgspec.Struct, frozen=True):
    """Values of which only digest and size were kept; how many is known when the run has ended."""

    budget_bytes: int
    values: int | None = None
    bytes: int | None = None


class Mark(msgspec.Struct, frozen=True):
    """A mark that the agent reported from inside."""

    step: int | None
    text: str


class RunReport(msgspec.Struct, frozen=True):
    """All of it. Times are microseconds since 1970."""

    run: str
    kind: str  # run, replay or fork
    agent: str
    stage: str | None
    command: tuple[str, ...]
    cwd: str | None
    state: str  # running, ended or interrupted
    ended_by: str | None
    exit_code: int | None
    started_at: int
    duration_us: int
    records: int
    steps: int
    again: int  # of the steps: answered from a record
    verdicts: Mapping[str, int]
    outcomes: Mapping[str, int]
    answers: Answers
    files: FilesChanged | None
    drafts: tuple[str, ...]
    alerts: tuple[AlertSeen, ...]
    spent: Spent
    faults: Mapping[str, int]  # how often each struck
    world: WorldLeft | None
    enforcement: Mapping[str, str]  # boundary: by what
    proved: Mapping[str, str]  # boundary: how it was tried in this run
    prompts: tuple[str, ...]  # versions, in the order in which they came up
    marks: tuple[Mark, ...]
    lineage: Lineage | None
    divergence: Diverged | None
    live_at: int | None = None  # of a fork: from this step on it went its own way
    # Of a fork: files that programs held open when it went live, and that are not as recorded.
    files_kept: int = 0
    kept: tuple[str, ...] = ()  # some of them by path
    beside: int = 0  # what went on beside a past that was lived through again
    varied: Mapping[str, int] = {}  # in that past, what was let vary
    policy_digest: str | None = None
    template: str | None = None
    past_drafts: tuple[str, ...] = ()  # of the run whose answers it got again
    # Refusals that have no step of their own, by the step that was refused first.
    repeats: Mapping[int, RefusedAgain] = {}
    left_out: BeyondBudget | None = None  # what was beyond the budget of the record

    @property
    def drafted(self) -> int:
        """The number of drafts, in its past as well."""
        return len(self.drafts) + len(self.past_drafts)

    @property
    def is_whole(self) -> bool:
        """Return whether it came to its end by itself."""
        return self.state == ENDED and self.divergence is None

    @property
    def divergence_json(self) -> JsonObject | None:
        """The divergence for programs."""
        if self.divergence is None:
            return None
        return {"differences": [], **body_of(self.divergence)}

    def as_json(self) -> JsonObject:
        """Return it for programs. Keys may be added."""
        report: JsonObject = as_json(self)
        return {**report, "divergence": self.divergence_json}


def report_of(directory: Path) -> RunReport:
    """Return the report of a run, also while it is written. Raises InvalidInput where there is
    none."""
    fold = ReportFold()
    # First: a run that ends meanwhile was alive, and is read to its end.
    is_alive = is_held(directory)
    for record in RunLog(directory).events():
        fold.take(record)
    return fold.report(is_alive=is_alive)


class ReportFold:
    """Counts along. `report()` may be asked for at any time."""

    def __init__(self) -> None:
        self.opened = _NOT_OPENED
        self._records = self._steps = self._replayed = 0
        self._started_at = self._last_at = 0
        self._verdicts: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._asked = 0
        self._answers: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._drafts: list[str] = []
        self._past_drafts: list[str] = []
        self._replaying: set[int | None] = set()  # steps under way that a recorded run answers
        self._exit_code: int | None = None
        self._closed: Closed | None = None
        self._alerts: dict[str, AlertSeen] = {}
        self._files: FilesChanged | None = None
        self._world: WorldLeft | None = None
        self._proved: dict[str, str] = {}
        self._prompts: dict[str, None] = {}
        self._marks: list[Mark] = []
        self._divergence: Diverged | None = None
        self._live: WentLive | None = None
        self._background = 0
        self._varied: dict[str, int] = {}
        self._repeats: dict[int, RefusedAgain] = {}
        self._budget: BudgetUsedUp | None = None

    def take(self, record: Record) -> None:
        """Count one more record."""
        self._records += 1
        self._started_at = self._started_at or record.at
        self._last_at = max(self._last_at, record.at)
        step = record.step
        match record.event:
            case Proposed():
                self._steps += step is not None
            case Decided() as decided:
                self._take_decided(step, decided)
            case Settled() as settled:
                self._take_settled(step, settled)
            case Asked():
                self._asked += 1
            case Answered(state=state):
                _count(self._answers, state)
            case RefusedAgain() as again if step is not None:
                self._take_refused_again(step, again)
            case Opened() as opened:
                self.opened = opened
            case Closed() as closed:
                self._closed = closed
            case Recovered():  # somebody goes on writing
                self._closed = None
            case Alert() as alert:
                self._take_alert(step, alert)
            case FilesRecorded(tree=tree, changed=changed, unstored=unstored, is_cut=is_cut):
                self._files = FilesChanged(tree, changed, max(unstored, 0), is_cut)
            case FilesNotRecorded():
                self._files = None
            case WorldEnded() as world:
                self._world = _world_left(world)
            case BoundariesProved(boundaries=boundaries):
                self._proved.update(boundaries)
            case PromptReported(version=version):
                if len(self._prompts) < _MAX_NAMES:
                    self._prompts[version] = None
            case Marked(text=text):
                if len(self._marks) < MAX_LISTED:
                    self._marks.append(Mark(step, text))
            case WentLive() as live:
                self._live = live
            case Varied(fields=fields):
                self._take_varied(fields)
            case BackgroundCounted(steps=steps, without_step=without_step):
                self._background = max(steps + without_step, 0)
            case BudgetUsedUp() as budget:
                self._budget = budget
            case Diverged() as diverged:
                self._divergence = diverged

    def report(self, *, is_alive: bool) -> RunReport:
        """Return what it comes to so far. `is_alive` says whether somebody still writes."""
        opened, live = self.opened, self._live
        return RunReport(
            run=opened.run,
            kind=opened.kind or "run",
            agent=opened.agent,
            stage=opened.stage,
            command=tuple(opened.command),
            cwd=opened.cwd,
            state=self._state(is_alive),
            ended_by=None if self._closed is None else self._closed.ended_by,
            exit_code=self._exit_code,
            started_at=self._started_at,
            duration_us=max(self._last_at - self._started_at, 0),
            records=self._records,
            steps=self._steps,
            again=self._replayed,
            verdicts=dict(self._verdicts),
            outcomes=dict(self._outcomes),
            answers=self._answered(),
            files=self._files,
            drafts=tuple(self._drafts),
            past_drafts=tuple(self._past_drafts),
            alerts=tuple(self._alerts.values()),
            spent=Spent(**self._spent),
            faults=dict(self._faults),
            world=self._world,
            enforcement=opened.enforcement,
            proved={**opened.proved, **self._proved},
            prompts=tuple(self._prompts),
            marks=tuple(self._marks),
            lineage=opened.lineage,
            divergence=self._divergence,
            live_at=None if live is None else live.at,
            files_kept=0 if live is None else max(live.files_kept, 0),
            kept=() if live is None else tuple(live.kept[:_MAX_NAMES]),
            beside=self._background,
            varied=dict(self._varied),
            policy_digest=opened.policy_digest,
            template=opened.template,
            repeats=dict(self._repeats),
            left_out=self._beyond_budget(),
        )

    def _take_decided(self, step: int | None, decided: Decided) -> None:
        self._verdicts[decided.verdict.value] += 1
        if decided.replayed_from is not None:
            self._replayed += 1
            self._replaying.add(step)
        if decided.verdict is Verdict.FAULT:
            _count(self._faults, decided.decided_by)

    def _take_settled(self, step: int | None, settled: Settled) -> None:
        self._outcomes[settled.outcome.value] += 1
        drafts = self._past_drafts if step in self._replaying else self._drafts
        self._replaying.discard(step)
        if settled.draft_id is not None and len(drafts) < MAX_LISTED:
            drafts.append(settled.draft_id)
        if step == AGENT_STEP:
            result = settled.result if isinstance(settled.result, dict) else {}
            self._exit_code = whole_number(result.get("exit_code"))
        if settled.cost:
            self._spent["calls"] += 1
            for key in ("input_tokens", "output_tokens", "usd_micros"):
                self._spent[key] += max(whole_number(settled.cost.get(key)) or 0, 0)

    def _take_refused_again(self, step: int, again: RefusedAgain) -> None:
        self._verdicts[Verdict.BLOCK.value] += again.count
        self._outcomes[Outcome.REFUSED.value] += again.count
        if step in self._repeats or len(self._repeats) < MAX_LISTED:
            self._repeats[step] = again.plus(self._repeats.get(step))

    def _take_alert(self, step: int | None, alert: Alert) -> None:
        key = json.dumps([alert.alert, alert.about], sort_keys=True)
        before = self._alerts.get(key)
        if before is None:
            if len(self._alerts) >= MAX_LISTED:
                return
            before = AlertSeen(alert.alert, alert.about, 0, ())
        steps = before.steps
        if step is not None and len(steps) < _MAX_STEPS:
            steps = (*steps, step)
        times = before.times + max(alert.times, 1)
        self._alerts[key] = AlertSeen(alert.alert, alert.about, times, steps)

    def _take_varied(self, fields: dict[str, int]) -> None:
        for name, times in fields.items():
            if times > 0 and len(self._varied) < _MAX_NAMES:
                self._varied[name[:_MAX_NAMES]] = times

    def _state(self, is_alive: bool) -> str:
        if self._closed is not None:
            return ENDED
        return RUNNING if is_alive else INTERRUPTED

    def _answered(self) -> Answers:
        counts = {state: self._answers[state] for state in _ANSWERS}
        expired = self._answers.total() - sum(counts.values())
        return Answers(asked=self._asked, **counts, expired=expired)

    def _beyond_budget(self) -> BeyondBudget | None:
        if self._budget is None:
            return None
        left_out: LeftOut | None = None if self._closed is None else self._closed.left_out
        if left_out is None:
            return BeyondBudget(self._budget.budget_bytes)
        return BeyondBudget(self._budget.budget_bytes, left_out.values, left_out.bytes)


def _world_left(world: WorldEnded) -> WorldLeft:
    broken = {name: tuple(invariants) for name, invariants in world.broken.items()}
    return WorldLeft(world.changes, broken, world.digest, world.positions, world.error)


def _count(counter: Counter[str], name: str) -> None:
    """Count a name. A journal that was made up cannot fill the memory with names."""
    is_counted = name in counter or len(counter) < _MAX_NAMES
    counter[name if is_counted else "others"] += 1
