"""Reports of programs: what they send, and what the host takes of it. No sandbox is needed here."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock import inside
from paddock.doors.network.inside_api import environment as inside_envs
from paddock.doors.network.inside_api.calls import (
    MAX_A_MINUTE,
    MAX_A_RUN,
    MAX_RUN_BYTES,
    Allowance,
    InsideCalls,
    Unwanted,
)
from paddock.doors.network.inside_api.environment import faketime_envs, seed_envs
from paddock.doors.network.inside_api.state import InsideState
from paddock.doors.network.tls.sandbox_trust import TrustPaths, inside_files
from paddock.doors.network.transport.conn import Conn
from paddock.journal.errors import JournalBroken
from paddock.model.events import AnyEvent, Marked, MemoryChanged, PromptReported, ReportsDropped

SOURCE = Path(inside.__file__)


class Recorder:
    """A gate that keeps what is recorded."""

    def __init__(self) -> None:
        self.all: list[tuple[AnyEvent, int | None]] = []
        self.is_broken = False

    def record(self, event: AnyEvent, step: int | None) -> None:
        if self.is_broken:
            raise JournalBroken("the disk is full")
        self.all.append((event, step))

    @property
    def events(self) -> list[AnyEvent]:
        return [event for event, _ in self.all]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def calls(recorder: Recorder) -> InsideCalls:
    return InsideCalls(lambda: recorder, "run-1", InsideState())  # type: ignore[arg-type, return-value]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> inside.Memory:
    monkeypatch.delenv(inside.ADDRESS, raising=False)
    return inside.Memory()


def _asked(calls: InsideCalls, raw: bytes) -> tuple[int, Any]:
    """What a connection on which this was sent gets back."""

    async def talk() -> bytes:
        ours, theirs = socket.socketpair()
        with theirs:
            serving = asyncio.ensure_future(calls.serve(Conn(ours), 7))
            theirs.setblocking(False)
            loop = asyncio.get_running_loop()
            sending = asyncio.ensure_future(loop.sock_sendall(theirs, raw))
            came = b""
            while part := await asyncio.wait_for(loop.sock_recv(theirs, 1 << 16), 10):
                came += part
            sending.cancel()
        await asyncio.gather(serving, sending, return_exceptions=True)
        return came

    head, _, body = asyncio.run(talk()).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body.startswith(b"{") else None


def _call(calls: InsideCalls, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    return _asked(calls, f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)


# Outside of a sandbox


def test_outside_a_sandbox_every_call_says_that_nobody_heard_it(memory: inside.Memory) -> None:
    assert inside.is_inside() is False
    assert inside.prompt("v1", "text") is False
    assert inside.mark("here", n=1) is False
    assert memory.set("a", 1) is False
    assert memory.remove("a") is False
    assert inside.run_id() is None
    assert inside.step() is None


def test_outside_a_sandbox_memory_works_within_the_process(memory: inside.Memory) -> None:
    memory["b"] = {"x": (1, 2)}
    memory["a"] = None
    assert memory["b"] == {"x": [1, 2]}  # as it would come back from the host
    assert memory["a"] is None
    assert "a" in memory
    assert list(memory) == ["a", "b"]
    del memory["b"]
    assert memory.get("b", 5) == 5
    with pytest.raises(KeyError):
        memory["b"]
    with pytest.raises(KeyError):
        del memory["b"]


def test_memory_gives_copies_not_the_value_itself(memory: inside.Memory) -> None:
    value = [1]
    memory["a"] = value
    value.append(2)
    memory["a"].append(3)
    assert memory["a"] == [1]


_CIRCLE: list[Any] = []
_CIRCLE.append(_CIRCLE)
_DEEP: Any = 0
for _ in range(100):
    _DEEP = [_DEEP]


@for_each(
    "value",
    [float("nan"), float("inf"), b"x", {1}, object(), _CIRCLE, _DEEP, {1: 2}, 1 << 60, "\ud800",
     "x" * inside.MAX_VALUE_BYTES],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_value_that_json_cannot_give_back_is_the_callers_mistake(
    memory: inside.Memory, value: Any
) -> None:
    with pytest.raises(ValueError):
        memory.set("a", value)
    with pytest.raises(ValueError):
        inside.mark("x", data=value)
    assert "a" not in memory


@pytest.mark.parametrize("name", ["", 5, None, "x" * 201, "\udfff"])
def test_name_that_is_none_is_the_callers_mistake(memory: inside.Memory, name: Any) -> None:
    for call in (memory.get, memory.remove, inside.prompt, lambda n: memory.set(n, 1)):
        with pytest.raises(ValueError):
            call(name)


def test_memory_has_64_names(memory: inside.Memory) -> None:
    for number in range(64):
        memory[f"n{number}"] = number
    memory["n5"] = "again"
    with pytest.raises(ValueError, match="64"):
        memory["one more"] = 1


def test_nobody_at_the_address_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}", "http://", "nonsense", "http://[", "http://x:y"):
        monkeypatch.setenv(inside.ADDRESS, address)
        assert inside.mark("x") is False
        assert inside.run_id() is None


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x00" * 100, b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n{}", b"HTTP/1.1 200\r\n\r\n{",
     b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe", b"HTTP/1.1 200 OK\r\n\r\n[1]",
     b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 << 20)],
)  # fmt: skip
def test_answer_that_makes_no_sense_is_no_error(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    with _answering(answer) as address:
        monkeypatch.setenv(inside.ADDRESS, address)
        assert inside.run_id() is None
        assert inside.Memory().get("a", "default") == "default"
        assert inside.Memory().names() == []


def test_host_that_never_answers_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inside, "_WAIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv(inside.ADDRESS, f"http://127.0.0.1:{server.getsockname()[1]}")
        assert inside.mark("x") is False


class _answering:
    """A server that says the same to everybody."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        try:
            while True:
                conn, _ = self._server.accept()
                with conn:
                    conn.recv(1 << 16)
                    conn.sendall(self._answer)
        except OSError:
            pass


