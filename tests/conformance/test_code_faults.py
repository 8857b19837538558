"""Code that goes wrong: too long, dead, too large, forking."""

from __future__ import annotations

import threading

import pytest

from conformance.conftest import MakeBox
from conformance.waiting import result_of
from paddock import Sandbox


def test_timeout_interrupts_a_cell_and_keeps_the_state(shared_box: Sandbox) -> None:
    shared_box.run_code("kept = 5")
    execution = shared_box.run_code("print('begun')\nimport time; time.sleep(60)", timeout=1)
    assert execution.error is not None
    assert execution.error.name == "TimeoutError"
    assert "state is kept" in execution.error.value
    assert "".join(execution.logs.stdout) == "begun\n"
    assert shared_box.run_code("kept").text == "5"


def test_cell_that_ignores_the_interrupt_is_ended_and_the_next_begins_anew(
    make_box: MakeBox,
) -> None:
    box = make_box()
    box.run_code("import signal; gone = 1")
    stubborn = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    execution = result_of(lambda: box.run_code(stubborn, timeout=1))
    assert execution.error is not None and "ignored the interrupt" in execution.error.value
    assert box.run_code("'gone' in globals()").text == "False"


def test_timeout_stops_programs_that_a_cell_started(shared_box: Sandbox) -> None:
    from conformance.inside import is_running

    code = "import subprocess; subprocess.run(['sleep', '4711'])"
    result_of(lambda: shared_box.run_code(code, timeout=0.5))
    assert not is_running(shared_box, "sleep 4711")


def test_death_of_the_interpreter_is_told_and_the_next_cell_starts_a_new_one(
    make_box: MakeBox,
) -> None:
    box = make_box()
    box.run_code("lost = 1")
    execution = result_of(lambda: box.run_code("print('last words')\nimport os; os._exit(7)"))
    assert execution.error is not None
    assert execution.error.name == "InterpreterDied"
    assert "7" in execution.error.value and "state is lost" in execution.error.value
    assert "".join(execution.logs.stdout) == "last words\n"
    assert box.run_code("'lost' in globals()").text == "False"


def test_death_by_a_signal_is_told(make_box: MakeBox) -> None:
    box = make_box()
    execution = result_of(lambda: box.run_code("import os; os.kill(os.getpid(), 9)"))
    assert execution.error is not None and execution.error.name == "InterpreterDied"


def test_memory_limit_in_a_cell_is_named_and_the_sandbox_lives_on(make_box: MakeBox) -> None:
    box = make_box(limits={"memory": "128MiB"})
    hog = "data = []\nwhile True: data.append(bytearray(1 << 20))"
    execution = result_of(lambda: box.run_code(hog))
    assert execution.error is not None
    # Either the kernel refused the memory, which Python can tell, or it killed the interpreter.
    told = f"{execution.error.name}: {execution.error.value}"
    assert "MemoryError" in told or "memory limit" in told
    assert box.run_code("1 + 1").text == "2"


def test_fork_and_exec_in_a_cell_do_not_disturb_it(shared_box: Sandbox) -> None:
    code = (
        "import os, subprocess\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    print('child', flush=True)\n"
        "    os.execv('/bin/echo', ['echo', 'executed'])\n"
        "os.waitpid(pid, 0)\n"
        "printed = subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout\n"
        "printed"
    )
    execution = shared_box.run_code(code)
    assert execution.error is None
    assert execution.text == repr("sub\n")
    assert "".join(execution.logs.stdout) == "child\nexecuted\n"
    assert shared_box.run_code("1 + 1").text == "2"


def test_forked_child_that_goes_on_does_not_answer_in_its_parents_name(
    shared_box: Sandbox,
) -> None:
    execution = shared_box.run_code("import os\npid = os.fork()\n'parent' if pid else 'child'")
    assert execution.text == "'parent'"
    assert shared_box.run_code("'next'").text == "'next'"


def test_output_flood_of_a_cell_is_bounded(make_box: MakeBox) -> None:
    box = make_box(limits={"output": "2MiB"})
    execution = result_of(lambda: box.run_code("for _ in range(400): print('x' * 100_000)"))
    assert len("".join(execution.logs.stdout)) <= 2 << 20
    assert box.run_code("1 + 1").text == "2"


def test_blocked_callback_of_one_cell_leaves_others_alone(shared_box: Sandbox) -> None:
    release = threading.Event()
    other = shared_box.create_code_context()
    thread = threading.Thread(
        target=lambda: shared_box.run_code("print(1)", on_stdout=lambda _: release.wait(30)),
        daemon=True,
    )
    thread.start()
    try:
        assert result_of(lambda: shared_box.run_code("6 * 7", context=other)).text == "42"
    finally:
        release.set()
        thread.join(20)


def test_waiting_cell_returns_when_the_sandbox_is_killed(make_box: MakeBox) -> None:
    from conformance.waiting import Calls
    from paddock import SandboxDied

    box = make_box()
    box.run_code("1")
    waiting = Calls([lambda: box.run_code("import time; time.sleep(100)")])
    box.kill()
    with pytest.raises(SandboxDied, match="killed by its owner"):
        raise waiting.results(5)[0]
