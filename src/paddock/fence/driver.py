"""The contract of a fence: what a driver offers, and what the doors may rely on.

`Driver` and `Machine` are the whole contract between the doors and a fence: everything above the
fence uses these two classes, `fence.network` for what leaves a machine, and the guest's operations,
which are the same over every driver because they are spoken through `Machine.channel`.
`fence.self_check` tries the contract on any driver.
"""

from __future__ import annotations

import contextlib
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar, Self

import msgspec

from paddock.fence.channel import Channel
from paddock.fence.event_logs import ExecLog, FileLog
from paddock.model.errors import CannotEnforce
from paddock.model.results import Metrics
from paddock.model.spec import HOME, Limits, Spec
from paddock.state.home import Home
from paddock.state.layers.layers import Layers

if TYPE_CHECKING:  # loaded when a sandbox has a network
    from paddock.fence.network import MachineNetwork

SEARCH_PATH = f"{HOME}/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The environment that every program inside begins with.
BASE_ENV = {
    "PATH": SEARCH_PATH,
    "HOME": HOME,
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
}


class Capability(enum.Enum):
    """Something that a machine may be unable to do. Everything else every machine can do."""

    EXEC_EVENTS = "tell every program that is executed inside"
    EXEC_JUDGE = "hold a program that is about to run until it is decided on"
    FILE_EVENTS = "tell which files are read and written inside"
    NETWORK = "keep programs off every network but the network door"
    HOST_PROCESSES = "show its programs as processes of this host"
    MEMORY_CHECKPOINT = "save and restore the memory of its programs"


class ProbeFinding(msgspec.Struct, frozen=True):
    """One thing a driver can or cannot enforce here: by what, or why not and what would fix it."""

    name: str
    is_enforced: bool
    by: str
    why_not: str | None = None
    fix: str | None = None


class Probe(msgspec.Struct, frozen=True):
    """The findings of one driver on this host, in the order in which a reader wants them."""

    driver: str
    findings: tuple[ProbeFinding, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Return whether a sandbox can be started at all."""
        return all(f.is_enforced for f in self.findings if f.name in ("isolation", "seccomp"))


class Allocation(msgspec.Struct, frozen=True):
    """The id, writable layer, quotas and names that the host sets aside for one machine."""

    machine_id: str
    layer: str  # the name of the machine's own writable layer
    hostname: str
    metadata: dict[str, str] = {}
    quotas: dict[str, int] = {}  # of mounted volumes, by layer
    base: str | None = None  # a layer that must outlive this machine, to compare with


class Machine(ABC):
    """A running fence with a guest inside.

    All methods are called from one event loop. When the machine ends, by whatever cause,
    `ended_by` says why, every waiting call on the channel raises SandboxDied with that reason at
    once, and each callback in `on_end` is called with it, once.

    What a machine may lack is declared in `missing`, with the reason. A door that needs it calls
    `require` before anything untrusted runs, so that it is refused, and never silently left out.
    """

    machine_id: str
    channel: Channel  # frames to and from the guest
    limits: Limits
    layer: str  # the name of its writable layer in `layers`
    uid: int  # of the host, that its programs run under
    enforcement: dict[str, str]  # by what each part of the spec is kept, for people
    missing: Mapping[Capability, str]  # the reason of each capability that it lacks
    execs: ExecLog  # has a `judge` to set, with EXEC_JUDGE
    files: FileLog
    is_frozen: bool
    ended_by: str | None
    on_end: list[Callable[[str], None]]

    @property
    @abstractmethod
    def layers(self) -> Layers:
        """Return the store that its writable layer lies in."""

    @property
    @abstractmethod
    def init_pid(self) -> int:
        """Return the guest's pid on this host; for the functions of `fence.processes`. Raises
        CannotEnforce without HOST_PROCESSES."""

    @property
    @abstractmethod
    def network(self) -> MachineNetwork:
        """Return its network, for the network door. Raises CannotEnforce without NETWORK."""

    @abstractmethod
    async def freeze(self) -> None:
        """Stop every program inside. Requests to the guest must be held back meanwhile: see
        `holding_calls`. Raises SandboxError if it still runs."""

    @abstractmethod
    async def thaw(self) -> None:
        """Let the programs go on."""

    @abstractmethod
    async def stats(self) -> Metrics:
        """Measure CPU, memory, processes, disk and I/O; also of a frozen machine."""

    @abstractmethod
    async def set_limits(self, limits: Limits) -> None:
        """Apply other limits to a machine whose driver said that it `can_adapt` to them."""

    @abstractmethod
    def hits(self) -> dict[str, int]:
        """Return how often each limit was reached so far; two readings tell what a command ran
        into."""

    @abstractmethod
    async def is_disk_full(self) -> bool:
        """Return whether a quota is reached."""

    @abstractmethod
    async def stop(self, reason: str) -> None:
        """End everything inside and remove what it left. Calling it twice is harmless."""

    def require(self, capability: Capability) -> None:
        """Raise CannotEnforce, with the reason, if the machine lacks a capability."""
        reason = self.missing.get(capability)
        if reason is not None:
            raise CannotEnforce(f"this fence cannot {capability.value}: {reason}")

    @contextlib.contextmanager
    def holding_calls(self) -> Iterator[None]:
        """Within this, requests to the guest wait."""
        self.channel.hold()
        try:
            yield
        finally:
            self.channel.release()


class Driver(ABC):
    """A kind of fence. One object serves all machines of one host process and one home.

    - `probe` says what this driver can enforce on this host. It changes nothing.
    - `start` returns a machine only when every part of its spec is in force, and nothing untrusted
      has run by then. A part that cannot be enforced raises CannotEnforce and names it; there is
      no warning that continues.
    - A machine that could not be started leaves nothing behind: no process, mount, group or layer.
    - When the host process ends, by whatever cause, its machines end too, and what they left is
      removed, at the latest when the next driver opens the same home.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def probe(cls, home: Home) -> Probe:
        """Return what can be enforced here, found by looking and by trying."""

    @classmethod
    @abstractmethod
    async def open(cls, home: Home) -> Self:
        """Make the driver ready. Raises HostCannot."""

    @abstractmethod
    def close(self, *, is_waiting: bool = True) -> None:
        """Let go of everything, after the last machine has stopped."""

    @abstractmethod
    def close_in_child(self) -> None:
        """Close the sockets that a forked child inherited: they are its parent's."""

    @property
    @abstractmethod
    def is_lost(self) -> bool:
        """Return whether the driver has failed for good; its machines are gone then."""

    @property
    @abstractmethod
    def layers(self) -> Layers:
        """Return the store of writable layers, which machines and volumes lie in."""

    @abstractmethod
    async def sweep(self) -> None:
        """Remove what sandboxes of processes that are gone have left in this home."""

    @abstractmethod
    def can_adapt(self, limits: Limits) -> bool:
        """Return whether a machine that was started with the default spec can have these."""

    @abstractmethod
    def prepared(self, name: str, base: str | None = None) -> AbstractAsyncContextManager[None]:
        """Within this a machine is being made and its layer filled; if that fails, nothing of it
        is left. `base` is a layer that must stay as long as the machine."""

    @abstractmethod
    async def start(
        self, spec: Spec, allocation: Allocation, *, is_prepared: bool = False
    ) -> Machine:
        """Start a machine, in a layer that `prepared` has protected or else in a new, empty one.
        Raises CannotEnforce for a spec that this driver cannot keep, and HostCannot."""
