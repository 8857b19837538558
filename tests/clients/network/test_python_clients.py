"""The HTTP clients of Python programs: requests, httpx, aiohttp, and the standard library's."""

from __future__ import annotations

import hashlib

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite, StartServer
from clients.network.crossings import Crossing, requests, seen
from clients.network.inside import python
from clients.network.site import Answer, Asked
from paddock import Sandbox

PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])
BLOB = bytes(range(256)) * 8192  # 2 MiB

REQUESTS = """
import json, requests
with requests.Session() as session:
    got = session.get("https://api.example/get", params={"q": "ä b"}, timeout=20)
    sent = session.post("https://api.example/json", json={"amount": 7}, timeout=20)
    blob = session.get("https://api.example/blob", stream=True, timeout=20)
    size = sum(len(part) for part in blob.iter_content(65536))
    up = session.post("https://api.example/up", data=iter([b"x" * 100_000] * 20), timeout=20)
    plain = session.get("http://plain.example/p", timeout=20)
said, sizes = sent.json()["json"], [size, up.json()["bytes"]]
print(json.dumps([got.status_code, said, *sizes, plain.status_code]))
"""
HTTPX = """
import asyncio, json, httpx
async def main():
    async with httpx.AsyncClient(http2=HTTP2, timeout=20) as client:
        got = await client.get("https://api.example/get", params={"q": "ä b"})
        sent = await client.post("https://api.example/json", json={"amount": 7})
        async with client.stream("GET", "https://api.example/blob") as blob:
            size = sum([len(part) async for part in blob.aiter_bytes()])
        async def parts():
            for _ in range(20):
                yield b"x" * 100_000
        up = await client.post("https://api.example/up", content=parts())
        plain = await client.get("http://plain.example/p")
    return [got.status_code, sent.json()["json"], size, up.json()["bytes"], plain.status_code,
            got.http_version]
print(json.dumps(asyncio.run(main())))
"""
AIOHTTP = """
import asyncio, json, aiohttp
async def main():
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(trust_env=True, timeout=timeout) as session:
        async with session.get("https://api.example/get", params={"q": "ä b"}) as got:
            await got.read()
        async with session.post("https://api.example/json", json={"amount": 7}) as answer:
            sent = await answer.json()
        async with session.get("https://api.example/blob") as blob:
            size = sum([len(part) async for part in blob.content.iter_chunked(65536)])
        async def parts():
            for _ in range(20):
                yield b"x" * 100_000
        async with session.post("https://api.example/up", data=parts()) as answer:
            up = await answer.json()
        async with session.get("http://plain.example/p") as plain:
            await plain.read()
    return [got.status, sent["json"], size, up["bytes"], plain.status]
print(json.dumps(asyncio.run(main())))
"""
URLLIB = """
import json, urllib.request
from urllib.request import Request, urlopen
got = urlopen("https://api.example/get?q=%C3%A4+b", timeout=20)
header = {"Content-Type": "application/json"}
sent = urlopen(Request("https://api.example/json", b'{"amount": 7}', header), timeout=20)
size = len(urlopen("https://api.example/blob", timeout=20).read())
up = urlopen(Request("https://api.example/up", iter([b"x" * 100_000] * 20)), timeout=20)
plain = urlopen("http://plain.example/p", timeout=20)
print(json.dumps([got.status, json.load(sent)["json"], size, json.load(up)["bytes"], plain.status]))
"""
SEEN = [
    ("api.example", "GET", "/get", 200, "allow"),
    ("api.example", "POST", "/json", 200, "allow"),
    ("api.example", "GET", "/blob", 200, "allow"),
    ("api.example", "POST", "/up", 200, "allow"),
    ("plain.example", "GET", "/p", 200, "allow"),
]


def app(asked: Asked) -> Answer:
    if asked.path == "/blob":
        return Answer(body=_parts(BLOB))
    is_json = asked.headers.get("content-type", "").startswith("application/json")
    return Answer.of({"json": asked.json() if is_json else None, "bytes": len(asked.body)})


