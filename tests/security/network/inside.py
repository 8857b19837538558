"""What an attacker inside of a sandbox says, and what the journal has of it. No test lives here."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from paddock import Sandbox
from paddock.journal.log import RunLog
from paddock.model.steps import Step
from paddock.state.home import Home
from security.attack import probe

PROXY = ("198.18.0.1", 3128)
# Bytes to a place and all that comes back; TLS without asking who answers.
SAY = """
import base64, select, socket, ssl
def say(host, port, data, sni=None, tunnel=None, alpn=None, wait=20, quiet=2,
        is_done=False):
    sock = socket.create_connection((host, port), wait)
    if tunnel:
        sock.sendall(tunnel)
        answer = b""
        while b"\\r\\n\\r\\n" not in answer:
            more = sock.recv(65536)
            if not more:
                return answer
            answer += more
        if b" 200 " not in answer.split(b"\\r\\n")[0]:
            return answer
    if sni is not None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        sock = context.wrap_socket(sock, server_hostname=sni or None)
    sock.sendall(data)
    if is_done:
        sock.shutdown(socket.SHUT_WR)
    answer = b""
    while True:
        try:
            more = sock.recv(65536)
            sock.settimeout(quiet)
        except TimeoutError:
            if not answer:
                raise
            return answer  # the connection is kept for a next request
        except (ConnectionResetError, ssl.SSLError) as error:
            return answer + b"<cut>"
        if not more:
            return answer
        answer += more
def attempt_say(*words, **more):
    try:
        return base64.b64encode(say(*words, **more)).decode()
    except (OSError, ssl.SSLError) as error:
        return "!" + type(error).__name__ + " " + str(error)
"""
_SAY_ALL = (
    SAY
    + """
for name, words in json.load(open(sys.argv[1])).items():
    for key in ("data", "tunnel"):
        if key in words:
            words[key] = base64.b64decode(words[key])
    found[name] = attempt_say(words.pop("host"), words.pop("port"), words.pop("data"), **words)
"""
)


def say(box: Sandbox, **words: Any) -> bytes:
    """Says bytes to `host` and `port`; gives the answer, or `!` and why there was none."""
    return say_all(box, {"it": words})["it"]


def say_all(box: Sandbox, all_words: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    """Several things one after the other, each on a connection of its own."""
    plain = {
        name: {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v
               for k, v in words.items()}
        for name, words in all_words.items()
    }  # fmt: skip
    box.files.write("/tmp/words.json", json.dumps(plain))
    found = probe(box, _SAY_ALL, "/tmp/words.json", timeout=100)
    return {
        name: said.encode() if said.startswith("!") else base64.b64decode(said)
        for name, said in found.items()
    }


def status(answer: bytes) -> int:
    """Of an HTTP answer; 0 when there was none."""
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0


def run_directory(box: Sandbox) -> Path:
    return Home.find().runs / box.sandbox_id


def steps(box: Sandbox, *kinds: str) -> list[Step]:
    """The journal's steps of these kinds."""
    if not run_directory(box).exists():
        return []  # nothing has happened yet
    return [step for step in RunLog(run_directory(box)).steps() if step.kind in kinds]


def refused(box: Sandbox, *kinds: str) -> list[dict[str, Any]]:
    """The arguments of all steps of these kinds that were blocked."""
    blocked = (step for step in steps(box, *kinds) if step.verdict == "block")
    return [dict(step.arguments) for step in blocked]


def alerts(box: Sandbox, name: str) -> list[dict[str, Any]]:
    """What all alerts of a name are about."""
    return [dict(one.about) for one in box.alerts() if one.name == name]


def get(target: str, host: str, *lines: str, method: str = "GET") -> bytes:
    """A request of HTTP/1.1 that asks for one answer."""
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *lines, "", ""]
    return "\r\n".join(head).encode("latin-1")
