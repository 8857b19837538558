"""A sandbox of another process of the same user, reached through that process's control socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from datetime import datetime
from typing import Any

from paddock.doors.machine.actions import Work
from paddock.doors.machine.code import CodeCore
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.files import FileCore
from paddock.doors.machine.guest import Guest
from paddock.fence.channel import Channel
from paddock.fence.offload import offload
from paddock.model.action import Action, Kind
from paddock.model.errors import Blocked, Conflict, NotFound, SandboxDied, SandboxError
from paddock.model.results import Metrics, SandboxInfo
from paddock.model.spec import Limits, Spec
from paddock.state.home import Home, SandboxRecord, held

_CONNECT_S = 5.0


class RemoteGuest(Guest):
    """The guest of a sandbox of another process, and the host operations of that process."""

    def __init__(self, sandbox_id: str, channel: Channel, spec: Spec) -> None:
        self.sandbox_id = sandbox_id
        self.spec = spec
        self._channel = channel

    @property
    def channel(self) -> Channel:
        return self._channel

    async def limits_hit(self, ending: dict[str, Any]) -> list[str]:
        return []

    async def ask_host(self, op: str, **values: Any) -> dict[str, Any]:
        """Ask the process that holds the sandbox. Raises Blocked or SandboxError."""
        answer = await self._channel.ask(f"host.{op}", **values)
        if "error" in answer:
            blocked = answer["error"].get("blocked")
            if blocked:
                raise Blocked(**blocked)
            raise SandboxError(str(answer["error"].get("message")))
        return answer


class RemoteBox:
    """The counterpart of `Box` for a sandbox of another process, as far as it works from afar."""

    def __init__(self, engine: Engine, guest: RemoteGuest, envs: dict[str, str]) -> None:
        self.engine = engine
        self.guest = guest
        self.spec = guest.spec
        self.sandbox_id = guest.sandbox_id
        self._envs = envs
        self.files = FileCore(guest)
        self.code = CodeCore(guest, self.envs, engine.home.cache)
        self.actions = RemoteActions(guest)

    @classmethod
    async def connect(cls, engine: Engine, sandbox_id: str) -> RemoteBox:
        record = await _registered(engine.home, sandbox_id)
        sandbox_id = record.sandbox_id
        sock = await offload(_connected, engine.home, record)
        channel = await Channel.connect(sock, sandbox_id)
        answer = await asyncio.wait_for(channel.ask("host.attach", id=sandbox_id), _CONNECT_S)
        if not answer.get("found"):
            raise NotFound(f"sandbox {sandbox_id} has just ended")
        info = (await RemoteGuest(sandbox_id, channel, Spec()).ask_host("info"))["info"]
        guest = RemoteGuest(sandbox_id, channel, Spec(limits=Limits(**info["limits"])))
        return cls(engine, guest, answer["envs"])

    def close(self) -> None:
        """Leave the sandbox to its process."""
        self.guest.channel.lose("the connection was closed")

    @property
    def machine(self) -> Any:
        raise Conflict(
            f"sandbox {self.sandbox_id} belongs to another process",
            hint="fork, changes, events, network and world work in the process that made it",
        )

    @property
    def network(self) -> Any:
        return self.machine  # raises

    @property
    def world(self) -> Any:
        return self.machine  # raises

    def envs(self, more: dict[str, str] | None) -> dict[str, str]:
        return {**self._envs, **(more or {})}

    async def pause(self) -> None:
        await self.guest.ask_host("pause")

    async def resume(self) -> None:
        await self.guest.ask_host("resume")

    async def end(self, reason: str) -> None:
        with contextlib.suppress(SandboxDied):  # the connection ends with the sandbox
            await self.guest.ask_host("kill")

    def set_timeout(self, timeout_s: float) -> None:
        self.guest.channel.open("host.set_timeout", timeout=timeout_s)

    async def snapshot(self, name: str | None = None) -> str:
        return str((await self.guest.ask_host("snapshot", name=name))["id"])

    async def metrics(self) -> Metrics:
        return Metrics(**(await self.guest.ask_host("metrics"))["metrics"])

    async def fetch_info(self) -> SandboxInfo:
        raw = (await self.guest.ask_host("info"))["info"]
        for name in ("started_at", "end_at"):
            raw[name] = datetime.fromisoformat(raw[name]) if raw[name] else None
        return SandboxInfo(**raw)

    async def fork(self, count: int) -> list[Any]:
        return [self.machine]  # raises

    def alerts(self) -> Any:
        return self.machine  # raises


class RemoteActions:
    """Actions cross the gate in the process that holds the sandbox, and are carried out here."""

    def __init__(self, guest: RemoteGuest) -> None:
        self._guest = guest

    async def command(
        self, argv: list[str], cwd: str, live: Work, *, is_background: bool = False
    ) -> Any:
        return await self._cross(Kind.EXEC, {"argv": argv, "cwd": cwd}, live)

    async def file(self, operation: str, path: str, live: Work, **more: Any) -> Any:
        arguments = {"operation": operation, "path": path, **more}
        return await self._cross(Kind.FILE, arguments, live)

    async def code(self, language: str, code: str, context: str, live: Work) -> Any:
        arguments = {"language": language, "code": code, "context": context}
        return await self._cross(Kind.CODE, arguments, live)

    async def _cross(self, kind: Kind, arguments: dict[str, Any], live: Work) -> Any:
        await self._guest.ask_host("cross", kind=kind.value, arguments=arguments)
        return (await live(Action(kind, kind.value, arguments))).value


async def _registered(home: Home, sandbox_id: str) -> SandboxRecord:
    """Return the record when it is complete: that is a moment after the sandbox has been made."""
    deadline = time.monotonic() + _CONNECT_S
    while True:
        record = find(home, sandbox_id)
        if (record.info or {}).get("host_pid") or time.monotonic() > deadline:
            return record
        await asyncio.sleep(0.01)


def find(home: Home, sandbox_id: str) -> SandboxRecord:
    """Return the record of a living sandbox; an unambiguous beginning of its id is enough."""
    names = [n for n in os.listdir(home.sandboxes) if n.startswith(sandbox_id) and n[0] != "."]
    living = [n for n in names if held(home.sandboxes / n)]
    if len(living) > 1 and sandbox_id not in living:
        raise NotFound(f"{sandbox_id!r} could be {', '.join(sorted(living))}; write more of it")
    record = SandboxRecord.read(
        home.sandboxes / (sandbox_id if sandbox_id in living else (living or ["-"])[0])
    )
    if not living or record is None:
        raise NotFound(f"no sandbox {sandbox_id!r} runs here", hint="paddock ps lists them")
    return record


def living(home: Home) -> list[SandboxRecord]:
    """Return the records of all sandboxes that run, of any process, without pooled machines."""
    records = []
    for name in sorted(os.listdir(home.sandboxes)):
        if not name.startswith(".") and held(home.sandboxes / name):
            record = SandboxRecord.read(home.sandboxes / name)
            if record is not None and record.init_pid:
                records.append(record)
    return records


def _connected(home: Home, record: SandboxRecord) -> socket.socket:
    pid = (record.info or {}).get("host_pid", 0)
    directory = os.open(home.hosts, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(_CONNECT_S)
    try:
        sock.connect(f"/proc/self/fd/{directory}/{pid}.sock")
    except OSError as error:
        sock.close()
        raise SandboxError(
            f"process {pid}, which holds sandbox {record.sandbox_id}, does not answer:"
            f" {error.strerror or error}",
            hint=f"kill {pid} ends it and all its sandboxes",
        ) from None
    finally:
        os.close(directory)
    sock.setblocking(False)
    return sock
