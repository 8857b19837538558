"""What a document becomes: records that are made, found, changed and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from unit.paddock_services.openapi.serving import DOCUMENTS, Reply, Served


def customer(shop: Served, **fields: object) -> dict[str, object]:
    reply = shop.ask("POST", "/customers", {"email": "ada@example.com", **fields})
    assert reply.status == 201, reply.raw
    made: dict[str, object] = reply.json
    return made


def order(shop: Served, **fields: object) -> Reply:
    made = customer(shop)
    return shop.ask("POST", "/orders", {"customer_id": made["id"], "total": 12.5, **fields})


def test_created_record_reads_back_with_id_time_and_defaults(shop: Served) -> None:
    made = customer(shop, name="Ada")
    assert str(made["id"]).startswith("cus_") and made["created"] == 1_767_225_601
    assert (made["name"], made["tier"], made["object"]) == ("Ada", "basic", "customer")
    assert shop.ask("GET", f"/customers/{made['id']}").json == made


def test_created_record_has_its_location(shop: Served) -> None:
    reply = shop.ask("POST", "/customers", {"email": "a@example.com"})
    assert reply.headers["location"] == f"https://api.example/v1/customers/{reply.json['id']}"


def test_what_is_write_only_is_never_shown(shop: Served) -> None:
    made = customer(shop, password="correct horse")
    assert "password" not in made
    assert "password" not in shop.ask("GET", f"/customers/{made['id']}").json


def test_what_is_read_only_is_the_servers(shop: Served) -> None:
    made = customer(shop, id="cus_mine", created=1)
    assert made["id"] != "cus_mine" and made["created"] != 1


def test_deleted_record_is_not_there(shop: Served) -> None:
    made = customer(shop)
    assert shop.ask("DELETE", f"/customers/{made['id']}").status == 204
    assert shop.ask("GET", f"/customers/{made['id']}").status == 404
    assert shop.ask("DELETE", f"/customers/{made['id']}").status == 404
    assert shop.ask("GET", "/customers").json["data"] == []


def test_merge_patch_changes_what_it_names_and_null_removes(shop: Served) -> None:
    made = customer(
        shop, name="Ada", phone="1", address={"street": "A", "city": "B", "country": "DE"}
    )
    headers = {"content-type": "application/merge-patch+json"}
    path = f"/customers/{made['id']}"
    changed = shop.ask("PATCH", path, {"phone": None, "name": "Bea"}, headers)
    assert changed.status == 200, changed.raw
    assert changed.json["name"] == "Bea" and changed.json["address"] == made["address"]
    assert not changed.json.get("phone") and changed.json["email"] == made["email"]


def test_put_replaces_but_keeps_id_and_time_of_creation(shop: Served) -> None:
    made = order(shop, note="first").json
    body = {"customer_id": made["customer_id"], "total": 1}
    changed = shop.ask("PUT", f"/orders/{made['id']}", body).json
    assert changed["id"] == made["id"] and changed["created_at"] == made["created_at"]
    assert changed["updated_at"] > made["updated_at"]
    assert changed["total"] == 1 and "note" not in changed


def test_list_is_filtered_by_declared_parameters_only(shop: Served) -> None:
    customer(shop, tier="gold", name="Ada")
    customer(shop, tier="basic", name="Bea")
    names = [one["name"] for one in shop.ask("GET", "/customers?tier=gold").json["data"]]
    assert names == ["Ada"]
    assert len(shop.ask("GET", "/customers?name=Ada").json["data"]) == 2


def test_repeated_filter_means_any_of_them(shop: Served) -> None:
    for status in ("open", "paid", "cancelled"):
        order(shop, status=status)
    for query in ("status=open&status=paid", "status=open,paid"):
        found = shop.ask("GET", f"/orders?{query}").json
        assert [one["status"] for one in found["items"]] == ["open", "paid"]
        assert found["total"] == 2


def test_pages_by_the_last_id_cover_all_once(shop: Served) -> None:
    made = [customer(shop)["id"] for _ in range(5)]
    seen: list[object] = []
    query = "?limit=2"
    while True:
        page = shop.ask("GET", f"/customers{query}").json
        seen += [one["id"] for one in page["data"]]
        if not page["has_more"]:
            break
        query = f"?limit=2&starting_after={page['data'][-1]['id']}"
    assert seen == made


def test_unknown_cursor_is_an_error_and_not_the_first_page(shop: Served) -> None:
    customer(shop)
    assert shop.ask("GET", "/customers?starting_after=cus_none").status == 400


def test_offset_and_sort_are_obeyed(shop: Served) -> None:
    for total in (3, 1, 2):
        order(shop, total=total)
    page = shop.ask("GET", "/orders?sort=-total&offset=1&limit=1").json
    assert [one["total"] for one in page["items"]] == [2]
    assert (page["total"], page["offset"], page["limit"]) == (3, 1, 1)


def test_page_numbers_and_links_are_told(desk: Served) -> None:
    for number in range(5):
        desk.ask("POST", "/tickets", {"ticket": {"subject": f"help {number}"}})
    reply = desk.ask("GET", "/tickets?per_page=2&page=2&q=help")
    meta = reply.json["meta"]
    assert [one["id"] for one in reply.json["tickets"]] == [3, 4]
    assert (meta["page"], meta["total_pages"], meta["total_count"]) == (2, 3, 5)
    assert meta["next"].endswith("/api/tickets?per_page=2&q=help&page=3")
    assert reply.headers["link"] == f'<{meta["next"]}>; rel="next"'
    assert reply.headers["x-total-count"] == "5"
    last = desk.ask("GET", "/tickets?per_page=2&page=3")
    assert last.json["meta"]["next"] is None and "link" not in last.headers


def test_deep_filter_and_search_find_records(desk: Served) -> None:
    desk.ask("POST", "/tickets", {"ticket": {"subject": "Printer", "status": "open"}})
    desk.ask("POST", "/tickets", {"ticket": {"subject": "Scanner", "status": "new"}})
    found = desk.ask("GET", "/tickets?filter[status]=open").json["tickets"]
    assert [one["subject"] for one in found] == ["Printer"]
    found = desk.ask("GET", "/tickets?q=scan").json["tickets"]
    assert [one["subject"] for one in found] == ["Scanner"]


def test_child_belongs_to_its_parent_alone(shop: Served) -> None:
    first, second = order(shop).json["id"], order(shop).json["id"]
    line = shop.ask("POST", f"/orders/{first}/lines", {"sku": "ABC-1234", "quantity": 1})
    assert line.status == 201 and line.json["order_id"] == first and line.json["number"] == 1
    assert shop.ask("GET", f"/orders/{first}/lines").json == [line.json]
    assert shop.ask("GET", f"/orders/{second}/lines").json == []
    assert shop.ask("GET", f"/orders/{second}/lines/1").status == 404
    other = shop.ask("POST", f"/orders/{second}/lines", {"sku": "ABC-9999", "quantity": 2}).json
    assert other["number"] == 1, "numbers are counted for each parent"


def test_record_is_listed_below_the_parent_that_a_property_names(shop: Served) -> None:
    made = order(shop).json
    other = order(shop).json
    found = shop.ask("GET", f"/customers/{made['customer_id']}/orders").json
    assert [one["id"] for one in found["items"]] == [made["id"]] and made["id"] != other["id"]


def test_child_of_a_missing_parent_is_not_made(shop: Served) -> None:
    missing = "00000000-0000-4000-8000-000000000000"
    reply = shop.ask("POST", f"/orders/{missing}/lines", {"sku": "ABC-1234", "quantity": 1})
    assert reply.status == 404 and shop.store.count("lines") == 0


def test_children_go_with_the_record_that_their_path_needs(desk: Served) -> None:
    desk.ask("POST", "/tickets", {"ticket": {"subject": "a"}})
    assert (
        desk.ask("POST", "/tickets/1/comments", {"text": "hi", "id": 1, "replies": []}).status
        == 201
    )
    assert desk.store.count("comments") == 1
    desk.ask("DELETE", "/tickets/1")
    assert desk.store.count("comments") == 0


def test_action_moves_the_state_that_it_is_named_after(shop: Served, desk: Served) -> None:
    made = order(shop).json
    reply = shop.ask("POST", f"/orders/{made['id']}/cancel")
    assert reply.json["status"] == "cancelled" and reply.headers["x-paddock-guess"] == "action"
    assert shop.ask("GET", f"/orders/{made['id']}").json["status"] == "cancelled"
    missing = shop.ask("POST", "/orders/00000000-0000-4000-8000-000000000000/cancel")
    assert missing.status == 404
    desk.ask("POST", "/tickets", {"ticket": {"subject": "a"}})
    assert desk.ask("POST", "/tickets/1/close").json["ticket"]["status"] == "closed"


def test_answer_without_a_record_says_that_it_is_a_guess(shop: Served, pets: Served) -> None:
    quote = shop.ask("POST", "/quotes", {"amount": 7, "currency": "EUR"})
    assert quote.headers["x-paddock-guess"] == "shape"
    assert quote.json["amount"] == 7 and 0.5 < quote.json["fee"] <= 10
    pets.ask("POST", "/pet", {"name": "Rex", "photoUrls": []})
    headers = {"content-type": "application/octet-stream"}
    image = pets.ask("POST", "/pet/1/uploadImage", b"\x89PNG", headers)
    assert image.json == {"code": 200, "type": "image", "message": "stored"}
    assert "x-paddock-guess" not in pets.ask("GET", "/pet/1").headers


def test_record_that_is_always_there_remembers_changes(desk: Served) -> None:
    first = desk.ask("GET", "/me/preferences")
    assert first.headers["x-paddock-guess"] == "shape" and first.json["theme"] == "light"
    desk.ask("PATCH", "/me/preferences", {"theme": "dark", "size": 12})
    again = desk.ask("GET", "/me/preferences")
    assert again.json["theme"] == "dark" and "x-paddock-guess" not in again.headers
    assert desk.ask("DELETE", "/me/preferences").status == 204
    assert desk.ask("GET", "/me/preferences").status == 404


def test_view_lists_the_records_of_a_collection_elsewhere(pets: Served) -> None:
    pets.ask("POST", "/pet", {"name": "Rex", "photoUrls": [], "status": "sold"})
    pets.ask("POST", "/pet", {"name": "Tom", "photoUrls": [], "tags": [{"id": 1, "name": "red"}]})
    sold = pets.ask("GET", "/pet/findByStatus?status=sold").json
    assert [one["name"] for one in sold] == ["Rex"]
    red = pets.ask("GET", "/pet/findByTags?tags=red&tags=blue").json
    assert [one["name"] for one in red] == ["Tom"]


def test_put_to_a_collection_changes_the_record_that_its_body_names(pets: Served) -> None:
    pets.ask("POST", "/pet", {"id": 7, "name": "Rex", "photoUrls": []})
    changed = pets.ask("PUT", "/pet", {"id": 7, "name": "Max", "photoUrls": []})
    assert changed.status == 200 and pets.ask("GET", "/pet/7").json["name"] == "Max"
    assert pets.ask("PUT", "/pet", {"id": 8, "name": "x", "photoUrls": []}).status == 404


def test_post_to_an_item_changes_it_by_a_form(pets: Served) -> None:
    pets.ask("POST", "/pet", {"id": 7, "name": "Rex", "photoUrls": []})
    form = {"content-type": "application/x-www-form-urlencoded"}
    pets.ask("POST", "/pet/7", b"name=Max&status=sold", form)
    assert pets.ask("GET", "/pet/7").json == {
        "id": 7, "name": "Max", "photoUrls": [], "status": "sold",
    }  # fmt: skip


def test_id_of_the_client_is_kept_and_not_given_twice(pets: Served) -> None:
    assert pets.ask("POST", "/pet", {"id": 1, "name": "Rex", "photoUrls": []}).json["id"] == 1
    assert pets.ask("POST", "/pet", {"id": 1, "name": "Tom", "photoUrls": []}).status == 409
    assert pets.ask("POST", "/pet", {"name": "Tom", "photoUrls": []}).json["id"] == 2


def test_put_makes_an_item_where_the_document_says_so(desk: Served) -> None:
    made = desk.ask("PUT", "/organizations/acme", {"slug": "acme", "name": "Acme"})
    assert made.status == 201
    changed = desk.ask("PUT", "/organizations/acme", {"slug": "acme", "name": "Acme Inc"})
    assert changed.status == 200
    assert desk.ask("GET", "/organizations/acme").json["name"] == "Acme Inc"


def test_choice_keeps_the_branch_that_was_sent(desk: Served) -> None:
    made = desk.ask("POST", "/channels", {"type": "chat", "room": "general"})
    assert made.status == 201 and made.json["type"] == "chat" and made.json["id"]
    wrong = desk.ask("POST", "/channels", {"type": "chat", "address": "a@example.com"})
    assert wrong.status == 400
    assert desk.ask("GET", f"/channels/{made.json['id']}").json == made.json


def test_unknown_path_and_method_are_told_apart(shop: Served) -> None:
    assert shop.ask("GET", "/nothing").status == 404
    shop.base = ""
    assert shop.ask("GET", "/customers").status == 404, "it is below /v1"
    shop.base = "/v1"
    reply = shop.ask("DELETE", "/customers")
    assert reply.status == 405 and reply.headers["allow"] == "GET, POST"
    assert shop.ask("OPTIONS", "/customers").status == 204
    head = shop.ask("HEAD", "/customers")
    assert head.status == 200 and head.raw == b"" and int(head.headers["content-length"]) > 0


def test_credentials_are_wanted_where_the_document_says_so(shop: Served, pets: Served) -> None:
    reply = shop.ask("GET", "/customers", auth=False)
    assert reply.status == 401 and reply.headers["www-authenticate"].startswith("Bearer")
    assert shop.ask("GET", "/health", auth=False).status == 200
    basic = {"authorization": "Basic YTpi"}
    assert shop.ask("GET", "/customers", headers=basic, auth=False).status == 401
    pets.ask("POST", "/pet", {"name": "Rex", "photoUrls": []}, auth=False)
    assert pets.ask("GET", "/pet/1", auth=False).status == 401
    assert pets.ask("GET", "/pet/1", headers={"api_key": "k"}, auth=False).status == 200


def test_nothing_is_made_without_credentials(shop: Served) -> None:
    shop.ask("POST", "/customers", {"email": "a@example.com"}, auth=False)
    assert shop.store.count("customers") == 0


@for_each(
    ("body", "where"),
    [
        ({}, "email"),
        ({"email": "nobody"}, "email"),
        ({"email": "a@example.com", "tier": "silver"}, "tier"),
        ({"email": "a@example.com", "age": 17}, "age"),
        ({"email": "a@example.com", "age": True}, "age"),
        ({"email": "a@example.com", "name": ""}, "name"),
        (
            {"email": "a@example.com", "address": {"street": "A", "country": "de"}},
            "address.country",
        ),
        (
            {"email": "a@example.com", "address": {"street": "A", "country": "DE", "x": 1}},
            "address.x",
        ),
    ],
)
def test_invalid_body_is_refused_in_the_documents_own_words(
    shop: Served, body: dict[str, object], where: str
) -> None:
    reply = shop.ask("POST", "/customers", body)
    assert reply.status == 422 and reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == 422 and reply.json["title"]
    assert [one["field"] for one in reply.json["errors"]] == [where]
    assert shop.store.count("customers") == 0


def test_error_is_nested_as_the_document_nests_it(desk: Served) -> None:
    error = desk.ask("GET", "/tickets/99").json["error"]
    assert error["code"] == "not_found" and "99" in error["message"] and error["details"]


def test_parameters_are_checked(shop: Served, pets: Served) -> None:
    assert shop.ask("GET", "/customers?limit=0").status == 400
    assert shop.ask("GET", "/customers?limit=many").status == 400
    assert pets.ask("GET", "/pet/abc").status == 400
    assert pets.ask("GET", "/user/login").status == 400
    assert shop.ask("GET", "/orders/not-a-uuid").status == 400


def test_other_media_type_is_refused(shop: Served) -> None:
    reply = shop.ask("POST", "/customers", b"<a/>", {"content-type": "text/xml"})
    assert reply.status == 415


def test_form_is_read_with_the_types_of_its_schema(shop: Served) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = b"email=a%40example.com&age=30&address[street]=A&address[country]=DE"
    made = shop.ask("POST", "/customers", body, form)
    assert made.status == 201, made.raw
    assert made.json["age"] == 30 and made.json["address"] == {"street": "A", "country": "DE"}


def test_seed_is_served_and_numbers_go_on_after_it(desk: Served) -> None:
    desk.service.seed(
        {
            "Ticket": [{"id": 41, "subject": "old"}, {"subject": "no id"}],
            "comments": [{"ticketId": 41, "text": "seen"}],
        }
    )
    assert desk.ask("GET", "/tickets/41").json["ticket"]["subject"] == "old"
    assert [one["id"] for one in desk.ask("GET", "/tickets").json["tickets"]] == [41, 42]
    assert desk.ask("GET", "/tickets/41/comments").json[0]["text"] == "seen"
    made = desk.ask("POST", "/tickets", {"ticket": {"subject": "new"}})
    assert made.json["ticket"]["id"] == 43


def test_seed_of_an_unknown_kind_is_refused(desk: Served) -> None:
    with pytest.raises(InvalidInput, match="has no 'invoices'"):
        desk.service.seed({"invoices": [{}]})


def test_reset_forgets_all_but_the_seed(shop: Served) -> None:
    shop.service.seed({"customers": [{"id": "cus_1", "email": "a@example.com"}]})
    shop.store.seal()
    before = shop.store.digest()
    customer(shop)
    shop.ask("DELETE", "/customers/cus_1")
    shop.store.reset()
    assert shop.store.digest() == before
    assert shop.ask("GET", "/customers/cus_1").status == 200


def test_seeded_record_that_breaks_its_schema_is_still_answered_validly(shop: Served) -> None:
    shop.service.seed({"customers": [{"id": "cus_1", "email": None, "tier": "lead", "age": "30"}]})
    found = shop.ask("GET", "/customers/cus_1").json
    assert found["email"] and found.get("tier", "basic") == "basic" and found["age"] == 30


def test_service_without_a_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        Served(tmp_path / "none.yaml", tmp_path)
    assert (DOCUMENTS / "shop.yaml").exists()
