"""The send APIs of providers, the outbox for people, and what both refuse."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import sendgrid
from sendgrid.helpers.mail import Attachment
from sendgrid.helpers.mail import Mail as Message

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock_services.mail import Mail
from unit.paddock_services.chat.rig import FORM, JSON, Answer, as_form, as_json, ask, made, served

SENDGRID = {"authorization": "Bearer SG.x", "content-type": JSON}
POSTMARK = {"x-postmark-server-token": "t", "content-type": JSON}
MAILGUN = {"authorization": "Basic YXBpOmtleQ==", "content-type": FORM}
LETTER = {
    "personalizations": [{"to": [{"email": "b@b.example"}]}],
    "from": {"email": "a@a.example", "name": "Ada"},
    "subject": "Hi",
    "content": [{"type": "text/plain", "value": "text"}],
}
POST = {"From": "Ada <a@a.example>", "To": "b@b.example", "Subject": "Hi", "TextBody": "text"}


@pytest.fixture
def mail(tmp_path: Path) -> Mail:
    return made(Mail, tmp_path, host="mail.example", bounce=["*@bad.example"])


def _kept(mail: Mail) -> list[dict[str, Any]]:
    return mail.context.store.find("messages")


def _send(mail: Mail, body: Any) -> Answer:
    return ask(mail.app(), "POST", "/v3/mail/send", as_json(body), SENDGRID)


def _post(mail: Mail, body: Any, path: str = "/email") -> Answer:
    return ask(mail.app(), "POST", path, as_json(body), POSTMARK)


def test_sendgrids_own_client_sends(mail: Mail) -> None:
    message = Message("a@a.example", ["b@b.example", "c@c.example"], "Hi", "text", "<p>html</p>")
    message.attachment = Attachment(base64.b64encode(b"data").decode(), "a.txt", "text/plain")
    with served(mail.app()) as address:
        client = sendgrid.SendGridAPIClient("SG.x", host=address)
        answer = client.send(message)
    assert answer.status_code == 202
    (kept,) = _kept(mail)
    assert answer.headers["X-Message-Id"] == kept["id"].removeprefix("msg_")
    assert (kept["to"], kept["html"]) == (["b@b.example", "c@c.example"], "<p>html</p>")
    assert mail.context.store.blob(kept["attachments"][0]["blob"]) == b"data"


def test_each_personalization_is_a_letter(mail: Mail) -> None:
    people = [{"to": [{"email": f"{name}@b.example"}], "subject": name} for name in "xyz"]
    assert _send(mail, {**LETTER, "personalizations": people}).status == 202
    assert [(one["to"], one["subject"]) for one in _kept(mail)] == [
        ([f"{name}@b.example"], name) for name in "xyz"
    ]


@for_each(
    ("change", "field"),
    [
        ({"personalizations": []}, "personalizations"),
        ({"personalizations": {}}, "personalizations"),
        ({"personalizations": [{}]}, "personalizations.0.to"),
        ({"personalizations": [{"to": [{"email": "nobody"}]}]}, "personalizations.0.to.0.email"),
        ({"personalizations": [{"to": [{"email": "b@b.example"}] * 2}]}, "personalizations.0"),
        ({"from": None}, "from.email"),
        ({"from": {"email": "a@a.example\r\nBcc: x@x.example"}}, "from.email"),
        ({"subject": ""}, "subject"),
        ({"content": []}, "content"),
        ({"content": [{"type": "text/plain", "value": ""}]}, "content.0"),
        ({"attachments": [{"content": "!", "filename": "a"}]}, "attachments.0.content"),
        ({"headers": {"x": 1}}, "headers"),
    ],
)
def test_sendgrid_says_which_field_is_wrong(mail: Mail, change: Any, field: str) -> None:
    answer = _send(mail, {**LETTER, **change})
    assert (answer.status, answer.json["errors"][0]["field"]) == (400, field)
    assert _kept(mail) == []


PLAIN = {"type": "text/plain", "value": "text"}
HTML = {"type": "text/html", "value": "<p>html</p>"}
CALENDAR = {"type": "text/calendar", "value": "BEGIN:VCALENDAR"}


@pytest.mark.parametrize(
    "content", [[HTML, PLAIN], [CALENDAR, PLAIN], [PLAIN, CALENDAR, HTML], [PLAIN, PLAIN]]
)
def test_sendgrid_wants_plain_text_before_html_and_each_once(
    mail: Mail, content: list[dict[str, str]]
) -> None:
    answer = _send(mail, {**LETTER, "content": content})
    assert (answer.status, answer.json["errors"][0]["field"]) == (400, "content")
    assert _kept(mail) == []


@pytest.mark.parametrize("content", [[PLAIN, HTML], [HTML], [PLAIN, HTML, CALENDAR], [CALENDAR]])
def test_sendgrid_takes_content_in_its_order(mail: Mail, content: list[dict[str, str]]) -> None:
    assert _send(mail, {**LETTER, "content": content}).status == 202
    (kept,) = _kept(mail)
    assert kept["html"] == ("<p>html</p>" if HTML in content else "")


def test_sendgrid_takes_a_letter_that_bounces_and_says_so_later(mail: Mail) -> None:
    assert (
        _send(mail, {**LETTER, "personalizations": [{"to": [{"email": "x@bad.example"}]}]}).status
        == 202
    )
    bounces = ask(mail.app(), "GET", "/v3/suppression/bounces", headers=SENDGRID).json
    assert [one["email"] for one in bounces] == ["x@bad.example"]


def test_sandbox_mode_of_sendgrid_sends_nothing(mail: Mail) -> None:
    settings = {"mail_settings": {"sandbox_mode": {"enable": True}}}
    assert _send(mail, {**LETTER, **settings}).status == 200
    assert _kept(mail) == []


def test_postmark_sends_one_and_many(mail: Mail) -> None:
    one = _post(mail, POST)
    assert (one.status, one.json["ErrorCode"], one.json["To"]) == (200, 0, "b@b.example")
    many = _post(
        mail, [POST, {**POST, "To": "nobody"}, {**POST, "To": "x@bad.example"}], "/email/batch"
    )
    assert [answer["ErrorCode"] for answer in many.json] == [0, 300, 406]
    assert len(_kept(mail)) == 2
    assert len({one.json["MessageID"], many.json[0]["MessageID"]}) == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [({"From": ""}, 300), ({"To": ""}, 300), ({"TextBody": ""}, 300), ({"To": 7}, 300),
     ({"To": "x@bad.example"}, 406), ({"Attachments": [{"Name": "a", "Content": "!"}]}, 300)],
)  # fmt: skip
def test_postmark_refuses_with_its_codes(mail: Mail, change: Any, code: int) -> None:
    answer = _post(mail, {**POST, **change})
    assert (answer.status, answer.json["ErrorCode"]) == (422, code)
    assert _kept(mail) == []


def test_mailgun_takes_a_form_with_files(mail: Mail) -> None:
    fields = {"from": "Ada <a@a.example>", "to": ["b@b.example", "c@c.example"], "subject": "Hi"}
    answer = ask(
        mail.app(), "POST", "/v3/mg.example/messages", as_form({**fields, "text": "t"}), MAILGUN
    )
    assert answer.json["message"] == "Queued. Thank you."
    body = (
        b'--x\r\nContent-Disposition: form-data; name="from"\r\n\r\na@a.example\r\n'
        b'--x\r\nContent-Disposition: form-data; name="to"\r\n\r\nb@b.example\r\n'
        b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nt\r\n'
        b'--x\r\nContent-Disposition: form-data; name="attachment"; filename="a.bin"\r\n'
        b"Content-Type: application/x-a\r\n\r\n\x00\xff\r\n--x--\r\n"
    )
    headers = {**MAILGUN, "content-type": "multipart/form-data; boundary=x"}
    assert ask(mail.app(), "POST", "/v3/mg.example/messages", body, headers).status == 200
    first, second = _kept(mail)
    assert first["to"] == ["b@b.example", "c@c.example"]
    assert mail.context.store.blob(second["attachments"][0]["blob"]) == b"\x00\xff"
    nobody = ask(
        mail.app(), "POST", "/v3/mg.example/messages", as_form({"to": "b@b.example"}), MAILGUN
    )
    assert nobody.json == {"message": "'from' parameter is missing"}


@pytest.mark.parametrize(
    "path", ["/v3/mail/send", "/email", "/email/batch", "/v3/d.example/messages"]
)
def test_nobody_sends_without_a_key(mail: Mail, path: str) -> None:
    answer = ask(mail.app(), "POST", path, as_json(LETTER), {"content-type": JSON})
    assert answer.status == 401
    assert _kept(mail) == []


@for_each(
    ("path", "headers"),
    [("/v3/mail/send", SENDGRID), ("/email", POSTMARK), ("/email/batch", POSTMARK)],
)
@for_each("body", [b"", b"[", b"7", b"null", b'{"From":"\\ud800"}', b"[" * 5000])
def test_body_that_is_none_is_the_agents_fault(
    mail: Mail, path: str, headers: dict[str, str], body: bytes
) -> None:
    assert ask(mail.app(), "POST", path, body, headers).status in (400, 422)
    assert _kept(mail) == []


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=x", FORM])
def test_form_that_is_none_is_the_agents_fault(mail: Mail, kind: str) -> None:
    headers = {**MAILGUN, "content-type": kind}
    for body in (b"", b"--x", b"--x\r\n\r\n\r\n--x--", b"&" * 5000, b"a=b&" * 5000):
        assert ask(mail.app(), "POST", "/v3/d.example/messages", body, headers).status == 400


def test_what_is_too_large_for_the_store_is_refused(mail: Mail) -> None:
    data = [{"to": [{"email": "b@b.example"}], "dynamic_template_data": {"x": "y" * (2 << 20)}}]
    assert _send(mail, {**LETTER, "personalizations": data}).status == 413
    controls = {**LETTER, "content": [{"type": "text/plain", "value": "\x00" * (2 << 20)}]}
    headers = {f"x-{number}": "\x01" * 8_000 for number in range(300)}
    assert _send(mail, {**controls, "headers": headers}).status == 202


def test_outbox_shows_letters_to_people(mail: Mail) -> None:
    _send(mail, LETTER)
    _post(mail, {**POST, "To": "c@c.example", "Attachments": [
        {"Name": "a.html", "Content": base64.b64encode(b"<script>").decode(),
         "ContentType": "text/html"}]})  # fmt: skip
    app = mail.app()
    assert ask(app, "GET", "/outbox").json["count"] == 2
    (letter,) = ask(app, "GET", "/outbox?to=C@c.example").json["messages"]
    file = ask(app, "GET", f"/outbox/{letter['id']}/attachments/0")
    assert (file.body, file.headers["content-type"]) == (b"<script>", "application/octet-stream")
    assert ask(app, "GET", f"/outbox/{letter['id']}/attachments/1").status == 404
    assert b"c@c.example" in ask(app, "GET", f"/outbox/{letter['id']}/raw").body
    assert ask(app, "GET", "/outbox/none").status == 404


def test_same_letters_give_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for number in range(3):
        mail = made(Mail, tmp_path / str(number))
        _send(mail, LETTER)
        _post(mail, POST)
        digests.add(mail.context.store.digest())
    assert len(digests) == 1


def test_lost_attachment_is_found(mail: Mail) -> None:
    _post(mail, POST)
    assert mail.invariants() == []
    (letter,) = _kept(mail)
    lost = {"filename": "a", "content_type": "b", "size": 1, "blob": "0"}
    mail.context.store.put("messages", letter["id"], {**letter, "to": [], "attachments": [lost]})
    assert len(mail.invariants()) == 2


@pytest.mark.parametrize(
    "options", [{"bounce": "*@bad.example"}, {"bounce": [1]}, {"require_auth": "no"}]
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InvalidInput):
        made(Mail, tmp_path, **options)


def test_seed_puts_letters_into_the_outbox(mail: Mail) -> None:
    mail.seed({"messages": [{"from": "a@a.example", "to": "b@b.example", "subject": "Old"}]})
    assert _kept(mail)[0]["subject"] == "Old"
    with pytest.raises(InvalidInput):
        mail.seed({"messages": [{"to": "nobody"}]})
    with pytest.raises(InvalidInput):
        mail.seed({"letters": []})
