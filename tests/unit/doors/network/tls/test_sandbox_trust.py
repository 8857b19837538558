"""What a sandbox is given to trust, tried with the programs that it is meant for."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from paddock.doors.network.tls import sandbox_trust as trust
from paddock.doors.network.tls.authority import Authority
from paddock.doors.network.tls.sandbox_trust import TrustPaths, bundle, environment, java_truststore

ANSWER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
STRICT = (
    "import ssl, sys, urllib.request as r; c = ssl.create_default_context();"
    " c.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT; r.urlopen(sys.argv[1], context=c)"
)
NODE = "require('https').get(process.argv[1], a => a.resume()).on('error', e => { throw e })"
JAVA = """
class Get {
    public static void main(String[] words) throws Exception {
        var got = (java.net.HttpURLConnection) new java.net.URL(words[0]).openConnection();
        System.out.println(got.getResponseCode());
    }
}
"""


class Server:
    """A web server on loopback, ended by a run's authority, that counts whom it understood."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listener.getsockname()[1]}/"
        self.requests: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.settimeout(20)
                threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), self._context.wrap_socket(sock, server_side=True) as tls:
            self.requests.append(tls.recv(65536))
            tls.sendall(ANSWER)


@dataclass(frozen=True, slots=True)
class Program:
    """A command that fetches a URL, and the one variable that it is to learn its trust from."""

    variable: str
    argv: tuple[str, ...]
    extra: tuple[str, ...] = ()  # other variables that it needs, with {} for the URL


PROGRAMS = {
    "curl": Program("CURL_CA_BUNDLE", ("curl", "-sS", "{}")),
    "curl by openssl": Program("SSL_CERT_FILE", ("curl", "-sS", "{}")),
    "openssl": Program(
        "SSL_CERT_FILE",
        ("openssl", "s_client", "-x509_strict", "-verify_return_error", "-connect", "{}"),
    ),
    "python, strict": Program("SSL_CERT_FILE", (sys.executable, "-c", STRICT, "{}")),
    "requests": Program(
        "REQUESTS_CA_BUNDLE",
        (sys.executable, "-c", "import requests, sys; requests.get(sys.argv[1])", "{}"),
    ),
    "httpx": Program(
        "SSL_CERT_FILE",
        (sys.executable, "-c", "import httpx, sys; httpx.get(sys.argv[1])", "{}"),
    ),
    "pip": Program(
        "PIP_CERT",
        (sys.executable, "-m", "pip", "download", "--retries=0", "--index-url={}", "nothing"),
        ("PIP_DISABLE_PIP_VERSION_CHECK=1",),
    ),
    "node": Program("NODE_EXTRA_CA_CERTS", ("node", "-e", NODE, "{}")),
    "npm": Program(
        "npm_config_cafile", ("npm", "ping", "--registry={}"), ("npm_config_fetch_retries=0",)
    ),
    "git": Program("GIT_SSL_CAINFO", ("git", "ls-remote", "{}")),
    "go": Program(
        "SSL_CERT_FILE",
        ("go", "list", "-m", "example.com/nothing@latest"),
        ("GOPROXY={}", "GONOSUMDB=*", "GOFLAGS=-mod=mod", "GO111MODULE=on"),
    ),
    "cargo": Program(
        "CARGO_HTTP_CAINFO",
        ("cargo", "search", "nothing", "--registry=here"),
        ("CARGO_REGISTRIES_HERE_INDEX=sparse+{}", "CARGO_NET_RETRY=0"),
    ),
    "java": Program("JAVA_TOOL_OPTIONS", ("java", "Get.java", "{}")),
}


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    server = Server(authority.context_for("localhost"))
    yield server
    server.close()


def placed(directory: Path, authority: Authority) -> TrustPaths:
    """The files of a run, where the programs find them."""
    truststore = java_truststore(authority.ca_pem, with_roots=False)
    assert truststore is not None
    places = directory / "ca-bundle.pem", directory / "ca.pem", directory / "ca.p12"
    for place, data in zip(
        places, (bundle(authority.ca_pem), authority.ca_pem, truststore), strict=True
    ):
        place.write_bytes(data)
    return TrustPaths(*map(str, places))