def test_the_file_stands_alone_and_old_pythons_read_it() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    named = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert named <= set(sys.stdlib_module_names)


# What the host takes


def test_reports_become_events_of_the_step_that_made_them(
    calls: InsideCalls, recorder: Recorder
) -> None:
    said = {"version": "v7", "text": "You are"}
    assert _call(calls, "POST", "/v1/prompt", said) == (200, {})
    assert _call(calls, "POST", "/v1/mark", {"text": "half", "data": {"n": 1}}) == (200, {})
    assert _call(calls, "POST", "/v1/memory", {"name": "a", "value": [1]}) == (200, {})
    assert calls.latest_prompt == "v7"
    assert [step for _, step in recorder.all] == [7, 7, 7]
    assert recorder.events == [
        PromptReported("v7", "You are", sha256(b"You are").hexdigest()),
        Marked("half", {"n": 1}),
        MemoryChanged("a", [1], sha256(b"[1]").hexdigest()),
    ]


def test_what_is_said_again_is_not_written_again(calls: InsideCalls, recorder: Recorder) -> None:
    for _ in range(3):
        _call(calls, "POST", "/v1/prompt", {"version": "v7"})
        _call(calls, "POST", "/v1/memory", {"name": "a", "value": {"x": 1, "y": 2}})
        _call(calls, "POST", "/v1/memory", {"name": "a", "value": {"y": 2, "x": 1}})
    assert [type(event) for event in recorder.events] == [PromptReported, MemoryChanged]


def test_memory_can_be_read_back_from_the_events(calls: InsideCalls, recorder: Recorder) -> None:
    _call(calls, "POST", "/v1/memory", {"name": "a", "value": 1})
    _call(calls, "POST", "/v1/memory", {"name": "b/ü?", "value": None})
    _call(calls, "POST", "/v1/memory", {"name": "a", "value": 2})
    _call(calls, "POST", "/v1/memory", {"name": "c", "value": 3})
    assert _call(calls, "DELETE", "/v1/memory/c") == (200, {})
    recorded: dict[str, Any] = {}
    for event in recorder.events:
        assert isinstance(event, MemoryChanged)
        recorded[event.name] = event.value
        if event.is_removed:
            del recorded[event.name]
    assert calls.memory == recorded == {"a": 2, "b/ü?": None}
    assert _call(calls, "GET", "/v1/memory/b%2F%C3%BC%3F") == (200, {"value": None})
    assert _call(calls, "GET", "/v1/memory") == (200, {"names": ["a", "b/ü?"]})


