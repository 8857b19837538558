"""The code interpreter as a process: output in order, interrupts, forks, bad requests, its end."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.fence.kernel_process import Kernel, shared_site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_site(tmp_path_factory)


@pytest.fixture
def kernel(site: Path, tmp_path: Path) -> Iterator[Kernel]:
    kernel = Kernel(site, tmp_path)
    yield kernel
    kernel.close()


def stdout_of(kernel: Kernel, code: str) -> str:
    return "".join(kernel.run(code).logs.stdout)


def programs_of(kernel: Kernel, name: str) -> list[str]:
    """The processes of that name in the kernel's session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            comm, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if comm == name and rest.split()[3] == str(kernel.process.pid):
                found.append(stat.parent.name)
    return found


# ---- output --------------------------------------------------------------------------------------


def test_output_of_other_programs_is_in_order_with_print(kernel: Kernel) -> None:
    code = "import os\nfor i in range(20):\n    print('py', i)\n    os.system(f'echo sh {i}')"
    expected = "".join(f"py {i}\nsh {i}\n" for i in range(20))
    assert stdout_of(kernel, code) == expected


def test_all_output_arrives_before_done(kernel: Kernel) -> None:
    kernel.run("import os, sys")
    for number in range(30):
        kernel.run(f"_ = os.write(1, b'o{number}')\n_ = sys.stderr.write('e{number}')")
        kinds = [m["type"] for m in kernel.messages]
        assert sorted(kinds[:-1]) == ["stderr", "stdout"]
        assert kinds[-1] == "done"


def test_huge_output_arrives_whole(kernel: Kernel) -> None:
    code = "line = 'x' * 1023\nfor _ in range(32 << 10): print(line)"
    assert len(stdout_of(kernel, code)) == 32 << 20


def test_output_of_c_code_that_never_yields_the_interpreter_lock_flows(kernel: Kernel) -> None:
    code = "import ctypes\nctypes.PyDLL(None).write(1, b'x' * (4 << 20), 4 << 20)\nprint()"
    assert stdout_of(kernel, code).count("x") == 4 << 20


def test_text_is_seen_while_the_cell_still_runs(kernel: Kernel) -> None:
    started = time.monotonic()
    kernel.begin("import time\nprint('first')\ntime.sleep(20)")
    assert kernel.wait_for("stdout")["text"] == "first\n"
    assert time.monotonic() - started < 15
    kernel.process.kill()


def test_bytes_that_are_not_utf8_are_replaced(kernel: Kernel) -> None:
    assert stdout_of(kernel, "import os\n_ = os.write(1, b'a\\xff\\xfeb')") == "a\ufffd\ufffdb"
    assert stdout_of(kernel, "_ = os.write(1, b'cut \\xe2\\x82')") == "cut \ufffd"
    assert stdout_of(kernel, "_ = os.write(1, b'next')") == "next"


def test_character_written_in_two_halves_arrives_whole(kernel: Kernel) -> None:
    write = "_ = os.write(1, b'{}')\n"
    halves = write.format("\\xe2\\x82") + "time.sleep(0.1)\n" + write.format("\\xac")
    kernel.run("import os, time")
    assert stdout_of(kernel, halves) == "\u20ac"


def test_lone_surrogate_can_be_printed(kernel: Kernel) -> None:
    assert stdout_of(kernel, "print('\\ud800')") == "\\ud800\n"
    assert kernel.run("'\\ud800'").error is None


def test_background_thread_speaks_between_cells_with_no_id(kernel: Kernel) -> None:
    kernel.run(
        "import threading, time\ngo = threading.Event()\n"
        "def work():\n    time.sleep(0.2)\n    print('from behind')\n    go.wait()\n"
        "threading.Thread(target=work).start()"
    )
    kernel.messages = []
    said = kernel.wait_for("stdout")
    assert (said["id"], said["text"]) == (None, "from behind\n")
    assert kernel.run("go.set()").error is None


def test_closed_or_replaced_stdout_does_not_lose_the_kernel(kernel: Kernel) -> None:
    kernel.run("import sys, io\nkept = sys.stdout\nsys.stdout = None")
    kernel.run("sys.stdout = io.StringIO(); print('swallowed'); sys.stdout.close()")
    kernel.run("sys.stderr = None\n1 / 0")
    assert stdout_of(kernel, "sys.stdout = kept; print('back')") == "back\n"


# ---- interrupts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import time\nprint('ready')\ntime.sleep(60)",
        "print('ready')\nwhile True: pass",
        "import asyncio\nprint('ready')\nawait asyncio.sleep(60)\nprint('resumed')",
        "print('ready')\n!sleep 60",
        "print('ready')\nwhile True: display('x' * 1000)",
        "print('ready')\nwhile True: print('x' * 1000)",
    ],
    ids=["sleep", "loop", "await", "command", "display flood", "print flood"],
)
def test_interrupt_ends_the_cell_and_state_survives(kernel: Kernel, code: str) -> None:
    kernel.run("kept = 5")
    error = kernel.interrupt(code).error
    assert error is not None
    assert error.name == "KeyboardInterrupt"
    assert "Cell In[2]" in error.traceback
    after = kernel.run("import asyncio\nawait asyncio.sleep(0.1)\nkept")
    assert (after.text, after.logs.stdout) == ("5", ())