def run(program: Program, url: str, directory: Path, paths: TrustPaths) -> str:
    """What the program said. It gets its one variable, and nothing of this process'."""
    if shutil.which(program.argv[0]) is None:
        pytest.skip(f"{program.argv[0]} is not installed")
    (directory / "Get.java").write_text(JAVA)
    place = url.removeprefix("https://").rstrip("/") if "s_client" in program.argv else url
    env = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    # The home is another one, and rustup looks for its compilers there.
    env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME") or os.path.expanduser("~/.rustup")
    env |= dict(variable.format(url).split("=", 1) for variable in program.extra)
    env[program.variable] = environment(paths)[program.variable]
    done = subprocess.run(
        [word.replace("{}", place) for word in program.argv],
        input="GET / HTTP/1.0\r\n\r\n",
        env=env,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_trusts_the_run_by_its_variable(
    name: str, authority: Authority, server: Server, tmp_path: Path
) -> None:
    said = run(PROGRAMS[name], server.url, tmp_path, placed(tmp_path, authority))
    assert any(server.requests), said


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_not_trust_another_run(name: str, server: Server, tmp_path: Path) -> None:
    said = run(PROGRAMS[name], server.url, tmp_path, placed(tmp_path, Authority()))
    assert not any(server.requests), said


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's bundle of a host: one root."""
    path = tmp_path / "system.pem"
    path.write_bytes(b"# the only root\n" + Authority().ca_pem)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(trust, "SYSTEM_BUNDLES", ("/nowhere.pem", str(path)))
    return path


def test_bundle_has_the_authority_and_the_systems_roots(roots: Path) -> None:
    ca_pem = Authority().ca_pem
    certificates = x509.load_pem_x509_certificates(bundle(ca_pem))
    assert len(certificates) == 2
    assert bundle(ca_pem) == ca_pem + roots.read_bytes()


def test_bundle_follows_the_system(roots: Path) -> None:
    ca_pem, renewed = Authority().ca_pem, Authority().ca_pem * 2
    bundle(ca_pem)
    roots.write_bytes(renewed)
    assert bundle(ca_pem) == ca_pem + renewed


def test_bundle_that_the_host_names_comes_first(
    roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named.pem"
    named.write_bytes(Authority().ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    assert trust.system_bundle() == str(named)
    named.unlink()
    assert trust.system_bundle() == str(roots)


def test_host_without_a_bundle_gives_the_authority_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(trust, "SYSTEM_BUNDLES", ("/nowhere.pem",))
    ca_pem = Authority().ca_pem
    assert bundle(ca_pem) == ca_pem


@pytest.mark.parametrize(("with_roots", "count"), [(True, 2), (False, 1)])
def test_truststore_has_the_roots_where_they_are_wanted(
    with_roots: bool, count: int, roots: Path
) -> None:
    from cryptography.hazmat.primitives.serialization import pkcs12

    roots.write_bytes(roots.read_bytes() + NOT_A_ROOT)
    data = java_truststore(Authority().ca_pem, with_roots=with_roots)
    assert data is not None
    assert len(pkcs12.load_pkcs12(data, None).additional_certs) == count


NOT_A_ROOT = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_variables_that_replace_roots_get_the_bundle_and_others_the_certificate_alone() -> None:
    variables = environment(TrustPaths("/all.pem", "/one.pem"))
    assert variables["SSL_CERT_FILE"] == "/all.pem"
    assert variables["NODE_EXTRA_CA_CERTS"] == variables["DENO_CERT"] == "/one.pem"
    assert "JAVA_TOOL_OPTIONS" not in variables


def test_proxy_is_offered_in_both_spellings_but_not_for_loopback() -> None:
    variables = environment(TrustPaths())
    spellings = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy")
    assert {variables[name] for name in spellings} == {"http://198.18.0.1:3128"}
    for name in ("NO_PROXY", "no_proxy"):
        assert variables[name].split(",") == ["localhost", "127.0.0.1", "::1"]