def test_a_run_begins_with_the_memory_and_the_name_that_it_was_given(recorder: Recorder) -> None:
    state = InsideState(memory={"a": {"b": 1}}, run="first")
    calls = InsideCalls(lambda: recorder, "second", state)  # type: ignore[arg-type, return-value]
    assert _call(calls, "GET", "/v1") == (200, {"run": "first", "step": 7})
    assert _call(calls, "GET", "/v1/memory/a") == (200, {"value": {"b": 1}})
    assert recorder.all == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"\xff", b'{"name":"a"}', b'{"name":"","value":1}',
     b'{"name":5,"value":1}', b'{"name":"a","value":NaN}', b'{"name":"a","value":1e999}',
     b'{"name":"a","value":-Infinity}', b'{"name":"a","value":"\\ud800"}',
     b'{"name":"\\udfff","value":1}', b'{"name":"a","value":9007199254740993}',
     b'{"name":"a","value":' + b"9" * 5000 + b"}",
     b'{"name":"a","value":' + b"[" * 70 + b"]" * 70 + b"}",
     b'{"name":"a","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
     b'{"name":"' + b"x" * 300 + b'","value":1}'],
    ids=lambda body: repr(body[:40]),
)  # fmt: skip
def test_what_the_journal_could_not_give_back_is_refused(
    calls: InsideCalls, recorder: Recorder, body: bytes
) -> None:
    status, _ = _call(calls, "POST", "/v1/memory", body)
    assert status == 400
    assert recorder.all == []
    assert calls.memory == {}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/memory", {"name": "a", "value": "x" * (1 << 20)}),
        ("/v1/memory", {"name": "a", "value": [0] * 100_001}),
        ("/v1/memory", b"x" * (2 << 20)),
        ("/v1/mark", {"text": "a", "data": {"x": "y" * (64 << 10)}}),
    ],
)
def test_what_is_too_large_is_refused(
    calls: InsideCalls, recorder: Recorder, path: str, body: Any
) -> None:
    assert _call(calls, "POST", path, body)[0] == 413
    assert recorder.all == []


def test_body_without_an_announced_length_is_bounded_too(
    calls: InsideCalls, recorder: Recorder
) -> None:
    chunk = b"%x\r\n%b\r\n" % (1 << 16, b"x" * (1 << 16))
    head = b"POST /v1/mark HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert _asked(calls, head + chunk * 40 + b"0\r\n\r\n")[0] == 413
    assert recorder.all == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/v1/secrets"), ("PUT", "/v1/memory/a"), ("GET", "/etc/passwd"),
     ("DELETE", "/v1/memory/missing"), ("GET", "/v1/memory/..%2F..%2Fetc%2Fpasswd")],
)  # fmt: skip
def test_there_are_no_other_calls(calls: InsideCalls, method: str, path: str) -> None:
    assert _call(calls, method, path)[0] == 404


def test_the_65th_name_is_refused(calls: InsideCalls) -> None:
    for number in range(64):
        assert _call(calls, "POST", "/v1/memory", {"name": f"n{number}", "value": 1})[0] == 200
    assert _call(calls, "POST", "/v1/memory", {"name": "more", "value": 1})[0] == 409
    assert _call(calls, "POST", "/v1/memory", {"name": "n0", "value": 2})[0] == 200


def test_what_cannot_be_recorded_is_not_kept(calls: InsideCalls, recorder: Recorder) -> None:
    recorder.is_broken = True
    assert _call(calls, "POST", "/v1/memory", {"name": "a", "value": 1})[0] == 503
    assert _call(calls, "POST", "/v1/prompt", {"version": "v1"})[0] == 503
    assert calls.memory == {}
    assert calls.latest_prompt is None


