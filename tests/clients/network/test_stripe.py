"""The stripe SDK under the rules that a payments agent would have."""

from __future__ import annotations

import threading

import pytest

from clients.network.conftest import MakeBox, MakeSite
from clients.network.crossings import crossings, requests, seen
from clients.network.inside import python
from clients.network.site import Answer, Asked, Site
from conformance.waiting import eventually
from paddock import Sandbox
from paddock.gate.approvals import Approval, Approvals
from paddock.gate.run_gate import gate_store
from paddock.state.home import Home

RULES = """
rules:
  - id: no-deletes
    match: {kind: http, host: api.stripe.com, method: DELETE}
    decide: block
    why: Customers are never deleted.
  - id: refunds
    match: {kind: http, host: api.stripe.com, method: POST, path: /v1/refunds}
    when: int(body.amount) > 5000
    decide: ask
    why: Refunds over 50.00 need a person.
"""
# The package brings roots of its own and takes no variable in their place; this is its setting.
TRUSTING = """
import json, os, stripe
stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
stripe.api_key = os.environ["STRIPE_KEY"]
stripe.max_network_retries = 0
"""
REFUND = "print(json.dumps(stripe.Refund.create(charge='ch_1', amount=AMOUNT).amount))"
TOLD = """
try:
    CALL
except stripe.StripeError as error:
    print(json.dumps([type(error).__name__, error.http_status, str(error)]))
"""


def app(asked: Asked) -> Answer:
    if asked.headers.get("authorization") != "Bearer sk_test_of_the_tests":
        return Answer.of({"error": {"message": "who are you?"}}, 401)
    if asked.path == "/v1/refunds":
        amount = int(asked.form()["amount"])
        return Answer.of({"id": "re_1", "object": "refund", "amount": amount})
    if asked.path == "/v1/customers" and asked.method == "GET":
        found = [{"id": f"cus_{n}", "object": "customer"} for n in range(3)]
        return Answer.of({"object": "list", "data": found, "has_more": False, "url": asked.path})
    return Answer.of({"id": "cus_1", "object": "customer", "name": asked.form().get("name")})


@pytest.fixture(scope="module")
def site(make_site: MakeSite) -> Site:
    return make_site(app, "api.stripe.com")


@pytest.fixture
def box(make_box: MakeBox, site: Site, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("KEY_OF_THE_TESTS", "sk_test_of_the_tests")
    secret = {
        "from": "env:KEY_OF_THE_TESTS",
        "to": ["api.stripe.com"],
        "as": "header:Authorization=Bearer",
    }
    site.asked.clear()
    return make_box({"api.stripe.com:443": site.place}, RULES, secrets={"STRIPE_KEY": secret})


def _approvals() -> Approvals:
    return Approvals(gate_store(Home.find()))


def _pending(run: str) -> Approval:
    found = eventually(lambda: _approvals().all(run=run), 20, "somebody is asked")
    return found[0]


def _told(call: str) -> str:
    return TRUSTING + TOLD.replace("CALL", call)


def test_calls_go_through_with_a_key_that_the_sandbox_does_not_have(
    box: Sandbox, site: Site
) -> None:
    program = """
made = stripe.Customer.create(name="Zoë", metadata={"a": "b"})
listed = stripe.Customer.list(limit=3)
print(json.dumps([made.name, [one.id for one in listed.auto_paging_iter()], stripe.api_key]))
"""
    name, listed, key = python(box, TRUSTING + program)
    assert (name, listed) == ("Zoë", ["cus_0", "cus_1", "cus_2"])
    assert "sk_test_of_the_tests" not in key
    journal = requests(box)
    assert [seen(one) for one in journal] == [
        ("api.stripe.com", "POST", "/v1/customers", 200, "allow"),
        ("api.stripe.com", "GET", "/v1/customers", 200, "allow"),
    ]
    assert journal[0].arguments["body"] == {"name": "Zoë", "metadata[a]": "b"}


def test_small_refund_goes_through(box: Sandbox) -> None:
    assert python(box, TRUSTING + REFUND.replace("AMOUNT", "5000")) == 5000
    assert seen(requests(box)[-1]) == ("api.stripe.com", "POST", "/v1/refunds", 200, "allow")


def test_large_refund_waits_for_a_person_and_then_goes_through(box: Sandbox) -> None:
    found: list[object] = []
    program = TRUSTING + REFUND.replace("AMOUNT", "5001")
    caller = threading.Thread(target=lambda: found.append(python(box, program)))
    caller.start()
    approval = _pending(box.sandbox_id)
    assert found == []
    _approvals().approve(approval.approval_id, "ann")
    caller.join(30)
    assert found == [5001]
    last = requests(box)[-1]
    assert seen(last) == ("api.stripe.com", "POST", "/v1/refunds", 200, "ask")
    assert last.rule == "refunds"


def test_large_refund_that_a_person_denies_is_not_made(box: Sandbox, site: Site) -> None:
    found: list[list[object]] = []
    program = _told("stripe.Refund.create(charge='ch_1', amount=9999)")
    caller = threading.Thread(target=lambda: found.append(python(box, program)))
    caller.start()
    _approvals().deny(_pending(box.sandbox_id).approval_id, "ann", "not today")
    caller.join(30)
    assert found and found[0][:2] == ["PermissionError", 403]
    assert "not today" in str(found[0][2])
    assert site.asked == []
    assert (requests(box)[-1].verdict, requests(box)[-1].outcome) == ("ask", "refused")


def test_delete_is_blocked_and_the_sdk_is_told_why(box: Sandbox, site: Site) -> None:
    said = python(box, _told("stripe.Customer.delete('cus_1')"))
    assert said == ["PermissionError", 403, "Customers are never deleted."]
    assert site.asked == []
    last = requests(box)[-1]
    assert (last.request, last.verdict, last.rule) == (
        ("DELETE", "/v1/customers/cus_1"), "block", "no-deletes",
    )  # fmt: skip


def test_client_that_brings_its_own_roots_trusts_the_door_besides_them(box: Sandbox) -> None:
    program = TRUSTING.replace("stripe.ca_bundle_path = ", "ignored = ")
    program += "print(json.dumps(len(stripe.Customer.list().data)))"
    assert python(box, program) == 3


def test_client_that_trusts_nobody_fails_and_the_journal_says_why(box: Sandbox) -> None:
    program = """
import json, socket, ssl
raw = socket.create_connection(("api.stripe.com", 443), 20)
try:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(raw, server_hostname="api.stripe.com")
except ssl.SSLCertVerificationError as error:
    print(json.dumps(type(error).__name__))
"""
    assert python(box, program) == "SSLCertVerificationError"
    (refused,) = crossings(box, "connect")
    assert (refused.host, refused.verdict) == ("api.stripe.com", "block")
    assert "does not trust the sandbox's authority" in (refused.error or "")
