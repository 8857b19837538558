"""The keeper's child on its way to being a sandbox: mounts, descriptors, uid, then bubblewrap."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
from typing import Any

from paddock.fence.container import mounts
from paddock.fence.container.sources import open_source

RUN = "/run/paddock"
STAGE = f"{RUN}/stage"
CHANNEL_FD, BOOT_FD = 3, 4
SOURCE_FD = 100  # the first of those through which an ordinary user's sources are bound
_PR_SET_PDEATHSIG = 1


def become_sandbox(
    ask: dict[str, Any], fds: list[int], uid: int, mappings: list[int | None]
) -> None:
    """The child's side of fork: stage, drop to the sandbox's uid, become bubblewrap."""
    try:
        channel, boot, errors = fds
        os.dup2(errors, 2)
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != ask["keeper"]:
            os._exit(125)  # the keeper died before the line above: nobody would end this process
        if uid:
            _stage(ask["stages"], mappings)
        sources = {} if uid else _user_sources(ask["stages"])
        _arrange(channel, boot, sources)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if uid:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        os.execve(ask["argv"][0], ask["argv"], {})
    except BaseException as error:
        os.write(2, f"cannot start the sandbox: {error}".encode())
    finally:
        os._exit(125)


def _stage(stages: list[dict[str, Any]], mappings: list[int | None]) -> None:
    mounts.unshare(mounts.CLONE_NEWNS)
    mounts.make_slave()
    # All before the tmpfs goes on top: a source may lie below the staging directory's own path.
    trees = []
    for stage, mapping in zip(stages, mappings, strict=True):
        source = _open_source(stage)
        tree = mounts.clone_tree(source, is_recursive=stage["recursive"])
        try:
            mounts.set_attributes(tree, userns_fd=mapping, is_readonly=stage["readonly"])
        except OSError as error:
            text = "its file system cannot map ids (network and FUSE file systems often cannot)"
            raise OSError(f"{stage['source']} cannot be mounted: {text}: {error}") from None
        trees.append((tree, os.path.isdir(f"/proc/self/fd/{source}")))
    mounts.mount_tmpfs(STAGE, "mode=755,size=64k")
    for number, (tree, is_directory) in enumerate(trees):
        target = f"{STAGE}/{number}"
        if is_directory:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        mounts.attach(tree, target)


def _open_source(stage: dict[str, Any]) -> int:
    if stage["identity"] is None:
        return os.open(stage["source"], os.O_PATH | os.O_CLOEXEC)
    return open_source(stage["source"], tuple(stage["identity"]))


def _user_sources(stages: list[dict[str, Any]]) -> dict[int, int]:
    """Checked descriptors of a user's own paths, by the number at which bubblewrap expects them."""
    wanted = [(n, stage) for n, stage in enumerate(stages) if stage["identity"] is not None]
    return {SOURCE_FD + n: _open_source(stage) for n, stage in wanted}


def _arrange(channel: int, boot: int, sources: dict[int, int]) -> None:
    """Descriptors 0 to 4 and the sources, nothing else: bubblewrap passes on whatever is open.
    The guest closes all above 4 before it does anything."""
    wanted = {CHANNEL_FD: channel, BOOT_FD: boot, **sources}
    above = max(wanted) + 1
    lifted = {n: fcntl.fcntl(fd, fcntl.F_DUPFD, above) for n, fd in wanted.items()}
    null = os.open("/dev/null", os.O_RDWR)
    for target, fd in {0: null, 1: null, **lifted}.items():
        os.dup2(fd, target)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in wanted:
            with contextlib.suppress(OSError):
                os.close(number)