def test_too_many_calls_are_refused_and_that_is_recorded_once(
    calls: InsideCalls, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(size_bytes: int) -> None:
        raise Unwanted(429, "too many")

    monkeypatch.setattr(calls._allowance, "spend", spend)
    for _ in range(3):
        assert _call(calls, "POST", "/v1/mark", {"text": "x"})[0] == 429
    assert recorder.events == [ReportsDropped()]


def test_a_minute_has_so_many_calls_and_the_next_has_as_many_again() -> None:
    now = [0.0]
    allowance = Allowance(lambda: now[0])
    for _ in range(MAX_A_MINUTE):
        allowance.spend(1)
    with pytest.raises(Unwanted):
        allowance.spend(1)
    now[0] = 60.0
    for _ in range(MAX_A_MINUTE):
        allowance.spend(1)
    with pytest.raises(Unwanted):
        allowance.spend(1)


def test_a_run_has_so_many_calls_and_bytes() -> None:
    now = iter(range(0, 10_000_000, 60))
    many, large = Allowance(lambda: float(next(now))), Allowance()
    for _ in range(MAX_A_RUN):
        many.spend(1)
    large.spend(MAX_RUN_BYTES)
    for allowance in (many, large):
        with pytest.raises(Unwanted):
            allowance.spend(1)


# Variables, and what Python inside makes of them


def test_same_seed_gives_the_same_variables_and_another_gives_others() -> None:
    assert seed_envs(5) == seed_envs(5)
    assert not set(seed_envs(5).values()) & set(seed_envs(6).values())
    assert 0 < int(seed_envs(1 << 255)["PYTHONHASHSEED"]) < 1 << 32


def test_clock_is_left_alone_without_libfaketime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_envs, "faketime_library", lambda: None)
    assert faketime_envs(0) == {}


def test_clock_is_set_by_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside_envs, "faketime_library", lambda: "/lib/f.so")
    monkeypatch.setattr(inside_envs.time, "time", lambda: 1000.0)
    envs = faketime_envs(400.25)
    assert (envs["LD_PRELOAD"], envs["FAKETIME"]) == ("/lib/f.so", "-599.750000")


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Runs a program with the hooks of a sandbox, but in none."""
    place = tmp_path / "hooks"
    for path, content in inside_files(TrustPaths(python=str(place))).items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(content)

    def run(code: str, *path: Path, **envs: str) -> str:
        words = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(map(str, [*path, place]))}
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sitecustomize\n{code}"],
            env=words | envs,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
        )
        return done.stdout + done.stderr

    yield run


@pytest.mark.parametrize("seed", ["", "zz", "12", "é", "1" * 64 + ":x:y", ":", "1" * 64 + ":1"])
def test_a_seed_that_makes_no_sense_keeps_no_program_from_running(
    python: Callable[..., str], seed: str
) -> None:
    code = "import os, uuid, random, secrets; print(len(os.urandom(5)), uuid.uuid4().version)"
    assert python(code, PADDOCK_SEED=seed) == "5 4\n"


def test_odd_sizes_get_the_usual_errors(python: Callable[..., str]) -> None:
    code = """
import os
for size in (-1, "x", None, 1.5):
    try:
        os.urandom(size)
    except (TypeError, ValueError) as error:
        print(type(error).__name__)
print(len(os.urandom(0)), len(os.urandom(True)), len(os.urandom(1 << 17)), len(os.getrandom(3)))
"""
    assert python(code, PADDOCK_SEED="1" * 64).split() == [
        "ValueError", "TypeError", "TypeError", "TypeError", "0", "1", "131072", "3",
    ]  # fmt: skip


def test_without_a_seed_chance_is_the_kernels(python: Callable[..., str]) -> None:
    code = "import os, random; print(os.urandom.__module__, type(random.seed.__func__).__name__)"
    assert python(code) == "posix function\n"
    draw = "import os, random; print(os.urandom(8), random.random())"
    assert python(draw) != python(draw)


def test_bytes_of_a_stream_do_not_repeat(python: Callable[..., str]) -> None:
    code = """
