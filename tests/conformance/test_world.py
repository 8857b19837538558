"""A sandbox's world: stand-ins under the names of real hosts, decided on like the real ones, forked
and reset with the sandbox, and never a way out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import Origin, running
from conformance.waiting import eventually
from paddock import InvalidInput, Sandbox
from paddock.gate.drafts import Drafts
from paddock.gate.run_gate import gate_store
from paddock.journal.log import RunLog
from paddock.model.events import WorldEnded
from paddock.model.steps import Step
from paddock.state.home import Home

STRIPE = {"api.stripe.com": "payments"}
HEAD = "version: 1\nagent: tester\nstage: observe\n"
PAY = """
import json, sys, urllib.request, urllib.parse, urllib.error
def call(path, **form):
    data = urllib.parse.urlencode(form).encode() if form else None
    asked = urllib.request.Request("https://api.stripe.com" + path, data,
                                   {"Authorization": "Bearer " + KEY})
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
KEY = "sk_test_inside"
"""


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with running() as server:
        yield server


def inside(box: Sandbox, program: str, **envs: str) -> Any:
    """What a program prints, as JSON."""
    box.files.write("p.py", PAY + program)
    return json.loads(box.commands.run("python3 p.py", envs=envs, timeout=60).stdout)


def steps(box: Sandbox, kind: str = "http") -> list[Step]:
    log = RunLog(Home.find().runs / box.sandbox_id)
    found: list[Step] = []

    def is_settled() -> bool:
        found[:] = [step for step in log.steps() if step.kind == kind]
        return all(step.settled for step in found)

    eventually(is_settled, 15, "every action is settled")
    return found


def decided(step: Step) -> tuple[str, str]:
    assert step.decided is not None
    return step.decided.verdict, step.decided.decided_by


def policy(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "paddock.yaml"
    path.write_text(HEAD + text)
    return path


CUSTOMER = "print(json.dumps(call('/v1/customers', email='ada@example.com')[1]['email']))"


def test_a_stand_in_answers_under_the_real_name_whatever_the_stage(
    make_box: MakeBox, tmp_path: Path
) -> None:
    box = make_box(policy=policy(tmp_path, "world: {api.stripe.com: payments}\n"))
    assert inside(box, CUSTOMER) == "ada@example.com"
    assert [decided(one) for one in steps(box)] == [("simulate", "world")]
    assert steps(box)[0].outcome == "simulated"


def test_a_stand_in_holds_even_where_the_network_allows_the_host(
    make_box: MakeBox, origin: Origin
) -> None:
    network = {"allow": ["api.stripe.com:80"], "hosts": {"api.stripe.com": origin.place}}
    box = make_box(world=STRIPE, network=network)
    origin.seen.clear()
    out = box.commands.run("curl -s -m 20 -u sk_test_x: http://api.stripe.com/v1/customers").stdout
    assert json.loads(out)["object"] == "list"
    assert origin.seen == []


def test_hosts_besides_the_world_are_not_there(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    done = box.commands.run("curl -s -m 20 --noproxy '*' https://files.stripe.com/; echo $?")
    assert done.stdout.strip() == "6"  # the name does not exist
    assert [one.name for one in box.alerts()] == ["egress.denied"]


def test_rules_hold_for_stand_ins(make_box: MakeBox, tmp_path: Path) -> None:
    rules = """
world: {api.stripe.com: payments}
rules:
  - {id: no-refunds, match: {kind: http, method: POST, path: /v1/refunds}, decide: block, why: No.}
"""
    box = make_box(policy=policy(tmp_path, rules))
    program = "print(json.dumps([call('/v1/refunds', charge='ch_1')[0], call('/v1/balance')[0]]))"
    assert inside(box, program) == [403, 200]
    assert [decided(one)[1] for one in steps(box)] == ["no-refunds", "world"]


def test_limits_count_in_the_world_and_leave_the_real_budget_alone(
    make_box: MakeBox, tmp_path: Path
) -> None:
    rules = """
