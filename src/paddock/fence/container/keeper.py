"""The keeper: one small process beside each host process, parent of all its sandboxes.

It prepares a sandbox's mounts, has its nursery fork the guest, sees its end, and removes all that
it left. When its host process ends, by whatever cause, the keeper sees its socket close, ends every
sandbox, cleans up and goes. When the keeper itself is killed, nursery and guests die with it and
the next keeper sweeps. So a start costs the same however large the host process is.

It runs without the packages around Paddock: what it imports uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from paddock.fence.bubblewrap import MAX_LIBRARIES
from paddock.fence.container import cgroups, launch, mounts
from paddock.fence.container.keeper_protocol import MAX_MESSAGE
from paddock.fence.container.nursery import Nursery
from paddock.fence.guest import wire
from paddock.fence.guest.agreed import STAGE
from paddock.fence.uids import FIRST_UID, LAYER_OWNER, UID_COUNT
from paddock.state import procstat
from paddock.state.home import Home, SandboxRecord, abandoned, claim, remove_tree
from paddock.state.layers import btrfs
from paddock.state.layers.layers import (
    BtrfsLayers,
    Layers,
    PlainLayers,
    copies_lock,
    unneeded_copies,
)
from paddock.state.privilege import is_privileged

RUN = os.path.dirname(STAGE)
_MAX_FDS = 4 + MAX_LIBRARIES  # channel, boot socket, errors, bubblewrap, its libraries
_MAX_MAPPINGS = 256  # kept open for reuse; each costs a descriptor


def main(fd: int) -> None:
    """Serves the host process at the other end of `fd` until it is gone."""
    os.setsid()
    os.umask(0o022)  # what it makes is for the uids of sandboxes too
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is for the host process to handle
    try:
        keeper = Keeper(socket.socket(fileno=fd))
    except EOFError:
        return  # the host process was gone before it had said a word
    try:
        keeper.serve()
    finally:
        keeper.end_all()


class Keeper:
    """The state of one keeper: its sandboxes and what they hold."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._is_root = is_privileged()
        self._boxes: dict[str, _Box] = {}
        self._userns: dict[tuple[int, int, int], int] = {}
        self._wakeup_r, wakeup_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._nursery = Nursery()  # first: it gets up while the rest is made ready
        self._poll = select.poll()
        self._guests: dict[int, str] = {}  # pidfd to sandbox
        ask, _ = self._receive()
        self._home = Home(Path(ask["home"]))
        self._layers, pool_fd, why_plain = self._open_layers()
        self._sweep()
        self._reply(ask, {"why_plain": why_plain}, [pool_fd] if pool_fd is not None else [])

    def serve(self) -> None:
        self._poll.register(self._sock, select.POLLIN)
        self._poll.register(self._wakeup_r, select.POLLIN)
        while True:
            ready = [fd for fd, _ in self._poll.poll()]
            if self._wakeup_r in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup_r, 4096)
                with contextlib.suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass  # a nursery that was killed, and the guests that were left to us
            for fd in ready:
                if fd in self._guests:
                    self._send({"exited": self._guests[fd]})
                    self._unwatch(fd)
            if self._sock.fileno() in ready:
                try:
                    ask, fds = self._receive()
                except EOFError:
                    return
                self._handle(ask, fds)

    def end_all(self) -> None:
        for box in self._boxes.values():
            box.kill()
        for sandbox_id in list(self._boxes):
            with contextlib.suppress(OSError):
                self._discard(sandbox_id)

    def _handle(self, ask: dict[str, Any], fds: list[int]) -> None:
        operations = {
            "prepare": self._prepare,
            "launch": self._launch,
            "ready": self._ready,
            "discard": self._on_discard,
            "sweep": self._on_sweep,
        }
        try:
            self._reply(ask, operations[ask["op"]](ask, fds))
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            self._reply(ask, {"error": f"{where}{error.strerror or error} ({ask['op']})"})
        except Exception:  # a bug of ours must reach the caller as an error, not as silence
            import traceback

            self._reply(ask, {"error": traceback.format_exc(limit=4)})
        finally:
            for fd in fds:
                os.close(fd)

    def _prepare(self, ask: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Before anything of a sandbox is made: what there will be to remove is written down."""
        sandbox_id = ask["id"]
        box = self._boxes[sandbox_id] = _Box(lease=claim(self._home, sandbox_id))
        groups = tuple(ask["cgroups"])
        box.record = SandboxRecord(sandbox_id, sandbox_id, groups, info={"base": ask["base"]})
        box.record.write(self._home.sandboxes / sandbox_id)
        return {}

    def _launch(self, ask: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        if ask["make"] is not None:
            self._prepare({"id": ask["id"], **ask["make"]}, [])
            self._layers.create(ask["id"], ask["make"]["quota"], LAYER_OWNER)
        box = self._boxes[ask["id"]]
        if self._is_root:
            box.uid, box.uid_lock = _lease_uid()
        for stage in ask["stages"]:
            if stage["layer"]:  # ours, by name: its path differs between mount namespaces
                stage["source"] = os.fspath(self._layers.path(stage["layer"]))
        trees = self._trees(ask["stages"], box.uid)
        try:
            box.pid, box.init = self._nursery.fork({"uid": box.uid}, trees, fds)
        finally:
            launch.close(trees)
        self._guests[box.init] = ask["id"]
        self._poll.register(box.init, select.POLLIN)
        return {"pid": box.pid, "uid": box.uid or os.geteuid()}

    def _trees(self, stages: list[dict[str, Any]], uid: int) -> list[launch.StagedTree]:
        if not self._is_root:
            return launch.checked(stages)
        return launch.detached(stages, [self._mapping(stage, uid) for stage in stages])

    def _ready(self, ask: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        box = self._boxes[ask["id"]]
        assert box.record is not None
        started = _start_time(box.pid)
        box.record = box.record._replace(init_pid=box.pid, init_started=started, info=ask["info"])
        box.record.write(self._home.sandboxes / ask["id"])
        return {}

    def _on_discard(self, ask: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        self._discard(ask["id"])
        return {}

    def _discard(self, sandbox_id: str) -> None:
        box = self._boxes.pop(sandbox_id, None)
        if box is None:
            return
        box.kill()
        box.wait()
        if box.init is not None:
            self._unwatch(box.init)
        if box.record is not None:
            self._remove(box.record)
        box.release()

    def _remove(self, record: SandboxRecord) -> None:
        """Remove what a sandbox left: the same for an orderly end, a dead host and a sweep."""
        cgroups.remove(list(record.cgroups))
        self._layers.destroy(record.layer)
        directory = self._home.sandboxes / record.sandbox_id
        if directory.exists():
            remove_tree(directory)

    def _on_sweep(self, ask: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        self._sweep()
        return {}

    def _sweep(self) -> None:
        for directory, lease in abandoned(self._home):
            record = SandboxRecord.read(directory)
            if record is None:
                remove_tree(directory)
            else:
                _kill_if_same(record.init_pid, record.init_started)
                with contextlib.suppress(OSError):
                    self._remove(record)
            os.close(lease)
        self._sweep_layers()

    def _sweep_layers(self) -> None:
        """Copies that no sandbox compares itself with: a crash came while they were in use."""
        with copies_lock(self._home).exclusive_if_free() as is_free:
            for name in unneeded_copies(self._home, self._layers) if is_free else ():
                with contextlib.suppress(OSError):
                    self._layers.destroy(name)

    def _unwatch(self, fd: int) -> None:
        if self._guests.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _mapping(self, stage: dict[str, Any], uid: int) -> int | None:
        if stage["owner"] is None or not self._is_root:
            return None
        key = (*stage["owner"], uid)
        if len(self._userns) >= _MAX_MAPPINGS:
            os.close(self._userns.pop(next(iter(self._userns))))
        if key not in self._userns:
            self._userns[key] = mounts.id_mapping(tuple(stage["owner"]), uid)
        return self._userns[key]

    def _open_layers(self) -> tuple[Layers, int | None, str]:
        """Open the btrfs pool where this host can have one, else plain directories with the
        reason."""
        if not self._is_root:
            return PlainLayers(self._home.layers), None, "only root can mount a pool with quotas"
        for path in (RUN, STAGE, f"{RUN}/pool", f"{RUN}/uids"):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o755)  # one that an earlier version made may be closed by its umask
        mounts.unshare(mounts.CLONE_NEWNS)
        mounts.make_slave()
        try:
            fd = self._mount_pool()
        except Exception as error:
            return PlainLayers(self._home.layers), None, str(error).splitlines()[0]
        return BtrfsLayers(fd, Path(f"{RUN}/pool")), fd, ""

    def _mount_pool(self) -> int:
        if "btrfs" not in Path("/proc/filesystems").read_text():
            raise OSError("this kernel has no btrfs")
        with self._home.lock("pool"):
            if not self._home.pool_image.exists():
                btrfs.make_image(self._home.pool_image)
            device = btrfs.attach_loop(self._home.pool_image)
            try:
                mounts.mount(device, f"{RUN}/pool", "btrfs", "discard=async,nodatacow")
            finally:
                btrfs.release_loops()
            fd = os.open(f"{RUN}/pool", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            btrfs.enable_quota(fd)
        return fd

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self._sock, MAX_MESSAGE, _MAX_FDS)
        except ConnectionResetError:  # killed with answers of ours still unread
            data, fds = b"", []
        if not data:
            raise EOFError
        message: dict[str, Any] = wire.unpack_map(data)  # type: ignore[no-untyped-call]
        return message, fds

    def _reply(
        self, ask: dict[str, Any], value: dict[str, Any], fds: list[int] | None = None
    ) -> None:
        self._send({"number": ask["number"], **value}, fds or [])

    def _send(self, value: dict[str, Any], fds: list[int] | None = None) -> None:
        data: bytes = wire.pack(value)  # type: ignore[no-untyped-call]
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(self._sock, [data], fds or [])


class _Box:
    """The descriptors and paths that the keeper holds for one sandbox."""

    def __init__(self, lease: int) -> None:
        self.lease = lease
        self.record: SandboxRecord | None = None
        self.uid = 0
        self.uid_lock: int | None = None
        self.pid = 0  # of the guest
        self.init: int | None = None

    def kill(self) -> None:
        for path in self.record.cgroups if self.record else ():
            if os.path.exists(f"{path}/freezer.state"):
                # A v1 group that is frozen does not even die: it must be thawed to.
                with contextlib.suppress(OSError), open(f"{path}/freezer.state", "w") as file:
                    file.write("THAWED")
        if self.init is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init, signal.SIGKILL)

    def wait(self) -> None:
        """Returns when nothing of it runs: an init ends after all that it held."""
        if self.init is not None:
            ended = select.poll()  # `select` knows no descriptor beyond 1023
            ended.register(self.init, select.POLLIN)
            ended.poll()

    def release(self) -> None:
        for fd in (self.init, self.uid_lock, self.lease):
            if fd is not None:
                os.close(fd)


def _lease_uid() -> tuple[int, int]:
    """Return a uid that no other sandbox of this machine has now; the lock is the lease."""
    for number in range(FIRST_UID, FIRST_UID + UID_COUNT):
        fd = os.open(f"{RUN}/uids/{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            continue
        return number, fd
    raise OSError(f"all {UID_COUNT} sandbox uids are in use")


def _kill_if_same(pid: int, started: int) -> None:
    """Kill a process only if it is certainly the recorded one: pids are used again."""
    if not pid:
        return
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(pid)
        try:
            if _start_time(pid) == started:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)


def _start_time(pid: int) -> int:
    return int(procstat.fields(pid)[procstat.STARTED])


if __name__ == "__main__":
    main(int(sys.argv[1]))
