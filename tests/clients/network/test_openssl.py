"""openssl s_client: TLS as it is on the wire, ended by the door and passed through."""

from __future__ import annotations

from clients.network.certificates import ServerAuthority
from clients.network.conftest import MakeBox, MakeSite
from clients.network.crossings import crossings, requests, seen
from clients.network.inside import shell
from clients.network.site import Answer, Asked
from paddock import Sandbox

ASK = r"printf 'GET /s HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n'"
CLIENT = (
    "timeout 20 openssl s_client -connect api.example:443 -servername {}"
    " -verify_return_error -ign_eof"
)


def app(asked: Asked) -> Answer:
    return Answer(200, b"hello over TLS")


def _ask(box: Sandbox, name: str = "api.example", more: str = "") -> str:
    return shell(box, f"{ASK} | {CLIENT.format(name)} {more} 2>&1; true")


def _place(make_site: MakeSite) -> dict[str, str]:
    return {"api.example:443": make_site(app, "api.example").place}


def test_ended_tls_has_a_certificate_that_the_sandbox_trusts(
    make_box: MakeBox, make_site: MakeSite
) -> None:
    box = make_box(_place(make_site))
    said = _ask(box)
    assert "Verify return code: 0 (ok)" in said
    assert "hello over TLS" in said
    assert "Authority of tests" not in said
    assert seen(requests(box)[-1]) == ("api.example", "GET", "/s", 200, "allow")


def test_old_tls_is_not_spoken(make_box: MakeBox, make_site: MakeSite) -> None:
    box = make_box(_place(make_site))
    said = _ask(box, more="-tls1_1 -cipher ALL:@SECLEVEL=0")
    assert "hello over TLS" not in said and "alert" in said
    assert requests(box) == []


def test_name_in_tls_that_is_not_the_one_allowed_is_refused(
    make_box: MakeBox, make_site: MakeSite
) -> None:
    box = make_box(_place(make_site))
    assert "hello over TLS" not in _ask(box, name="other.example")
    (refused,) = crossings(box, "connect")
    assert (refused.host, refused.verdict, refused.rule) == ("api.example", "block", "mismatch")
    assert [alert.name for alert in box.alerts()] == ["egress.mismatch"]


def test_passed_through_tls_is_the_servers_own(
    make_box: MakeBox, make_site: MakeSite, authority: ServerAuthority
) -> None:
    box = make_box(_place(make_site), passthrough=("api.example",))
    box.files.write("authority.pem", authority.text)
    said = _ask(box, more="-CAfile authority.pem")
    assert "CN = Authority of tests" in said
    assert "Verify return code: 0 (ok)" in said
    assert "hello over TLS" in said
    (passed,) = crossings(box, "connect")
    assert (passed.host, passed.verdict, passed.outcome) == ("api.example", "allow", "done")
    assert passed.arguments["transport"] == "tls"
    assert passed.result["bytes_in"] > 500 and passed.result["bytes_out"] > 300
    assert requests(box) == []
