"""The keeper's side of the nursery: it forks what it is asked for; a dead one is replaced."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.fence.container.nursery import Nursery
from paddock.fence.uids import FIRST_UID, UID_COUNT
from paddock.state.privilege import is_privileged
from polling import is_readable

_PATIENCE_S = 60.0

NO_PROGRAM = "/no/such/bubblewrap"
# Of the last sandbox that a machine would have, so that none has it now.
UID = FIRST_UID + UID_COUNT - 1 if is_privileged() else 0


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    assert made._sock is not None
    made._sock.close()
    os.waitpid(made._pid, 0)  # it ends by itself when nobody can ask it any more


class Guest:
    """A guest that was asked for with a bubblewrap that is not there: it says so, and ends."""

    def __init__(self, nursery: Nursery) -> None:
        self._errors, errors = os.pipe()
        channel, boot = socket.socketpair(), socket.socketpair(type=socket.SOCK_SEQPACKET)
        words = {"argv": NO_PROGRAM, "masked": [], "uid": UID}
        try:
            fds = [channel[1].fileno(), boot[1].fileno(), errors]
            self.pid, self.pidfd = nursery.fork(words, [], fds)
        finally:
            os.close(errors)
            for sock in (*channel, *boot):
                sock.close()

    def end(self) -> str:
        """Waits for it; gives its last words."""
        assert is_readable(self.pidfd, _PATIENCE_S)
        os.close(self.pidfd)
        with open(self._errors, "rb") as file:
            return file.read().decode()


def test_guest_is_a_child_of_the_nursery_and_named_by_its_descriptor(nursery: Nursery) -> None:
    os.kill(nursery._pid, 0)
    guest = Guest(nursery)
    info = Path(f"/proc/self/fdinfo/{guest.pidfd}").read_text()
    # -1 when it has ended already.
    assert f"Pid:\t{guest.pid}\n" in info or "Pid:\t-1\n" in info
    assert guest.pid not in (nursery._pid, os.getpid())
    assert not os.get_inheritable(guest.pidfd)
    guest.end()


def test_guest_that_cannot_start_says_why_and_ends(nursery: Nursery) -> None:
    assert Guest(nursery).end().startswith("the guest did not boot: ")


def test_nursery_waits_for_its_guests_so_that_nobody_has_to(nursery: Nursery) -> None:
    guests = [Guest(nursery) for _ in range(5)]
    for guest in guests:
        guest.end()
    until_gone(*(guest.pid for guest in guests))


def test_nursery_keeps_no_descriptor_of_a_guest(nursery: Nursery) -> None:
    Guest(nursery).end()
    before = descriptors(nursery)
    for _ in range(10):
        Guest(nursery).end()
    assert descriptors(nursery) == before


def test_killed_nursery_is_started_anew_for_the_next_guest(nursery: Nursery) -> None:
    Guest(nursery).end()
    killed = nursery._pid
    os.kill(killed, signal.SIGKILL)
    os.waitpid(killed, 0)
    assert Guest(nursery).end()
    assert nursery._pid != killed


def test_request_that_a_killed_nursery_had_read_is_not_made_again(nursery: Nursery) -> None:
    """Two guests with the same sockets would each take words that are for the other."""
    assert nursery._sock is not None
    first_pid = nursery._pid
    nursery._sock.close()
    os.waitpid(first_pid, 0)
    nursery._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def read_and_end() -> None:
        with theirs:
            theirs.recv(1 << 16)

    reading = threading.Thread(target=read_and_end)
    reading.start()
    with pytest.raises(OSError, match="try again"):
        Guest(nursery)
    reading.join()
    assert nursery._pid != first_pid
    Guest(nursery).end()


def test_nursery_ends_when_its_keeper_hangs_up() -> None:
    made = Nursery()
    Guest(made).end()
    assert made._sock is not None
    made._sock.close()
    assert os.waitpid(made._pid, 0)[1] == 0


def descriptors(nursery: Nursery) -> list[str]:
    """By name; root's nursery can only be looked into by root, who it belongs to."""
    return sorted(os.listdir(f"/proc/{nursery._pid}/fd"))


def until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.005)
