"""Node's fetch, which is undici: as it comes, with its own proxy agent, and its WebSocket."""

from __future__ import annotations

import pytest

from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite
from clients.network.crossings import crossings, requests, seen
from clients.network.inside import node
from clients.network.site import Answer, Asked
from paddock import Sandbox

PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
CALLS = """
const got = await fetch("https://api.example/get?q=1", OPTIONS);
const sent = await fetch("https://api.example/json", {...OPTIONS, method: "POST",
  headers: {"content-type": "application/json"}, body: JSON.stringify({amount: 7})});
const said = await sent.json();
let size = 0;
const blob = await fetch("https://api.example/blob", OPTIONS);
for await (const part of blob.body) size += part.length;
const stream = new ReadableStream({
  start(control) {
    for (let n = 0; n < 20; n++) control.enqueue(new Uint8Array(100000));
    control.close();
  }
});
const up = await (await fetch("https://api.example/up",
  {...OPTIONS, method: "POST", body: stream, duplex: "half"})).json();
const plain = await fetch("http://plain.example/p", OPTIONS);
await got.text(); await plain.text();
console.log(JSON.stringify([got.status, said.json, size, up.bytes, plain.status]));
"""
AS_IT_COMES = "const OPTIONS = {};" + CALLS
WITH_AGENT = (
    """
import {createRequire} from "node:module";
const {EnvHttpProxyAgent, fetch} = createRequire("/clients/")("undici");
const OPTIONS = {dispatcher: new EnvHttpProxyAgent()};
"""
    + CALLS
)
SEEN = [
    ("api.example", "GET", "/get", 200, "allow"),
    ("api.example", "POST", "/json", 200, "allow"),
    ("api.example", "GET", "/blob", 200, "allow"),
    ("api.example", "POST", "/up", 200, "allow"),
    ("plain.example", "GET", "/p", 200, "allow"),
]


def app(asked: Asked) -> Answer:
    if asked.path == "/blob":
        return Answer(body=[b"x" * 100_000] * 10)
    is_json = asked.headers.get("content-type", "").startswith("application/json")
    return Answer.of({"json": asked.json() if is_json else None, "bytes": len(asked.body)})


@pytest.fixture
def box(make_box: MakeBox, make_site: MakeSite) -> Sandbox:
    sites = {
        "api.example:443": make_site(app, "api.example").place,
        "plain.example:80": make_site(app).place,
    }
    return make_box(sites)


@PROXIED
def test_fetch_calls_stream_and_are_journalled(box: Sandbox, envs: dict[str, str]) -> None:
    assert node(box, AS_IT_COMES, envs) == [200, {"amount": 7}, 1_000_000, 2_000_000, 200]
    journal = requests(box)
    assert [seen(one) for one in journal] == SEEN
    assert journal[1].arguments["body"] == {"amount": 7}
    assert journal[3].result["sent"]["bytes"] == 2_000_000
    assert box.alerts() == []


def test_fetch_by_the_proxy_looks_up_no_name(box: Sandbox) -> None:
    assert node(box, WITH_AGENT) == [200, {"amount": 7}, 1_000_000, 2_000_000, 200]
    assert [seen(one) for one in requests(box)] == SEEN
    assert crossings(box, "dns") == []


def test_fetch_of_a_host_that_is_not_allowed_fails(box: Sandbox) -> None:
    program = """
let code = "none";
try { await fetch("https://other.example/"); } catch (error) { code = error.cause.code; }
console.log(JSON.stringify(code));
"""
    assert node(box, program) == "ENOTFOUND"
    assert {(one.host, one.verdict) for one in crossings(box, "dns")} == {
        ("other.example", "block")
    }
