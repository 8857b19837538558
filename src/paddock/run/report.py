"""What a run came to, from its journal alone: who, under which terms, what was decided, what was
done, what it cost, what is left to look at. Read in one pass; nothing is verified or printed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from paddock.journal.repeats import Repeats
from paddock.model.values import dataclass

RUNNING, ENDED, INTERRUPTED = "running", "ended", "interrupted"


@dataclass(frozen=True, slots=True)
class Answers:
    """What people said when they were asked."""

    asked: int = 0
    approved: int = 0
    edited: int = 0
    denied: int = 0
    expired: int = 0  # nobody answered in time, or the question was withdrawn


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """The writable files at the end, as the last note about them has them. Names are filled in by
    whoever has the trees."""

    tree: str | None
    changed: int
    unstored: int = 0  # files whose bytes are not in the store
    is_cut: bool = False  # there were more files than are recorded
    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AlertSeen:
    """Alerts of one name about one thing."""

    name: str
    about: Mapping[str, Any]
    times: int
    steps: tuple[int, ...]  # the first ones


@dataclass(frozen=True, slots=True)
class Spent:
    """What the models cost. Money is known only where prices are."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0


@dataclass(frozen=True, slots=True)
class WorldLeft:
    """The stand-ins as the run left them: changes of each, and the invariants that are broken."""

    changes: Mapping[str, int]
    broken: Mapping[str, tuple[str, ...]]
    digest: str | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Values of which only digest and size were kept; how many is known when the run has ended."""

    budget_bytes: int
    values: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """What the agent said of itself from inside."""

    step: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Report:
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
    lineage: Mapping[str, Any] | None
    divergence: Mapping[str, Any] | None
    live_at: int | None = None  # of a fork: from this step on it went its own way
    # Of a fork: files that programs held open when it went live, and that are not as recorded.
    files_kept: int = 0
    kept: tuple[str, ...] = ()  # some of them by path
    beside: int = 0  # what went on beside a past that was lived through again
    varied: Mapping[str, int] = field(default_factory=dict)  # in that past, what was let vary
    policy_digest: str | None = None
    template: str | None = None
    past_drafts: tuple[str, ...] = ()  # of the run whose answers it got again
    repeats: Mapping[int, Repeats] = field(default_factory=dict)  # refusals without a step, by step
    left_out: LeftOut | None = None  # what was beyond the budget of the record

    @property
    def drafted(self) -> int:
        """How much became a draft, in its past as well."""
        return len(self.drafts) + len(self.past_drafts)

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end by itself."""
        return self.state == ENDED and self.divergence is None

    def as_json(self) -> dict[str, Any]:
        """For programs. Keys may be added."""
        return asdict(self)


def report_of(directory: Path) -> Report:
    """The report of a run, also while it is written. Raises InvalidInput where there is none."""
    from paddock.journal.places import is_held
    from paddock.journal.reader import Reader, Spot
    from paddock.run.account import Account

    account = Account()
    is_alive = is_held(
        directory
    )  # first: one that ends meanwhile was alive, and is read to its end
    for _, line, back in Reader(directory).scan(Spot(1, 0)):
        account.take_line(line, back)
    return account.report(is_alive=is_alive)
