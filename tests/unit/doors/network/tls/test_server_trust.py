"""Dialling real servers: who is trusted, and what is said about those who are not."""

from __future__ import annotations

import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from paddock.doors.network.tls import server_trust as upstream_tls
from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.tls.server_trust import client_context, why_not
from paddock.model.errors import InvalidInput

NAME = "api.example.com"
MONTH_S = 30 * 24 * 3600.0
LONG_S = 500 * 24 * 3600.0  # more than a replay goes back


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """The variables of OpenSSL are read once for each context."""
    upstream_tls._made.cache_clear()
    yield
    upstream_tls._made.cache_clear()


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def ca(authority: Authority, tmp_path: Path) -> str:
    return written(tmp_path / "ca.pem", authority.ca_pem)


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def serving(authority: Authority, name: str = NAME) -> ssl.SSLContext:
    """A server that has its certificate and does not care what it is asked for."""
    context = authority.context_for(name, alpn=("h2", "http/1.1"))
    context.sni_callback = None
    return context


def meet(client: ssl.SSLContext, server: ssl.SSLContext, name: str = NAME) -> ssl.SSLObject:
    """The client's side after the handshake. Raises what the client gets to see."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(up, down, server_side=True)
    here = client.wrap_bio(down, up, server_hostname=name)
    for _ in range(4):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                if side is here:
                    raise
    return here


def complaint(client: ssl.SSLContext, server: ssl.SSLContext, name: str = NAME) -> str:
    with pytest.raises(ssl.SSLError) as caught:
        meet(client, server, name)
    return why_not(caught.value)


def test_authority_in_the_users_file_is_trusted(authority: Authority, ca: str) -> None:
    here = meet(client_context(ca, ("h2", "http/1.1")), serving(authority))
    assert here.selected_alpn_protocol() == "h2"


def test_address_is_checked_like_a_name(authority: Authority, ca: str) -> None:
    client = client_context(ca, ())
    assert meet(client, serving(authority, "10.0.0.5"), "10.0.0.5").getpeercert()
    assert "another address" in complaint(client, serving(authority, "10.0.0.5"), "10.0.0.6")


def test_unknown_authority_is_refused(authority: Authority) -> None:
    assert "not trusted here" in complaint(client_context(None, ()), serving(authority))


def test_authority_of_one_file_is_not_trusted_by_another(ca: str) -> None:
    assert "not trusted here" in complaint(client_context(ca, ()), serving(Authority()))


def test_certificate_for_another_host_is_refused(authority: Authority, ca: str) -> None:
    server = serving(authority, "other.example.com")
    assert complaint(client_context(ca, ()), server) == "its certificate is for another host"


@pytest.mark.parametrize(("offset_s", "words"), [(-MONTH_S, "expired"), (LONG_S, "not valid yet")])
def test_certificate_of_another_time_is_refused(
    offset_s: float, words: str, tmp_path: Path
) -> None:
    late = Authority(clock=lambda: time.time() + offset_s)
    ca = written(tmp_path / "ca.pem", late.ca_pem)
    assert words in complaint(client_context(ca, ()), serving(late))


def test_self_signed_server_is_refused_until_its_certificate_is_named(tmp_path: Path) -> None:
    server, certificate = self_signed(tmp_path)
    assert "signed by itself" in complaint(client_context(None, ()), server)
    assert meet(client_context(certificate, ()), server).getpeercert()


def test_certificate_with_only_a_common_name_is_refused(tmp_path: Path) -> None:
    server, certificate = self_signed(tmp_path, alternative=False)
    assert "another host" in complaint(client_context(certificate, ()), server)


def test_server_without_tls_is_named_as_such() -> None:
    incoming = ssl.MemoryBIO()
    client = client_context(None, ()).wrap_bio(incoming, ssl.MemoryBIO(), server_hostname=NAME)
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    assert why_not(caught.value) == "it does not speak TLS on this port"


def test_server_that_hangs_up_is_named_as_such() -> None:
    incoming = ssl.MemoryBIO()
    client = client_context(None, ()).wrap_bio(incoming, ssl.MemoryBIO(), server_hostname=NAME)
    incoming.write_eof()
    with pytest.raises(ssl.SSLError) as caught:
        client.do_handshake()
    assert "closed the connection" in why_not(caught.value)


def test_server_with_old_tls_is_refused(authority: Authority, ca: str) -> None:
    server = serving(authority)
    server.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        server.minimum_version = server.maximum_version = ssl.TLSVersion.TLSv1_1
    assert "no version of TLS" in complaint(client_context(ca, ()), server)


def test_server_that_does_not_know_the_name_is_named_as_such(authority: Authority, ca: str) -> None:
    server = authority.context_for("other.example.com")
    assert "does not know this name" in complaint(client_context(ca, ()), server)


def test_server_that_wants_a_certificate_is_named_as_such(authority: Authority, ca: str) -> None:
    server = serving(authority)
    server.verify_mode = ssl.CERT_REQUIRED
    here = meet(client_context(ca, ()), server)
    with pytest.raises(ssl.SSLError) as caught:
        here.read()
    assert "certificate of the client" in why_not(caught.value)


def test_reason_without_words_of_its_own_is_still_told() -> None:
    error = ssl.SSLError(1, "[SSL] something")
    error.reason = "SOMETHING_ODD"
    assert why_not(error) == "TLS failed: something odd"


def test_systems_bundle_is_trusted(
    authority: Authority, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", ca)
    assert meet(client_context(None, ()), serving(authority)).getpeercert()


def test_systems_directory_of_roots_is_trusted(
    authority: Authority, ca: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = os.path.dirname(ca)
    subprocess.run(["openssl", "rehash", directory], check=True, timeout=30)
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    monkeypatch.setenv("SSL_CERT_DIR", directory)
    assert meet(client_context(None, ()), serving(authority)).getpeercert()


def test_bundle_is_found_where_openssl_looks_in_the_wrong_places(
    authority: Authority, ca: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setattr(
        "paddock.doors.network.tls.sandbox_trust.SYSTEM_BUNDLES", ("/nowhere.pem", ca)
    )
    assert meet(client_context(None, ()), serving(authority)).getpeercert()


def test_context_is_made_once_for_its_files_and_protocols(ca: str) -> None:
    first = client_context(ca, ("h2",))
    assert client_context(ca, ("h2",)) is first
    assert client_context(ca, ()) is not first
    assert client_context(None, ("h2",)) is not first


def test_file_that_changes_is_read_again(authority: Authority, ca: str) -> None:
    client_context(ca, ())
    other = Authority()
    written(Path(ca), other.ca_pem + other.ca_pem)
    assert meet(client_context(ca, ()), serving(other)).getpeercert()
    assert "not trusted here" in complaint(client_context(ca, ()), serving(authority))


@pytest.mark.parametrize("text", [None, b"", b"not a certificate"])
def test_file_without_certificates_is_refused(text: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(InvalidInput, match="cannot be used"):
        client_context(str(path), ())


def self_signed(directory: Path, *, alternative: bool = True) -> tuple[ssl.SSLContext, str]:
    """A server of somebody who asked no authority, and the path of its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    if alternative:
        names = x509.SubjectAlternativeName([x509.DNSName(NAME)])
        builder = builder.add_extension(names, critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written(directory / "server.pem", pem + private))
    return context, written(directory / "certificate.pem", pem)
