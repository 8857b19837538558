"""Which records of a journal may be acted on. A journal says what is run, what of the host is
mounted, which secrets go where and what is written back: whoever writes one chooses all that. So
only records count that a signature of this home covers.

Who can change files below `runs` and has no key can cut a journal at one of its heads, and that is
then an interrupted run. What comes after the last head can be shown, and is not used. Every line is
compared once more with what was verified when it is read (see `journal.log.Covered`).
"""

from __future__ import annotations

import os
from pathlib import Path

from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.findings import Status, VerifyFinding, VerifyReport
from paddock.journal.integrity.verify import verify
from paddock.journal.log import Covered, RunLog
from paddock.model.errors import IntegrityError, InvalidInput, NotSigned
from paddock.state.home import Home

_HINT = "paddock verify says more; paddock show shows any journal"


def check_trusted(directory: Path, home: Home) -> Covered:
    """Return the records that are signed. A run of this home may have lost its end, or still go on;
    one that lies elsewhere has to be whole. Raises IntegrityError for a journal that was changed,
    exchanged or never signed, InvalidInput for one of somebody else."""
    leaves = bytearray()
    report = verify(
        directory,
        signing_key(home).public,
        expected_run=run_named(directory, home),
        reads_values=False,
        leaves=leaves,
    )
    if VerifyFinding.WRONG_KEY in {problem.finding for problem in report.problems}:
        raise InvalidInput(f"{directory.name} was recorded by somebody else", hint=_HINT)
    if report.problems:
        what = "was changed or damaged, or is not signed"
        raise IntegrityError(f"{directory.name} {what}: {_first(report)}", hint=_HINT)
    is_ours = Path(os.path.realpath(directory)).parent == Path(os.path.realpath(home.runs))
    if report.status is not Status.ENDED and not is_ours:
        raise InvalidInput(f"{directory.name} has no end, and does not lie in this home",
                           hint=_HINT)  # fmt: skip
    return Covered(bytes(leaves), report.usable)


def run_named(directory: Path, home: Home) -> str | None:
    """Return the run that has to be in a directory of this home; None for one elsewhere."""
    place = Path(os.path.abspath(directory))
    is_entry = os.path.realpath(place.parent) == os.path.realpath(home.runs)
    return place.name if is_entry else None


def check_step_signed(directory: Path, step: int, last_signed: int) -> None:
    """Raise NotSigned for a step that the journal has only after its last signature."""
    if step > last_signed and step in RunLog(directory).step_numbers():
        raise NotSigned(
            f"step {step} of {directory.name} lies after the last signature of its journal, so it"
            " can be shown, not used: the run was interrupted there, or still goes on",
            hint=f"the last step that is signed is {last_signed}",
        )


def _first(report: VerifyReport) -> str:
    return str(report.problems[0]).partition("\n")[0]
