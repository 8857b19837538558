"""Recorded runs beside the tests that made them. A test runs its agent against such a record: what
the agent asks for is answered from it, and nothing live happens.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.gate.run_keys import CARRIED, run_key
from paddock.model.errors import InvalidInput, NotFound, PaddockError
from paddock.model.values import dataclass
from paddock.run.scenarios.result import RunResult
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.run.order import Order
    from paddock.run.running import Ended

DIRECTORY = "paddock_runs"
JOURNAL = "journal"
WORLD = "world.json"
MAX_WORLD_BYTES = 64 << 20
# Who replays has other keys than who recorded, or none.
CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key")
USUAL_VARY = tuple(f"headers.{name}=any" for name in CREDENTIALS)
_PLAIN = re.compile(r"[^A-Za-z0-9_.=-]+")
_MAX_NAME = 100
_LEFT_OUT = ("lock",)  # of a journal: who writes it


class Mode(enum.StrEnum):
    """When a run is recorded."""

    NONE = "none"  # never: a record must be there
    ONCE = "once"  # where there is no record yet
    ALL = "all"  # each time, in place of the record that was there


class LeftRecord(PaddockError):
    """The agent did something else than what was recorded."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run that a test asks for."""

    order: Order
    files: Mapping[str, bytes] = field(default_factory=dict)
    vary: tuple[str, ...] = ()


class Cassettes:
    """The records of one test: its runs, in the order in which it asks for them."""

    def __init__(self, directory: Path, mode: Mode) -> None:
        self._directory = directory
        self._mode = mode
        self._asked = 0

    def run(self, wanted: Wanted) -> RunResult:
        """Recorded or replayed, as the mode says. Raises LeftRecord, and NotFound where there is
        no record and none may be made."""
        self._asked += 1
        if self._mode is Mode.ALL and self._asked == 1:  # it may have asked for more runs then
            shutil.rmtree(self._directory, ignore_errors=True)
        place = self._directory / str(self._asked)
        if self._mode is Mode.ALL or (self._mode is Mode.ONCE and not is_record(place)):
            return _recorded(place, wanted)
        if not is_record(place):
            hint = "run it once with --paddock-record=once, where the network and the keys are"
            raise NotFound(f"there is no recorded run at {place}", hint=hint)
        return _replayed(place, wanted)


def is_record(place: Path) -> bool:
    return (place / JOURNAL).is_dir()


def place_of(test_file: Path, test_name: str) -> Path:
    """Where the records of a test lie: beside its file."""
    return test_file.parent / DIRECTORY / _name(test_file.stem) / _name(test_name)


def keep(result: RunResult, place: Path) -> None:
    """Copies a run there. All or nothing: whoever is stopped meanwhile leaves no half a record."""
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        ignored = shutil.ignore_patterns(*_LEFT_OUT)
        shutil.copytree(result.directory, new / JOURNAL, ignore=ignored)
        home = Home(result.directory.parent.parent)
        (new / JOURNAL / CARRIED).write_bytes(run_key(home, result.directory, result.run))
        text = json.dumps(result.world, indent=1, sort_keys=True, default=str)
        (new / WORLD).write_text(text + "\n")
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _recorded(place: Path, wanted: Wanted) -> RunResult:
    from paddock.run.scenarios.furnishing import run_with_files

    ended = run_with_files(wanted.order, wanted.files)
    result = RunResult(ended.directory)
    if ended.exit_code is not None:  # what was cut off is no record of how it goes
        keep(result, place)
    return result


def _replayed(place: Path, wanted: Wanted) -> RunResult:
    journal = place / JOURNAL
    _check_same(journal, wanted.order)
    ended = _again(journal, wanted)
    if ended.divergence is not None:
        raise LeftRecord(_difference(ended, place))
    return RunResult(ended.directory, recorded=journal, world=_world(place))


def _again(journal: Path, wanted: Wanted) -> Ended:
    """As `replay` does it, in the project as it lies here: a record may come from elsewhere."""
    from paddock.doors.machine.engine import Engine
    from paddock.run.again import Manner
    from paddock.run.replaying import Replay, rules_for
    from paddock.run.running import Nobody
    from paddock.run.scenarios.furnishing import putting
    from paddock.run.tape import Tape

    tape, engine = Tape.read(journal), Engine.current()
    order = replace(wanted.order, seed=str(tape.opened.get("seed") or ""))
    moved = () if tape.opened.get("cwd") == str(order.cwd) else ("cwd=any",)
    manner = Manner(rules_for(tape, (*USUAL_VARY, *moved, *wanted.vary)))
    begin = putting(order, wanted.files)
    return engine.call(Replay(engine, tape, order, manner, Nobody(), begin).play())


def _check_same(journal: Path, order: Order) -> None:
    """Decisions are answered from the record too: under other terms they would be another's."""
    from paddock.journal.reader import Reader

    opened = Reader(journal).opened().body
    hint = "record it anew with --paddock-record=all"
    if opened.get("command") != list(order.command):
        said = " ".join(map(str, opened.get("command") or ()))
        raise LeftRecord(f"the run at {journal.parent} is of another command: {said[:200]}",
                         hint=hint)  # fmt: skip
    if opened.get("policy_digest") != order.policy.digest:
        raise LeftRecord(
            f"the run at {journal.parent} was recorded under other terms: the paddock file, the"
            " world, the faults or the seed have changed",
            hint=hint,
        )


def _difference(ended: Ended, place: Path) -> str:
    """What was recorded and what was proposed, side by side."""
    from paddock.run.matching.showing import both_views, side_by_side, visible

    found = ended.divergence
    assert found is not None
    lines = [f"{visible(found.text)} (recorded in {place})"]
    if found.differences:
        lines.append(side_by_side(found.differences))
    elif found.recorded is not None and found.proposed is not None:
        lines.append(both_views(found.recorded, found.proposed))
    lines.append(f"look: paddock show {ended.run}; if it is right: --paddock-record=all")
    return "\n".join(lines)


def _world(place: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        with (place / WORLD).open("rb") as file:
            raw = file.read(MAX_WORLD_BYTES + 1)
        found = json.loads(raw) if len(raw) <= MAX_WORLD_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{place / WORLD} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{place / WORLD} is no state of a world")
    return found


def _name(text: str) -> str:
    """A name that no other test has, and that no file system minds."""
    plain = _PLAIN.sub("_", text)[:_MAX_NAME].strip(".") or "_"
    if plain == text:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
