"""Runs cases, some at a time, and says of each how it stands."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from paddock.model.errors import PaddockError
from paddock.policy.faults import FaultTerms
from paddock.run.scenarios.checks import FailedCheck, judge
from paddock.run.scenarios.fixtures import in_project
from paddock.run.scenarios.preparation import Prepared
from paddock.run.scenarios.rates import PassRate, rate_of
from paddock.run.scenarios.result import RunResult
from paddock.run.scenarios.scenario import Case

if TYPE_CHECKING:
    from paddock.run.session import FinishedRun

_WAIT_S = 0.2  # between looks for a key that was pressed


class CaseStatus(enum.StrEnum):
    """The status of a case when its runs are over."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"  # more runs are needed to tell
    BROKEN = "broken"  # it could not be run
    SKIPPED = "skipped"


class ScenarioRun(msgspec.Struct, frozen=True):
    """One run of a case."""

    number: int
    duration_s: float
    run: str | None = None
    failures: tuple[FailedCheck, ...] = ()
    error: str | None = None  # why there is no run, or none that could be looked at
    steps: int = 0
    usd_micros: int = 0
    faults: Mapping[str, int] = {}  # how many steps each one struck

    @property
    def is_passed(self) -> bool:
        return self.error is None and not self.failures


class CaseResult(msgspec.Struct, frozen=True):
    """All runs of one case."""

    case: Case
    attempts: tuple[ScenarioRun, ...]
    is_whole: bool = True  # all its runs were made
    faults: tuple[FaultTerms, ...] = ()  # that were to strike

    @property
    def rate(self) -> PassRate:
        return rate_of(sum(attempt.is_passed for attempt in self.attempts), len(self.attempts))

    @property
    def duration_s(self) -> float:
        return sum(attempt.duration_s for attempt in self.attempts)

    @property
    def standing(self) -> CaseStatus:
        """Without a rate every run must pass. With one, the interval decides."""
        if any(attempt.error is not None for attempt in self.attempts):
            return CaseStatus.BROKEN
        least, rate = self.case.scenario.expect.least_rate, self.rate
        if least is None and rate.passed < rate.runs:
            return CaseStatus.FAILED
        if not self.is_whole or not self.attempts:
            return CaseStatus.SKIPPED
        if least is None or rate.low >= least:
            return CaseStatus.PASSED
        return CaseStatus.FAILED if rate.high < least else CaseStatus.INCONCLUSIVE

    @property
    def unstruck(self) -> tuple[str, ...]:
        """The faults that struck nothing in any of its runs. What strikes by chance counts only if
        no fault struck at all: then nothing was tested that faults were there for."""
        if not any(one.run for one in self.attempts):
            return ()
        struck = {name for one in self.attempts for name in one.faults}
        return tuple(
            one.id
            for one in self.faults
            if one.id not in struck and (not struck or one.strikes.rate >= 1)
        )

    @property
    def warning(self) -> str | None:
        """Return what a passed case leaves open."""
        if not self.unstruck:
            return None
        return f"faults that never struck: {', '.join(self.unstruck)}"

    @property
    def is_flaky(self) -> bool:
        return 0 < self.rate.passed < self.rate.runs


def run_case(prepared: Prepared) -> FinishedRun:
    """Run a case to its end, with the files of its scenario in its project."""
    from paddock.run.session import RunMode, run

    order = prepared.order
    return run(order, mode=RunMode(in_project(order.cwd, prepared.case.scenario.files)))


class RunEnd(Protocol):
    """The end of a run, as far as it matters here."""

    @property
    def directory(self) -> Path: ...


Runner = Callable[[Prepared], RunEnd]
Told = Callable[[Case, ScenarioRun], None]


