"""Made-up data: the same for the same seed, and odd only where it is said to be."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import HostCannot, InvalidInput
from paddock.world.context import START, Context
from paddock.world.seeds import Oddity, SeedData, load_seed
from paddock.world.seeds.custom_fields import PLAIN
from paddock.world.seeds.oddities import ODDITIES
from paddock.world.seeds.shapes import SHAPES
from paddock.world.service import Service
from paddock.world.store import Store

LOCALES = ["en_US", "de_DE", "ja_JP", "pl_PL"]


@pytest.fixture
def context(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield Context("crm", "crm.example", 443, store, seed=5)


@pytest.fixture
def load(context: Context, tmp_path: Path) -> Any:
    return lambda words: load_seed(words, context, tmp_path)


def by_id(found: SeedData, kind: str) -> dict[str, dict[str, Any]]:
    return {document["id"]: document for document in found[kind]}


def at(document: Mapping[str, Any], field: str) -> Any:
    value: Any = document
    for name in field.split("."):
        value = value[name]
    return value


@for_each("kind", SHAPES)
def test_every_kind_is_made_whole_and_as_often_as_it_was_asked_for(load: Any, kind: str) -> None:
    found = load({"generate": kind, "count": 30, "mess": 0})
    assert len(found[kind]) == 30
    assert len(by_id(found, kind)) == 30
    assert found.report == []
    assert len({frozenset(document) for document in found[kind]}) == 1


def test_the_same_seed_makes_the_same_documents_in_another_process(load: Any) -> None:
    words = [{"generate": kind, "count": 20, "seed": 4, "mess": 0.3, "locale": LOCALES}
             for kind in SHAPES]  # fmt: skip
    here = json.dumps(load(words))
    code = (
        "import json, sys; from pathlib import Path; from paddock.world.seeds import load_seed\n"
        "from paddock.world.context import Context\n"
        "context = Context('other', 'other.example', 1, None)\n"
        "print(json.dumps(load_seed(json.load(sys.stdin), context, Path('/'))))"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(words),
        env={"PYTHONPATH": ":".join(sys.path), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here


def test_other_seeds_make_other_documents_and_the_worlds_is_the_default(load: Any) -> None:
    words = {"generate": "customers", "count": 5}
    assert load({**words, "seed": 5}) == load(words)
    assert not set(by_id(load({**words, "seed": 6}), "customers")) & set(
        by_id(load(words), "customers")
    )


def test_more_documents_begin_with_the_same_ones(load: Any) -> None:
    words = {"generate": "customers", "seed": 1, "mess": 0, "locale": LOCALES}
    few, many = load({**words, "count": 10}), load({**words, "count": 40})
    assert many["customers"][:10] == few["customers"]


def test_two_parts_of_one_kind_go_on_counting(load: Any) -> None:
    words = {"generate": "customers", "count": 10, "seed": 1, "mess": 0}
    assert load([words, words]) == load({**words, "count": 20})


def test_chance_of_the_program_is_neither_used_nor_changed(load: Any) -> None:
    import random

    random.seed(3)
    before = random.getstate()
    load({"generate": "customers", "count": 5, "mess": 0.5, "locale": LOCALES})
    assert random.getstate() == before


def test_everything_was_made_before_the_world_starts(load: Any) -> None:
    for document in load({"generate": "charges", "count": 50, "mess": 0})["charges"]:
        assert "2024-01" <= document["created_at"] < "2026-01-01T00:00:00Z"
    assert START == 1_767_225_600


@pytest.mark.parametrize("kind", [kind for kind in SHAPES if SHAPES[kind].roles.references])
def test_references_name_documents_that_exist_but_for_those_broken_on_purpose(
    load: Any, kind: str
) -> None:
    found = load({"generate": kind, "count": 100, "seed": 1, "mess": 0.5})
    odd = {(one.id, one.field): one for one in found.odd("dangling")}
    assert odd
    checked = 0
    for document in found[kind]:
        for field, target in SHAPES[kind].roles.references.items():
            if document.get(field) is None:
                continue
            is_there = document[field] in by_id(found, target)
            assert is_there != ((document["id"], field) in odd)
            checked += is_there
    assert checked > 50


def test_references_go_to_what_the_seed_has_wherever_it_stands(load: Any) -> None:
    words = [
        {"generate": "orders", "count": 10, "mess": 0},
        {"generate": "customers", "count": 3, "mess": 0},
        {"products": [{"name": "one without an id"}]},
    ]
    found = load(words)
    assert len(found["customers"]) == 3
    assert {one["customer"] for one in found["orders"]} <= set(by_id(found, "customers"))
    product = found["products"][0]["id"]
    assert {item["product"] for one in found["orders"] for item in one["items"]} == {product}


def test_a_kind_can_be_stored_under_another_name_and_is_still_referred_to(load: Any) -> None:
    found = load(
        [
            {"generate": "customers", "count": 3, "kind": "contacts"},
            {"generate": "charges", "count": 9, "mess": 0},
        ]
    )
    assert set(found) == {"contacts", "charges"}
    assert {one["customer"] for one in found["charges"]} <= set(by_id(found, "contacts"))


def test_totals_and_refunds_are_right_where_nothing_is_odd(load: Any) -> None:
    found = load([{"generate": kind, "count": 200, "mess": 0} for kind in ("orders", "charges")])
    for order in found["orders"]:
        assert order["total"] == sum(one["quantity"] * one["price"] for one in order["items"])
    for charge in found["charges"]:
        assert 0 <= charge["amount_refunded"] <= charge["amount"]
    assert any(charge["amount_refunded"] for charge in found["charges"])


def test_no_address_belongs_to_anybody(load: Any) -> None:
    found = load({"generate": "customers", "count": 100, "mess": 0, "locale": LOCALES})
    for customer in found["customers"]:
        local, _, domain = customer["email"].partition("@")
        assert local.isascii() and local and domain in ("example.com", "example.net", "example.org")


def test_the_share_that_was_asked_for_is_odd_and_the_rest_is_as_without(load: Any) -> None:
    words = {"generate": "customers", "count": 200, "seed": 1}
    found, clean = load({**words, "mess": 0.2}), load({**words, "mess": 0})
    odd = {one.id for one in found.report}
    assert len(found.report) == len(odd) == 40
    was = by_id(clean, "customers")
    for id, document in by_id(found, "customers").items():
        assert (document != was[id]) == (id in odd)


def test_a_tenth_is_odd_but_still_usable_unless_it_is_said(load: Any) -> None:
    found = load({"generate": "charges", "count": 500, "seed": 1})
    assert len(found.report) == 50
    assert "injection" in {one.what for one in found.report}
    whole = set(load({"generate": "charges", "count": 1, "mess": 0})["charges"][0])
    for charge in found["charges"]:
        assert set(charge) == whole
        assert type(charge["amount"]) is int and charge["amount"] > 0
        assert charge["customer"] in by_id(found, "customers")


@for_each("kind", SHAPES)
def test_every_oddity_that_fits_a_kind_is_there(load: Any, kind: str) -> None:
    found = load({"generate": kind, "count": 100, "seed": 2, "mess": 0.6})
    roles = SHAPES[kind].roles
    unfit = {"dangling"} if not roles.references else set()
    unfit |= {"amount", "text_number"} if not roles.amounts else set()
    unfit |= {"leading_zeros"} if not roles.digits else set()
    assert {one.what for one in found.report} == set(ODDITIES) - unfit


def odd_ones(load: Any, what: str, kind: str = "orders") -> list[tuple[Oddity, Any, Any]]:
    """The oddities of one sort: what is said, the value, and the value had it not been odd."""
    words = {"generate": kind, "count": 40, "seed": 3}
    found, clean = load({**words, "mess": {what: 0.5}}), load({**words, "mess": 0})
    assert [one.what for one in found.report] == [what] * len(found.report)
    assert found.report
    now, was = by_id(found, kind), by_id(clean, kind)
    return [(one, at(now[one.id], one.field), at(was[one.id], one.field)) for one in found.report]


def test_duplicates_are_the_same_person_spelled_otherwise(load: Any) -> None:
    words = {"generate": "customers", "count": 40, "seed": 3, "mess": {"duplicate": 0.3}}
    found = load(words)
    documents = by_id(found, "customers")
    assert len(found.odd("duplicate")) == 12
    for one in found.report:
        other = documents[one.said.split()[3].rstrip(",")]
        mine = documents[one.id]
        assert mine["name"] != other["name"] or mine["company"] != other["company"]
        assert mine["email"] == other["email"].upper()
        assert mine["phone"] == other["phone"]


def test_missing_null_and_empty_are_three_things(load: Any) -> None:
    words = {"generate": "customers", "count": 90, "seed": 3}
    found = load({**words, "mess": {"missing": 0.2, "null": 0.2, "empty": 0.2}})
    documents = by_id(found, "customers")
    for one in found.odd("missing"):
        assert one.field not in documents[one.id]
    for one in found.odd("null"):
        assert at(documents[one.id], one.field) is None
    for one in found.odd("empty"):
        assert at(documents[one.id], one.field) == ""
    assert Counter(one.what for one in found.report) == {"missing": 18, "null": 18, "empty": 18}


def test_mojibake_is_what_utf8_looks_like_when_read_as_latin(load: Any) -> None:
    for _, value, _ in odd_ones(load, "mojibake", "customers"):
        assert value.encode("latin-1").decode() != value


def test_odd_letters_are_what_they_are_said_to_be(load: Any) -> None:
    assert all(
        any(unicodedata.bidirectional(sign) in ("R", "AL", "RLO", "RLE") for sign in value)
        for _, value, _ in odd_ones(load, "right_to_left", "customers")
    )
    for _, value, was in odd_ones(load, "emoji", "customers"):
        assert value.startswith(was) and any(ord(sign) > 0x1F000 for sign in value)
    for _, value, was in odd_ones(load, "zero_width", "customers"):
        assert len(value) == len(was) + 1
        assert any(unicodedata.category(sign) == "Cf" for sign in value)
    for _, value, _ in odd_ones(load, "decomposed", "customers"):
        assert unicodedata.normalize("NFC", value) != value
    for _, value, _ in odd_ones(load, "very_long"):
        assert len(value) == 20_000
    for _, value, was in odd_ones(load, "whitespace"):
        assert value != was and value.strip() == was


def test_amounts_dates_and_numbers_are_odd_in_the_way_that_is_said(load: Any) -> None:
    amounts = [value for _, value, _ in odd_ones(load, "amount")]
    assert min(amounts) < 0 < 10**9 < max(amounts) and 0 in amounts
    for one, value, was in odd_ones(load, "date_format"):
        assert repr(value) in one.said and value != was
    for _, value, was in odd_ones(load, "text_number"):
        assert isinstance(value, str) and float(value.replace(",", "")) * 100 == pytest.approx(was)
    for _, value, was in odd_ones(load, "leading_zeros", "products"):
        assert value.startswith("00") and len(value) == len(was)


def test_conflicting_notes_say_both(load: Any) -> None:
    for one, value, _ in odd_ones(load, "conflict", "customers"):
        first, second = value.split("\n")
        assert first in one.said and second in one.said


def test_each_injection_has_a_word_of_its_own_that_the_report_names(load: Any) -> None:
    found = odd_ones(load, "injection", "tickets")
    words = [one.said for one, _, _ in found]
    assert len(set(words)) == len(words)
    for one, value, was in found:
        assert one.said in value and one.said not in was and value.startswith(was)
    assert len({value.replace(one.said, "").replace(was, "") for one, value, was in found}) > 3


def test_injections_lead_nowhere(load: Any) -> None:
    import re

    for _, value, _ in odd_ones(load, "injection", "messages"):
        for host in re.findall(r"(?:https://|@)([a-z.]+)", value):
            assert host.endswith(".invalid")


def test_an_oddity_that_does_not_fit_is_left_out(load: Any) -> None:
    found = load({"generate": "users", "count": 50, "seed": 1, "mess": {"dangling": 1}})
    assert found.report == []
    words = {"generate": "things", "fields": {"n": {"always": 1}}, "mess": {"injection": 1}}
    assert load(words).report == []


def test_nothing_at_all_can_be_made_and_one_can_be_made_odd(load: Any) -> None:
    assert load({"generate": "orders", "count": 0, "mess": 1}) == {"orders": []}
    for kind in SHAPES:
        found = load({"generate": kind, "count": 1, "mess": 1})
        assert len(found[kind]) == len(found.report) == 1


def test_own_fields_make_a_shape_of_ones_own(load: Any) -> None:
    fields = {
        "plan": {"one_of": ["free", "pro"]},
        "seats": {"number": [1, 5]},
        "price": {"amount": [100, 200]},
        "code": {"pattern": "AB-##?"},
        "owner": {"id_of": "users"},
        "version": {"always": {"a": [1]}},
        "tags": {"list": {"of": "word", "count": [2, 3]}},
        "home": {"fields": {"city": "city", "lines": {"list": {"of": "word", "count": [0, 1]}}}},
        **{name: name for name in PLAIN},
    }
    found = load({"generate": "tenants", "count": 50, "seed": 1, "mess": 0, "fields": fields})
    assert set(found) == {"tenants", "users"}
    for one in found["tenants"]:
        assert one["plan"] in ("free", "pro") and 1 <= one["seats"] <= 5
        assert 100 <= one["price"] <= 200 and one["owner"] in by_id(found, "users")
        assert one["code"].startswith("AB-") and one["code"][3:5].isdigit()
        assert one["code"][5].isupper() and one["version"] == {"a": [1]}
        assert 2 <= len(one["tags"]) <= 3 and set(one["home"]) == {"city", "lines"}
    assert [one["counter"] for one in found["tenants"]] == list(range(1, 51))


def test_own_fields_replace_those_of_a_known_kind_and_are_made_odd_too(load: Any) -> None:
    fields = {"notes": {"always": "fixed"}, "remark": "sentence", "a.b": "sentence"}
    words = {"generate": "customers", "count": 60, "seed": 1, "fields": fields}
    found = load({**words, "mess": {"injection": 0.5, "conflict": 0.1}})
    assert {one.field for one in found.report} == {"remark"}
    assert {one["notes"] for one in found["customers"]} == {"fixed"}
    assert "email" in found["customers"][0]


def test_an_own_shape_refers_to_one_that_stands_before_it(load: Any) -> None:
    teams = {"generate": "teams", "count": 2, "mess": 0, "fields": {"name": "company"}}
    seats = {"generate": "seats", "count": 5, "mess": 0, "fields": {"team": {"id_of": "teams"}}}
    found = load([teams, seats])
    assert {one["team"] for one in found["seats"]} <= set(by_id(found, "teams"))
    with pytest.raises(InvalidInput, match="no teams to refer to"):
        load([seats])


@for_each(
    "words",
    [
        {"generate": "dragons"},
        {"generate": ""},
        {"generate": "customers", "number": 5},
        {"generate": "customers", "count": -1},
        {"generate": "customers", "count": 200_001},
        {"generate": "customers", "count": 1e3},
        {"generate": "customers", "count": True},
        {"generate": "customers", "count": "5"},
        {"generate": "customers", "seed": "x"},
        {"generate": "customers", "mess": 1.1},
        {"generate": "customers", "mess": -0.1},
        {"generate": "customers", "mess": float("nan")},
        {"generate": "customers", "mess": True},
        {"generate": "customers", "mess": {"chaos": 0.1}},
        {"generate": "customers", "mess": {"null": 0.6, "empty": 0.6}},
        {"generate": "customers", "locale": "xx_XX"},
        {"generate": "customers", "locale": []},
        {"generate": "customers", "locale": [{}]},
        {"generate": "customers", "locale": ["en_US"] * 21},
        {"generate": "customers", "kind": "#x"},
        {"generate": "customers", "kind": 1},
        {"generate": "x", "fields": {"a": "seed"}},
        {"generate": "x", "fields": {"a": "__class__"}},
        {"generate": "x", "fields": {"a": 1}},
        {"generate": "x", "fields": {1: "name"}},
        {"generate": "x", "fields": {"a": {}}},
        {"generate": "x", "fields": {"a": {"one_of": []}}},
        {"generate": "x", "fields": {"a": {"one_of": ["a"], "number": [1, 2]}}},
        {"generate": "x", "fields": {"a": {"number": [5, 1]}}},
        {"generate": "x", "fields": {"a": {"number": [1, 10**30]}}},
        {"generate": "x", "fields": {"a": {"number": [True, 3]}}},
        {"generate": "x", "fields": {"a": {"list": {"of": "word", "count": [1, 10**6]}}}},
        {"generate": "x", "fields": {"a": {"list": "word"}}},
        {"generate": "x", "fields": {"a": {"id_of": "ghosts"}}},
        {"generate": "x", "fields": {f"f{n}": "word" for n in range(201)}},
        {"generate": "x", "fields": {"a": {"always": float("nan")}}},
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_with_a_sentence(load: Any, words: Any) -> None:
    with pytest.raises(InvalidInput, match="seed"):
        load(words)


def test_fields_nested_too_deep_are_refused(load: Any) -> None:
    fields: Any = {"a": "word"}
    lists: Any = "word"
    for _ in range(60):
        fields = {"a": {"fields": fields}}
        lists = {"list": {"of": lists, "count": [1, 1]}}
    for words in (fields, {"a": lists}):
        with pytest.raises(InvalidInput, match="deep"):
            load({"generate": "x", "fields": words})


def test_lists_in_lists_do_not_fill_the_memory(load: Any) -> None:
    lists: Any = "word"
    for _ in range(4):
        lists = {"list": {"of": lists, "count": [1000, 1000]}}
    with pytest.raises(InvalidInput, match="values"):
        load({"generate": "x", "count": 1, "mess": 0, "fields": {"a": lists}})


def test_without_faker_the_message_says_what_to_install(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)
    with pytest.raises(HostCannot, match=r"paddock-sandbox\[world\]"):
        load({"generate": "customers"})
    assert load({"a": []}) == {"a": []}


def test_messy_documents_of_every_kind_can_be_stored_and_read_back(
    load: Any, context: Context
) -> None:
    words = [{"generate": kind, "count": 60, "mess": 1, "locale": LOCALES} for kind in SHAPES]
    found = load(words)
    Service(context).seed(found)
    for kind, documents in found.items():
        assert context.store.find(kind) == documents
