"""WebSockets by Python's `websockets` and by Node's own client."""

from __future__ import annotations

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.conftest import WITHOUT_PROXY, MakeBox, StartServer
from clients.network.crossings import requests, seen
from clients.network.inside import node, python, shell
from paddock import Sandbox

PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
SCHEME = pytest.mark.parametrize("scheme", ["ws", "wss"])
PYTHON = """
import asyncio, json
from websockets.asyncio.client import connect
async def main():
    heard = []
    options = {"subprotocols": ["chat"], "max_size": None}
    async with connect("SCHEME://chat.example/room", **options) as socket:
        for message in ("hello", b"\\x00\\xff" * 10, "ä" * 70_000, b"x" * 3_000_000):
            await socket.send(message)
            back = await socket.recv()
            heard.append(back == message)
        await socket.send(iter(["in ", "three ", "frames"]))
        heard.append(await socket.recv())
        await (await socket.ping())
        await socket.send("close, please")
        await socket.wait_closed()
    return [heard, socket.subprotocol, socket.close_code, socket.close_reason]
print(json.dumps(asyncio.run(main())))
"""
# Node has it since 22, behind a flag since 20; before that it is the same code in a package.
NODE = """
import {createRequire} from "node:module";
const Client = globalThis.WebSocket ?? createRequire("/clients/")("undici").WebSocket;
const socket = new Client("SCHEME://chat.example/room", ["chat"]);
const heard = [];
const sent = ["hello", "x".repeat(200000)];
socket.onopen = () => socket.send(sent[0]);
socket.onerror = (event) => { console.log(JSON.stringify(String(event.error))); process.exit(0); };
socket.onmessage = (event) => {
  heard.push(event.data === sent[heard.length]);
  socket.send(heard.length < sent.length ? sent[heard.length] : "close, please");
};
socket.onclose = (event) => {
  console.log(JSON.stringify([heard, socket.protocol, event.code, event.reason]));
};
"""


@pytest.fixture
def box(make_box: MakeBox, start_server: StartServer) -> Sandbox:
    return make_box({"chat.example:80": start_server("echo_websocket.py")})


@pytest.fixture
def safe_box(make_box: MakeBox, start_server: StartServer, authority: ServerAuthority) -> Sandbox:
    server = start_server("echo_websocket.py", *authority.files("chat.example"))
    return make_box({"chat.example:443": server})


def _of(scheme: str, request: pytest.FixtureRequest) -> Sandbox:
    box: Sandbox = request.getfixturevalue("safe_box" if scheme == "wss" else "box")
    return box


@PROXIED
@SCHEME
def test_python_client_is_echoed_and_closed_with_a_reason(
    request: pytest.FixtureRequest, scheme: str, envs: dict[str, str]
) -> None:
    box = _of(scheme, request)
    heard, *end = python(box, PYTHON.replace("SCHEME", scheme), envs)
    assert heard == [True, True, True, True, "in three frames"]
    assert end == ["chat", 4001, "as you wish"]
    last = requests(box)[-1]
    assert seen(last) == ("chat.example", "GET", "/room", 101, "allow")
    assert last.outcome == "done"
    counts = last.result["websocket"]
    assert counts["messages_out"] >= 6 and counts["messages_in"] >= 5


@SCHEME
def test_node_client_is_echoed_and_closed_with_a_reason(
    request: pytest.FixtureRequest, scheme: str
) -> None:
    box = _of(scheme, request)
    has_flag = shell(box, "node --version").startswith(("v20.", "v21."))
    flags = "--experimental-websocket" if has_flag else ""
    said = node(box, NODE.replace("SCHEME", scheme), flags=flags)
    assert said == [[True, True], "chat", 4001, "as you wish"]
    assert seen(requests(box)[-1]) == ("chat.example", "GET", "/room", 101, "allow")


def test_rule_on_the_path_blocks_a_websocket(make_box: MakeBox, start_server: StartServer) -> None:
    rules = """
rules:
  - id: no-rooms
    match: {kind: http, host: chat.example, path: /room}
    decide: block
    why: No rooms.
"""
    box = make_box({"chat.example:80": start_server("echo_websocket.py")}, rules)
    program = """
import asyncio, json
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
async def main():
    try:
        async with connect("ws://chat.example/room"):
            return "open"
    except InvalidStatus as error:
        return [error.response.status_code, json.loads(error.response.body)["error"]["message"]]
print(json.dumps(asyncio.run(main())))
"""
    assert python(box, program) == [403, "No rooms."]
    last = requests(box)[-1]
    assert (last.verdict, last.rule, last.outcome) == ("block", "no-rooms", "refused")