world: {api.stripe.com: payments}
rules:
  - id: two-a-day
    match: {kind: http, method: POST}
    limit: {count: 1, max: 2, per: 24h}
    decide: block
    why: Two are enough.
"""
    file = policy(tmp_path, rules)
    program = "print(json.dumps([call('/v1/customers', name=n)[0] for n in 'abc']))"
    for _ in range(2):  # in the second world it begins anew
        assert inside(make_box(policy=file), program) == [200, 200, 403]


def test_a_placeholder_stays_one_for_a_stand_in(
    make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REAL_STRIPE_KEY", "sk_live_the-real-value")
    secrets = {"STRIPE_KEY": {"from": "env:REAL_STRIPE_KEY", "to": ["api.stripe.com"]}}
    box = make_box(world={"api.stripe.com": {"service": "payments"}}, secrets=secrets)
    program = "import os; KEY = os.environ['STRIPE_KEY']; print(json.dumps(call('/v1/balance')[0]))"
    assert inside(box, program) == 200
    kept = (Home.find().worlds / box.sandbox_id).rglob("*")
    assert not [one for one in kept if one.is_file() and b"the-real-value" in one.read_bytes()]


def test_what_only_stand_ins_get_is_not_asked_of_its_source(
    make_box: MakeBox, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    secrets = {
        "STRIPE_KEY": {"from": "env:NOWHERE_SET", "to": ["api.stripe.com"]},
        "OTHER": {"from": {"command": ["touch", str(asked)]}, "to": ["api.stripe.com"]},
    }
    box = make_box(world={"api.stripe.com": {"service": "payments"}}, secrets=secrets)
    program = "import os; KEY = os.environ['STRIPE_KEY']; "
    program += "print(json.dumps([KEY, call('/v1/balance')[0]]))"
    key, status = inside(box, program)
    assert key.startswith("paddock_STRIPE_KEY_") and status == 200
    assert not asked.exists()
    with pytest.raises(InvalidInput, match="has no value here"):
        box.update_network(allow=["api.stripe.com:8443"])
    box.update_network(allow=["api.stripe.com:443", "elsewhere.example:443"])


def test_a_fork_has_the_world_of_its_moment_and_then_its_own(make_box: MakeBox) -> None:
    parent = make_box(world=STRIPE)
    inside(parent, CUSTOMER)
    child = parent.fork()
    try:
        assert child.world_digest() == parent.world_digest()
        inside(child, "print(json.dumps(call('/v1/customers', email='eve@example.com')[0]))")
        count = "print(json.dumps(len(call('/v1/customers')[1]['data'])))"
        assert (inside(parent, count), inside(child, count)) == (1, 2)
        inside(parent, "print(json.dumps(call('/v1/customers', email='bob@example.com')[0]))")
        assert inside(child, count) == 2
    finally:
        child.kill()


def test_reset_is_exact(make_box: MakeBox) -> None:
    box = make_box(world={"api.stripe.com": {"service": "payments", "seed": SEED}})
    before = box.world_digest()
    inside(box, CUSTOMER)
    assert box.world_digest() != before
    assert [one.kind for one in box.world_changes()["api.stripe.com"]].count("customers") == 1
    box.reset_world()
    assert (box.world_digest(), box.world_changes()) == (before, {"api.stripe.com": []})
    inside(box, CUSTOMER)


SEED = {"customers": [{"email": "first@example.com", "name": "First"}]}


def test_the_same_agent_leaves_the_same_world_five_times(make_box: MakeBox) -> None:
    program = """
ada = call("/v1/customers", email="ada@example.com")[1]["id"]
paid = call("/v1/payment_intents", amount=500, currency="usd", customer=ada, confirm="true",
            payment_method="pm_card_visa", **{"automatic_payment_methods[enabled]": "true",
            "automatic_payment_methods[allow_redirects]": "never"})[1]["id"]
