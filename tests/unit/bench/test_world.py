"""The figures of the world: that the load counts whole answers and nothing else, that stand-ins
answer it, and that nothing stays behind. How fast anything is, no test asks.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bench.main import MEASUREMENTS
from bench.rig import open_rig
from bench.world import measurements
from bench.world.load import is_whole
from bench.world.rig import (
    ASK_MODEL,
    CREATE_INTENT,
    GET_CUSTOMER,
    Asking,
    Inside,
    in_process,
    kept_world,
    on_one_core,
    open_inside,
)
from paddock import Sandbox
from paddock.model.errors import CommandExitException, HostCannot
from paddock.state.home import Home
from paddock.world.store import Store

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "is_there"),
    [
        (HEAD + b"hello", True),
        (HEAD.lower().replace(b"http", b"HTTP") + b"hello", True),
        (HEAD + b"hell", False),
        (HEAD[:-2], False),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", True),
        (CHUNKED + b"5\r\nhello\r\n", False),
        (CHUNKED, False),
    ],
)
def test_an_answer_is_whole_only_with_its_last_byte(data: bytes, is_there: bool) -> None:
    assert is_whole(data) is is_there


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "not an answer"),
        (HEAD + b"hello!", "more came"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "without its length"),
    ],
)
def test_an_answer_that_is_no_good_ends_the_load(data: bytes, why: str) -> None:
    with pytest.raises(SystemExit, match=why):
        is_whole(data)


def test_stand_ins_answer_the_load_from_inside_and_nothing_stays() -> None:
    with open_inside() as inside:
        run = inside.box.sandbox_id
        for asking in (GET_CUSTOMER, CREATE_INTENT, ASK_MODEL):
            told = inside.load(asking, connections=2, seconds=0.2)
            assert told["requests"] >= 2
            assert 0 < told["p50_s"] <= told["p99_s"]
            assert told["cpu_s"] > 0
        changes = inside.box.world_changes()
        assert len(changes["api.stripe.com"]) >= 2
        assert len(changes["api.openai.com"]) == 1
        _assert_failure_is_no_figure(inside)
    assert not (Home.find().worlds / run).exists()


def _assert_failure_is_no_figure(inside: Inside) -> None:
    nobody = Asking(GET_CUSTOMER.host, "GET", "/v1/customers/nobody", GET_CUSTOMER.headers)
    with pytest.raises(CommandExitException, match="not an answer"):
        inside.load(nobody, connections=1, seconds=0.2)


@pytest.mark.parametrize("asking", [GET_CUSTOMER, CREATE_INTENT, ASK_MODEL])
def test_stand_ins_answer_in_process_too(asking: Asking, tmp_path: Path) -> None:
    assert len(in_process(asking, tmp_path, 5)) == 5


def test_a_call_in_process_that_fails_is_no_figure(tmp_path: Path) -> None:
    nobody = Asking(GET_CUSTOMER.host, "GET", "/v1/customers/nobody", GET_CUSTOMER.headers)
    with pytest.raises(HostCannot, match="404"):
        in_process(nobody, tmp_path, 1)


def test_all_threads_keep_to_one_core_and_are_let_go_again() -> None:
    before = os.sched_getaffinity(0)
    is_over = threading.Event()
    other = threading.Thread(target=is_over.wait, args=(30,))
    other.start()
    try:
        assert other.native_id is not None
        with on_one_core() as core:
            assert len(os.sched_getaffinity(other.native_id)) == 1
            assert os.sched_getaffinity(other.native_id) == os.sched_getaffinity(0)
            assert core not in os.sched_getaffinity(0)
            assert core is not None or len(before) == 1
        assert os.sched_getaffinity(other.native_id) == before
        assert os.sched_getaffinity(0) == before
    finally:
        is_over.set()
        other.join()


def test_the_world_of_a_sandbox_of_the_bench_goes_with_it() -> None:
    words = {"api.openai.com": {"service": "model", "script": {"otherwise": "Yes."}}}
    with kept_world(Sandbox.create(world=words)) as box:
        place = Home.find().worlds / box.sandbox_id
        assert place.is_dir()
    assert not place.exists()


def test_fork_figures_are_of_whole_stores_and_leave_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "_DOCUMENTS", 50)
    monkeypatch.setattr(measurements, "_FEW_DOCUMENTS", 5)
    sizes: list[int] = []
    fork = Store.fork

    def counted(store: Store, path: Path) -> Store:
        made = fork(store, path)
        sizes.append(made.count("customers"))
        return made

    monkeypatch.setattr(Store, "fork", counted)
    with open_rig(is_quick=True) as rig:
        alone, in_sandbox = measurements.world_fork(rig)
        assert [path.name for path in rig.scratch.glob("*.*")] == ["seed.json"]
    assert set(sizes) == {50}
    assert alone.n == 9
    assert alone.peer_value is not None
    assert "5 documents" in in_sandbox.title
    assert in_sandbox.peer_value is not None
    assert not [*(home / "worlds").glob("*")]


def test_all_figures_of_the_world_can_be_asked_for_by_name() -> None:
    assert {"world", "world-fork"} <= set(MEASUREMENTS)
