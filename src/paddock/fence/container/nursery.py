"""The keeper's side of the nursery, the process that guests are forked from."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from paddock.fence.container.launch import StagedTree
from paddock.fence.guest import wire

_GUEST = str(Path(__file__).parent.parent / "guest")
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[2]); import nursery;"
    "nursery.start(int(sys.argv[1]), sys.orig_argv)"
)
_MAX_ANSWER = 4096


class Nursery:
    """A running nursery; started anew when it is found dead."""

    def __init__(self) -> None:
        self._sock: socket.socket | None = None
        self._pid = 0
        self._start()

    def fork(
        self, ask: dict[str, object], trees: list[StagedTree], fds: list[int]
    ) -> tuple[int, int]:
        """Asks for a guest; returns its pid and a descriptor of it."""
        request = {**ask, "trees": [[tree.number, tree.is_directory] for tree in trees]}
        data: bytes = wire.pack(request)  # type: ignore[no-untyped-call]
        all_fds = [*fds, *(tree.fd for tree in trees)]
        try:
            answer, pidfds = self._exchange(data, all_fds)
        except ConnectionError:  # it had been killed, and its guests with it
            self._start()
            answer, pidfds = self._exchange(data, all_fds)
        if "error" in answer:
            raise OSError(answer["error"], str(answer["text"]))
        return int(str(answer["pid"])), pidfds[0]

    def _exchange(self, data: bytes, fds: list[int]) -> tuple[dict[str, object], list[int]]:
        """Raises ConnectionError if the nursery ended before it had read the request."""
        assert self._sock is not None
        socket.send_fds(self._sock, [data], fds)
        answer, pidfds, _, _ = socket.recv_fds(self._sock, _MAX_ANSWER, 1)
        if not answer:
            # A guest may have these descriptors already. A second one must not share them.
            self._start()
            raise OSError("the nursery, which sandboxes are started from, was killed; try again")
        for fd in pidfds:
            os.set_inheritable(fd, False)
        value: dict[str, object] = wire.unpack_map(answer)  # type: ignore[no-untyped-call]
        return value, pidfds

    def _start(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(number), _GUEST]
            # Onto itself: the way to have one descriptor stay open in the new program.
            actions = [(os.POSIX_SPAWN_DUP2, number, number)]
            self._pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions)
