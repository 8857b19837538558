from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cases import for_each
from paddock.journal.canonical import canonical_text
from paddock.model.action import Kind
from paddock.model.errors import InvalidInput
from paddock.run.matching.compare import MAX_DIFFERENCES, compare
from paddock.run.matching.recorded_step import ABSENT, Difference
from paddock.run.matching.rules import STRICT, Rules, vary_of
from paddock.run.matching.text import both_views, side_by_side
from paddock.run.matching.timestamps import Timestamps
from paddock.run.matching.view import row_view
from paddock.run.matching.volatile import NOT_COMPARED
from unit.run.matching.samples import SAMPLES, Sent, http, proposed, recorded

THEN, NOW = 1_704_164_645.0, 1_790_000_000.0  # 2024-01-02T03:04:05Z, 2026-09-21T14:13:20Z
MOMENTS = Rules(moments=Timestamps.of_run(THEN - 10, THEN + 10, (NOW - 10, NOW + 10)))
UUIDS = ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7")


def differences(was: Sent, comes: Sent, rules: Rules = STRICT) -> tuple[Difference, ...]:
    return compare(row_view(recorded(was)), proposed(comes), rules)


def sent(value: Any, **more: Any) -> Sent:
    return http("POST", body={"value": value}, **more)


@for_each(
    ("was", "comes"),
    [
        ("2024-01-02T03:04:05Z", "2026-09-21T14:13:20Z"),
        ("2024-01-02T03:04:05.123456+00:00", "2026-09-21T14:13:20.5+00:00"),
        ("2024-01-02 03:04", "2026-09-21 14:13"),
        ("2024-01-02", "2026-09-21"),
        ("20240102T030405Z", "20260921T141320Z"),
        ("Tue, 02 Jan 2024 03:04:05 +0000", "Mon, 21 Sep 2026 14:13:20 +0000"),
        ("It is 2024-01-02, at 1704164645.", "It is 2026-09-21, at 1790000000."),
        (1704164645, 1790000000),
        (1704164645.25, 1790000000.75),
        (1704164645123, 1790000000123),
        ("1704164645123456", "1790000000123456"),
    ],
)
def test_a_time_of_the_run_may_be_a_time_of_the_replay(was: Any, comes: Any) -> None:
    assert differences(sent(was), sent(comes), MOMENTS) == ()
    assert differences(sent(was), sent(comes)) != ()


@for_each(
    ("was", "comes"),
    [
        ("2024-01-02T03:05:05Z", "2026-09-21T14:13:20Z"),  # after the run
        ("2024-01-02T03:04:05Z", "2026-09-21T15:13:20Z"),  # after the replay
        ("2024-01-02T03:04:05Z", "2026-09-21 14:13:20Z"),  # another spelling
        ("2024-01-02T03:04:05Z", "2026-09-21T14:13:20+00:00"),
        ("2024-01-02T03:04:05Z", "2026-09-21T14:13:20.0Z"),
        ("2024-01-02T03:04:05Z", 1790000000),
        (1704164645, "1790000000"),
        (1704164645, 1790000000000),
        (1704164645, 1700000000),
        ("at 2024-01-02", "on 2026-09-21"),
        ("2024-01-02", "2026-09-21 and 2026-09-21"),
        ("order 1704164645", "order 1790009999"),
        ("v1704164645", "v1790000000"),  # part of a name
        ("2024-02-31", "2026-09-21"),
    ],
)
def test_any_other_time_is_a_difference(was: Any, comes: Any) -> None:
    assert differences(sent(was), sent(comes), MOMENTS) != ()


def test_a_time_in_query_and_path_and_header_may_vary_but_not_in_the_host() -> None:
    was = http(
        path="/at/2024-01-02", query="t=2024-01-02T03%3A04%3A05Z", headers={"x-t": "1704164645"}
    )
    comes = http(
        path="/at/2026-09-21", query="t=2026-09-21T14%3A13%3A20Z", headers={"x-t": "1790000000"}
    )
    assert differences(was, comes, MOMENTS) == ()
    was, comes = http(host="2024-01-02.x.example"), http(host="2026-09-21.x.example")
    assert [one.at for one in differences(was, comes, MOMENTS)] == ["host"]


