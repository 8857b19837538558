"""That Python's own SMTP client works with it, over a socket and over TLS."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from paddock_services.mail import Mail
from unit.paddock_services.chat.rig import made
from unit.paddock_services.mail.smtp_rig import smtp_served


@pytest.fixture
def mail(tmp_path: Path) -> Mail:
    return made(Mail, tmp_path, host="mail.example", bounce=["*@bad.example"])


@pytest.fixture
def port(mail: Mail, tmp_path: Path) -> Iterator[int]:
    with smtp_served(mail, tmp_path) as port:
        yield port


def _letter() -> EmailMessage:
    letter = EmailMessage()
    letter["From"] = "Ada <ada@a.example>"
    letter["To"] = "Ben <ben@b.example>"
    letter["Cc"] = "chi@c.example"
    letter["Bcc"] = "dee@d.example"
    letter["Subject"] = "Grüße, und mehr"
    letter.set_content("Hello\n.\n..dots\n.end\n")
    letter.add_alternative("<p>Hello</p>", subtype="html")
    letter.add_attachment(b"\x00\x01\x02", maintype="application", subtype="x-a", filename="ä.bin")
    return letter


def test_letter_with_all_its_parts_is_in_the_outbox(mail: Mail, port: int) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        assert client.send_message(_letter()) == {}
    (kept,) = mail.context.store.find("messages")
    assert (kept["from"], kept["to"], kept["cc"], kept["bcc"]) == (
        "ada@a.example", ["ben@b.example"], ["chi@c.example"], ["dee@d.example"],
    )  # fmt: skip
    assert kept["subject"] == "Grüße, und mehr"
    assert kept["text"].splitlines() == ["Hello", ".", "..dots", ".end"]
    assert kept["html"].strip() == "<p>Hello</p>"
    assert [(f["filename"], f["size"]) for f in kept["attachments"]] == [("ä.bin", 3)]
    assert mail.context.store.blob(kept["attachments"][0]["blob"]) == b"\x00\x01\x02"
    assert b"Bcc" not in (mail.context.store.blob(kept["raw"]) or b"")


def test_client_starts_tls_and_logs_in_and_no_password_is_kept(
    mail: Mail, port: int, tmp_path: Path
) -> None:
    trusting = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    with smtplib.SMTP("localhost", port, timeout=10) as client:
        client.starttls(context=trusting)
        client.ehlo()
        assert "starttls" not in client.esmtp_features
        client.login("ada", "correct-horse")
        client.send_message(_letter())
    (kept,) = mail.context.store.find("messages")
    assert (kept["login"], kept["tls"]) == ("ada", True)
    assert "correct-horse" not in str(kept)


@pytest.mark.parametrize("method", ["auth_plain", "auth_login"])
def test_both_mechanisms_let_anybody_in(port: int, method: str) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        client.ehlo()
        client.user, client.password = "ada", "pw"
        for is_initial in (True, False):
            client.rset()
            name = method.removeprefix("auth_").upper()
            code, _ = client.auth(name, getattr(client, method), initial_response_ok=is_initial)
            assert code == 235
            client.close()
            client.connect("127.0.0.1", port)
            client.ehlo()


def test_address_that_bounces_is_refused_and_the_others_get_the_letter(
    mail: Mail, port: int
) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        refused = client.sendmail(
            "a@a.example", ["x@BAD.example", "b@b.example"], "Subject: s\n\nt"
        )
        assert refused["x@BAD.example"][0] == 550
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            client.sendmail("a@a.example", ["x@bad.example"], "Subject: s\n\nt")
    assert [one["bcc"] for one in mail.context.store.find("messages")] == [["b@b.example"]]


def test_letter_that_is_larger_than_announced_is_refused(port: int) -> None:
    with (
        smtplib.SMTP("127.0.0.1", port, timeout=10) as client,
        pytest.raises(smtplib.SMTPSenderRefused) as refused,
    ):
        client.ehlo()
        client.sendmail("a@a.example", ["b@b.example"], b"x" * 70 + b"\n" * (17 << 20))
    assert refused.value.smtp_code == 552


def test_names_that_are_not_ascii_go_through(mail: Mail, port: int) -> None:
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "jörg@ä.example", "ünal@b.example", "ß"
    letter.set_content("x")
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        client.send_message(letter)
    (kept,) = mail.context.store.find("messages")
    assert (kept["from"], kept["to"], kept["subject"]) == (
        "jörg@ä.example", ["ünal@b.example"], "ß",
    )  # fmt: skip
