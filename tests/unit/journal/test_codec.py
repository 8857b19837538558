"""Events and the lines of a journal: what is written is what is read, whoever wrote it."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.blobs import LARGE_BYTES, Blobs, set_aside
from paddock.journal.canonical import MAX_DEPTH, MAX_INTEGER, canonical_text
from paddock.journal.codec import body_of, decode, encode, tags_of, value_in
from paddock.journal.integrity.keys import PublicKey
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.journal.plain_values import MAX_VALUE_DEPTH
from paddock.journal.records import Chain
from paddock.journal.secrets.mask import Masker
from paddock.journal.segments import segment_name
from paddock.model.action import Action, Decision, Effect, Kind, Outcome, RuleHit, Verdict
from paddock.model.errors import IntegrityError, NotFound
from paddock.model.events import (
    Alert,
    AnyEvent,
    Asked,
    BackgroundAnswered,
    BackgroundCounted,
    Configured,
    Decided,
    Event,
    FilesRecorded,
    InternalError,
    InvalidCall,
    Marked,
    MemoryChanged,
    PolicySource,
    ProgramEnded,
    ProgramStarted,
    Proposed,
    Record,
    RefusedAgain,
    ReplayRepeated,
    Settled,
    Unknown,
    WorldReset,
)
from unit.journal.conftest import Opener, decided, proposed, settled

JOURNALS = Path(__file__).resolve().parents[2] / "journals"
EVENT_TYPES: list[type[Event]] = [cls for cls in get_args(AnyEvent) if cls is not Unknown]
LARGE = "ä" * LARGE_BYTES


def line_of(event: AnyEvent, step: int | None = None) -> bytes:
    """Return the event as the first line of a journal."""
    return Chain().link(event.TYPE, encode(event), at=5, step=step)


def line_with(type_name: str, body: Any) -> bytes:
    """Return a line with any body, as another version or somebody else may have written it."""
    return Chain().link(type_name, json.dumps(body), at=5, step=None)


# ---- every event type ----------------------------------------------------------------------------

PLAIN_TEXTS = st.text(max_size=8)
PLAIN_VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    # A larger one is written without a point, and read as an integer that is close to it.
    | st.floats(-float(MAX_INTEGER), float(MAX_INTEGER))
    | PLAIN_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN_TEXTS, inner, max_size=3),
    max_leaves=8,
)
# What a tool may return: halves of surrogate pairs, bytes, numbers that JSON does not have.
ODD_TEXTS = st.text(alphabet=st.characters(), max_size=8)
ODD_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXTS | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(ODD_TEXTS | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@dataclasses.dataclass(frozen=True)
class Leaves:
    """The strategies for the parts of an event that have no structure of their own."""

    texts: Any
    values: Any


PLAIN = Leaves(PLAIN_TEXTS, PLAIN_VALUES)
ODD = Leaves(ODD_TEXTS, ODD_VALUES)


@cache
def events_of(cls: type[msgspec.Struct], leaves: Leaves) -> Any:
    """Return a strategy for all values of a struct, made from its type hints."""
    hints = get_type_hints(cls, include_extras=True)
    names = cls.__struct_fields__
    return st.builds(cls, **{name: values_of(hints[name], leaves) for name in names})


def values_of(hint: Any, leaves: Leaves) -> Any:
    """Return a strategy for all values of a type hint that occurs in an event."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (limits,) = arguments[1:]
        return st.integers(limits.ge, limits.le)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(one, leaves) for one in arguments])
    if origin is list:
        return st.lists(values_of(arguments[0], leaves), max_size=3)
    if origin is tuple:
        return st.lists(values_of(arguments[0], leaves), max_size=3).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(leaves.texts, values_of(arguments[1], leaves), max_size=3)
    if hint is Any:
        return leaves.values
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return events_of(hint, leaves)
    simple = {
        str: leaves.texts,
        int: st.integers(-MAX_INTEGER, MAX_INTEGER),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
    }
    return simple[hint]


