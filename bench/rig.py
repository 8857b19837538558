"""The rig of every measurement: how thorough to be, where to put files, and the peers."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.peers import Peers, open_peers
from paddock.state.home import Home

TRUE = ["/bin/true"]


class Rig(msgspec.Struct, frozen=True):
    """The set-up of one run of the bench."""

    is_quick: bool
    scratch: Path  # on the file system that holds the sandboxes' state
    peers: Peers

    def count(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full


@contextlib.contextmanager
def open_rig(*, is_quick: bool) -> Iterator[Rig]:
    """A rig whose files and processes are gone after the block."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=Home.find().root))
    try:
        with _no_automatic_pool(), open_peers(scratch) as peers:
            yield Rig(is_quick, scratch, peers)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _no_automatic_pool() -> Iterator[None]:
    """A cold start must be one: no sandbox is booted ahead unless a measurement asks for it."""
    before = os.environ.get("PADDOCK_POOL")
    os.environ["PADDOCK_POOL"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PADDOCK_POOL"]
        else:
            os.environ["PADDOCK_POOL"] = before


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`, as the kernel names it."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0]
    return "unknown"