print(json.dumps(call("/v1/refunds", payment_intent=paid, amount=100)[0]))
"""
    world = {"api.stripe.com": {"service": "payments", "seed": SEED}, "settings": {"seed": 3}}
    ends = set()
    for _ in range(5):
        box = make_box(world=world)
        assert inside(box, program) == 200
        ends.add(box.world_digest())
        box.kill()
    assert len(ends) == 1


def test_what_is_broken_at_the_end_is_in_the_journal(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    inside(box, CUSTOMER)
    box.kill()
    [record] = RunLog(Home.find().runs / box.sandbox_id).events(WorldEnded)
    ended = record.event
    assert isinstance(ended, WorldEnded)
    assert ended.changes["api.stripe.com"] > 0
    assert ended.digest is not None and len(ended.digest) == 64


def test_words_that_a_service_does_not_know_are_refused_before_anything_runs(
    make_box: MakeBox,
) -> None:
    with pytest.raises(InvalidInput, match=r"world\.api\.stripe\.com\.sed: unknown key") as told:
        make_box(world={"api.stripe.com": {"service": "payments", "sed": "x.json"}})
    assert told.value.hint is not None
    assert "seed" in told.value.hint


def test_a_seed_that_is_not_there_is_said_with_its_path(make_box: MakeBox) -> None:
    with pytest.raises(InvalidInput, match=r"world\.api\.stripe\.com\.seed: .*nowhere\.json"):
        make_box(world={"api.stripe.com": {"service": "payments", "seed": "nowhere.json"}})


READ = "curl -s -m 20 http://tickets.example"
WRITE = "curl -s -m 20 -H 'content-type: application/json'"


def test_a_draft_reads_the_real_host_and_sends_it_no_write(
    make_box: MakeBox, origin: Origin
) -> None:
    draft = {"service": "draft", "upstream": "live", "writes": ["GET /close/*"]}
    box = make_box(
        world={"tickets.example:80": draft},
        network={"hosts": {"tickets.example": origin.place}},
    )
    origin.seen.clear()
    real = json.loads(box.commands.run(f"{READ}/tickets/1").stdout)
    assert real["path"] == "/tickets/1"
    box.commands.run(f'{WRITE} -X PATCH -d \'{{"method": "patched"}}\' {READ[14:]}/tickets/1')
    box.commands.run(f"{READ}/close/1")
    again = json.loads(box.commands.run(f"{READ}/tickets/1").stdout)
    assert (again["method"], again["path"]) == ("patched", "/tickets/1")
    assert {one["method"] for one in origin.seen} == {"GET"}
    assert "/close/1" not in [one["path"] for one in origin.seen]
    drafts = Drafts(gate_store(Home.find())).all(run=box.sandbox_id)
    assert [one.action.arguments["path"] for one in drafts] == ["/tickets/1", "/close/1"]


def test_an_override_of_the_method_is_no_way_to_write_through_a_draft(
    make_box: MakeBox, origin: Origin
) -> None:
    box = make_box(
        world={"tickets.example:80": {"service": "draft", "upstream": "live"}},
        network={"hosts": {"tickets.example": origin.place}},
    )
    origin.seen.clear()
    box.commands.run(f"{READ}/tickets/1 -H 'X-HTTP-Method-Override: DELETE'")
    assert origin.seen == []


def test_a_request_that_breaks_off_changes_nothing(make_box: MakeBox) -> None:
    box = make_box(world=STRIPE)
    program = """
import socket, ssl, time
head = (b"POST /v1/customers HTTP/1.1\\r\\nHost: api.stripe.com\\r\\n"
        b"Authorization: Bearer sk_test_1\\r\\n"
        b"Content-Type: text/plain\\r\\nContent-Length: 1000\\r\\n\\r\\nemail=half@example.com")
raw = socket.create_connection(("api.stripe.com", 443), 20)
with ssl.create_default_context().wrap_socket(raw, server_hostname="api.stripe.com") as sock:
    sock.sendall(head)
    time.sleep(0.3)
time.sleep(0.5)
print(json.dumps(call("/v1/customers")[1]["data"]))
"""
    assert inside(box, program) == []
    assert box.world_changes() == {"api.stripe.com": []}
    assert not [one for one in box.alerts() if one.name == "world.failed"]