@for_each(
    ("rule", "was", "comes"),
    [
        ("body.value=uuid", *UUIDS),
        ("*=uuid", *UUIDS),
        ("body.value=any", {"a": 1}, [None]),
        ("body.value=int", 5, 70),
        ("body.value=hex", "0a", "ffee"),
        ("body.value=date", "2001-02-03", "2002-03-04T05:06:07Z"),
        ("body.value=unix", 1000000000, 1999999999),
        ("body.value=re:run-[0-9]+", "run-1", "run-22"),
        ("body.value=id", "one", "another"),
        ("body.value[*].id=uuid", [{"id": UUIDS[0]}], [{"id": UUIDS[1]}]),
        ("body.value.*=int", {"n": 1}, {"n": 2}),
        ('body.value["a.b"]=int', {"a.b": 1}, {"a.b": 2}),
        ("body.value[1]=int", [1, 2], [1, 3]),
    ],
)
def test_what_is_declared_may_vary(rule: str, was: Any, comes: Any) -> None:
    rules = Rules((vary_of(rule),))
    assert differences(sent(was), sent(comes), rules) == ()
    assert differences(sent(was), sent(comes)) != ()
    assert compare(proposed(sent(was)), proposed(sent(was)), rules) == ()


@for_each(
    ("rule", "was", "comes"),
    [
        ("body.value=uuid", UUIDS[0], "not one"),
        ("body.value=uuid", "not one", UUIDS[0]),
        ("body.other=uuid", *UUIDS),
        ("body=uuid", *UUIDS),
        ("body.value=int", 5, "6"),
        ("body.value=int", 5, True),
        ("body.value=int", 5, 5.5),
        ("body.value=hex", "0a", "xyz"),
        ("body.value=re:run-[0-9]+", "run-1", "run-2x"),
        ("body.value[*].id=uuid", [{"id": UUIDS[0]}], [{"id": UUIDS[1], "n": 1}]),
        ("body.value[1]=int", [1, 2], [2, 2]),
        ("body.value=id", "one", ""),
    ],
)
def test_what_is_not_of_the_declared_shape_and_place_differs(
    rule: str, was: Any, comes: Any
) -> None:
    assert differences(sent(was), sent(comes), Rules((vary_of(rule),))) != ()


def test_a_declared_header_must_still_be_there() -> None:
    rules = Rules((vary_of({"at": "headers.Idempotency-Key", "as": "any"}),))
    with_key = http(headers={"idempotency-key": "a"})
    assert differences(with_key, http(headers={"idempotency-key": "b"}), rules) == ()
    assert differences(with_key, http(), rules) == (
        Difference("headers.idempotency-key", "a", ABSENT),
    )


def test_a_credential_may_vary_only_where_that_is_declared() -> None:
    was = http(headers={"authorization": "Bearer ***"}, keyed={"headers.authorization": "aa"})
    comes = replace(was, keyed={"headers.authorization": "bb"})
    assert [one.at for one in differences(was, comes)] == ["headers.authorization"]
    assert differences(was, comes, Rules((vary_of("headers.authorization=any"),))) == ()
    assert differences(was, comes, Rules((vary_of("headers.authorization=uuid"),))) != ()


def test_a_masked_leaf_is_compared_by_its_hash() -> None:
    tool = Sent(Kind.TOOL, "f", {"key": "{{secret:k}}"}, keyed={"/key": "aa"})
    assert [one.at for one in differences(tool, replace(tool, keyed={"/key": "bb"}))] == [
        "arguments.key"
    ]


