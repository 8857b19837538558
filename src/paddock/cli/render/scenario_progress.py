"""How far a round of scenarios is: one line that moves in a terminal, one line a run elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Self

from paddock.model.plain import plain
from paddock.model.plural import many

if TYPE_CHECKING:
    from paddock.run.scenarios.play import ScenarioRun
    from paddock.run.scenarios.scenario import Case

_CLEAR = "\r\x1b[2K"


class Progress:
    """Hears of each run as it ends. What it shows goes to stderr in a terminal, so that the results
    can be piped."""

    def __init__(self, total: int, *, is_quiet: bool = False) -> None:
        self._total = total
        self._is_quiet = is_quiet
        self._is_live = sys.stderr.isatty()
        self._started = time.monotonic()
        self._done = self._failed = 0

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live and not self._is_quiet:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    def told(self, case: Case, attempt: ScenarioRun) -> None:
        self._done += 1
        self._failed += not attempt.is_passed
        if self._is_quiet:
            return
        if self._is_live:
            self._draw(case.name)
            return
        word = "ok" if attempt.is_passed else "broken" if attempt.error else "failed"
        number = f" run {attempt.number}" if case.scenario.repeat > 1 else ""
        where = f" ({attempt.run})" if attempt.run else ""
        name = plain(case.name, 100)
        print(f"{word:6} {name}{number}{where} {attempt.duration_s:.1f} s", flush=True)

    def _draw(self, name: str = "") -> None:
        if self._is_quiet or not self._is_live:
            return
        spent = time.monotonic() - self._started
        failed = f", {self._failed} failed" if self._failed else ""
        line = (
            f"{self._done} of {many(self._total, 'run')}{failed}, {spent:.0f} s  {plain(name, 100)}"
        )
        width = max(20, shutil.get_terminal_size().columns - 1)
        print(_CLEAR + line[:width], end="", file=sys.stderr, flush=True)
