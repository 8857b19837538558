"""Answers out of a document alone."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.document import load
from paddock_services.openapi.plausible import plausible
from unit.paddock_services.openapi.serving import DOCUMENTS

SHOP = OpenApiDescription(load(DOCUMENTS / "shop.yaml"))
DESK = OpenApiDescription(load(DOCUMENTS / "desk.yaml"))


def test_created_record_has_what_was_sent_an_id_and_times() -> None:
    body = {"customer_id": "cus_1", "total": 5}
    answer = plausible(SHOP, "POST", "/v1/orders", body)
    assert answer is not None
    status, made = answer
    assert status == 201 and made["customer_id"] == "cus_1" and made["total"] == 5
    assert made["created_at"] == "2026-01-01T00:00:00Z" and made["status"] == "open"
    schema = SHOP.document.at("#/components/schemas/Order")
    assert not SHOP.checker.violations(schema, made)


def test_two_creations_have_two_ids_and_the_same_one_the_same() -> None:
    made = [
        plausible(SHOP, "POST", "/v1/customers", {"email": f"{n}@a.example"}) for n in (1, 2, 1)
    ]
    ids = [one[1]["id"] for one in made if one is not None]
    assert ids[0] != ids[1] and ids[0] == ids[2]


def test_changed_record_has_the_id_of_its_path() -> None:
    answer = plausible(DESK, "PUT", "/api/tickets/7", {"ticket": {"subject": "new"}})
    assert answer is not None and answer[0] == 200
    assert answer[1]["ticket"]["id"] == 7 and answer[1]["ticket"]["subject"] == "new"


def test_deletion_is_answered_without_a_body() -> None:
    assert plausible(SHOP, "DELETE", "/v1/customers/cus_1") == (204, None)


def test_invalid_body_is_refused_as_the_document_says() -> None:
    answer = plausible(SHOP, "POST", "/v1/orders", {"total": -1})
    assert answer is not None and answer[0] == 422 and len(answer[1]["errors"]) == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/nothing"), ("DELETE", "/v1/orders"), ("POST", "/orders"), ("FLY", "/v1/orders")],
)
def test_what_the_document_does_not_know_is_left_to_others(method: str, path: str) -> None:
    assert plausible(SHOP, method, path, {}) is None


def test_bare_mapping_is_a_document_too() -> None:
    root: dict[str, Any] = {
        "openapi": "3.0.0",
        "paths": {"/notes": {"post": {"responses": {"201": {"description": ""}}}}},
    }
    assert plausible(root, "post", "/notes?x=1", {"text": "hi"}) == (201, None)
