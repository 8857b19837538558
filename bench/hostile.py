"""Measures what a sandbox that floods its host costs another one of the same process.

The flood is also that of the soak test: each kind of it is a loop in a process of its own inside.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from bench.figures import Figure
from bench.rig import TRUE, Rig
from paddock import Sandbox
from paddock.model.errors import PaddockError
from paddock.policy.file import load

POLICY = """\
version: 1
agent: hostile
stage: broad
sandbox: {limits: {memory: 512MiB, pids: 128, disk: 256MiB, output: 64MiB}}
world:
  api.stripe.com: payments
network: {allow: ["api.stripe.com:443", "api.stripe.com:80"]}
rules:
  - {id: inside, match: {kind: [exec, file, code]}, decide: allow}
  - id: no-uploads
    match: {kind: http, method: POST, path: /upload}
    decide: block
    why: Nothing is uploaded.
record: {budget: 64MiB}
"""
BUDGET_BYTES = 64 << 20

FLOODS = ("requests", "json", "unfinished", "names", "programs", "output", "files")

# Started as `python3 flood.py SECONDS KIND ...`: one process for each kind, until the time is over.
PROGRAM = r"""
import json, os, random, socket, subprocess, sys, time

until = time.monotonic() + float(sys.argv[1])
HEAD = ("POST /upload HTTP/1.1\r\nHost: api.stripe.com\r\nContent-Type: {}\r\n"
        "Content-Length: {}\r\n\r\n")

def connect():
    sock = socket.create_connection(("api.stripe.com", 80), timeout=10)
    sock.settimeout(10)
    return sock

def post(kind, body):
    with connect() as sock:
        sock.sendall(HEAD.format(kind, len(body)).encode() + body)
        sock.recv(65536)

def requests():
    post("application/json", json.dumps({"data": os.urandom(500_000).hex()}).encode())

def json_values():
    name = str(random.random())
    post("application/json", json.dumps({name: [[number] for number in range(140_000)]}).encode())

def unfinished():
    held = []
    for _ in range(60):
        sock = connect()
        sock.sendall(HEAD.format("application/json", 1 << 20).encode() + b"[" + b"1," * 300_000)
        held.append(sock)
    time.sleep(1)

def names():
    try:
        socket.getaddrinfo(f"{random.randrange(1 << 60)}.example", 443)
    except OSError:
        pass

def programs():
    subprocess.call(["true", str(random.random()), "x" * 1000])

def output():
    os.write(1, b"o" * 65536)

def files():
    name = f"flood-{random.randrange(50)}"
    with open(name, "wb") as file:
        file.write(os.urandom(1 << 20))
    if random.random() < 0.5:
        os.unlink(name)

KINDS = {"requests": requests, "json": json_values, "unfinished": unfinished, "names": names,
         "programs": programs, "output": output, "files": files}
children = []
for kind in sys.argv[2:]:
    pid = os.fork()
    if not pid:
        while time.monotonic() < until:
            try:
                KINDS[kind]()
            except OSError:
                time.sleep(0.01)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""


def hostile_delay(rig: Rig) -> list[Figure]:
    """The slowest `true` of a sandbox, alone and beside one that floods the same process."""
    flood_s = 20.0 if not rig.is_quick else 6.0
    with Sandbox.create(timeout=120) as box:
        alone = slowest_command(box, flood_s / 4)
        with flooding(flood_s):
            beside = slowest_command(box, flood_s)
    note = f"{', '.join(FLOODS)} at once for {flood_s:g} s"
    return [
        Figure(
            name="hostile-delay",
            title="slowest command beside a hostile sandbox of the same process",
            value=1000 * beside,
            unit="ms",
            n=1,
            peer="the same without it",
            peer_value=1000 * alone,
            note=note,
        )
    ]


@contextlib.contextmanager
def flooding(duration_s: float) -> Iterator[Sandbox]:
    """A sandbox that floods its host in every way for so long; the block goes on beside it."""
    with Sandbox.create(policy=load(POLICY), timeout=duration_s + 60) as box:
        box.files.write("flood.py", PROGRAM)
        # What prints without end is stopped by its limit, and must not take the others with it.
        groups = (("output",), tuple(kind for kind in FLOODS if kind != "output"))
        commands = [["python3", "flood.py", str(duration_s), *kinds] for kinds in groups]
        running = [box.commands.run(words, background=True) for words in commands]
        try:
            yield box
        finally:
            for one in running:
                with contextlib.suppress(PaddockError):
                    one.kill()


def slowest_command(box: Sandbox, duration_s: float) -> float:
    """Run commands one after the other for so long; return the seconds that the slowest took."""
    slowest, until = 0.0, time.monotonic() + duration_s
    while time.monotonic() < until:
        began = time.monotonic()
        box.commands.run(TRUE)
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.01)
    return slowest
