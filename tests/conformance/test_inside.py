"""Programs of a run: what they report arrives, and chance and time inside can be had again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from cases import for_each
from conformance.conftest import MakeBox
from paddock import Sandbox
from paddock.doors.network.inside_api.environment import faketime_envs, faketime_library, seed_envs
from paddock.doors.network.inside_api.state import InsideState
from paddock.journal.log import RunLog
from paddock.model.events import AnyEvent, Marked, MemoryChanged, PromptReported
from paddock.state.home import Home

NETWORKS = [{}, {"network": {"allow": ["api.example:80"]}}]
PYTHON = "/usr/bin/python3"

DRAW = """
import asyncio, multiprocessing, os, random, secrets, subprocess, sys
import tempfile, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor

ASK = "import os, random, uuid; print(uuid.uuid4(), random.random(), os.urandom(4).hex())"

def draw():
    names = [random.random(), random.Random().random(), random.SystemRandom().random()]
    return [*names, str(uuid.uuid4()), os.urandom(4).hex(), secrets.token_hex(4), uuid.getnode()]

def late(number):
    time.sleep(time.time_ns() % 7919 % 5 / 1000)  # whoever is first
    return os.urandom(4).hex()

def child(queue):
    queue.put(draw())

def threads():
    drawn = {}
    def keep(number):
        drawn[number] = late(number)
    started = [threading.Thread(target=keep, args=(number,)) for number in range(5)]
    [thread.start() for thread in started]
    [thread.join() for thread in started]
    return sorted(drawn.items())

def pool():
    with ThreadPoolExecutor(3) as workers:
        return list(workers.map(late, range(8)))

async def task(number):
    await asyncio.sleep(time.time_ns() % 7919 % 5 / 1000)
    return os.urandom(4).hex()

async def tasks():
    return await asyncio.gather(*map(task, range(6)))

def started(**more):
    words = {"capture_output": True, "text": True, "check": True, **more}
    return [subprocess.run([sys.executable, "-c", ASK], **words).stdout for _ in range(2)]

def shells():
    ask = f"{sys.executable} -c '{ASK}'"
    words = f"{ask}; {ask}; ({ask}; {ask})"
    return subprocess.run(words, shell=True, capture_output=True, text=True, check=True).stdout

def processes(kind):
    context = multiprocessing.get_context(kind)
    queue, drawn = context.Queue(), []
    for _ in range(2):
        process = context.Process(target=child, args=(queue,))
        process.start()
        drawn.append(queue.get(timeout=30))
        process.join()
    return drawn

if __name__ == "__main__":
    print("here", draw())
    print("order", list({"a", "b", "c", "d", "e", "f"}))
    print("names", tempfile.mkdtemp(), tempfile.NamedTemporaryFile().name)
    print("threads", threads())
    print("pool", pool())
    print("tasks", asyncio.run(tasks()))
    print("started", started())
    print("same variables", started(env=dict(os.environ)))
    print("shells", shells().split())
    print("fork", processes("fork"))
    print("spawn", processes("spawn"))
    print("forkserver", processes("forkserver"))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", ASK])
"""


def serve(box: Sandbox, state: InsideState | None = None) -> None:
    """As a run does before its agent starts."""
    box._engine.call(box._calls.box.network.serve_inside(state))


def reports_of(box: Sandbox) -> list[tuple[AnyEvent, int | None]]:
    log = RunLog(Home.find().runs / box.sandbox_id)
    records = log.events(PromptReported, Marked, MemoryChanged)
    return [(record.event, record.step) for record in records]


@pytest.fixture
def program(make_box: MakeBox) -> Callable[..., str]:
    """Runs a Python program in a new sandbox that is served as that of a run."""

    def run(code: str, envs: dict[str, str] | None = None, **words: Any) -> str:
        box = make_box(**words)
        serve(box)
        box.files.write("/tmp/program.py", code)
        return box.commands.run(f"{PYTHON} /tmp/program.py", envs=envs or {}).stdout

    return run


@pytest.mark.parametrize("words", NETWORKS, ids=["no network", "network"])
def test_what_a_program_reports_is_noted_with_its_step(
    make_box: MakeBox, words: dict[str, Any]
) -> None:
    box = make_box(**words)
    serve(box)
    code = """
from paddock import inside
print(inside.is_inside(), inside.prompt("v7"), inside.mark("half", n=1), inside.step())
inside.memory["notes"] = {"seen": [1, 2]}
print(inside.memory["notes"], list(inside.memory), inside.run_id())
"""
    box.commands.run("true")
    box.files.write("/tmp/program.py", code)
    said = box.commands.run(f"{PYTHON} /tmp/program.py").stdout.splitlines()
    assert said[0] == "True True True 3"
    assert said[1] == f"{{'seen': [1, 2]}} ['notes'] {box.sandbox_id}"
    assert box._calls.box.network.latest_prompt == "v7"
    (prompt, mark, (memory, step)) = reports_of(box)
    assert prompt == (PromptReported("v7"), 3)
    assert mark == (Marked("half", {"n": 1}), 3)
    assert isinstance(memory, MemoryChanged)
    assert (memory.name, memory.value, step) == ("notes", {"seen": [1, 2]}, 3)


def test_a_value_of_a_mebibyte_is_kept_and_given_back(make_box: MakeBox) -> None:
    box = make_box()
    serve(box)
    code = """
