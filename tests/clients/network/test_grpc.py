"""gRPC by grpcio: one call, a conversation and an error, with TLS and without."""

from __future__ import annotations

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.conftest import WITHOUT_PROXY, MakeBox, StartServer
from clients.network.crossings import requests, seen
from clients.network.inside import python
from paddock import Sandbox

PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
SECURED = pytest.mark.parametrize("is_secured", [True, False], ids=["tls", "plain"])
CHANNEL = """
import json, grpc
options = [("grpc.max_receive_message_length", -1)]
channel = CHANNEL
unary = channel.unary_unary("/test.Echo/Unary")
chat = channel.stream_stream("/test.Echo/Chat")
"""
CALLS = """
said, call = unary.with_call(b"hello", metadata=[("x-who", "me")], timeout=20)
big = unary(b"x" * 3_000_000, timeout=20)
import queue
waiting = queue.Queue()
waiting.put(b"one")
heard = []
for answer in chat(iter(waiting.get, None), timeout=20):
    heard.append(answer.decode())
    waiting.put(b"two" if len(heard) == 1 else None)
try:
    unary(b"fail", timeout=20)
except grpc.RpcError as error:
    failed = [error.code().name, error.details()]
who = dict(call.trailing_metadata())["x-seen"]
print(json.dumps([said.decode(), who, len(big), heard, failed]))
"""
TLS = 'grpc.secure_channel("rpc.example:443", grpc.ssl_channel_credentials(), options)'
PLAIN = 'grpc.insecure_channel("rpc.example:50051", options)'


def _box(
    make_box: MakeBox,
    start_server: StartServer,
    authority: ServerAuthority,
    is_secured: bool,
    rules: str = "",
) -> Sandbox:
    if is_secured:
        server = start_server("grpc_echo.py", *authority.files("rpc.example"))
        return make_box({"rpc.example:443": server}, rules)
    return make_box({"rpc.example:50051": start_server("grpc_echo.py")}, rules)


@PROXIED
@SECURED
def test_calls_and_conversations_go_through(
    make_box: MakeBox,
    start_server: StartServer,
    authority: ServerAuthority,
    is_secured: bool,
    envs: dict[str, str],
) -> None:
    box = _box(make_box, start_server, authority, is_secured)
    program = (CHANNEL + CALLS).replace("CHANNEL", TLS if is_secured else PLAIN)
    said, who, size, heard, failed = python(box, program, envs)
    assert (said, who, size) == ("echo hello", "me", 3_000_005)
    assert heard == ["heard one", "heard two"]
    assert failed == ["FAILED_PRECONDITION", "as you wish"]
    journal = requests(box)
    paths = ["Unary", "Unary", "Chat", "Unary"]
    assert [seen(one) for one in journal] == [
        ("rpc.example", "POST", f"/test.Echo/{path}", 200, "allow") for path in paths
    ]
    assert {one.outcome for one in journal} == {"done"}
    assert journal[1].result["sent"]["bytes"] > 3_000_000
    assert box.alerts() == []


def test_blocked_method_is_an_error_that_grpc_understands(
    make_box: MakeBox, start_server: StartServer, authority: ServerAuthority
) -> None:
    rules = """
rules:
  - id: no-unary
    match: {kind: http, host: rpc.example, path: /test.Echo/Unary}
    decide: block
    why: Not that one.
"""
    box = _box(make_box, start_server, authority, True, rules)
    program = """
try:
    unary(b"hello", timeout=20)
except grpc.RpcError as error:
    print(json.dumps(error.code().name))
"""
    assert python(box, (CHANNEL + program).replace("CHANNEL", TLS)) == "PERMISSION_DENIED"
    last = requests(box)[-1]
    assert (last.request[1], last.verdict, last.rule) == ("/test.Echo/Unary", "block", "no-unary")
