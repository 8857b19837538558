"""The container driver: says what it can enforce here, and starts machines that do.

A part of the spec that cannot be enforced on this host refuses the sandbox and names the part.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from paddock.fence import bubblewrap, seccomp
from paddock.fence.channel import Channel
from paddock.fence.container import cgroups, rootfs
from paddock.fence.container.boot import Handed, booted
from paddock.fence.container.file_audit import Auditor
from paddock.fence.container.keeper_link import KeeperLink
from paddock.fence.container.machine import ContainerMachine, Parts
from paddock.fence.container.notifier import HAS_EXIT_STATUS
from paddock.fence.container.plan import arguments, masked, stages
from paddock.fence.driver import BASE_ENV, Allocation, Capability, Driver, Probe
from paddock.fence.guest import agreed, wire
from paddock.model.errors import CannotEnforce, PaddockError
from paddock.model.sizes import MAX_SIZE
from paddock.model.spec import HOME, MAX_COUNT, Limits, MountMode, Spec
from paddock.state.home import Home
from paddock.state.layers.layers import Layers
from paddock.state.privilege import is_privileged

_SOCKET_BUFFER = 1 << 20
_SO_SNDBUFFORCE = 32
_DESCRIPTORS = 1 << 16


class _Enforcing(msgspec.Struct, frozen=True):
    """The mechanism that keeps each limit of one spec on this host."""

    by: dict[str, str]
    is_watched: bool
    cpus: list[int] | None


class ContainerDriver(Driver):
    """One per host process; owns the keeper and the file auditor."""

    name = "container"

    def __init__(self, home: Home, link: KeeperLink, programs: list[int]) -> None:
        self.home = home
        self.link = link
        self.programs = programs  # bubblewrap and its libraries, open
        self.hierarchy = cgroups.find()
        self._plain: dict[str, Any] | None = None
        self._auditor: Auditor | None = None
        self.why_no_audit = "" if is_privileged() else "fanotify needs root"

    @classmethod
    def probe(cls, home: Home) -> Probe:
        from paddock.fence.container.probe import probe  # most sandboxes are made without asking

        return probe(home)

    @classmethod
    async def open(cls, home: Home) -> ContainerDriver:
        programs = bubblewrap.open_copies(bubblewrap.find())
        _raise_descriptor_limit()
        return cls(home, await KeeperLink.start(home), programs)

    def close(self, *, is_waiting: bool = True) -> None:
        if self._auditor is not None:
            self._auditor.close()
        self.link.close(is_waiting=is_waiting)
        while self.programs:
            os.close(self.programs.pop())

    def close_in_child(self) -> None:
        self.link.close_in_child()

    @property
    def is_lost(self) -> bool:
        return self.link.is_lost

    @property
    def layers(self) -> Layers:
        return self.link.layers

    async def sweep(self) -> None:
        await self.link.ask("sweep")

    def can_adapt(self, limits: Limits) -> bool:
        # Limits that the guest set for itself at boot cannot be changed afterwards.
        default = Limits()
        if not self.hierarchy.version or not self.layers.has_hard_quota:
            same = msgspec.structs.replace(default, time=limits.time, output=limits.output)
            return limits == same
        return limits.files == default.files

    @contextlib.asynccontextmanager
    async def prepared(self, name: str, base: str | None = None) -> AsyncIterator[None]:
        """Within this the sandbox `name` is being made; if that fails, nothing of it is left."""
        await self.link.ask("prepare", id=name, cgroups=self.hierarchy.paths(name), base=base)
        async with self._undone(name):
            yield

    @contextlib.asynccontextmanager
    async def _undone(self, name: str) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(PaddockError):
                await self.link.ask("discard", id=name)
            raise

    async def start(
        self, spec: Spec, allocation: Allocation, *, is_prepared: bool = False
    ) -> ContainerMachine:
        if is_prepared:
            return await self._start(spec, allocation, None)
        # The layer begins empty and nothing is mounted on it: the keeper makes all in one go.
        make = {
            "cgroups": self.hierarchy.paths(allocation.machine_id),
            "base": allocation.base,
            "quota": spec.limits.disk,
        }
        async with self._undone(allocation.machine_id):
            return await self._start(spec, allocation, make)

    async def _start(
        self, spec: Spec, allocation: Allocation, make: dict[str, Any] | None
    ) -> ContainerMachine:
        enforcing = self._decide(spec.limits)
        if spec.is_poolable:
            file_system = self._default_file_system(allocation)
        else:
            file_system = self._file_system(spec, allocation)
        launch = _Launch(self, spec, allocation, enforcing)
        machine = await launch.run(file_system, make)
        self._audit(spec, machine)
        return machine

    def _file_system(self, spec: Spec, allocation: Allocation) -> dict[str, Any]:
        """Return what the keeper (`stages`) and the guest (the rest) must know of the file
        system."""
        plan = rootfs.plan(self.home, spec, allocation, self.link.layers)
        return {
            "argv": "\0".join(arguments(plan)),
            "stages": [_stage(source) for source in stages(plan)],
            "masked": masked(),
        }

    def _default_file_system(self, allocation: Allocation) -> dict[str, Any]:
        """Return the same for a sandbox without own mounts: only its layer differs between them."""
        if not is_privileged():
            return self._file_system(Spec(), allocation)  # the layer's path is all over it
        if self._plain is None:
            self._plain = self._file_system(Spec(), allocation)
        first, *others = self._plain["stages"]
        assert first["layer"]
        return {**self._plain, "stages": [{**first, "layer": allocation.layer}, *others]}

    def _decide(self, limits: Limits) -> _Enforcing:
        _check_open_files(limits.files)
        by = {"files": "RLIMIT_NOFILE", "output": "counted by the host, program stopped beyond it"}
        by["time"] = "timer of the host process"
        by["exec_events"] = "seccomp notifier" + (
            "" if HAS_EXIT_STATUS else "; exit status of indirect children needs Linux 6.15"
        )
        layers = self.link.layers
        by["disk"] = (
            "btrfs quota (hard)"
            if layers.has_hard_quota
            else f"watched: counted, frozen and killed beyond it ({self.link.why_plain})"
        )
        if self.hierarchy.version:
            name = f"cgroup v{self.hierarchy.version}"
            by |= {"cpu": name, "memory": name, "pids": name, "pause": f"{name} freezer"}
            by["socket_memory"] = _SOCKET_MEMORY[self.hierarchy.version]
            return _Enforcing(by, is_watched=False, cpus=None)
        by["memory"] = f"watched by the guest, RLIMIT_DATA each ({self.hierarchy.why_not})"
        by["socket_memory"] = _SOCKET_MEMORY[0]
        by["pids"] = "RLIMIT_NPROC of the user namespace"
        by["pause"] = "SIGSTOP by the guest"
        cpus, by["cpu"] = _pin(limits.cpu, self.hierarchy)
        return _Enforcing(by, is_watched=True, cpus=cpus)

    def _audit(self, spec: Spec, machine: ContainerMachine) -> None:
        if not spec.audit_files:
            machine.enforcement["file_audit"] = "off (audit_files=False)"
            machine.missing[Capability.FILE_EVENTS] = "audit_files is False"
            return
        if self.why_no_audit:
            self._without_audit(machine, self.why_no_audit)
            return
        try:
            self._auditor = self._auditor or Auditor()
            targets = [HOME, "/tmp", *(m.target for m in spec.mounts)]
            # Marks do not reach into mounts below.
            targets += [f"{m.target}/{path}" for m in spec.mounts for path in m.fixed_paths]
            self._auditor.watch(machine.init_pid, targets, machine.files)
            machine.enforcement["file_audit"] = "fanotify"
        except OSError as error:
            self._without_audit(machine, str(error))

    def _without_audit(self, machine: ContainerMachine, why: str) -> None:
        machine.enforcement["file_audit"] = f"not available: {why}"
        machine.missing[Capability.FILE_EVENTS] = why


class _Launch:
    """One start, from sockets to a machine that enforces."""

    def __init__(
        self, driver: ContainerDriver, spec: Spec, allocation: Allocation, enforcing: _Enforcing
    ) -> None:
        self._driver = driver
        self._spec = spec
        self._allocation = allocation
        self._enforcing = enforcing
        self._group: cgroups.Group | None = None

    async def run(
        self, file_system: dict[str, Any], make: dict[str, Any] | None
    ) -> ContainerMachine:
        channel_ours, channel_theirs = _socketpair(socket.SOCK_STREAM)
        boot_ours, boot_theirs = _socketpair(socket.SOCK_SEQPACKET)
        errors_r, errors_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            boot_ours.send(self._boot_config(file_system))
            theirs = [channel_theirs.fileno(), boot_theirs.fileno(), errors_w]
            theirs += self._driver.programs
            pid, uid = await self._launch(theirs, file_system["stages"], make)
            channel_theirs.close()
            boot_theirs.close()
            os.close(errors_w)
            errors_w = -1
            self._send_groups(boot_ours)
            sources = [stage["source"] for stage in file_system["stages"]]
            handed = await booted(boot_ours, errors_r, sources)
            try:
                return await self._machine(channel_ours, pid, uid, handed)
            except BaseException:
                handed.close()
                raise
        except BaseException:
            channel_ours.close()
            raise
        finally:
            boot_ours.close()
            channel_theirs.close()
            boot_theirs.close()
            os.close(errors_r)
            if errors_w >= 0:
                os.close(errors_w)

    async def _launch(
        self, fds: list[int], stages: list[dict[str, Any]], make: dict[str, Any] | None
    ) -> tuple[int, int]:
        answer = await self._driver.link.ask(
            "launch", fds=fds, id=self._allocation.machine_id, stages=stages, make=make
        )
        if self._driver.hierarchy.version:
            self._make_group()  # now: what there will be to remove has been written down
        return answer["pid"], answer["uid"]

    def _make_group(self) -> None:
        try:
            self._group = self._driver.hierarchy.group(self._allocation.machine_id)
            self._group.limit(self._spec.limits)
        except OSError as error:
            raise CannotEnforce(
                "the memory, pids and cpu limits", hint=f"the cgroup refuses them: {error}"
            ) from None

    def _send_groups(self, boot: socket.socket) -> None:
        """Send the guest the groups that it joins by itself; that it did is verified before
        anything untrusted runs."""
        fds: list[int] = []
        try:
            fds = self._group.open_to_join() if self._group is not None else []
            socket.send_fds(boot, [agreed.PLACE], fds)
        except (BrokenPipeError, ConnectionResetError):
            return  # it failed to start: the boot socket says so
        except OSError as error:
            raise CannotEnforce(
                "the memory, pids and cpu limits", hint=f"cannot join the cgroup: {error}"
            ) from None
        finally:
            for fd in fds:
                os.close(fd)

    def _boot_config(self, file_system: dict[str, Any]) -> bytes:
        limits, enforcing = self._spec.limits, self._enforcing
        # An overlay, which hiding something makes, has locks of its own.
        are_locks_told = any(
            mount.mode is MountMode.READ and not mount.hidden for mount in self._spec.mounts
        )
        rlimits = {
            "nofile": limits.files,
            # 1, not 0: a host whose core_pattern is a pipe would start its handler for 0.
            "core": 1,
            "memlock": 64 << 10,
            "msgqueue": 64 << 10,
            "rtprio": 0,
        }
        # With a cgroup and a hard quota these two only bound what no spec can ask for.
        rlimits |= {"nproc": MAX_COUNT, "fsize": MAX_SIZE}
        if enforcing.is_watched:
            rlimits |= {"data": limits.memory, "nproc": limits.pids}
        if not self._driver.link.layers.has_hard_quota:
            rlimits["fsize"] = limits.disk
        config = {
            "argv": file_system["argv"],
            "masked": file_system["masked"],
            "hostname": self._allocation.hostname,
            "env": {**BASE_ENV, **rootfs.template_env(self._driver.home, self._spec)},
            "rlimits": rlimits,
            "seccomp": seccomp.program(
                is_watched=enforcing.is_watched,
                is_pinned=enforcing.cpus is not None,
                are_locks_told=are_locks_told,
            ),
            "watch_locks": are_locks_told,
            "cpus": enforcing.cpus,
            "watch_memory": limits.memory if enforcing.is_watched else None,
        }
        packed: bytes = wire.pack(config)  # type: ignore[no-untyped-call]
        return packed

    async def _machine(
        self, sock: socket.socket, init_pid: int, uid: int, handed: Handed
    ) -> ContainerMachine:
        if self._group is not None and not self._group.holds(init_pid):
            raise CannotEnforce("the cgroup limits", hint="the guest is not in its group")
        machine = ContainerMachine(
            Parts(
                machine_id=self._allocation.machine_id,
                link=self._driver.link,
                layer=self._allocation.layer,
                group=self._group,
                limits=self._spec.limits,
                enforcement=dict(self._enforcing.by),
                uid=uid,
                init_pid=init_pid,
                sockets=handed.sockets,
                quotas={self._allocation.layer: self._spec.limits.disk, **self._allocation.quotas},
                cgroup_version=self._driver.hierarchy.version,
            )
        )
        channel = await Channel.connect(sock, self._allocation.machine_id)
        try:
            channel.check_alive()
            machine.begin(channel, handed.listener)
        except BaseException:
            channel.lose("it could not be started")  # or its transport outlives its socket
            raise
        machine.register(self._info())
        if any(mount.volume for mount in self._spec.mounts):
            await machine.registered()  # others must know before that the volume is in use
        return machine

    def _info(self) -> dict[str, Any]:
        """Return what other processes may know of the sandbox, and a sweep needs to know."""
        return {
            "metadata": self._allocation.metadata,
            "template": self._spec.template,
            "base": self._allocation.base,
            "volumes": [m.volume for m in self._spec.mounts if m.volume],
            "host_pid": os.getpid(),
            "started_at": time.time(),
        }


# What waits in sockets, by the version of the control groups; see `socket_memory`.
_SOCKET_MEMORY = {
    2: "watched: what waits in sockets is part of the memory limit; connections that nobody has"
    " accepted, netlink and ping sockets are looked at every 0.25 s and may take as much again"
    " + 32 MiB",
    1: "watched: TCP and UDP may take half of the memory limit on top of it; connections that"
    " nobody has accepted, netlink and ping sockets are looked at every 0.25 s and may take as much"
    " again + 32 MiB",
    0: "watched: sockets are looked at every 0.25 s and may take as much as the memory limit"
    " + 32 MiB on top of it; pipes are bounded by the system only",
}


def _pin(cpu: float, hierarchy: cgroups.Hierarchy) -> tuple[list[int] | None, str]:
    available = sorted(os.sched_getaffinity(0))
    if cpu >= len(available):
        return None, f"the host has {len(available)} CPUs"
    if cpu != int(cpu):
        raise CannotEnforce(
            f"limits.cpu = {cpu:g}: {hierarchy.why_not}; without it only whole CPUs can be kept",
            hint=hierarchy.fix or "use a whole number of CPUs, or run as root",
        )
    chosen = secrets.SystemRandom().sample(available, int(cpu))
    return chosen, f"pinned to {int(cpu)} CPU"


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard one. A sandbox takes some ten of them
    here, and the usual soft limit is 1024; it protects programs that use select, which this
    process does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _check_open_files(wanted: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and wanted > most:
        raise CannotEnforce(
            f"limits.files = {wanted}: this process itself may have no more than {most}",
            hint="ulimit -Hn shows it; the service's or the system's settings raise it",
        )


def _stage(source: Any) -> dict[str, Any]:
    return {
        "source": source.path,
        "layer": source.layer,
        "owner": list(source.owner) if source.owner else None,
        "readonly": source.is_readonly,
        "recursive": source.is_recursive,
        "identity": list(source.identity) if source.identity else None,
    }


def _socketpair(kind: int) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.setblocking(False)
    for sock in (ours, theirs):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        with contextlib.suppress(PermissionError):  # root may go beyond the system's ceiling
            sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SOCKET_BUFFER)
    return ours, theirs