class Play(msgspec.Struct):
    """One round of cases. `run` makes one run; `told` hears of each as it ends."""

    run: Runner
    told: Told
    jobs: int = 1
    is_fail_fast: bool = False
    _is_over: threading.Event = msgspec.field(default_factory=threading.Event)

    def through(self, cases: Sequence[Prepared]) -> list[CaseResult]:
        """Run all cases and return their results, in the order of the cases."""
        work = [(number, prepared_case, attempt) for number, prepared_case in enumerate(cases)
                for attempt in range(1, prepared_case.case.scenario.repeat + 1)]  # fmt: skip
        made: list[list[ScenarioRun]] = [[] for _ in cases]
        for number, attempt in self._attempts(work):
            made[number].append(attempt)
            prepared = cases[number]
            self.told(prepared.case, attempt)
            is_final = prepared.bar.terms.least_rate is None  # one failure decides
            if self.is_fail_fast and not attempt.is_passed and is_final:
                self._is_over.set()
        return [
            _result(prepared_case, attempts)
            for prepared_case, attempts in zip(cases, made, strict=True)
        ]

    def _attempts(self, work: list[tuple[int, Prepared, int]]) -> Iterable[tuple[int, ScenarioRun]]:
        if self.jobs <= 1 or len(work) == 1:
            for number, prepared, attempt in work:
                if self._is_over.is_set():
                    return
                yield number, attempted(prepared, attempt, self.run)
            return
        yield from self._at_once(work)

    def _at_once(self, work: list[tuple[int, Prepared, int]]) -> Iterable[tuple[int, ScenarioRun]]:
        """Run the work in threads. Threads are enough, because the work is done in sandboxes that
        one engine serves. They are daemons, so that an interrupt waits for none of them."""
        waiting: queue.SimpleQueue[tuple[int, Prepared, int]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, ScenarioRun] | None] = queue.SimpleQueue()
        for task in work:
            waiting.put(task)
        count = min(self.jobs, len(work))
        for _ in range(count):
            threading.Thread(target=self._serve, args=(waiting, done), daemon=True).start()
        while count:
            try:
                result = done.get(timeout=_WAIT_S)
            except queue.Empty:
                continue
            if result is None:
                count -= 1
            else:
                yield result

    def _serve(self, waiting: Any, done: Any) -> None:
        try:
            while not self._is_over.is_set():
                number, prepared, attempt = waiting.get_nowait()
                done.put((number, attempted(prepared, attempt, self.run)))
        except queue.Empty:
            pass
        finally:
            done.put(None)


def attempted(prepared: Prepared, number: int, run: Runner) -> ScenarioRun:
    """Make one run and judge it. An error of the run itself is told apart from a failed check."""
    started = time.monotonic()

    def spent() -> float:
        return time.monotonic() - started

    try:
        ended = run(_of_number(prepared, number))
        result = RunResult(ended.directory)
        failures = tuple([*judge(result, prepared.bar), *checked(prepared.case, result)])
        return ScenarioRun(
            number,
            spent(),
            result.run,
            failures,
            steps=result.report.steps,
            usd_micros=result.cost.usd_micros,
            faults=result.faults,
        )
    except PaddockError as error:
        return ScenarioRun(number, spent(), error=str(error))
    except Exception as error:  # one broken run must not end the others, and is no pass
        return ScenarioRun(number, spent(), error=f"{type(error).__name__}: {error}"[:1000])


def _of_number(prepared: Prepared, number: int) -> Prepared:
    """Give each run its own random seed inside the agent, or it would be the same run again. The
    world and the faults are those of the case."""
    if number == 1:
        return prepared
    order = prepared.order
    return replace(prepared, order=replace(order, seed=f"{order.seed}.{number}"))


def checked(case: Case, result: RunResult) -> list[FailedCheck]:
    """Return what a scenario's own function complains about."""
    check = case.scenario.check
    if check is None:
        return []
    try:
        check(result)
    except Exception as error:  # whatever it raises, it is not satisfied
        is_plain = isinstance(error, AssertionError)
        message = str(error) if is_plain and str(error) else f"{type(error).__name__}: {error}"
        return [FailedCheck(f"check {check.__name__}", _line(error), message[:2000])]
    return []


def _line(error: BaseException) -> str:
    """Return the source line of the check that failed."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return frames[1].line or "" if len(frames) > 1 else "it is satisfied"


def _result(prepared: Prepared, attempts: list[ScenarioRun]) -> CaseResult:
    ordered = tuple(sorted(attempts, key=lambda attempt: attempt.number))
    is_whole = len(ordered) == prepared.case.scenario.repeat
    return CaseResult(prepared.case, ordered, is_whole, tuple(prepared.order.policy.faults))
