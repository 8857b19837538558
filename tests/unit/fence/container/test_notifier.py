"""Reading what a process is about to execute out of its memory, and how it ended. The memory is
this process's own, with buffers laid out as the kernel would find them.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.fence.container.notifier import (
    HAS_EXIT_STATUS,
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENTS,
    MAX_PROGRAM_BYTES,
    exit_status,
    inner_pids,
    observe,
    read_text,
    read_vector,
)
from paddock.fence.event_logs import MAX_EVENTS, ExecLog
from paddock.model.results import ExecEvent

PAGE = mmap.PAGESIZE
OWN, LIMIT = os.getpid(), MAX_PROGRAM_BYTES
EXECVE, EXECVEAT = 59, 322  # any other number than execveat's is read as execve
words = st.binary(max_size=60).filter(lambda b: b"\0" not in b)


class Pages:
    """Mapped pages with a hole behind them: reading on past their end is an error."""

    def __init__(self, count: int) -> None:
        self.size = count * PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        length, flags = ctypes.c_size_t(self.size + PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.start = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        # By hand, and for good: Python's own map would give back the hole together with the rest.
        assert libc.munmap(ctypes.c_void_p(self.start + self.size), ctypes.c_size_t(PAGE)) == 0

    def put(self, content: bytes, at: int) -> int:
        ctypes.memmove(self.start + at, content, len(content))
        return self.start + at

    def put_at_end(self, content: bytes) -> int:
        return self.put(content, self.size - len(content))


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages(4)


def vector(items: list[bytes]) -> tuple[ctypes.Array[ctypes.c_char_p], int]:
    array = (ctypes.c_char_p * (len(items) + 1))(*items, None)
    return array, ctypes.addressof(array)


# ---- one text ------------------------------------------------------------------------------------


@given(words)
def test_text_is_read_up_to_its_end(word: bytes) -> None:
    buffer = ctypes.create_string_buffer(word)
    assert read_text(OWN, ctypes.addressof(buffer), LIMIT) == word


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4])
def test_text_across_the_end_of_a_page_is_read_whole(pages: Pages, before: int) -> None:
    address = pages.put(b"abcd\0", PAGE - before)
    assert read_text(OWN, address, LIMIT) == b"abcd"


def test_text_in_the_last_bytes_of_a_mapping_is_read_whole(pages: Pages) -> None:
    assert read_text(OWN, pages.put_at_end(b"/bin/true\0"), LIMIT) == b"/bin/true"


def test_text_that_runs_out_of_its_mapping_is_an_error_that_is_caught(pages: Pages) -> None:
    with pytest.raises(OSError, match=r"."):
        read_text(OWN, pages.put_at_end(b"no end"), LIMIT)


def test_text_without_an_end_is_cut_at_the_limit(pages: Pages) -> None:
    address = pages.put(b"x" * (3 * PAGE), 0)
    assert read_text(OWN, address, LIMIT) == b"x" * LIMIT
    assert read_text(OWN, address + 100, 10) == b"x" * 10


def test_address_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match=r"."):
        read_text(OWN, 8, LIMIT)


# ---- a vector ------------------------------------------------------------------------------------


@given(st.lists(words, max_size=40))
def test_vector_is_read_in_order(items: list[bytes]) -> None:
    _keep, address = vector(items)
    assert read_vector(OWN, address) == (items, False)


@pytest.mark.parametrize("before", [8, 16, 24])
def test_vector_across_the_end_of_a_page_is_read_whole(pages: Pages, before: int) -> None:
    text = pages.put(b"arg\0", 0)
    content = text.to_bytes(8, sys.byteorder) * 4 + bytes(8)
    address = pages.put(content, 2 * PAGE - before)
    assert read_vector(OWN, address) == ([b"arg"] * 4, False)


def test_vector_that_is_not_aligned_hides_nothing(pages: Pages) -> None:
    # The kernel takes pointers that lie anywhere, also across the end of a page.
    text = pages.put(b"arg\0", 0)
    content = text.to_bytes(8, sys.byteorder) * 4 + bytes(8)
    for offset in range(1, 16):
        address = pages.put(content, 2 * PAGE - 16 + offset)
        assert read_vector(OWN, address) == ([b"arg"] * 4, False), offset


def test_vector_at_the_end_of_a_mapping_is_read_whole(pages: Pages) -> None:
    text = pages.put(b"arg\0", 0)
    content = text.to_bytes(8, sys.byteorder) * 2 + bytes(8)
    assert read_vector(OWN, pages.put_at_end(content)) == ([b"arg", b"arg"], False)


def test_no_vector_at_all_is_an_empty_one() -> None:
    assert read_vector(OWN, 0) == ([], False)


def test_arguments_that_take_too_much_room_together_are_cut() -> None:
    _keep, address = vector([b"x" * (MAX_ARGUMENT_BYTES // 4)] * 6)
    found, is_truncated = read_vector(OWN, address)
    assert sum(map(len, found)) == MAX_ARGUMENT_BYTES
    assert is_truncated


def test_longest_vector_is_cut_and_says_so() -> None:
    _keep, address = vector([b"x"] * (MAX_ARGUMENTS + 5))
    assert read_vector(OWN, address) == ([b"x"] * MAX_ARGUMENTS, True)


def test_long_argument_is_cut_and_says_so() -> None:
    _keep, address = vector([b"short", b"y" * (MAX_ARGUMENT_BYTES + 1)])
    assert read_vector(OWN, address) == ([b"short", b"y" * (MAX_ARGUMENT_BYTES - 5)], True)


# ---- the whole observation -----------------------------------------------------------------------


def test_exec_is_observed_with_its_program_arguments_and_place() -> None:
    program = ctypes.create_string_buffer(b"/bin/sh")
    _keep, argv = vector([b"sh", b"-c", b"a\xffb"])
    before = time.time()
    _, _, event = observe(os.getpid(), EXECVE, [ctypes.addressof(program), argv, 0, 0, 0, 0])
    assert (event.program, event.cwd) == ("/bin/sh", os.getcwd())
    assert event.argv == ("sh", "-c", "a\\xffb")
    assert event.pid == int(os.readlink("/proc/self").split("/")[-1])
    assert before <= event.started_at <= time.time()
    assert event.exit_code is None


def test_execveat_has_its_texts_one_argument_later() -> None:
    program = ctypes.create_string_buffer(b"")
    _keep, argv = vector([b"by-descriptor"])
    _, _, event = observe(os.getpid(), EXECVEAT, [3, ctypes.addressof(program), argv, 0, 0, 0])
    assert event.argv == ("by-descriptor",)


@pytest.mark.parametrize("name", [b"/no/such/program", b"no-such-program", b"/etc/passwd/below"])
def test_program_that_is_not_there_is_refused_as_the_kernel_would(name: bytes) -> None:
    program = ctypes.create_string_buffer(name)
    _keep, argv = vector([b"x"])
    with pytest.raises(OSError, match=r".") as caught:
        observe(OWN, EXECVE, [ctypes.addressof(program), argv, 0, 0, 0, 0])
    assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)


def test_program_whose_name_cannot_be_read_is_refused() -> None:
    _keep, argv = vector([b"x"])
    with pytest.raises(OSError, match=r".") as caught:
        observe(OWN, EXECVE, [8, argv, 0, 0, 0, 0])
    assert caught.value.errno == errno.EFAULT


def test_pids_are_those_of_the_innermost_namespace() -> None:
    own, parent = inner_pids(os.getpid())
    assert own > 0
    assert parent == os.getppid()


# ---- endings -------------------------------------------------------------------------------------

needs_status = pytest.mark.skipif(
    not HAS_EXIT_STATUS, reason="this kernel tells no exit status by pidfd (Linux 6.15)"
)


@needs_status
@pytest.mark.parametrize(
    ("program", "status"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)],
)
def test_status_of_a_child_is_read_by_its_pidfd(program: str, status: int) -> None:
    process = subprocess.Popen(["/bin/sh", "-c", program])
    fd = os.pidfd_open(process.pid)
    try:
        process.wait(10)
        assert exit_status(fd) == status
    finally:
        os.close(fd)


def test_process_that_runs_has_no_status_yet() -> None:
    process = subprocess.Popen(["sleep", "60"])
    fd = os.pidfd_open(process.pid)
    try:
        assert exit_status(fd) is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        os.close(fd)


def test_descriptor_that_is_no_pidfd_has_no_status() -> None:
    with open("/dev/null") as file:
        assert exit_status(file.fileno()) is None


# ---- the log -------------------------------------------------------------------------------------


def event(name: str = "x", at: float = 1.0) -> ExecEvent:
    return ExecEvent(name, (name,), "/", 2, 1, at)


def test_event_is_completed_once_and_told_twice() -> None:
    log, heard = ExecLog(), []
    log.listeners.append(heard.append)
    number = log.add(event(at=10.0))
    log.complete(number, 3, 12.5)
    log.complete(number, 0, 99.0)
    [done] = log.all()
    assert (done.exit_code, done.duration_s) == (3, 2.5)
    assert [e.duration_s for e in heard] == [None, 2.5]


def test_log_is_bounded_and_counts_what_it_let_go() -> None:
    log = ExecLog()
    first = log.add(event("first"))
    for n in range(MAX_EVENTS + 2):
        log.add(event(str(n)))
    log.complete(first, 0, 2.0)  # gone: nothing to complete, and no error
    assert len(log.all()) == MAX_EVENTS
    assert log.dropped == 3
    assert log.all()[-1].program == str(MAX_EVENTS + 1)