@for_each("cls", EVENT_TYPES)
def test_every_event_that_is_written_is_the_event_that_is_read(cls: type[Event]) -> None:
    @given(events_of(cls, PLAIN))
    def check(event: AnyEvent) -> None:
        record = decode(line_of(event, step=7))
        assert record.event == event
        assert type(record.event) is cls
        assert (record.type, record.step, record.at, record.n) == (cls.TYPE, 7, 5, 0)

    check()


@for_each("cls", EVENT_TYPES)
def test_body_and_text_of_every_event_agree_and_the_text_is_canonical(cls: type[Event]) -> None:
    @given(events_of(cls, PLAIN) | events_of(cls, ODD))
    def check(event: AnyEvent) -> None:
        text = encode(event)
        assert text == canonical_text(body_of(event))
        assert text == canonical_text(json.loads(text))

    check()


@for_each("cls", EVENT_TYPES)
def test_name_of_an_event_is_its_own_and_fits_the_end_of_a_line(cls: type[Event]) -> None:
    assert [one for one in EVENT_TYPES if one.TYPE == cls.TYPE] == [cls]
    assert cls.TYPE.encode() in tags_of((cls,))
    assert cls.TYPE.replace("_", "").isalpha() and cls.TYPE.islower()


def test_values_nested_too_deep_are_cut_alike() -> None:
    for depth in range(MAX_VALUE_DEPTH - 3, MAX_VALUE_DEPTH + 4):
        deep: Any = "end"
        for _ in range(depth):
            deep = {"in": deep}
        event = proposed(1, arguments=deep)
        assert encode(event) == canonical_text(body_of(event))
        assert isinstance(decode(line_of(event)).event, Proposed)


def test_fields_with_their_default_are_left_out() -> None:
    assert encode(WorldReset()) == "{}"
    assert encode(Configured()) == "{}"
    assert body_of(MemoryChanged("name", is_removed=True)) == {"name": "name", "is_removed": True}


# ---- actions and decisions -----------------------------------------------------------------------


def test_action_keeps_all_that_policy_saw() -> None:
    action = Action(
        Kind.TOOL, "refund", {"amount": 5}, Effect.WRITE, is_reversible=False, parent=3,
        context={"tool_call_id": "c1"},
    )  # fmt: skip
    event = Proposed.of(action)
    assert body_of(event) == {
        "kind": "tool",
        "name": "refund",
        "arguments": {"amount": 5},
        "effect": "write",
        "is_reversible": False,
        "is_contained": False,
        "parent": 3,
        "context": {"tool_call_id": "c1"},
    }
    assert event.action(9) == action.at(9)


def test_decision_keeps_every_rule_that_matched() -> None:
    hit = RuleHit("big", Verdict.ASK, "large")
    decision = Decision(Verdict.ASK, "big", "large", Effect.WRITE, (hit,), True, {"status": 500})
    body = body_of(Decided.of(decision))
    assert body["hits"] == [{"rule_id": "big", "verdict": "ask", "why": "large"}]
    assert (body["is_draft"], body["fault"], body["verdict"]) == (True, {"status": 500}, "ask")
    assert Decided.of(decision).decision == decision


@given(events_of(Decision, PLAIN))
def test_decision_comes_back_from_its_event_but_for_a_yes_that_means_nothing(
    decision: Decision,
) -> None:
    event = decode(line_of(Decided.of(decision))).event
    assert isinstance(event, Decided)
    read = event.decision
    assert msgspec.structs.replace(read, once_approved=decision.once_approved) == decision
    if decision.verdict is Verdict.ASK:
        assert read.once_approved == decision.once_approved


def test_what_came_of_an_action_keeps_result_error_and_cost() -> None:
    event = settled({"a": 1}, "failed", error="boom", answered_by="ann", cost={"tokens": 3})
    assert body_of(event) == {
        "outcome": "failed", "result": {"a": 1}, "error": "boom", "answered_by": "ann",
        "cost": {"tokens": 3},
    }  # fmt: skip


# ---- lines that nobody here wrote ----------------------------------------------------------------


