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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.doors.trust import Trust
from paddock.gate.run_keys import CARRIED, run_key
from paddock.journal.log import RunLog
from paddock.model.errors import InvalidInput, NotFound, PaddockError
from paddock.policy.problems import suggest
from paddock.run.order import Order
from paddock.run.scenarios.fixtures import bounded, checked_target, in_project
from paddock.run.scenarios.preparation import USUAL_SEED, order_in_world
from paddock.run.scenarios.result import RunResult
from paddock.run.scenarios.scenario import fault_list
from paddock.state.home import Home

if TYPE_CHECKING:
    from paddock.run.session import FinishedRun

DIRECTORY = "paddock_runs"
JOURNAL = "journal"
WORLD = "world.json"
MAX_WORLD_BYTES = 64 << 20
# Who replays has other keys than who recorded, or none.
CREDENTIALS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key")
USUAL_VARY = tuple(f"headers.{name}=any" for name in CREDENTIALS)
_PLAIN = re.compile(r"[^A-Za-z0-9_.=-]+")
_MAX_NAME = 100
_ORDER_WORDS = ("stage", "sets", "envs", "timeout", "stdin")
WORDS = (*_ORDER_WORDS, "file", "world", "faults", "seed", "cwd", "files", "vary", "trust")
_LEFT_OUT = ("lock",)  # of a journal: who writes it


class RecordMode(enum.StrEnum):
    """When a run is recorded."""

    NONE = "none"  # never: a record must be there
    ONCE = "once"  # where there is no record yet
    ALL = "all"  # each time, in place of the record that was there


class LeftRecord(PaddockError):
    """The agent did something else than what was recorded."""


class RequestedRun(msgspec.Struct, frozen=True):
    """One run that a test asks for."""

    order: Order
    files: Mapping[str, bytes] = {}
    vary: tuple[str, ...] = ()


def requested_run(
    command: tuple[str, ...], directory: Path, declared: Mapping[str, Any]
) -> RequestedRun:
    """Return the run that the keywords of `paddock.run` describe. Paths start at the directory.
    Raises InvalidInput."""
    for word in declared:
        if word not in WORDS:
            raise InvalidInput(f"paddock.run takes no {word}", hint=suggest(word, WORDS))
    options = {name: declared[name] for name in _ORDER_WORDS if declared.get(name) is not None}
    options["cwd"] = directory / (declared.get("cwd") or ".")
    options["seed"] = USUAL_SEED if declared.get("seed") is None else declared["seed"]
    options["faults"] = fault_list(declared.get("faults"))
    if declared.get("file") is not None:
        options["file"] = directory / declared["file"]
    options["trust"] = Trust(is_given=bool(declared.get("trust")))
    if isinstance(options.get("stdin"), str):
        options["stdin"] = options["stdin"].encode()
    order = order_in_world(command, options, declared.get("world"))
    return RequestedRun(
        order, _files(declared.get("files") or {}), tuple(declared.get("vary") or ())
    )


def _files(files: Mapping[str, Any]) -> Mapping[str, bytes]:
    """Return the content of the files, which are texts, bytes, and paths of files to copy."""
    contents: dict[str, bytes] = {}
    for target, content in files.items():
        if isinstance(content, Path):
            content = content.read_bytes()
        contents[checked_target(target)] = content.encode() if isinstance(content, str) else content
    return bounded(contents)


class Cassettes:
    """The records of one test: its runs, in the order in which it asks for them."""

    def __init__(self, directory: Path, mode: RecordMode) -> None:
        self._directory = directory
        self._mode = mode
        self._asked = 0

    def run(self, request: RequestedRun) -> RunResult:
        """Record or replay a run, as the mode says. Raises LeftRecord, and NotFound where there is
        no record and none may be made."""
        self._asked += 1
        if (
            self._mode is RecordMode.ALL and self._asked == 1
        ):  # it may have asked for more runs then
            shutil.rmtree(self._directory, ignore_errors=True)
        directory = self._directory / str(self._asked)
        if self._mode is RecordMode.ALL or (
            self._mode is RecordMode.ONCE and not is_record(directory)
        ):
            return _recorded(directory, request)
        if not is_record(directory):
            hint = "run it once with --paddock-record=once, where the network and the keys are"
            raise NotFound(f"there is no recorded run at {directory}", hint=hint)
        return _replayed(directory, request)


