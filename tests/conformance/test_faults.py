"""Faults on purpose: what programs inside meet, and what the journal and the verdicts say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import running
from paddock import CommandExitException, Sandbox
from paddock.journal.log import RunLog
from paddock.model.action import Verdict
from paddock.model.events import Settled
from paddock.state.home import Home
from paddock.world.verdicts import VerdictOptions, judge_run

WORLD = {"api.stripe.com": "payments"}


def fault(name: str, words: dict[str, Any], **match: Any) -> dict[str, Any]:
    strikes = match.pop("strikes", {})
    return {"id": name, "match": {"kind": "http", **match}, "fault": words, **strikes}


FAULTS = [
    fault("busy", {"status": 429, "retry_after": 2}, path="/v1/balance"),
    fault("reset", {"reset": True}, path="/v1/events"),
    fault("cut", {"truncate": 0.5}, path="/v1/charges"),
    fault("broken", {"malformed": True}, path="/v1/refunds", method="GET"),
    fault("typed", {"wrong_type": "text/html"}, path="/v1/products", method="GET"),
    fault("slow", {"drip": "400B/s"}, path="/v1/prices"),
    fault("twice", {"duplicate": True}, path="/v1/products", method="POST"),
    fault("stale", {"stale": True}, path="/v1/customers", method="GET", strikes={"after": 1}),
    fault("lost", {"after": "reset"}, path="/v1/customers", method="POST", strikes={"first": 1}),
    fault("silent", {"timeout": "2s"}, path="/v1/invoices"),
]
CALL = "curl -s -m 20 -u sk_test_x: -o /tmp/out -w '%{http_code} %{content_type} %{size_download}'"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox.create(world=WORLD, faults=FAULTS) as made:
        yield made


def call(box: Sandbox, path: str, words: str = "") -> tuple[int, int, str, bytes]:
    """How curl ended, the status, the content type, and the body."""
    command = f'rm -f /tmp/out; {CALL} {words} https://api.stripe.com{path}; echo " $?"'
    status, kind, *_, ended = box.commands.run(command).stdout.split(" ")
    body = box.files.read("/tmp/out", format="bytes") if box.files.exists("/tmp/out") else b""
    return int(ended), int(status), kind, bytes(body)


def settled(box: Sandbox, fault_id: str) -> Settled:
    """What the journal says came of the last action that a fault struck."""
    steps = RunLog(Home.find().runs / box.sandbox_id).steps()
    struck = [step for step in steps if step.decided_by == fault_id][-1]
    assert struck.verdict is Verdict.FAULT
    assert struck.settled is not None
    return struck.settled


def test_a_status_comes_in_place_of_the_answer(box: Sandbox) -> None:
    out = box.commands.run(
        "curl -s -i --suppress-connect-headers -u sk_test_x: https://api.stripe.com/v1/balance"
    ).stdout
    head = out.lower()
    assert " 429" in head.splitlines()[0]
    assert "retry-after: 2" in head
    assert "paddock" not in head
    assert settled(box, "busy").outcome == "faulted"


def test_a_connection_is_reset(box: Sandbox) -> None:
    ended, status, _, _ = call(box, "/v1/events")
    assert (ended in (52, 56, 92), status) == (True, 0)


def test_an_answer_ends_in_the_middle(box: Sandbox) -> None:
    ended, status, _, body = call(box, "/v1/charges", "--http1.1")
    assert (ended in (18, 92), status) == (True, 200)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert settled(box, "cut").outcome == "simulated"


def test_an_answer_is_no_json_any_more(box: Sandbox) -> None:
    ended, status, _, body = call(box, "/v1/refunds")
    assert (ended, status) == (0, 200)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


def test_an_answer_says_that_it_is_something_else(box: Sandbox) -> None:
    ended, status, kind, body = call(box, "/v1/products")
    assert (ended, status, kind) == (0, 200, "text/html")
    assert json.loads(body)["object"] == "list"


def test_an_answer_comes_slowly_and_whole(box: Sandbox) -> None:
    ended, status, _, body = call(box, "/v1/prices")
    assert (ended, status, json.loads(body)["object"]) == (0, 200, "list")


def test_a_request_that_is_delivered_twice_acts_twice(box: Sandbox) -> None:
    before = len(box.world_changes()["api.stripe.com"])
    ended, status, _, body = call(box, "/v1/products", "-d name=Lamp")
    made = [one for one in box.world_changes()["api.stripe.com"][before:] if one.kind == "products"]
    assert (ended, status, len(made)) == (0, 200, 2)
    assert json.loads(body)["id"] == made[1].id


def test_a_lost_answer_and_a_stale_one(box: Sandbox) -> None:
    first = json.loads(call(box, "/v1/customers")[3])
    assert first["data"] == []
    ended, status, _, _ = call(box, "/v1/customers", "-d email=a@example.com")
    assert (ended in (52, 56, 92), status) == (True, 0)
    assert settled(box, "lost").outcome == "simulated"  # it did happen
    stale = json.loads(call(box, "/v1/customers")[3])
    assert stale["data"] == []
    assert settled(box, "stale").outcome == "simulated"  # nothing real was done


def test_silence_ends_without_an_answer(box: Sandbox) -> None:
    ended, status, _, _ = call(box, "/v1/invoices")
    assert (ended in (18, 52, 56, 92), status) == (True, 0)


@pytest.mark.parametrize(
    ("words", "code"), [({"nxdomain": True}, -2), ({"servfail": True}, -3), ({"timeout": "1s"}, -3)]
)
def test_names_fail(make_box: MakeBox, words: dict[str, Any], code: int) -> None:
    entry = {"id": "names", "match": {"kind": "dns", "name": "a.example"}, "fault": words}
    box = make_box(
        world={"a.example": "tickets"}, faults=[entry], envs={"RES_OPTIONS": "timeout:1 attempts:1"}
    )
    program = (
        "import socket\n"
        "try: socket.getaddrinfo('a.example', 80)\n"
        "except OSError as e: print(e.errno)\n"
    )
    box.files.write("p.py", program)
    assert int(box.commands.run("python3 p.py", timeout=60).stdout) == code


def test_a_bare_connection_is_reset(make_box: MakeBox) -> None:
    entry = {"id": "gone", "match": {"kind": "connect", "port": 25}, "fault": {"reset": True}}
    box = make_box(world={"mail.example:25": "mail"}, faults=[entry])
    program = (
        "import smtplib\n"
        "try: smtplib.SMTP('mail.example', 25, timeout=20)\n"
        "except (OSError, smtplib.SMTPException) as e: print(type(e).__name__)\n"
    )
    box.files.write("p.py", program)
    said = box.commands.run("python3 p.py").stdout.strip()
    assert said in ("ConnectionResetError", "SMTPServerDisconnected")


def test_a_program_is_killed(make_box: MakeBox) -> None:
    entry = {"id": "oom", "match": {"kind": "exec", "program": "sleep"}, "fault": {"kill": True}}
    box = make_box(faults=[entry])
    with pytest.raises(CommandExitException) as told:
        box.commands.run(["sleep", "60"], timeout=50)
    assert told.value.exit_code == 137
    assert box.commands.run("echo on").stdout == "on\n"


def test_a_disk_is_full_for_a_program_that_a_program_starts(make_box: MakeBox) -> None:
    entry = {"id": "full", "match": {"kind": "exec", "program": "ls"}, "fault": {"disk_full": True}}
    box = make_box(faults=[entry])
    done = box.commands.run("ls / 2>&1; true")
    assert "No space left on device" in done.stdout


def test_real_writes_are_never_sent_twice(make_box: MakeBox) -> None:
    with running() as origin:
        box = make_box(
            network={"allow": ["api.example:80"], "hosts": {"api.example": origin.place}},
            faults=[fault("twice", {"duplicate": True}, host="api.example")],
        )
        box.commands.run("curl -s -m 20 -d x=1 http://api.example/charge")
        assert [one["path"] for one in origin.seen] == ["/charge"]


def test_a_blocked_action_stays_blocked_whatever_fault_there_is(make_box: MakeBox) -> None:
    box = make_box(world=WORLD, faults=[fault("late", {"after": "reset"})])
    done = box.commands.run(
        "curl -s -m 20 -o /dev/null -w '%{http_code}' http://other.example/; true"
    )
    assert done.stdout == "403"


def test_the_same_seed_gives_the_same_faults(make_box: MakeBox) -> None:
    flaky = fault("flaky", {"status": 503}, strikes={"rate": 0.5, "seed": 7})
    seen = set()
    for _ in range(3):
        box = make_box(world=WORLD, faults=[flaky])
        loop = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
        one = "curl -s -u sk_test_x: -o /dev/null -w '%{http_code} ' https://api.stripe.com/v1/balance"
        seen.add(box.commands.run(f"{loop} {one}; done", timeout=60).stdout)
        box.kill()
    assert len(seen) == 1
    assert {"503", "200"} == set(seen.pop().split())


def test_an_agent_that_charges_again_after_a_lost_answer_has_acted_twice(make_box: MakeBox) -> None:
    lost = fault("lost", {"after": "reset"}, method="POST", strikes={"first": 1})
    verdicts = {}
    for name, header in (("careless", ""), ("careful", "-H 'Idempotency-Key: k1'")):
        box = make_box(world=WORLD, faults=[lost])
        for _ in range(2):
            call(box, "/v1/customers", f"{header} -d email=a@example.com")
        box.kill()
        report = judge_run(RunLog(Home.find().runs / box.sandbox_id), VerdictOptions())
        verdicts[name] = [one.judgement.value for one in report.verdicts]
    assert verdicts == {"careless": ["acted-twice"], "careful": ["reused-idempotency-key"]}


def test_a_fork_goes_on_counting_where_its_parent_was(make_box: MakeBox) -> None:
    parent = make_box(
        world=WORLD,
        faults=[fault("once", {"status": 503}, path="/v1/balance", strikes={"first": 1})],
    )
    assert call(parent, "/v1/balance")[1] == 503
    child = parent.fork()
    grandchild = child.fork()
    try:
        assert [call(one, "/v1/balance")[1] for one in (grandchild, child, parent)] == [200] * 3
    finally:
        grandchild.kill()
        child.kill()


@pytest.mark.parametrize("start", ["shell", "background"])
def test_a_program_is_killed_whoever_starts_it(make_box: MakeBox, start: str) -> None:
    entry = {"id": "oom", "match": {"kind": "exec", "program": "sleep"}, "fault": {"kill": "200ms"}}
    box = make_box(faults=[entry])
    if start == "shell":
        assert box.commands.run("sleep 60; echo $?", timeout=50).stdout.strip() == "137"
    else:
        handle = box.commands.run(["sleep", "60"], background=True)
        with pytest.raises(CommandExitException) as told:
            handle.wait(timeout=50)
        assert told.value.exit_code == 137