@for_each(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b'{"n":1}',
        b'{"after":"a","at":-1,"body":{},"n":1,"type":"marked"}',
        b'{"after":"a","at":1,"body":[],"n":1,"type":"marked"}',
        b'{"after":"a","at":1,"body":null,"n":1,"type":"rumour"}',
        b'{"after":"a","at":1,"blobs":[{}],"body":{},"n":1,"type":"marked"}',
        b'{"after":"a","at":1,"blobs":[],"body":{},"n":-1,"type":"marked"}',
        b'{"after":"a","at":1,"body":{},"n":1,"step":-1,"type":"marked"}',
        b'{"after":"a","at":1,"body":{},"n":1.5,"type":"marked"}',
        b'{"after":"a","at":1,"body":{},"n":true,"type":"marked"}',
        b'{"after":"a","at":999999999999999999,"body":{},"n":1,"type":"marked"}',
        b'{"after":"a","at":1,"body":{},"n":99999999999999999999,"type":"marked"}',
        b'{"after":"a","at":1,"body":{},"n":1,"type":["marked"]}',
        b'{"after":"a","at":1,"body":{"text":"\\ud800"},"n":1,"type":"marked"}',
        b'{"after":"a","at":1,"body":{"x":NaN},"n":1,"type":"rumour"}',
        b'{"after":"a","at":1,"body":{"x":' + b"9" * 9999 + b'},"n":1,"type":"rumour"}',
        b"[" * 100_000,
        b'{"after":"a","at":1,"body":' + b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
)
def test_line_that_is_no_record_is_an_integrity_error(line: bytes) -> None:
    with pytest.raises(IntegrityError, match="not a record of a journal"):
        decode(line)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_a_file_holds_the_error_is_ours(data: bytes) -> None:
    with pytest.raises(IntegrityError):
        decode(data)


def test_values_nested_deeper_than_any_that_is_written_are_refused() -> None:
    for depth, opening in ((MAX_DEPTH - 1, '{"a":'), (MAX_DEPTH - 1, "[")):
        closing = "}" if opening.startswith("{") else "]"
        body = f'{{"a":{opening * depth}1{closing * depth}}}'
        assert isinstance(decode(Chain().link("rumour", body, at=1, step=None)).event, Unknown)
        body = f'{{"a":{opening * 200}1{closing * 200}}}'
        with pytest.raises(IntegrityError, match="nested too deeply"):
            decode(Chain().link("rumour", body, at=1, step=None))


def test_event_of_a_later_version_is_shown_and_not_acted_on() -> None:
    body = {"said": "x", "n": [1, {"a": None}]}
    record = decode(line_with("rumour", body))
    assert record.event == Unknown("rumour", body)
    assert record.type == "rumour"
    assert body_of(record.event) == body
    assert encode(record.event) == canonical_text(body)


@given(st.dictionaries(st.text(max_size=6), PLAIN_VALUES, max_size=4))
def test_body_of_any_shape_is_an_event_of_its_type_or_unknown(body: dict[str, Any]) -> None:
    for name in (*(cls.TYPE for cls in EVENT_TYPES), "noted", "observed", "rumour"):
        event = decode(line_with(name, body)).event
        if isinstance(event, Unknown):
            assert event == Unknown(name, body)
        else:
            assert name == event.TYPE


@for_each(
    ("name", "body"),
    [
        ("proposed", {}),
        ("proposed", {**body_of(proposed(1)), "kind": "telepathy"}),
        ("proposed", {**body_of(proposed(1)), "arguments": "text"}),
        ("decided", {**body_of(decided()), "verdict": "maybe"}),
        ("decided", {**body_of(decided()), "hits": [1]}),
        ("settled", {"outcome": "lost"}),
        ("settled", {"outcome": "done", "cost": 3}),
        ("opened", {"agent": "a"}),
        ("head", {"run": "r"}),
        ("refused_again", {"count": -1, "first_at": 0, "last_at": 0}),
        ("configured", {"policy": {"text": 3}}),
        ("noted", {"what": "nothing that is known"}),
        ("noted", {"what": 3}),
        ("noted", {}),
        ("noted", {"what": "refused again", "count": "many"}),
        ("observed", {"what": "files"}),
        ("unknown", {"type": "x", "body": {}}),
    ],
)
def test_body_that_is_not_what_its_type_promises_is_unknown(
    name: str, body: dict[str, Any]
) -> None:
    assert decode(line_with(name, body)).event == Unknown(name, body)


