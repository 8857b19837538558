"""curl, the client that agents reach for first: all that it can say over HTTP."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from clients.network.certificates import ServerAuthority
from clients.network.conftest import WITHOUT_PROXY, MakeBox, MakeSite, StartServer
from clients.network.crossings import crossings, requests, seen
from clients.network.site import Answer, Asked, Site
from paddock import Sandbox

BIG = os.urandom(1 << 20) * 3
RULES = """
rules:
  - id: no-deletes
    match: {kind: http, host: plain.example, method: DELETE}
    decide: block
    why: Nothing is deleted here.
  - id: no-uploads
    match: {kind: http, host: safe.example, method: PUT}
    decide: block
    why: Nothing is uploaded here.
"""
PROXIED = pytest.mark.parametrize("envs", [{}, WITHOUT_PROXY], ids=["proxy", "redirect"])


def app(asked: Asked) -> Answer:
    if asked.path == "/big":
        return _ranged(asked)
    if asked.path == "/parts":
        return Answer(body=(b"part %d\n" % number for number in range(5)))
    if asked.path == "/moved":
        return Answer(302, headers={"Location": "/landed"})
    return Answer.of(
        {
            "method": asked.method,
            "path": asked.path,
            "headers": asked.headers,
            "bytes": len(asked.body),
            "sha256": hashlib.sha256(asked.body).hexdigest(),
        }
    )


def _ranged(asked: Asked) -> Answer:
    wanted = asked.headers.get("range")
    if wanted is None:
        return Answer(body=BIG, headers={"Accept-Ranges": "bytes"})
    start = int(wanted.removeprefix("bytes=").partition("-")[0])
    where = f"bytes {start}-{len(BIG) - 1}/{len(BIG)}"
    return Answer(206, BIG[start:], {"Content-Range": where})


@pytest.fixture(scope="module")
def plain(make_site: MakeSite) -> Site:
    return make_site(app)


@pytest.fixture(scope="module")
def secured(make_site: MakeSite) -> Site:
    return make_site(app, "safe.example")


@pytest.fixture(scope="module")
def h2(start_server: StartServer, authority: ServerAuthority) -> str:
    return start_server("echo_h2.py", *authority.files("two.example"))


@pytest.fixture(scope="module")
def shared_box(make_box: MakeBox, plain: Site, secured: Site, h2: str) -> Sandbox:
    return make_box(
        {"plain.example:80": plain.place, "safe.example:443": secured.place, "two.example:443": h2}
    )


def _run(box: Sandbox, command: str, envs: dict[str, str] | None = None) -> str:
    return box.commands.run(command, envs=envs, timeout=60).stdout


@PROXIED
def test_plain_request_arrives_and_is_in_the_journal(
    shared_box: Sandbox, envs: dict[str, str]
) -> None:
    said = json.loads(_run(shared_box, "curl -sS 'http://plain.example/one?a=b'", envs))
    assert (said["method"], said["path"]) == ("GET", "/one")
    assert said["headers"]["host"] == "plain.example"
    assert not [name for name in said["headers"] if "proxy" in name]
    last = requests(shared_box)[-1]
    assert seen(last) == ("plain.example", "GET", "/one", 200, "allow")
    assert last.arguments["query"] == "a=b"
    assert last.is_of_a_command


@PROXIED
def test_tls_is_trusted_and_seen_through(shared_box: Sandbox, envs: dict[str, str]) -> None:
    said = json.loads(_run(shared_box, "curl -sS --http1.1 https://safe.example/two", envs))
    assert said["headers"]["host"] == "safe.example"
    last = requests(shared_box)[-1]
    assert seen(last) == ("safe.example", "GET", "/two", 200, "allow")
    assert last.arguments["scheme"] == "https"


@PROXIED
def test_http2_is_spoken_on_both_sides(shared_box: Sandbox, envs: dict[str, str]) -> None:
    said = _run(shared_box, "curl -sS -w ' %{http_version}' -d hello https://two.example/h", envs)
    assert said == "2 POST /h hello 2"
    last = requests(shared_box)[-1]
    assert seen(last) == ("two.example", "POST", "/h", 200, "allow")
    assert last.result["http_version"] == "HTTP/2"


def test_http2_client_reaches_a_server_that_has_only_http1(shared_box: Sandbox) -> None:
    said = _run(shared_box, "curl -sS -o out -w '%{http_version}' https://safe.example/h1")
    assert said == "2"
    assert seen(requests(shared_box)[-1]) == ("safe.example", "GET", "/h1", 200, "allow")


def test_http2_without_tls_is_served_by_prior_knowledge(
    make_box: MakeBox, start_server: StartServer
) -> None:
    box = make_box({"two.example:80": start_server("echo_h2.py")})
    command = "curl -sS --http2-prior-knowledge --noproxy '*' -d hi http://two.example/c"
    assert _run(box, command) == "2 POST /c hi"
    assert seen(requests(box)[-1]) == ("two.example", "POST", "/c", 200, "allow")


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_upload_of_50_mib_waits_for_100_continue(shared_box: Sandbox, version: str) -> None:
    size = 50 << 20
    _run(shared_box, f"head -c {size} /dev/zero > zeros")
    command = f"curl -sS {version} -H 'Expect: 100-continue' -T zeros https://safe.example/upload"
    said = json.loads(_run(shared_box, command))
    expected = hashlib.sha256(bytes(size)).hexdigest()
    assert (said["method"], said["bytes"], said["sha256"]) == ("PUT", size, expected)
    last = requests(shared_box)[-1]
    assert seen(last) == ("safe.example", "PUT", "/upload", 200, "allow")
    assert last.result["sent"]["bytes"] == size
    assert last.result["sent"]["sha256"] == expected


def test_expectation_is_answered_before_the_body_is_sent(shared_box: Sandbox) -> None:
    command = "curl -sSv -H 'Expect: 100-continue' --data-binary @- http://plain.example/wait 2>&1"
    said = _run(shared_box, f"head -c 2000000 /dev/zero | {command}")
    assert said.index("HTTP/1.1 100") < said.index("HTTP/1.1 200")


def test_chunked_upload_arrives_whole(shared_box: Sandbox) -> None:
    command = "curl -sS -H 'Transfer-Encoding: chunked' -T - http://plain.example/chunked"
    said = json.loads(_run(shared_box, f"head -c 3000000 /dev/zero | {command}"))
    assert said["bytes"] == 3_000_000
    assert requests(shared_box)[-1].result["sent"]["bytes"] == 3_000_000


def test_chunked_answer_arrives_whole(shared_box: Sandbox) -> None:
    said = _run(shared_box, "curl -sS https://safe.example/parts")
    assert said == "".join(f"part {number}\n" for number in range(5))


def test_broken_download_is_resumed(shared_box: Sandbox) -> None:
    shared_box.files.write("big", BIG[:1_000_000])
    status = _run(shared_box, "curl -sS -C - -o big -w '%{http_code}' https://safe.example/big")
    assert status == "206"
    assert shared_box.files.read("big", format="bytes") == BIG
    last = requests(shared_box)[-1]
    assert seen(last) == ("safe.example", "GET", "/big", 206, "allow")
    assert last.arguments["headers"]["range"] == "bytes=1000000-"


def test_redirect_is_a_request_of_its_own(shared_box: Sandbox) -> None:
    _run(shared_box, "curl -sSL http://plain.example/moved")
    assert [seen(one)[2:] for one in requests(shared_box)[-2:]] == [
        ("/moved", 302, "allow"),
        ("/landed", 200, "allow"),
    ]


def test_kept_connection_carries_several_requests(shared_box: Sandbox) -> None:
    urls = " ".join(f"https://safe.example/k{number}" for number in range(4))
    said = _run(shared_box, f"curl -sSv -o /dev/null {urls} 2>&1 >/dev/null")
    assert said.count("Re-using existing connection") == 3
    assert [one.request[1] for one in requests(shared_box)[-4:]] == ["/k0", "/k1", "/k2", "/k3"]


@PROXIED
def test_host_that_is_not_allowed_is_refused_and_raises_an_alert(
    make_box: MakeBox, plain: Site, envs: dict[str, str]
) -> None:
    box = make_box({"plain.example:80": plain.place})
    status = _run(box, "curl -s -o out -w '%{http_code}' http://other.example/; true", envs)
    assert status == ("000" if envs else "403")
    kind = "dns" if envs else "connect"
    assert {(one.host, one.verdict) for one in crossings(box, kind)} == {("other.example", "block")}
    assert [alert.about["host"] for alert in box.alerts()] == ["other.example"]
    assert requests(box) == []


@pytest.fixture(scope="module")
def strict_box(make_box: MakeBox, plain: Site, secured: Site) -> Sandbox:
    return make_box({"plain.example:80": plain.place, "safe.example:443": secured.place}, RULES)


def test_blocked_method_is_told_why_and_does_not_arrive(strict_box: Sandbox, plain: Site) -> None:
    command = "curl -sS -w ' %{http_code}' -X DELETE http://plain.example/thing"
    body, _, status = _run(strict_box, command).rpartition(" ")
    assert status == "403"
    assert json.loads(body)["error"]["message"] == "Nothing is deleted here."
    assert "DELETE" not in [one.method for one in plain.asked]
    last = requests(strict_box)[-1]
    assert (*seen(last), last.rule, last.outcome) == (
        "plain.example", "DELETE", "/thing", None, "block", "no-deletes", "refused",
    )  # fmt: skip


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
@pytest.mark.parametrize("expect", ["Expect: 100-continue", "Expect:"])
@pytest.mark.parametrize("size", [3000, 20 << 20])
def test_blocked_upload_is_told_why_while_it_is_still_being_sent(
    strict_box: Sandbox, secured: Site, version: str, expect: str, size: int
) -> None:
    """A reset that comes with the answer would hide the answer from the client."""
    _run(strict_box, f"head -c {size} /dev/zero > zeros")
    command = f"curl -sS {version} -H '{expect}' -T zeros https://safe.example/blocked"
    for _ in range(3):
        assert json.loads(_run(strict_box, command))["error"]["rule"] == "no-uploads"
    assert "/blocked" not in [one.path for one in secured.asked]
    assert requests(strict_box)[-1].verdict == "block"