def test_interrupt_of_the_group_ends_the_programs_of_the_cell_too(kernel: Kernel) -> None:
    done = kernel.interrupt("print('ready')\n!sleep 61; echo gone on", group=True)
    assert done.error is not None
    assert "gone on" not in "".join(done.logs.stdout)
    assert programs_of(kernel, "sleep") == []


def test_interrupt_between_cells_is_ignored(kernel: Kernel) -> None:
    kernel.run("x = 1")
    os.kill(kernel.process.pid, 2)
    assert kernel.run("x").text == "1"


def test_interrupt_works_after_a_cell_took_the_signal_away(kernel: Kernel) -> None:
    kernel.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    error = kernel.interrupt("import time\nprint('ready')\ntime.sleep(60)").error
    assert error is not None
    assert error.name == "KeyboardInterrupt"


def test_cell_may_catch_its_interrupt(kernel: Kernel) -> None:
    done = kernel.interrupt(
        "import time\ntry:\n    print('ready')\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('caught')"
    )
    assert done.error is None
    assert "caught\n" in "".join(done.logs.stdout)


# ---- other processes -----------------------------------------------------------------------------


def test_fork_child_prints_but_is_no_second_kernel(kernel: Kernel) -> None:
    done = kernel.run(
        "import os\npid = os.fork()\nif pid == 0:\n    print('child'); display('shown')\n"
        "else:\n    print('status', os.waitpid(pid, 0)[1])"
    )
    assert "".join(done.logs.stdout) == "child\n'shown'\nstatus 0\n"
    assert [m["type"] for m in kernel.messages].count("done") == 1
    assert kernel.run("1").text == "1"


def test_failing_fork_child_ends_with_its_own_status(kernel: Kernel) -> None:
    code = "import os, sys\npid = os.fork()\nif pid == 0:\n    {}\nos.waitpid(pid, 0)[1] >> 8"
    failed = kernel.run(code.format("1 / 0"))
    assert failed.text == "1"
    assert "ZeroDivisionError" in "".join(failed.logs.stderr)
    assert kernel.run(code.format("sys.exit(7)")).text == "7"


def test_children_do_not_hold_the_protocol_descriptors(kernel: Kernel) -> None:
    count = "len(os.listdir('/proc/self/fd'))"
    in_child = f"import os\npid = os.fork()\nif pid == 0:\n    os._exit({count})\n"
    here = int(kernel.run(f"import os\n{count}").text or 0)
    forked = int(kernel.run(f"{in_child}os.waitpid(pid, 0)[1] >> 8").text or 0)
    assert forked == here - 3  # requests, orders, acknowledgements
    # 0, 1, 2 and the directory that `ls` reads.
    assert stdout_of(kernel, "!ls /proc/self/fd").split() == ["0", "1", "2", "3"]


def test_orphan_of_a_cell_does_not_keep_the_conversation_open(kernel: Kernel) -> None:
    kernel.run("import os, time\nif os.fork() == 0:\n    time.sleep(60)")
    kernel.run("if os.fork() == 0:\n    os.execvp('sleep', ['sleep', '60'])")
    assert kernel.process.stdin is not None
    kernel.process.stdin.close()
    kernel.read_to_end()


def test_waiting_for_any_child_meets_no_process_of_the_kernel(kernel: Kernel) -> None:
    error = kernel.run("import os\nos.wait()").error
    assert error is not None
    assert error.name == "ChildProcessError"


def test_cells_run_in_a_process_with_one_thread(kernel: Kernel) -> None:
    assert kernel.run("import os; len(os.listdir('/proc/self/task'))").text == "1"


def test_multiprocessing_works(kernel: Kernel) -> None:
    done = kernel.run(
        "import multiprocessing as mp\ndef square(n): return n * n\n"
        "with mp.get_context('fork').Pool(2) as pool: squares = pool.map(square, range(4))\nsquares"
    )
    assert done.text == "[0, 1, 4, 9]"


# ---- requests and the end ------------------------------------------------------------------------


def test_ping_is_answered(kernel: Kernel) -> None:
    kernel.run("1")
    kernel.send({"id": 77, "op": "ping"})
    assert kernel.wait_for("pong") == {"id": 77, "type": "pong", "execution_count": 1}


def test_request_without_sense_is_an_error_and_not_the_end(kernel: Kernel) -> None:
    kernel.send({"id": 5, "op": "dance"})
    assert kernel.wait_for("done")["status"] == "error"
    assert kernel.run("1").text == "1"


def test_oversized_request_is_refused(kernel: Kernel) -> None:
    kernel.send_raw(struct.pack(">I", (64 << 20) + 1))
    assert kernel.wait_for("error")["name"] == "ProtocolError"
    kernel.read_to_end()


def test_kernel_ends_with_its_stdin_though_a_thread_still_runs(kernel: Kernel) -> None:
    kernel.run("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()")
    assert kernel.close() == 0


def test_crash_in_c_code_says_so_on_stderr_before_the_end(kernel: Kernel) -> None:
    kernel.begin("import ctypes\nctypes.string_at(0)")
    kernel.read_to_end()
    said = "".join(m.get("text", "") for m in kernel.messages if m["type"] == "stderr")
    assert "Segmentation fault" in said