def test_field_of_a_later_version_is_passed_over() -> None:
    body = {**body_of(proposed(1)), "mood": "good"}
    assert decode(line_with("proposed", body)).event == proposed(1)


# ---- format 1 ------------------------------------------------------------------------------------


@for_each(
    ("name", "body", "event"),
    [
        ("noted", {"what": "files", "tree": "t", "changed": 3}, FilesRecorded("t", 3)),
        ("noted", {"what": "world reset"}, WorldReset()),
        ("noted", {"what": "mark", "text": "here", "data": {"a": 1}}, Marked("here", {"a": 1})),
        ("noted", {"what": "beside", "steps": 4}, BackgroundCounted(steps=4)),
        (
            "noted",
            {"what": "refused again", "count": 7, "first_at": 1, "last_at": 2},
            RefusedAgain(7, 1, 2),
        ),
        (
            "noted",
            {"what": "alert", "alert": "scan", "times": 2, "host": "h", "port": 1},
            Alert("scan", 2, {"host": "h", "port": 1}),
        ),
        (
            "noted",
            {"what": "failed while reading a file", "error": "boom"},
            InternalError("reading a file", "boom"),
        ),
        ("noted", {"invalid_call": "pay", "why": "no"}, InvalidCall("pay", "no")),
        (
            "noted",
            {"what": "setting", "policy": {"text": "stage: draft"}},
            Configured(policy=PolicySource("stage: draft")),
        ),
        ("observed", {"what": "exec", "program": "/bin/sh"}, ProgramStarted("/bin/sh")),
        ("observed", {"what": "exit", "pid": 3, "exit_code": 1}, ProgramEnded(3, exit_code=1)),
        ("observed", {"what": "again", "kind": "dns", "name": "n"}, ReplayRepeated(Kind.DNS, "n")),
        (
            "observed",
            {"what": "beside", "kind": "dns", "name": "n", "outcome": "done"},
            BackgroundAnswered(Kind.DNS, "n"),
        ),
        ("settled", {"outcome": "refused"}, Settled(Outcome.REFUSED, None)),
        ("asked", {"approval": "a"}, Asked("a", None)),
    ],
)
def test_note_of_the_first_format_is_the_event_that_took_its_place(
    name: str, body: dict[str, Any], event: AnyEvent
) -> None:
    record = decode(line_with(name, body))
    assert record.event == event
    assert record.type == event.TYPE
    assert name.encode() in tags_of((type(event),))


