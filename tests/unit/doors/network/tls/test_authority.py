"""The authority of a run: who believes it, who does not, and what it answers to a wrong name."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from paddock.doors.network.tls import authority as authority_module
from paddock.doors.network.tls.authority import Authority, EndedObject

NAME = "api.example.com"
LONG_NAME = ".".join(["a" * 60] * 4) + ".example"
DAY_S = 24 * 3600.0
OTHER = "evil.example.net"


def trusting(authority: Authority, *alpn: str) -> ssl.SSLContext:
    """A client as strict as Python 3.13 is by default."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.ca_pem.decode())
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def careless() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Meeting:
    """A client and a server that talk through memory."""

    def __init__(
        self,
        server: ssl.SSLContext,
        client: ssl.SSLContext,
        name: str | None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        ended = server.wrap_bio(up, down, server_side=True)
        assert isinstance(ended, EndedObject)
        self.server = ended
        self.client = client.wrap_bio(down, up, server_hostname=name, session=session)

    def shake_hands(self) -> Meeting:
        waiting = [self.client, self.server]
        for _ in range(8):
            waiting = [side for side in waiting if not _is_done(side)]
            if not waiting:
                return self
        raise AssertionError("the handshake does not end")

    def session(self) -> ssl.SSLSession:
        """In TLS 1.3 it comes with the first read."""
        with pytest.raises(ssl.SSLWantReadError):
            self.client.read()
        assert self.client.session is not None
        return self.client.session


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def refusal(meeting: Meeting) -> str:
    """What the client is told."""
    with pytest.raises(ssl.SSLError):
        meeting.shake_hands()
    with pytest.raises(ssl.SSLError) as caught:
        meeting.client.do_handshake()
    return str(caught.value.reason)


@pytest.mark.parametrize("name", [NAME, LONG_NAME, "xn--bcher-kva.example", "10.1.2.3", "fd00::1"])
def test_strict_client_accepts_the_leaf_of_any_kind_of_host(name: str) -> None:
    authority = Authority()
    meeting = Meeting(authority.context_for(name), trusting(authority), name).shake_hands()
    assert meeting.client.getpeercert()


@pytest.mark.parametrize("name", [NAME, LONG_NAME])
def test_openssl_finds_nothing_to_complain_about(name: str, tmp_path: Path) -> None:
    authority = Authority()
    meeting = Meeting(authority.context_for(name), trusting(authority), name).shake_hands()
    leaf = meeting.client.getpeercert(binary_form=True)
    assert leaf
    (tmp_path / "leaf.pem").write_text(ssl.DER_cert_to_PEM_cert(leaf))
    (tmp_path / "ca.pem").write_bytes(authority.ca_pem)
    words = "openssl verify -x509_strict -check_ss_sig -purpose sslserver -CAfile ca.pem"
    found = subprocess.run(
        [*words.split(), "-verify_hostname", name, "leaf.pem"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert found.stdout.strip() == "leaf.pem: OK", found.stderr


def test_authority_may_sign_servers_but_no_other_authority() -> None:
    ca = x509.load_pem_x509_certificate(Authority().ca_pem)
    limits = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage)
    assert limits.critical and limits.value.ca and limits.value.path_length == 0
    assert usage.critical and usage.value.key_cert_sign and not usage.value.digital_signature


def test_two_runs_do_not_trust_each_other() -> None:
    mine, other = Authority(), Authority()
    with pytest.raises(ssl.SSLCertVerificationError):
        Meeting(mine.context_for(NAME), trusting(other), NAME).shake_hands()


def test_leaf_is_for_its_own_name_only() -> None:
    authority = Authority()
    server = authority.context_for(NAME)
    server.sni_callback = None
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        Meeting(server, trusting(authority), f"www.{NAME}").shake_hands()


@pytest.mark.parametrize("asked", [OTHER, f"x.{NAME}", f"{NAME}.evil.net", "a b", "127.1", "*.x.y"])
def test_client_that_asks_for_another_name_is_refused_and_remembered(asked: str) -> None:
    meeting = Meeting(Authority().context_for(NAME), careless(), asked)
    assert "UNRECOGNIZED_NAME" in refusal(meeting)
    assert meeting.server.asked == asked
    assert meeting.server.is_mismatch


def test_session_of_one_name_is_no_way_to_another() -> None:
    authority, client = Authority(), careless()
    server = authority.context_for(NAME)
    session = Meeting(server, client, NAME).shake_hands().session()
    meeting = Meeting(server, client, OTHER, session)
    assert "UNRECOGNIZED_NAME" in refusal(meeting)
    assert meeting.server.is_mismatch


def test_resumed_session_of_tls_1_2_counts_as_the_name_that_it_began_with() -> None:
    authority, client = Authority(), careless()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    server = authority.context_for(NAME)
    session = Meeting(server, client, NAME).shake_hands().session()
    meeting = Meeting(server, client, OTHER, session).shake_hands()
    assert meeting.client.session_reused
    assert meeting.server.asked == NAME


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_session_of_one_name_does_not_resume_at_another(version: ssl.TLSVersion) -> None:
    authority, client = Authority(), careless()
    client.maximum_version = version
    session = Meeting(authority.context_for(NAME), client, NAME).shake_hands().session()
    meeting = Meeting(authority.context_for(OTHER), client, OTHER, session).shake_hands()
    assert not meeting.client.session_reused
    assert meeting.server.asked == OTHER


@pytest.mark.parametrize("asked", [NAME.upper(), "Api.Example.Com", f"{NAME}."])
def test_other_spelling_of_the_name_is_the_name(asked: str) -> None:
    meeting = Meeting(Authority().context_for(NAME), careless(), asked).shake_hands()
    assert meeting.server.asked == asked
    assert not meeting.server.is_mismatch


def test_client_that_asks_for_no_name_is_served() -> None:
    meeting = Meeting(Authority().context_for(NAME), careless(), None).shake_hands()
    assert meeting.server.asked is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_name_that_is_not_ascii_is_refused() -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = careless().wrap_bio(down, up, server_hostname=NAME)
    assert not _is_done(client)
    incoming = ssl.MemoryBIO()
    incoming.write(up.read().replace(b"api.", b"\xff\xfe\x80."))
    server = Authority().context_for(NAME).wrap_bio(incoming, down, server_side=True)
    with pytest.raises(ssl.SSLError, match="CALLBACK_FAILED"):
        server.do_handshake()


def test_versions_before_1_2_are_refused() -> None:
    client = careless()
    client.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        Meeting(Authority().context_for(NAME), client, NAME).shake_hands()


def test_protocol_is_agreed_on_where_both_know_it_and_left_open_otherwise() -> None:
    authority = Authority()
    both = ("h2", "http/1.1")
    for offered, agreed in ((both, "h2"), (("http/1.1",), "http/1.1"), (("gopher",), None)):
        server = authority.context_for(NAME, alpn=both)
        meeting = Meeting(server, trusting(authority, *offered), NAME).shake_hands()
        assert meeting.server.selected_alpn_protocol() == agreed


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_second_connection_resumes_the_session(version: ssl.TLSVersion) -> None:
    authority = Authority()
    client = trusting(authority)
    client.maximum_version = version
    first = Meeting(authority.context_for(NAME), client, NAME).shake_hands()
    second = Meeting(authority.context_for(NAME), client, NAME, first.session()).shake_hands()
    assert second.client.session_reused


def test_context_is_made_once_for_a_name_and_its_protocols() -> None:
    authority = Authority()
    first = authority.context_for(NAME, alpn=("h2",))
    assert authority.context_for(NAME, alpn=("h2",)) is first
    assert authority.context_for(NAME) is not first
    assert authority.context_for(OTHER, alpn=("h2",)) is not first


def test_names_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "MAX_CONTEXTS", 3)
    authority = Authority()
    first, second = (authority.context_for(f"{label}.example") for label in "ab")
    for number in range(2):
        assert authority.context_for("a.example") is first
        authority.context_for(f"{number}.example")
    assert len(authority._contexts) == 3
    assert authority.context_for("a.example") is first
    assert authority.context_for("b.example") is not second


def test_leaf_is_renewed_before_it_expires() -> None:
    now = time.time()
    authority = Authority(clock=lambda: now)
    first = authority.context_for(NAME)
    now += DAY_S / 2
    assert authority.context_for(NAME) is first
    now += DAY_S
    assert authority.context_for(NAME) is not first


def test_leaf_of_long_ago_is_expired() -> None:
    authority = Authority(clock=lambda: time.time() - 7 * DAY_S)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        Meeting(authority.context_for(NAME), trusting(authority), NAME).shake_hands()


def test_clock_that_went_back_gets_a_leaf_of_its_own_time() -> None:
    now = time.time() + 30 * DAY_S
    authority = Authority(clock=lambda: now)
    first = authority.context_for(NAME)
    now -= 30 * DAY_S
    assert authority.context_for(NAME) is not first


def test_threads_that_come_first_together_get_one_authority() -> None:
    authority, seen = Authority(), set()
    gate = threading.Barrier(8)

    def look() -> None:
        gate.wait(10)
        seen.add(authority.ca_pem)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == 1


def test_what_is_handed_out_has_no_key_in_it() -> None:
    authority = Authority()
    authority.context_for(NAME)
    assert b"PRIVATE" not in authority.ca_pem
    assert "PRIVATE" not in repr(authority._made)


def test_no_descriptor_with_a_key_stays_open() -> None:
    authority = Authority()
    authority.context_for(NAME)
    before = set(os.listdir("/proc/self/fd"))
    authority.context_for(OTHER)
    assert set(os.listdir("/proc/self/fd")) == before


WRITES = """
import os, sys
written = []
def hook(event, args):
    if event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(args[0])
sys.addaudithook(hook)
from paddock.doors.network.tls.authority import Authority
authority = Authority()
authority.ca_pem
authority.context_for("api.example.com")
assert not written, written
open("proof", "w").close()
assert written, "the hook sees nothing"
"""


def test_keys_are_written_to_no_file(tmp_path: Path) -> None:
    places = {name: str(tmp_path) for name in ("HOME", "TMPDIR", "PADDOCK_HOME")}
    subprocess.run(
        [sys.executable, "-B", "-c", WRITES],
        cwd=tmp_path,
        env={**os.environ, **places, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=60,
    )
    assert os.listdir(tmp_path) == ["proof"]