from paddock import inside
value = "x" * ((1 << 20) - 2)
print(inside.memory.set("a", value), inside.memory["a"] == value)
"""
    box.files.write("/tmp/program.py", code)
    assert box.commands.run(f"{PYTHON} /tmp/program.py").stdout == "True True\n"
    assert len(reports_of(box)) == 1


@pytest.mark.parametrize("words", NETWORKS, ids=["no network", "network"])
def test_a_program_finds_the_memory_that_its_run_was_given(
    make_box: MakeBox, words: dict[str, Any]
) -> None:
    box = make_box(**words)
    serve(box, InsideState(memory={"plan": ["a"]}, run="first"))
    box.files.write(
        "/tmp/p.py", "from paddock import inside as i; print(i.memory['plan'], i.run_id())"
    )
    assert box.commands.run(f"{PYTHON} /tmp/p.py").stdout == "['a'] first\n"


def test_programs_that_start_after_a_network_was_opened_report_there(make_box: MakeBox) -> None:
    box = make_box()
    serve(box)
    for value in (1, 2):
        code = f"from paddock import inside; print(inside.memory.set('a', {value}))"
        assert box.commands.run(f'{PYTHON} -c "{code}"').stdout == "True\n"
        box.update_network(allow=["api.example:80"])
    reports = reports_of(box)
    found = [(e.value, step) for e, step in reports if isinstance(e, MemoryChanged)]
    assert found == [(1, 1), (2, 2)]


def test_a_sandbox_that_is_no_run_has_nobody_who_listens(box: Sandbox) -> None:
    done = box.commands.run(f"{PYTHON} -c 'import paddock' 2>&1; env | grep PADDOCK; true")
    assert "No module named" in done.stdout
    assert "PADDOCK" not in done.stdout


def test_same_seed_gives_the_same_chance_everywhere(program: Callable[..., str]) -> None:
    first = program(DRAW, seed_envs(1))
    again = program(DRAW, seed_envs(1), network={"allow": ["api.example:80"]})
    other = program(DRAW, seed_envs(2))
    assert first.splitlines() == again.splitlines()
    assert not set(first.splitlines()) & set(other.splitlines())


def test_no_two_places_draw_the_same(program: Callable[..., str]) -> None:
    drawn = program(DRAW, seed_envs(1))
    words = drawn.replace("'", " ").replace("\\n", " ").replace(",", " ").split()
    ids = [word for word in words if word.count("-") == 4]
    assert len(ids) == len(set(ids)) == 16


def test_without_a_seed_chance_stays_chance(program: Callable[..., str]) -> None:
    code = "import os, random; print(os.urandom(8).hex(), random.random())"
    assert program(code) != program(code)


@pytest.mark.skipif(faketime_library() is None, reason="libfaketime is not installed here")
def test_clocks_show_the_moment_that_was_wanted_in_every_process(
    program: Callable[..., str],
) -> None:
    code = """
import subprocess, time
before = time.monotonic()
time.sleep(0.1)  # libfaketime 0.9.10 alone fails here
print(int(time.time()), subprocess.check_output(["date", "+%s"], text=True).strip())
print(0.1 <= time.monotonic() - before < 60)
"""
    at = time.time() - 400 * 86400
    shown, is_steady = program(code, faketime_envs(at)).splitlines()
    for moment in map(int, shown.split()):
        assert at - 1 <= moment <= at + 60
    assert is_steady == "True"


@for_each(
    "words",
    [
        "-c 'import ssl, asyncio, sqlite3, email, http.client, xml.dom; print(ssl)'",
        "-m venv --without-pip /tmp/made",
        "-m unittest --help",
        "-m pip install --help",
        "-c 'import uuid; assert uuid.uuid1() != uuid.uuid1()'",
        "-c 'import os; os.fork() or os._exit(0); os.wait(); os.system(\"true\")'",
        "-I -c 'import os; os.urandom(4)'",
        "-c 'import os, subprocess; subprocess.run([\"true\"], env={}, check=True)'",
        "-c 'import subprocess; subprocess.run([\"true\"], close_fds=False, check=True)'",
    ],
)
def test_programs_run_with_a_seed_as_they_do_without(shared_box: Sandbox, words: str) -> None:
    if not os.path.exists("/usr/lib/python3/dist-packages/pip") and "pip" in words:
        pytest.skip("the host's Python has no pip")
    if not shared_box._calls.box.network._inside:
        serve(shared_box)
    plain = shared_box.commands.run(f"{PYTHON} {words}")
    seeded = shared_box.commands.run(f"{PYTHON} {words}", envs=seed_envs(1))
    assert (seeded.stdout, seeded.stderr) == (plain.stdout, plain.stderr)