@pytest.mark.parametrize("place", sorted(JOURNALS.glob("v*")), ids=lambda place: place.name)
def test_every_line_that_was_ever_written_is_known_and_verifies(place: Path) -> None:
    report = verify(place / "run", PublicKey.load(place / "journal.pub"))
    assert report.ok, report
    lines = [
        line
        for path in sorted((place / "run").glob("0*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert len(lines) == report.records
    assert [decode(line).n for line in lines] == list(range(len(lines)))


# ---- large values --------------------------------------------------------------------------------


def written_in_format_1(
    directory: Path, name: str, body: Mapping[str, Any]
) -> tuple[RunLog, Record]:
    """Return a journal of the first format whose second record has that body."""
    directory.mkdir()
    blobs, chain = Blobs(directory), Chain()
    text, refs = set_aside(body, canonical_text(body), blobs)
    lines = [
        chain.link("opened", '{"agent":"a","format":1,"run":"r"}', at=1, step=None),
        chain.link(name, text, at=2, step=1, blobs=refs),
    ]
    blobs.flush()
    (directory / segment_name(1)).write_bytes(b"".join(line + b"\n" for line in lines))
    log = RunLog(directory)
    return log, list(log.events())[-1]


def written(opener: Opener, event: AnyEvent) -> tuple[RunLog, Record]:
    """Return a journal whose last record has that event."""
    journal = opener()
    n = journal.append(event, 1)
    log = RunLog(journal.directory)
    return log, next(record for record in log.events() if record.n == n)


MANY = [f"value {number}" for number in range(9000)]
LARGE_EVENTS: dict[str, AnyEvent] = {
    "a text": Marked(LARGE),
    "texts of a list and an object": Marked("m", {"a": LARGE, "b": [LARGE, {"c/d~e": LARGE}]}),
    "any value": settled(LARGE),
    "any value that is an object": settled({"rows": MANY}),
    "any value that is a list": MemoryChanged("m", MANY),
    "an object": proposed(1, arguments={"rows": MANY, "text": LARGE}),
    "a list": ProgramStarted("/bin/sh", MANY),
    "a structure": Configured(policy=PolicySource(LARGE, name="p"), envs={"A": LARGE}),
    "an object of texts": Configured(envs={f"NAME_{n}": "v" * 20 for n in range(4000)}),
    "structures in a tuple": Decided(
        Verdict.BLOCK, "r", "w", hits=tuple(RuleHit(t, Verdict.BLOCK, t) for t in MANY)
    ),
}


@pytest.mark.parametrize("case", LARGE_EVENTS)
def test_large_values_are_read_back(opener: Opener, case: str) -> None:
    event = LARGE_EVENTS[case]
    log, record = written(opener, event)
    assert record.blobs
    assert type(record.event) is type(event)
    assert len(encode(record.event)) < 20_000
    whole = log.whole(record)
    assert whole.event == event
    assert log.whole(whole) is whole


@pytest.mark.parametrize("case", LARGE_EVENTS)
def test_large_values_of_the_first_format_are_read_back(tmp_path: Path, case: str) -> None:
    event = LARGE_EVENTS[case]
    names = {
        "marked": ("noted", {"what": "mark"}),
        "memory_changed": ("noted", {"what": "memory"}),
        "configured": ("noted", {"what": "setting"}),
        "program_started": ("observed", {"what": "exec"}),
    }
    name, head = names.get(event.TYPE, (event.TYPE, {}))
    log, record = written_in_format_1(tmp_path / "run", name, {**head, **body_of(event)})
    assert record.blobs
    assert type(record.event) is type(event)
    assert log.whole(record).event == event


def test_large_details_of_an_alert_of_the_first_format_are_read_back(tmp_path: Path) -> None:
    body = {"what": "alert", "alert": "scan", "times": 1, "host": LARGE, "ports": MANY * 2}
    log, record = written_in_format_1(tmp_path / "run", "noted", body)
    assert isinstance(record.event, Alert)
    assert log.whole(record).event == Alert("scan", 1, {"host": LARGE, "ports": MANY * 2})


def test_value_as_the_record_has_it_is_the_preview_of_a_large_one(opener: Opener) -> None:
    _, record = written(opener, proposed(1, arguments={"rows": MANY}))
    preview = value_in(record, "arguments")
    assert canonical_text({"rows": MANY}).startswith(preview)
    assert value_in(record, "name") == "search"
    assert value_in(record, "context") == {}


def test_value_set_aside_as_something_else_than_its_field_holds_is_unknown(tmp_path: Path) -> None:
    """Whoever writes a journal may put any blob in the place of any value."""
    directory = tmp_path / "run"
    log, record = written_in_format_1(directory, "proposed", body_of(LARGE_EVENTS["an object"]))
    blobs = Blobs(directory)
    refs = tuple(
        blobs.ref(ref.path, b'"text"', "json") if ref.path == "/arguments" else ref
        for ref in record.blobs
        if ref.path == "/arguments"
    )
    forged = msgspec.structs.replace(record, blobs=refs)
    assert isinstance(log.whole(forged).event, Unknown)


def test_blob_that_is_gone_leaves_the_preview(opener: Opener) -> None:
    log, record = written(opener, settled(LARGE))
    for path in (log.directory / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    assert isinstance(record.event, Settled)
    assert LARGE.startswith(record.event.result)
    with pytest.raises(NotFound):
        log.whole(record)


def test_secrets_are_masked_in_every_field(opener: Opener) -> None:
    journal = opener(masker=Masker({"KEY": "sk_live_123456"}))
    journal.append(Marked("it is sk_live_123456", {"sk_live_123456": ["sk_live_123456"]}))
    last = list(RunLog(journal.directory).events())[-1]
    assert last.event == Marked("it is {{secret:KEY}}", {"{{secret:KEY}}": ["{{secret:KEY}}"]})