def _parts(blob: bytes) -> list[bytes]:
    return [blob[at : at + 100_000] for at in range(0, len(blob), 100_000)]


@pytest.fixture(scope="module")
def shared_box(make_box: MakeBox, make_site: MakeSite) -> Sandbox:
    sites = {
        "api.example:443": make_site(app, "api.example").place,
        "plain.example:80": make_site(app).place,
    }
    return make_box(sites)


def _calls(box: Sandbox, program: str, envs: dict[str, str]) -> tuple[list[object], list[Crossing]]:
    """What the client saw of its calls, and what the journal has on them."""
    before = len(requests(box))
    said = python(box, program, envs)
    assert box.alerts() == []
    return said, requests(box)[before:]


def _check(said: list[object], journal: list[Crossing]) -> None:
    assert said == [200, {"amount": 7}, len(BLOB), 2_000_000, 200]
    assert [seen(one) for one in journal] == SEEN
    got, sent, blob, up, _ = journal
    assert got.arguments["query"] == "q=%C3%A4+b"
    assert sent.arguments["body"] == {"amount": 7}
    assert blob.result["bytes"] == len(BLOB)
    assert blob.result["sha256"] == hashlib.sha256(BLOB).hexdigest()
    assert up.result["sent"]["bytes"] == 2_000_000


@PROXIED
def test_requests_calls_stream_and_are_journalled(
    shared_box: Sandbox, envs: dict[str, str]
) -> None:
    _check(*_calls(shared_box, REQUESTS, envs))


@PROXIED
@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_httpx_calls_stream_and_are_journalled(
    shared_box: Sandbox, envs: dict[str, str], http2: bool
) -> None:
    said, journal = _calls(shared_box, HTTPX.replace("HTTP2", str(http2)), envs)
    assert said.pop() == ("HTTP/2" if http2 else "HTTP/1.1")
    if http2:
        journal[0].arguments["query"] = journal[0].arguments["query"].replace("%20", "+")
    _check(said, journal)


@PROXIED
def test_aiohttp_calls_stream_and_are_journalled(shared_box: Sandbox, envs: dict[str, str]) -> None:
    _check(*_calls(shared_box, AIOHTTP, envs))


@PROXIED
def test_urllib_calls_stream_and_are_journalled(shared_box: Sandbox, envs: dict[str, str]) -> None:
    _check(*_calls(shared_box, URLLIB, envs))


def test_httpx_multiplexes_over_http2(
    make_box: MakeBox, start_server: StartServer, authority: ServerAuthority
) -> None:
    box = make_box({"two.example:443": start_server("echo_h2.py", *authority.files("two.example"))})
    program = """
import asyncio, json, httpx
async def main():
    async with httpx.AsyncClient(http2=True, timeout=30) as client:
        calls = [client.post(f"https://two.example/{n}", content=b"x" * 20_000) for n in range(40)]
        answers = await asyncio.gather(*calls)
    return [[a.http_version, a.text[:12], len(a.text)] for a in answers]
print(json.dumps(asyncio.run(main())))
"""
    answers = python(box, program)
    expected = [["HTTP/2", f"2 POST /{n} ".ljust(12, "x")[:12]] for n in range(40)]
    assert [answer[:2] for answer in answers] == expected
    assert all(length > 20_000 for *_, length in answers)
    journal = requests(box)
    assert sorted(int(one.request[1][1:]) for one in journal) == list(range(40))
    assert {(one.verdict, one.status) for one in journal} == {("allow", 200)}


def test_certificate_that_nobody_vouches_for_is_refused_by_the_door(
    make_box: MakeBox, make_site: MakeSite
) -> None:
    """The sandbox trusts the door, so the door must not trust everybody."""
    box = make_box({"api.example:443": make_site(app, "other.example").place})
    program = """
import json, requests
got = requests.get("https://api.example/", timeout=20)
print(json.dumps([got.status_code, got.json()["error"]["message"]]))
"""
    status, why = python(box, program)
    assert status == 502 and "certificate is for another host" in why
    last = requests(box)[-1]
    assert (last.outcome, last.status, last.verdict) == ("failed", 502, "allow")
