"""A request that goes through a sandbox's network door, and the same one told to `policy explain`,
are decided alike: same verdict, same rule, same effect.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import MakeBox
from conformance.origin import running
from paddock.cli.main import _run
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.policy.file import load
from paddock.state.home import Home

HOST = "api.test"
FILE = """\
version: 1
agent: a
stage: broad
network:
  allow: ["api.test:80", "api.test:443"]
  hosts: {{api.test: "{place}"}}
  graphql: [api.test/graph]
rules:
  - {{id: big, match: {{kind: http, path: /v1/refunds}}, when: int(body.amount) > 5000,
     decide: block, why: Too much.}}
  - {{id: gone, match: {{kind: http, method: DELETE}}, decide: block, why: No.}}
  - {{id: marked, match: {{kind: http, path: /marked}},
     when: '"x-mark" in headers && headers["x-mark"] == "1"', decide: block, why: Marked.}}
  - {{id: searched, match: {{kind: http, query: "q=*"}}, decide: block, why: Searched.}}
  - {{id: graph-writes, match: {{kind: http, path: /graph, effect: write}}, decide: block,
     why: Reads only.}}
  - {{id: no-large, match: {{kind: model, model: large}}, decide: block, why: Small ones.}}
  - {{id: not-there, match: {{kind: http, path: "/deep/**"}}, when: body.a == 1, decide: block,
     why: No model there.}}
"""
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
# Method, target, headers, body.
REQUESTS: list[tuple[str, str, dict[str, str], str]] = [
    ("GET", "/", {}, ""),
    ("GET", "/a?q=1", {}, ""),
    ("GET", "/a?p=1&q", {}, ""),
    ("DELETE", "/v1/refunds/7", {}, ""),
    ("POST", "/v1/refunds", JSON, '{"amount": 100}'),
    ("POST", "/v1/refunds", JSON, '{"amount": 5001}'),
    ("POST", "/v1/refunds", JSON, '{"amount": "5001"}'),
    ("POST", "/v1/refunds", JSON, '{"amount": 1, "amount": 9999}'),
    ("POST", "/v1/refunds", JSON, "{"),
    ("POST", "/v1/refunds", {}, ""),
    ("POST", "/v1/refunds", FORM, "amount=100"),
    ("POST", "/v1/refunds", FORM, "amount=5001&currency=eur"),
    ("POST", "/v1/refunds", {"Content-Type": "text/plain"}, "amount=5001"),
    ("POST", "/v1/refunds/", JSON, '{"amount": 5001}'),
    ("POST", "/v1//refunds", JSON, '{"amount": 5001}'),
    ("POST", "/v1/%72efunds", JSON, '{"amount": 5001}'),
    ("GET", "/marked", {"X-Mark": "1"}, ""),
    ("GET", "/marked", {"X-Mark": "2"}, ""),
    ("POST", "/a", {"X-HTTP-Method-Override": "DELETE"}, ""),
    ("GET", "/a", {"Host": "other.test"}, ""),
    ("POST", "/graph", JSON, '{"query": "{ me { name } }"}'),
    ("POST", "/graph", JSON, '{"query": "mutation { drop }"}'),
    ("POST", "/v1/chat/completions", JSON, json.dumps({"model": "large", **CHAT})),
    ("POST", "/v1/chat/completions", JSON, json.dumps({"model": "small", **CHAT})),
    ("POST", "/deep/chat/completions", JSON, json.dumps({"model": "small", "a": 1, **CHAT})),
    ("POST", "/deep/chat/completions", JSON, json.dumps({"model": "large", "a": 2, **CHAT})),
]
CLIENT = """
import http.client, json, sys
for method, target, headers, body in json.load(open("/tmp/requests.json")):
    connection = http.client.HTTPConnection("api.test", 80, timeout=20)
    connection.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() or None)
    connection.getresponse().read()
    connection.close()
"""


def _decided(step: Step) -> dict[str, Any]:
    assert step.proposed is not None
    assert step.decided is not None
    decided = {"verdict": step.verdict, "decided_by": step.decided_by}
    return {"kind": step.kind, **decided, "effect": step.decided.effect}


def _explained(found: dict[str, Any]) -> list[dict[str, Any]]:
    action, decision = found["action"], found["decision"]
    one = {"kind": action["kind"], "verdict": decision["verdict"],
           "decided_by": decision["decided_by"], "effect": action["effect"]}  # fmt: skip
    return [one, *(_explained(found["then"]) if "then" in found else [])]


def test_explained_request_is_decided_as_the_door_decides_it(
    make_box: MakeBox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paddock.yaml"
    with running() as origin:
        file.write_text(FILE.format(place=origin.place))
        box = make_box(policy=load(file.read_text()))
        box.files.write("/tmp/requests.json", json.dumps(REQUESTS))
        box.files.write("/tmp/client.py", CLIENT)
        done = box.commands.run("env -u http_proxy -u HTTP_PROXY python3 /tmp/client.py")
    assert done.exit_code == 0, done.stderr
    steps = [
        step
        for step in RunLog(Home.find().runs / box.sandbox_id).steps()
        if step.kind in ("http", "model")
    ]
    explained = []
    for method, target, headers, body in REQUESTS:
        words = ["explain", str(file), "--json", "--http", f"{method} http://{HOST}{target}"]
        words += [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
        assert _run("policy", [*words, *(["--body", body] if body else [])]) == 0
        explained += _explained(json.loads(capsys.readouterr().out))
    assert explained == [_decided(step) for step in steps]
    assert {one["decided_by"] for one in explained} >= {
        "big", "gone", "marked", "searched", "graph-writes", "no-large", "not-there", "protocol",
        "mismatch", "network",
    }  # fmt: skip