import os, threading
drawn = [os.urandom(8) for _ in range(100)]
threads = [threading.Thread(target=lambda: drawn.append(os.urandom(8))) for _ in range(20)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
drawn += [os.urandom(8) for _ in range(100)]
print(len(set(drawn)))
"""
    assert python(code, PADDOCK_SEED="1" * 64) == "220\n"


def test_draws_of_a_few_bytes_are_those_of_earlier_recordings(python: Callable[..., str]) -> None:
    digest = "a02a92c8f04b48124066d2a95d14a43e658b9312db668fb830232ba8c6df4f64"
    code = """
import hashlib, paddock_chance
stream = paddock_chance.RandomStream(b"k" * 32)
drawn = b"|".join(stream.take(size) for size in (0, 1, 16, 32, 33, 64, 256, 5, 31))
print(hashlib.sha256(drawn).hexdigest(), stream.blocks)
"""
    assert python(code, PADDOCK_SEED="1" * 64) == f"{digest} 17\n"


def test_large_draw_is_repeatable_and_takes_no_more_memory_than_it_is_long(
    python: Callable[..., str],
) -> None:
    code = """
import hashlib, os, paddock_chance, tracemalloc
os.urandom(1000)  # what is loaded once is not counted
tracemalloc.start()
stream = paddock_chance.RandomStream(b"k" * 32)
drawn = stream.take(8 << 20)
print(len(drawn) == 8 << 20, tracemalloc.get_traced_memory()[1] < 9 << 20)
again = paddock_chance.RandomStream(b"k" * 32)
print(again.take(8 << 20) == drawn != stream.take(8 << 20), again.take(9) != stream.take(9))
"""
    assert python(code, PADDOCK_SEED="1" * 64) == "True True\nTrue True\n"


def test_an_explicit_seed_of_random_still_holds(python: Callable[..., str]) -> None:
    code = "import random; random.seed(5); print(random.random(), random.Random(6).random())"
    assert python(code, PADDOCK_SEED="1" * 64) == python(code)


def test_inside_is_there_where_paddock_is_not(python: Callable[..., str]) -> None:
    code = "from paddock import inside; import paddock.inside as b; print(inside is b)"
    assert python(code, PADDOCK_INSIDE="http://127.0.0.1:1") == "True\n"
    code = """
import paddock
try:
    from paddock import Sandbox
except ImportError:
    print(hasattr(paddock, "Sandbox"))
"""
    assert python(code, PADDOCK_INSIDE="http://127.0.0.1:1") == "False\n"


def test_a_real_package_of_that_name_is_not_shadowed(
    python: Callable[..., str], tmp_path: Path
) -> None:
    package = tmp_path / "site" / "paddock"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1")
    (package / "inside.py").write_text("y = 2")
    code = "import paddock, paddock.inside; print(paddock.x, paddock.inside.y)"
    assert python(code, package.parent, PADDOCK_INSIDE="http://127.0.0.1:1") == "1 2\n"


def test_outside_a_run_there_is_no_such_module(python: Callable[..., str]) -> None:
    code = "import importlib.util; print(importlib.util.find_spec('paddock'))"
    assert python(code) == "None\n"


def test_the_next_sitecustomize_still_runs(python: Callable[..., str], tmp_path: Path) -> None:
    code = "import sys; print('theirs' in sys.modules)"
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['theirs'] = sys")
    hooks = tmp_path / "hooks"  # ours comes first on the path here, theirs after it
    assert python(code, hooks, tmp_path, PADDOCK_SEED="1" * 64) == "True\n"


def test_sleep_is_mended_where_the_clock_refuses(python: Callable[..., str]) -> None:
    code = """
import sys, time
def refused(seconds):
    raise OSError(22, "Invalid argument")
time.sleep = refused
sys.modules["sitecustomize"]._mend_sleep()
before = time.monotonic()
time.sleep(0.05)
print(time.monotonic() - before >= 0.05)
"""
    assert python(code) == "True\n"


def test_hooks_load_nothing_that_a_program_does_not_ask_for(python: Callable[..., str]) -> None:
    code = """
import sys
heavy = {"ssl", "random", "hashlib", "uuid", "threading", "subprocess", "contextlib", "json"}
print(sorted(heavy & set(sys.modules)))
"""
    envs = {"PADDOCK_SEED": "1" * 64, "PADDOCK_INSIDE": "http://127.0.0.1:1"}
    assert python(code) == python(code, **envs) == "[]\n"
