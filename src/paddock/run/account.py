"""What the records of a run add up to, one after the other: from a journal's lines, which are
parsed no further than is needed, or from records as they are written. A journal from elsewhere may
say anything: what is not of the kind that it should be is left out, and lists are bounded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from paddock.journal.records import Back, Record
from paddock.journal.repeats import Repeats, repeats_in
from paddock.journal.traffic import mapping
from paddock.model.errors import IntegrityError
from paddock.run.report import (
    ENDED,
    INTERRUPTED,
    RUNNING,
    AlertSeen,
    Answers,
    FilesChanged,
    LeftOut,
    Mark,
    Report,
    Spent,
    WorldLeft,
)

MAX_LISTED = 1000  # drafts, marks, alerts that differ: of an agent that makes any number
_MAX_NAMES = 200  # verdicts, faults, prompts: few in an honest journal
_MAX_STEPS = 20
_MAX_SHARED = 256
_AGENT_STEP = 1  # the agent's own command
_TELLING = frozenset({
    "opened", "proposed", "decided", "asked", "answered", "settled", "noted", "closed", "recovered",
})  # fmt: skip
_RESULT = b',"result":'
_BODY = b'"body":'
_decode = json.JSONDecoder().raw_decode


class Account:
    """Counts along. `report()` may be asked for at any time."""

    def __init__(self) -> None:
        self.records = self.steps = self.again = 0
        self.started_at = self.last_at = 0
        self.opened: Mapping[str, Any] = {}
        self.verdicts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.drafts: list[str] = []
        self._past_drafts: list[str] = []
        self._under_way_again: set[int | None] = set()  # steps that are answered from a record
        self.exit_code: int | None = None
        self._ended_by: str | None = None
        self._is_closed = False
        self._alerts: dict[str, AlertSeen] = {}
        self._files: FilesChanged | None = None
        self._world: WorldLeft | None = None
        self._proved: dict[str, str] = {}
        self._prompts: dict[str, None] = {}
        self._marks: list[Mark] = []
        self._divergence: Mapping[str, Any] | None = None
        self._live_at: int | None = None
        self._files_kept = 0
        self._kept: tuple[str, ...] = ()
        self._beside = 0
        self.varied: dict[str, int] = {}
        self._repeats: dict[int, Repeats] = {}
        self._left_out: LeftOut | None = None
        self._shared: dict[bytes, dict[str, Any]] = {}  # decisions in the same words, parsed once

    def take_line(self, line: bytes, back: Back) -> None:
        """One line of a journal, with what its end says."""
        _, step, kind = back
        name = kind.decode()
        body: Mapping[str, Any] = {}
        if name in _TELLING and name not in ("proposed", "asked"):
            body = self._body_of(line, name, step)
        self._take(name, step, _at(line), body)

    def take(self, record: Record) -> None:
        """One record, as it was written."""
        self._take(record.type.value, record.step, record.at, record.body)

    def report(self, *, is_alive: bool) -> Report:
        """What it comes to so far; `is_alive` says whether somebody still writes."""
        opened = self.opened
        return Report(
            run=_text(opened, "run") or "",
            kind=_text(opened, "kind") or "run",
            agent=_text(opened, "agent") or "",
            stage=_text(opened, "stage"),
            command=_texts(opened.get("command")),
            cwd=_text(opened, "cwd"),
            state=ENDED if self._is_closed else RUNNING if is_alive else INTERRUPTED,
            ended_by=self._ended_by,
            exit_code=self.exit_code,
            started_at=self.started_at,
            duration_us=max(self.last_at - self.started_at, 0),
            records=self.records,
            steps=self.steps,
            again=self.again,
            verdicts=dict(self.verdicts),
            outcomes=dict(self.outcomes),
            answers=self._answers(),
            files=self._files,
            drafts=tuple(self.drafts),
            past_drafts=tuple(self._past_drafts),
            alerts=tuple(self._alerts.values()),
            spent=Spent(**self.spent),
            faults=dict(self.faults),
            world=self._world,
            enforcement=_words(opened.get("enforcement")),
            proved={**_words(opened.get("proved")), **self._proved},
            prompts=tuple(self._prompts),
            marks=tuple(self._marks),
            lineage=mapping(opened.get("lineage")) or None,
            divergence=self._divergence,
            live_at=self._live_at,
            files_kept=self._files_kept,
            kept=self._kept,
            beside=self._beside,
            varied=dict(self.varied),
            policy_digest=_text(opened, "policy_digest"),
            template=_text(opened, "template"),
            repeats=dict(self._repeats),
            left_out=self._left_out,
        )

    def _body_of(self, line: bytes, name: str, step: int | None) -> Mapping[str, Any]:
        if name == "settled" and step != _AGENT_STEP:
            # What came back stands last and may be long; nobody here asks for it.
            line = _without_result(line)
        if name != "decided":
            return _parsed(line)
        words = line[line.find(_BODY) : line.rfind(b',"n":')]
        known = self._shared.get(words)
        if known is None:
            known = _parsed(line)
            if len(self._shared) < _MAX_SHARED:
                self._shared[words] = known
        return known

    def _take(self, name: str, step: int | None, at: int, body: Mapping[str, Any]) -> None:
        self.records += 1
        self.started_at = self.started_at or at
        self.last_at = max(self.last_at, at)
        match name:
            case "proposed":
                self._proposed(step)
            case "decided":
                self._decided(step, body)
            case "settled":
                self._settled(step, body)
            case "asked":
                self.answers["asked"] += 1
            case "answered":
                _count(self.answers, _text(body, "state") or "unknown")
            case "noted":
                self._noted(step, body)
            case "opened":
                self.opened = body
            case "closed":
                self._is_closed, self._ended_by = True, _text(body, "ended_by")
                self._count_left_out(mapping(body.get("left_out")))
            case "recovered":  # somebody goes on writing
                self._is_closed, self._ended_by = False, None

    def _proposed(self, step: int | None) -> None:
        self.steps += step is not None

    def _decided(self, step: int | None, body: Mapping[str, Any]) -> None:
        _count(self.verdicts, _text(body, "verdict") or "unknown")
        if "again" in body:
            self.again += 1
            self._under_way_again.add(step)
        if body.get("verdict") == "fault":
            _count(self.faults, _text(body, "decided_by") or "unknown")

    def _settled(self, step: int | None, body: Mapping[str, Any]) -> None:
        _count(self.outcomes, _text(body, "outcome") or "unknown")
        draft = _text(body, "draft_id")
        drafts = self._past_drafts if step in self._under_way_again else self.drafts
        self._under_way_again.discard(step)
        if draft is not None and len(drafts) < MAX_LISTED:
            drafts.append(draft)
        if step == _AGENT_STEP:
            self.exit_code = _whole(mapping(body.get("result")).get("exit_code"))
        if cost := mapping(body.get("cost")):
            self.spent["calls"] += 1
            for key in ("input_tokens", "output_tokens", "usd_micros"):
                self.spent[key] += max(_whole(cost.get(key)) or 0, 0)

    def _noted(self, step: int | None, body: Mapping[str, Any]) -> None:
        match body.get("what"):
            case "alert":
                self._alert(step, body)
            case "files":
                changed = _whole(body.get("changed")) or 0
                unstored = max(_whole(body.get("unstored")) or 0, 0)
                is_cut = body.get("is_cut") is True
                self._files = FilesChanged(_text(body, "tree"), changed, unstored, is_cut)
            case "files not recorded":
                self._files = None
            case "world":
                self._world = _world(body)
            case "proved":
                self._proved.update(_words(body.get("boundaries")))
            case "prompt":
                if len(self._prompts) < _MAX_NAMES:
                    self._prompts[str(body.get("version"))] = None
            case "mark":
                if len(self._marks) < MAX_LISTED:
                    self._marks.append(Mark(step, str(body.get("text"))))
            case "live":
                self._live_at = _whole(body.get("at"))
                self._files_kept = max(_whole(body.get("files_kept")) or 0, 0)
                self._kept = _texts(body.get("kept"))[:_MAX_NAMES]
            case "varied":
                fields = body.get("fields")
                for name, times in fields.items() if isinstance(fields, dict) else ():
                    if type(times) is int and times > 0 and len(self.varied) < _MAX_NAMES:
                        self.varied[str(name)[:_MAX_NAMES]] = times
            case "beside":
                said = (_whole(body.get(key)) or 0 for key in ("steps", "without_step"))
                self._beside = max(sum(said), 0)
            case "refused again":
                self._refused_again(step, body)
            case "record budget used up":
                self._left_out = LeftOut(_whole(body.get("budget_bytes")) or 0)
            case "diverged":
                self._divergence = {key: body[key] for key in body if key != "what"}

    def _refused_again(self, step: int | None, body: Mapping[str, Any]) -> None:
        again = repeats_in(body)
        if again is None or step is None:
            return
        self.verdicts["block"] += again.count
        self.outcomes["refused"] += again.count
        if step in self._repeats or len(self._repeats) < MAX_LISTED:
            self._repeats[step] = again.plus(self._repeats.get(step))

    def _count_left_out(self, body: Mapping[str, Any]) -> None:
        if self._left_out is not None and body:
            counts = _whole(body.get("values")), _whole(body.get("bytes"))
            self._left_out = LeftOut(self._left_out.budget_bytes, *counts)

    def _alert(self, step: int | None, body: Mapping[str, Any]) -> None:
        about = {key: body[key] for key in body if key not in ("what", "alert", "times")}
        name, times = str(body.get("alert")), max(_whole(body.get("times")) or 1, 1)
        key = json.dumps([name, about], sort_keys=True)
        before = self._alerts.get(key)
        if before is None and len(self._alerts) >= MAX_LISTED:
            return
        steps = () if before is None else before.steps
        if step is not None and len(steps) < _MAX_STEPS:
            steps = (*steps, step)
        total = times + (0 if before is None else before.times)
        self._alerts[key] = AlertSeen(name, about, total, steps)

    def _answers(self) -> Answers:
        said = self.answers
        known = ("asked", "approved", "edited", "denied")
        others = sum(count for state, count in said.items() if state not in known)
        return Answers(**{state: said[state] for state in known}, expired=others)


def _world(body: Mapping[str, Any]) -> WorldLeft:
    changes = {
        str(name): _whole(count) or 0 for name, count in mapping(body.get("changes")).items()
    }
    broken = {str(name): _texts(said) for name, said in mapping(body.get("broken")).items()}
    at = {str(name): _whole(one) or 0 for name, one in mapping(body.get("positions")).items()}
    return WorldLeft(changes, broken, _text(body, "digest"), at, _text(body, "error"))


def _count(counter: Counter[str], name: str) -> None:
    """A journal that was made up cannot fill the memory with names."""
    known = name if name in counter or len(counter) < _MAX_NAMES else "others"
    counter[known] += 1


def _without_result(line: bytes) -> bytes:
    """In canonical JSON the keys stand in order, and inside of a string no quote is bare: the
    first place that looks like this key is it."""
    cut = line.find(_RESULT)
    return line if cut < 0 else line[:cut] + b"}"


def _parsed(line: bytes) -> dict[str, Any]:
    start = line.find(_BODY)
    try:
        body = _decode(line[start + len(_BODY) :].decode())[0] if start >= 0 else None
    except (ValueError, RecursionError):
        raise IntegrityError("not a record of a journal") from None
    return body if isinstance(body, dict) else {}


def _at(line: bytes) -> int:
    """The time, which stands right after the hash."""
    digits = line[81 : line.find(b",", 81, 98)]
    if not digits.isdigit():
        raise IntegrityError("a record of the journal has no time")
    return int(digits)


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _words(value: Any) -> dict[str, str]:
    return {str(name): str(one) for name, one in mapping(value).items()}