def is_record(directory: Path) -> bool:
    return (directory / JOURNAL).is_dir()


def place_of(test_file: Path, test_name: str) -> Path:
    """Return where the records of a test lie: beside its file."""
    return test_file.parent / DIRECTORY / _name(test_file.stem) / _name(test_name)


def keep(result: RunResult, place: Path) -> None:
    """Copy a run to the directory, all or nothing: an interrupted copy leaves no half a record."""
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


def _recorded(directory: Path, request: RequestedRun) -> RunResult:
    from paddock.run.session import RunMode, run

    ended = run(request.order, mode=RunMode(in_project(request.order.cwd, request.files)))
    result = RunResult(ended.directory)
    if ended.exit_code is not None:  # what was cut off is no record of how it goes
        keep(result, directory)
    return result


def _replayed(directory: Path, request: RequestedRun) -> RunResult:
    journal = directory / JOURNAL
    _check_same(journal, request.order)
    ended = _replay(journal, request)
    if ended.divergence is not None:
        raise LeftRecord(_difference(ended, directory))
    return RunResult(ended.directory, recorded=journal, world=_world(directory))


def _replay(journal: Path, request: RequestedRun) -> FinishedRun:
    """Replay a record in the project as it lies here: the record may come from elsewhere."""
    from paddock.doors.machine.engine import Engine
    from paddock.run.replay.policy_epochs import PolicyHistory
    from paddock.run.replay.recorded_run import RecordedRun
    from paddock.run.replay.replay import PastOptions, ReplayMode, rules_for
    from paddock.run.replay.session import ReplayOptions
    from paddock.run.session import run

    recorded = RecordedRun(journal)
    order = replace(request.order, seed=recorded.opened.seed or "")
    vary = (*USUAL_VARY, *request.vary)
    if recorded.opened.cwd != str(order.cwd):
        vary = (*vary, "cwd=any")
    mode = ReplayMode(
        Engine.current().home,
        recorded,
        PolicyHistory(order.policy),
        ReplayOptions(rules_for(recorded, PastOptions(vary=vary))),
        files=in_project(order.cwd, request.files),
    )
    return run(order, mode=mode)


def _check_same(journal: Path, order: Order) -> None:
    """Refuse a record that was made under another policy: its decisions are answered from the
    record too."""
    opened = RunLog(journal).opened
    hint = "record it anew with --paddock-record=all"
    if opened.command != list(order.command):
        command = " ".join(opened.command)
        raise LeftRecord(f"the run at {journal.parent} is of another command: {command[:200]}",
                         hint=hint)  # fmt: skip
    if opened.policy_digest != order.policy.digest:
        raise LeftRecord(
            f"the run at {journal.parent} was recorded under other terms: the paddock file, the"
            " world, the faults or the seed have changed",
            hint=hint,
        )


def _difference(ended: FinishedRun, directory: Path) -> str:
    """Return what was recorded and what was proposed, side by side."""
    from paddock.run.matching.text import both_views, side_by_side, visible

    divergence = ended.divergence
    assert divergence is not None
    lines = [f"{visible(divergence.text)} (recorded in {directory})"]
    if divergence.differences:
        lines.append(side_by_side(divergence.differences))
    elif divergence.recorded is not None and divergence.proposed is not None:
        lines.append(both_views(divergence.recorded, divergence.proposed))
    lines.append(f"look: paddock show {ended.run}; if it is right: --paddock-record=all")
    return "\n".join(lines)


def _world(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        with (directory / WORLD).open("rb") as file:
            raw = file.read(MAX_WORLD_BYTES + 1)
        state = json.loads(raw) if len(raw) <= MAX_WORLD_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{directory / WORLD} cannot be read: {error}") from None
    if not isinstance(state, dict):
        raise InvalidInput(f"{directory / WORLD} is no state of a world")
    return state


def _name(text: str) -> str:
    """Return a file name that no other test has and that every file system accepts."""
    plain = _PLAIN.sub("_", text)[:_MAX_NAME].strip(".") or "_"
    if plain == text:
        return plain
    return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
