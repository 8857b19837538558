"""Worlds and stand-ins that must not touch each other, and what is left of one that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from paddock import Sandbox
from paddock.model.errors import InvalidInput
from paddock.state.home import Home
from paddock.world.saved_worlds import open_saved_world
from security.attack import eventually, probe
from security.network.inside import get, say, status
from security.world.conftest import MakeWorld

KEY = "Authorization: Bearer sk_test_inside"
FORM = "Content-Type: application/x-www-form-urlencoded"
LONG = ".".join(["a" * 50, "b" * 50])
WRITE = """
import http.client
link = http.client.HTTPConnection("pay.example", timeout=30)
head = {"Authorization": "Bearer sk_test_inside",
        "Content-Type": "application/x-www-form-urlencoded"}
for number in range(int(sys.argv[1])):
    link.request("POST", "/v1/customers", f"email=a{number}@example.com", head)
    answer = link.getresponse()
    found[str(number)] = answer.status
    answer.read()
"""
# A process that owns a sandbox, whose agent writes while it is forked.
HOST = """
import sys
from paddock import Sandbox
run = {"service": "command", "run": ["sleep", "4711"], "port": 9000}
box = Sandbox.create(world={"pay.example": "payments", "crm.example": run})
program = sys.stdin.read()
box.commands.run(["python3", "-c", program, "1000000"], background=True)
print(box.sandbox_id, flush=True)
while True:
    print(box.fork().sandbox_id, flush=True)
"""


def _post(email: str, host: str = "pay.example") -> bytes:
    body = f"email={email}".encode()
    lines = (KEY, FORM, f"Content-Length: {len(body)}")
    return get("/v1/customers", host, *lines, method="POST") + body


def _listed(box: Sandbox, host: str = "pay.example") -> list[str]:
    said = say(box, host=host, port=80, data=get("/v1/customers", host, KEY))
    assert status(said) == 200
    body = said.rpartition(b"\r\n\r\n")[2]
    return [one["email"] for one in json.loads(body)["data"]]


def test_long_names_that_begin_alike_do_not_share_a_memory(make_world: MakeWorld) -> None:
    one, other = f"{LONG}.one.example", f"{LONG}.two.example"
    box = make_world({one: "payments", other: "payments"})
    assert status(say(box, host=one, port=80, data=_post("a@example.com", one))) == 200
    assert _listed(box, one) == ["a@example.com"]
    assert _listed(box, other) == []


@pytest.mark.parametrize(
    "place", ["../../etc", "..", "a/../b", "a\\b", ".hidden", "a\0b", "/etc:80"]
)
def test_no_name_of_a_stand_in_is_a_path(make_world: MakeWorld, place: str) -> None:
    with pytest.raises(InvalidInput):
        make_world({place: "payments"})


def test_two_sandboxes_and_a_fork_have_a_world_each(make_world: MakeWorld) -> None:
    box, stranger = make_world({"pay.example": "payments"}), make_world({"pay.example": "payments"})
    say(box, host="pay.example", port=80, data=_post("first@example.com"))
    with box.fork() as fork:
        say(box, host="pay.example", port=80, data=_post("parent@example.com"))
        say(fork, host="pay.example", port=80, data=_post("fork@example.com"))
        assert _listed(box) == ["parent@example.com", "first@example.com"]
        assert _listed(fork) == ["fork@example.com", "first@example.com"]
    assert _listed(stranger) == []


def test_a_fork_in_the_middle_of_writes_loses_none_and_is_whole(make_world: MakeWorld) -> None:
    box = make_world({"pay.example": "payments"})
    found: dict[str, int] = {}
    writing = threading.Thread(target=lambda: found.update(probe(box, WRITE, "300")))
    writing.start()
    forks = [box.fork() for _ in range(3)]
    writing.join()
    assert set(found.values()) == {200}
    for fork in forks:
        _listed(fork)
        assert fork.broken_invariants() == {}
        fork.kill()


def test_a_host_that_is_killed_leaves_worlds_that_can_be_read_and_nothing_that_runs() -> None:
    words = [sys.executable, "-c", HOST]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None and host.stdout is not None
        host.stdin.write("import sys\nfound = {}\n" + WRITE)
        host.stdin.close()
        runs = [host.stdout.readline().strip() for _ in range(3)]
        own = _descendants(host.pid)
        host.send_signal(signal.SIGKILL)
    assert own
    eventually(lambda: not [pid for pid in own if _is_alive(pid)], 20, "all of it ends")
    for run in runs:
        with open_saved_world(Home.find().root, run) as world:
            assert world.service("pay.example").documents >= 0
            assert not world.is_ended


def _descendants(pid: int) -> list[int]:
    found = []
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for one in child.read_text().split():
            found += [int(one), *_descendants(int(one))]
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
