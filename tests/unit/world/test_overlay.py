"""The parts of the overlay: paths, ids, patches, times, pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from paddock.world.overlay.bodies import masked_query, parse_body, parse_form, without_secrets
from paddock.world.overlay.ids import FIRST_SHADOW, RecordIndex, id_style, is_marked, shadow_id
from paddock.world.overlay.list_query import ListQuery
from paddock.world.overlay.pages import (
    as_only_page,
    insert_position,
    is_last_page,
    sort_order,
    with_counts,
)
from paddock.world.overlay.patches import CannotApply, json_patch, merge_patch, replace_record
from paddock.world.overlay.paths import canonical, singular, template
from paddock.world.overlay.shapes import find_list, find_record, get_at, put_at
from paddock.world.overlay.targets import KnownPaths, WriteKind, action_changes, write_target
from paddock.world.overlay.times import format_like, parse_time

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/tickets/7", "/tickets/7"),
        ("/tickets//7/", "/tickets/7"),
        ("/a/../tickets/./7.json", "/tickets/7"),
        ("/%74ickets/7", "/tickets/7"),
        ("/projects/a%2Fb/issues", "/projects/a%2Fb/issues"),
        ("/../..", "/"),
        ("", "/"),
    ],
)
def test_a_resource_has_one_spelling(path: str, plain: str) -> None:
    assert canonical(path) == plain


@given(st.text(max_size=40))
def test_the_one_spelling_stays_the_same(path: str) -> None:
    once = canonical(path).removesuffix(".json")
    assert canonical(once) == once or ".json" in path


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/customers/cus_Abc123xyz/cards/7", "/v1/customers/{id}/cards/{id}"),
        ("/api/v2/users", "/api/v2/users"),
        ("/things/3f2b8c1e-9a4d-4e6f-8b7a-1c2d3e4f5a6b", "/things/{id}"),
        ("/issue/PROJ-12/comment", "/issue/{id}/comment"),
        ("/payment_intents/search", "/payment_intents/search"),
        ("/conversations.list", "/conversations.list"),
        ("/tickets/shadow_x9", "/tickets/{id}"),
    ],
)
def test_ids_in_a_path_are_found_and_words_are_not(path: str, shape: str) -> None:
    assert template(path) == shape


def test_words_lose_their_plural() -> None:
    words = ["tickets", "companies", "boxes", "addresses", "status", "people", "news"]
    assert [singular(one) for one in words] == [
        "ticket", "company", "box", "address", "status", "people", "news",
    ]  # fmt: skip


@given(st.sampled_from(["int", "digits", "uuid", "str", "cus_"]), st.integers(1, 10**9))
def test_every_shadow_id_is_marked_and_no_small_id_is(kind: str, number: int) -> None:
    assert is_marked(shadow_id(kind, number, "abc"))
    assert not is_marked(number)
    assert not is_marked(str(number))


def test_a_shadow_among_real_ids_does_not_change_their_style() -> None:
    assert id_style([1, 2, FIRST_SHADOW + 1]) == "int"
    assert id_style(["cus_1a", "cus_shadow_x"]) == "cus_"
    assert id_style([True, None]) == "str"


def test_a_record_is_found_by_its_own_url_before_anything_else() -> None:
    items = [
        {"id": 7, "url": "https://h.example/tickets/1"},
        {"id": 1, "_links": {"self": {"href": "/tickets/7?x=1"}}},
    ]
    assert RecordIndex(items).find("/tickets/7", "7", None) == 1
    assert RecordIndex([{"id": 7}, "text", None]).find("/tickets/7", "7", None) == 0
    assert RecordIndex([{"id": 1, "number": 7}]).find("/tickets/7", "7", None) is None
    assert RecordIndex([{"id": 1, "number": 7}]).find("/tickets/7", "7", "number") == 0
    assert RecordIndex([{"slug": "x"}]).find("/tickets/x", "x", None) == 0
    assert RecordIndex([]).find("/tickets/x", "x", None) is None


@for_each(
    ("document", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "remove", "path": "/a"}], {}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        (
            {"a": {"x": 1}},
            [{"op": "copy", "from": "/a", "path": "/b"}],
            {"a": {"x": 1}, "b": {"x": 1}},
        ),
        (
            {"a/b": {"m~n": 1}},
            [{"op": "replace", "path": "/a~1b/m~0n", "value": 2}],
            {"a/b": {"m~n": 2}},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    ],
)
def test_json_patch(document: Any, operations: list[Any], result: Any) -> None:
    assert json_patch(document, operations) == result


@for_each(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/a/9", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/l/-1", "value": 1},
        {"op": "remove", "path": "/l/-"},
        {"op": "remove", "path": "/l/x"},
        {"op": "shout", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "move", "from": 7, "path": "/a"},
        "remove",
    ],
)
def test_a_json_patch_that_does_not_fit_changes_nothing(operation: Any) -> None:
    document = {"a": 1, "l": [1]}
    with pytest.raises(CannotApply):
        json_patch(document, [{"op": "add", "path": "/b", "value": 1}, operation])
    assert document == {"a": 1, "l": [1]}


@given(JSON, JSON)
def test_a_strict_merge_leaves_no_null_of_the_patch(record: Any, patch: Any) -> None:
    result = merge_patch(record, patch, is_strict=True)
    if isinstance(patch, dict):
        assert all((name in result) == (value is not None) for name, value in patch.items())
    assert merge_patch(result, patch, is_strict=True) == result


@given(JSON, JSON)
def test_a_merge_done_twice_is_done_once(record: Any, patch: Any) -> None:
    once = merge_patch(record, patch)
    assert merge_patch(once, patch) == once


def test_a_replaced_record_keeps_what_the_server_owns() -> None:
    old = {"id": 1, "createdAt": "x", "name": "a", "url": "u"}
    assert replace_record(old, {"name": "b"}) == {
        "id": 1,
        "createdAt": "x",
        "name": "b",
        "url": "u",
    }
    assert replace_record(old, ["b"]) == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.120Z",
        "2026-01-02T03:04:05+00:00",
        "2026-01-02T03:04:05.000000",
        "2026-01-02 03:04:05",
        1767323045,
        1767323045000,
    ],
)
def test_a_time_is_written_as_the_host_writes_it(text: Any) -> None:
    at = parse_time(text)
    assert at is not None
    assert format_like(text, at) == text


@for_each("value", ["7", 7, 9_000_000_000_000_001, True, None, "2026", [], "99"])
def test_what_is_no_time_is_not_taken_for_one(value: Any) -> None:
    assert parse_time(value) is None


@for_each(
    ("body", "name", "keys"),
    [
        ([{"id": 1}], "tickets", ()),
        ([], "tickets", ()),
        ({"tickets": [], "users": []}, "tickets", ("tickets",)),
        ({"data": [{"id": 1}], "errors": []}, "x", ("data",)),
        ({"_embedded": {"tickets": [{"id": 1}]}, "page": {}}, "tickets", ("_embedded", "tickets")),
        ({"id": 7, "tags": [{"a": 1}]}, "7", None),
        ({"errors": [{"message": "no"}]}, "x", None),
        ([1, 2], "x", None),
        ("text", "x", None),
    ],
)
def test_the_list_in_an_answer_is_found(body: Any, name: str, keys: Any) -> None:
    assert find_list(body, name) == keys


def test_the_record_in_an_answer_is_found() -> None:
    assert find_record({"id": 1, "user": {"id": 2}}, "tickets") == ()
    assert find_record({"ticket": {"id": 1}, "user": {"id": 2}}, "tickets") == ("ticket",)
    assert find_record({"data": {"id": "1", "attributes": {}}}, "tickets") == ("data",)
    assert find_record({"settings": {"a": 1}}, "me") == ()


@given(JSON, st.lists(st.text(max_size=3), max_size=3))
def test_what_is_put_is_got(value: Any, keys: list[str]) -> None:
    assert get_at(put_at({"other": 1}, tuple(keys), value), tuple(keys)) == value


def test_the_order_of_a_list_is_seen() -> None:
    days = [{"id": n, "created": f"2026-01-0{n}T00:00:00Z"} for n in (3, 2, 1)]
    assert sort_order(days) == ("created", True)
    assert sort_order([{"id": 1}, {"id": 2}]) == ("id", False)
    assert sort_order([{"id": "b"}, {"id": "a"}]) is None
    assert sort_order([{"id": 2}, {"id": 1}, {"id": 3}]) is None
    assert insert_position([{"n": 1}, {"n": 3}], {"n": 2}, "n", False) == 1
    assert insert_position([{"n": 1}, {"n": None}], {"n": 2}, "n", False) is None


@for_each(
    ("query", "body", "count", "link", "last"),
    [
        ("", {"has_more": True}, 2, "", False),
        ("starting_after=x", {"has_more": False}, 0, "", True),
        ("", {"links": {"next": "/x"}}, 2, "", False),
        ("", {"meta": {"next_cursor": ""}}, 2, "", True),
        ("page=2&per_page=2", {"total": 4}, 2, "", True),
        ("page=1&per_page=2", {"total": 4}, 2, "", False),
        ("offset=2", {"total": 3}, 1, "", True),
        ("limit=2", [], 2, "", False),
        ("limit=2", [], 1, "", True),
        ("page=9&limit=2", [], 0, "", False),
        ("page=9", {"total": 4}, 0, "", False),
        ("", [], 5, '<x>; rel="next"', False),
        ("page=3", [], 5, '<x>; rel="prev"', True),
    ],
)
def test_the_last_page_is_known(query: str, body: Any, count: int, link: str, last: bool) -> None:
    assert is_last_page(ListQuery.parse(query), body, count, link) is last


def test_numbers_of_a_page_and_of_all_pages_are_put_right() -> None:
    body = {"count": 2, "meta": {"total": 9}, "data": [1], "total": True}
    assert with_counts(body, 2, 3, 1) == {
        "count": 3,
        "meta": {"total": 10},
        "data": [1],
        "total": True,
    }
    assert with_counts({"total": 0}, 0, 0, -1) == {"total": 0}
    assert as_only_page({"total": 5, "has_more": True, "paging": {"next": "x"}}) == {
        "total": 0, "has_more": False, "paging": {"next": None},
    }  # fmt: skip


@for_each(
    ("query", "takes"),
    [
        ("status=open", True),
        ("status=closed", False),
        ("status=closed,open", True),
        ("status=all", True),
        ("filter[status]=closed", False),
        ("tag=x", True),
        ("tags=b", True),
        ("tags[]=c", False),
        ("user=3", True),
        ("user=4", False),
        ("done=false", True),
        ("done=1", False),
        ("page=9&limit=1&sort=-status", True),
        ("assignee=7", False),
        ("q=Printer", True),
        ("q=printer+fire", False),
    ],
)
def test_filters_by_fields(query: str, takes: bool) -> None:
    record = {"status": "open", "tags": ["a", "b"], "user": {"id": 3}, "done": False,
              "subject": "the printer"}  # fmt: skip
    assert ListQuery.parse(query).includes(record, known_fields=("status", "assignee")) is takes


@for_each(
    ("method", "path", "body", "does", "where"),
    [
        ("POST", "/tickets", {}, WriteKind.CREATE, "/tickets"),
        ("POST", "/tickets/7", {}, WriteKind.CHANGE, "/tickets/7"),
        ("POST", "/tickets/7/comments", {}, WriteKind.CREATE, "/tickets/7/comments"),
        ("POST", "/tickets/7/close", None, WriteKind.ACT, "/tickets/7"),
        ("POST", "/tickets/7:close", None, WriteKind.ACT, "/tickets/7"),
        ("PUT", "/tickets/7/lock", None, WriteKind.ACT, "/tickets/7"),
        ("PUT", "/tickets/7", {}, WriteKind.REPLACE, "/tickets/7"),
        ("PATCH", "/settings", {}, WriteKind.CHANGE, "/settings"),
        ("DELETE", "/tickets/7", None, WriteKind.DELETE, "/tickets/7"),
        ("DELETE", "/users/octocats", None, WriteKind.DELETE, "/users/octocats"),
        ("DELETE", "/tickets/7/tags", None, WriteKind.EMPTY, "/tickets/7/tags"),
        ("DELETE", "/v1/tickets", None, WriteKind.EMPTY, "/v1/tickets"),
        ("POST", "/api/graphql", {}, WriteKind.GRAPHQL, "/api/graphql"),
        ("POST", "/known", {}, WriteKind.CREATE, "/known"),
        ("POST", "/users/mona", {}, WriteKind.CHANGE, "/users/mona"),
    ],
)
def test_what_a_write_is_meant_for(
    method: str, path: str, body: Any, does: WriteKind, where: str
) -> None:
    known = KnownPaths({"/known"}.__contains__, {"/users/mona"}.__contains__)
    found = write_target(method, path, body, known)
    assert (found.kind, found.path) == (does, where)


def test_a_verb_changes_only_what_the_records_have_shown() -> None:
    record = {"status": "open", "archived": False}
    assert action_changes("close", record, [{"status": "closed"}]) == {"status": "closed"}
    assert action_changes("close", record, [{"status": "done"}]) == {}
    assert action_changes("archive", record, []) == {"archived": True}
    assert action_changes("cancel", record, [{"status": "cancelled"}]) == {"status": "cancelled"}
    assert action_changes("deny", {"state": "new"}, [{"state": "denied"}]) == {"state": "denied"}


def test_forms_are_read_with_their_brackets() -> None:
    assert parse_form("a=1&b[c]=2&b[d]=3&e[]=4&e[]=5&f[g][h]=6") == {
        "a": "1", "b": {"c": "2", "d": "3"}, "e": ["4", "5"], "f": {"g": {"h": "6"}},
    }  # fmt: skip
    assert parse_form("a=1&a[b]=2&a[]=3") == {"a": ["3"]}
    assert parse_form("&".join(["a=1"] * 5000)) == {}


@given(
    st.binary(max_size=60),
    st.sampled_from([b"application/json", b"text/x", b"application/x-www-form-urlencoded"]),
)
def test_any_body_can_be_read(data: bytes, kind: bytes) -> None:
    parse_body([(b"content-type", kind)], data)


def test_credentials_are_not_kept() -> None:
    secret = ["authorization", "cookie", "x-api-key", "x-auth-token", "x-amz-security-token",
              "x-csrf-token", "x-session-id", "proxy-authorization", "x-goog-api-key",
              "x-hub-signature", "ocp-apim-subscription-key"]  # fmt: skip
    plain = ["accept", "content-type", "idempotency-key", "x-team"]
    pairs = [(name.encode(), b"v") for name in (*secret, *plain, "host", "content-length")]
    assert sorted(without_secrets(pairs)) == sorted(plain)
    assert masked_query("page_token=1&token=2&key=3&a=4") == "page_token=1&token=...&key=...&a=4"