@for_each(
    "said",
    [
        "*=any",
        "*=id",
        "body.x",
        "body.x=colour",
        "nowhere.x=int",
        "host=any",
        "=int",
        "body[=int",
        "body.x=re:(",
        {"at": "body.x"},
        {"at": "body.x", "as": "int", "of": 1},
        {"at": 1, "as": "int"},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(said: Any) -> None:
    with pytest.raises(InvalidInput):
        vary_of(said)


def test_the_boundary_of_a_multipart_body_is_made_up_by_the_client() -> None:
    was, comes = (
        http("POST", headers={"content-type": f"multipart/form-data; boundary={one}"})
        for one in ("aaaa", "bbbb")
    )
    assert differences(was, comes) == ()
    other = http("POST", headers={"content-type": "multipart/mixed; boundary=aaaa"})
    assert [one.at for one in differences(was, other)] == ["headers.content-type"]


@for_each("name", sorted(one for one in NOT_COMPARED if not one.endswith("*")))
def test_an_ignored_header_has_a_reason_and_is_not_compared(name: str) -> None:
    assert NOT_COMPARED[name]
    assert differences(http(headers={name: "1"}), http()) == ()


@for_each(
    "name",
    ["idempotency-key", "authorization", "accept", "anthropic-version", "x-tenant", "x-trace",
     "cookie", "if-match", "range", "x-b3", "x-request-id"],
)  # fmt: skip
def test_a_header_that_may_matter_is_compared(name: str) -> None:
    assert differences(http(headers={name: "1"}), http(headers={name: "2"})) != ()


def test_whole_numbers_of_the_journal_match_the_floats_that_are_sent() -> None:
    assert (
        differences(
            sent({"temperature": 1.0, "big": 1e17}), sent({"temperature": 1.0, "big": 1e17})
        )
        == ()
    )


def test_a_conversation_that_is_expanded_is_compared_message_by_message() -> None:
    def asked(text: str, digest: str) -> dict[str, Any]:
        return {
            "host": "m.example",
            "model": "m",
            "messages": [{"role": "user", "content": text}],
            "request": {"max_tokens": 5},
            "conversation": {"last": digest, "count": 1},
        }

    was = Sent(Kind.MODEL, "m", {}, asked("It is 2024-01-02.", "aa"))
    comes = Sent(Kind.MODEL, "m", {}, asked("It is 2026-09-21.", "bb"))
    assert differences(was, comes, MOMENTS) == ()
    assert [one.at for one in differences(was, comes)] == ["body.messages[0].content"]


def test_there_are_never_more_than_fifty_differences() -> None:
    assert len(differences(sent(list(range(200))), sent(list(range(1, 201))))) == MAX_DIFFERENCES


def test_the_most_telling_difference_comes_first() -> None:
    found = differences(http(path="/a", headers={"x-a": "1"}), http("PUT", path="/b"))
    assert [one.at for one in found] == ["method", "path", "headers.x-a"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_a_value_never_differs_from_itself(value: Any) -> None:
    assert differences(sent(value), sent(value)) == ()


@given(JSON, JSON)
def test_two_values_differ_unless_they_are_the_same_json(one: Any, other: Any) -> None:
    assume(canonical_text(one) != canonical_text(other))
    assert differences(sent(one), sent(other)) != ()


def test_side_by_side_shows_both_values_and_nothing_that_a_terminal_acts_upon() -> None:
    shown = side_by_side([Difference("body.note\x1b[2J", "pay\x1b[31m", "p\u0430y\u202e")], 60)
    assert shown.isascii()
    assert "\\u001b" in shown
    assert "\\u0430" in shown
    assert all(len(line) <= 60 for line in shown.splitlines())


def test_side_by_side_shows_where_long_texts_begin_to_differ() -> None:
    shown = side_by_side([Difference("body", "x" * 9000 + "left", "x" * 9000 + "right")])
    assert "left" in shown.replace("\n", "")
    assert "right" in shown.replace("\n", "")
    assert len(shown) < 3000


def test_both_views_mark_what_differs_and_leave_out_long_equal_stretches() -> None:
    was, comes = sent([*range(100), "old"]), sent([*range(100), "new"])
    shown = both_views(row_view(recorded(was)), proposed(comes), 80)
    marked = [line for line in shown.splitlines() if " | " in line]
    assert any('"old"' in line and '"new"' in line for line in marked)
    assert "equal lines" in shown
    assert len(shown.splitlines()) < 60


@for_each("name", SAMPLES)
def test_every_sample_can_be_shown(name: str) -> None:
    assert "recorded" in both_views(row_view(recorded(SAMPLES[name])), proposed(http()))


@for_each("name", sorted(NOT_COMPARED))
def test_the_page_names_every_header_that_is_not_compared(name: str) -> None:
    page = Path(__file__).parents[4] / "docs" / "replay-matching.md"
    assert f"`{name}`" in page.read_text()
