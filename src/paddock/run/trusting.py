"""Whether a journal may be lived through. It says what is run, what of the host is mounted, and
which secrets go where: whoever writes one chooses all that. So it must have been signed here."""

from __future__ import annotations

import os
from pathlib import Path

from paddock.gate.opening import signing_key
from paddock.journal.findings import Finding, Report
from paddock.journal.verify import verify
from paddock.model.errors import IntegrityError, InvalidInput
from paddock.state.home import Home

_HINT = "paddock verify says more; paddock replay without --agent reads any journal"


def check_trusted(directory: Path, home: Home) -> None:
    """A run of this home may have lost its end, or still go on. One that lies elsewhere has to be
    whole: what is behind its last signature could be anybody's. Raises IntegrityError for a journal
    that was changed, InvalidInput for one of somebody else."""
    report = verify(directory, signing_key(home).public, reads_values=False)
    is_ours = Path(os.path.realpath(directory)).parent == Path(os.path.realpath(home.runs))
    found = {one.finding for one in report.problems}
    if Finding.WRONG_KEY in found:
        raise InvalidInput(f"{directory.name} was recorded by somebody else", hint=_HINT)
    if is_ours and found <= {Finding.TORN}:
        return
    if found:
        raise IntegrityError(f"{directory.name} was changed or damaged: {_first(report)}")
    if not report.is_closed:
        raise InvalidInput(f"{directory.name} has no end, and does not lie in this home",
                           hint=_HINT)  # fmt: skip


def _first(report: Report) -> str:
    return str(report.problems[0]).partition("\n")[0]
