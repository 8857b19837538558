"""The contract of `fence.driver`, as checks that any driver can run.

`self_check` opens nothing itself: whoever has a driver passes it in and gets one result for each
check. Every check has a machine of its own and speaks to the guest through the channel, as doors
do. A check whose capability the machine lacks is not run; its result has the declared reason.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from paddock.fence.channel import GuestStream, StreamData, StreamEnd
from paddock.fence.driver import Allocation, Capability, Driver, Machine
from paddock.fence.network import original_destination
from paddock.fence.offload import offload
from paddock.fence.processes.quiescence import is_at_work, wait_until_quiescent, work_of
from paddock.fence.uids import LAYER_OWNER
from paddock.model.errors import CannotEnforce, SandboxDied
from paddock.model.spec import Limits, Spec
from paddock.state.home import new_id

TIMEOUT_S = 20.0  # for one check
_OUTSIDE = ("192.0.2.1", 80)  # of a range that is nobody's


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check: it held, it failed, or the machine lacks what it needs."""

    name: str
    failure: str | None = None
    missing: str | None = None

    @property
    def is_held(self) -> bool:
        return self.failure is None and self.missing is None


class ProgramResult(msgspec.Struct):
    """The output of a program, and how it ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    ending: dict[str, Any] = {}


class CheckFailed(Exception):
    """A driver does not keep its contract."""


class CheckContext:
    """A machine to check, and the driver that started it."""

    def __init__(self, driver: Driver, machine: Machine) -> None:
        self.driver = driver
        self.machine = machine
        self.directory = f"/tmp/self-check-{machine.machine_id}"

    async def run(self, *argv: str, stdin: bytes | None = None) -> ProgramResult:
        """Run a program to its end."""
        with self.open(*argv, stdin=stdin is not None) as stream:
            if stdin is not None:
                await stream.send(stdin)
                stream.send_eof()
            result = ProgramResult()
            while True:
                item = await stream.next()
                if isinstance(item, StreamEnd):
                    result.ending = item.value
                    return result
                if isinstance(item, StreamData) and item.port == 1:
                    result.stdout += item.content
                elif isinstance(item, StreamData):
                    result.stderr += item.content

    def open(self, *argv: str, stdin: bool = False) -> GuestStream:
        """Start a program and return its stream."""
        return self.machine.channel.open("exec", argv=list(argv), cwd="/tmp", env={}, stdin=stdin)

    async def write(self, name: str, content: bytes) -> str:
        """Write a file into the directory of the check, and return its path."""
        path = f"{self.directory}/{name}"
        with self.machine.channel.open("write", path=path, append=False) as stream:
            await stream.send(content)
            stream.send_eof()
            ending = await stream.end()
        expect("error" not in ending, f"{path} cannot be written: {ending}")
        return path

    async def read(self, path: str) -> bytes:
        """Read a file."""
        content = b""
        with self.machine.channel.open("read", path=path) as stream:
            while not isinstance(item := await stream.next(), StreamEnd):
                if isinstance(item, StreamData):
                    content += item.content
            return content


def expect(condition: object, failure: str) -> None:
    """Raise CheckFailed unless the condition holds."""
    if not condition:
        raise CheckFailed(failure)


async def a_machine_serves_and_says_what_it_enforces(context: CheckContext) -> None:
    machine = context.machine
    await machine.channel.ask("ping")
    expect(machine.ended_by is None, "a new machine has ended")
    unsaid = {"cpu", "memory", "pids", "disk", "files"} - machine.enforcement.keys()
    expect(not unsaid, f"it does not say how it keeps {sorted(unsaid)}")


async def a_missing_capability_is_refused_with_its_reason(context: CheckContext) -> None:
    for capability, reason in context.machine.missing.items():
        try:
            context.machine.require(capability)
        except CannotEnforce as error:
            expect(reason in error.message, f"{capability}: the refusal has no reason")
        else:
            raise CheckFailed(f"{capability} is missing, and nevertheless granted")


async def a_spec_that_cannot_be_kept_is_refused(context: CheckContext) -> None:
    name = new_id()
    impossible = Spec(limits=Limits(files=1 << 40))
    try:
        await context.driver.start(impossible, Allocation(name, name, name))
    except CannotEnforce:
        expect(name not in context.driver.layers.names(), "a refused machine left its layer")
    else:
        raise CheckFailed("a limit of 2^40 open files was accepted")


async def a_failed_preparation_leaves_nothing(context: CheckContext) -> None:
    name = new_id()
    try:
        async with context.driver.prepared(name):
            context.driver.layers.create(name, 1 << 20, LAYER_OWNER)
            raise InterruptedError
    except InterruptedError:
        expect(name not in context.driver.layers.names(), "the layer is left")


async def a_program_has_output_and_exit_status(context: CheckContext) -> None:
    result = await context.run("/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    expect(result.stdout == b"out\n", f"stdout was {result.stdout!r}")
    expect(result.stderr == b"err\n", f"stderr was {result.stderr!r}")
    expect(result.ending.get("exit") == 7, f"it ended with {result.ending}")


async def a_program_that_is_not_there_is_told(context: CheckContext) -> None:
    result = await context.run("/no/such/program")
    number = (result.ending.get("error") or {}).get("errno")
    expect(number == errno.ENOENT, f"it ended with {result.ending}")


async def input_reaches_a_program_to_its_end(context: CheckContext) -> None:
    content = bytes(range(256)) * 4096  # more than the window of a stream
    result = await context.run("/bin/cat", stdin=content)
    expect(result.stdout == content, f"{len(result.stdout)} of {len(content)} bytes came back")


async def files_keep_their_content(context: CheckContext) -> None:
    content = os.urandom(300_000)
    path = await context.write("content", content)
    expect(await context.read(path) == content, "what was read is not what was written")
    answer = await context.machine.channel.ask("stat", path=f"{context.directory}/absent")
    number = (answer.get("error") or {}).get("errno")
    expect(number == errno.ENOENT, f"a file that is not there: {answer}")


async def a_signal_ends_a_program_and_what_it_started(context: CheckContext) -> None:
    with context.open("/bin/sh", "-c", "sleep 60 & sleep 60") as stream:
        pid = (await stream.event())["pid"]
        for number in (signal.SIGTERM, signal.SIGKILL):
            await context.machine.channel.ask("signal", pid=pid, signal=int(number))
        ending = await stream.end()
    expect(ending.get("signal") in (signal.SIGTERM, signal.SIGKILL), f"it ended with {ending}")
    listed = (await context.machine.channel.ask("processes"))["processes"]
    expect(not listed, f"still running: {listed}")


async def a_frozen_machine_stands_still_and_goes_on(context: CheckContext) -> None:
    machine = context.machine
    beat = "i=0; while :; do i=$((i+1)); echo $i > beat.new; mv beat.new beat; sleep 0.01; done"
    await context.write("beat", b"")
    with context.open("/bin/sh", "-c", f"cd {context.directory}; {beat}") as stream:
        await stream.event()
        with machine.holding_calls():
            await machine.freeze()
            expect(machine.is_frozen, "it is frozen and does not say so")
            await machine.stats()
            if Capability.HOST_PROCESSES not in machine.missing:
                before_ns = work_of(machine.init_pid)
                await asyncio.sleep(0.1)
                expect(work_of(machine.init_pid) == before_ns, "a program runs meanwhile")
            held = asyncio.ensure_future(machine.channel.ask("ping"))
            await asyncio.sleep(0.1)
            expect(not held.done(), "a request was answered while it stood still")
            await machine.thaw()
        await held
        expect(not machine.is_frozen, "it was thawed and does not say so")
        before = await context.read(f"{context.directory}/beat")
        for _ in range(200):
            if await context.read(f"{context.directory}/beat") != before:
                return
            await asyncio.sleep(0.02)
    raise CheckFailed("the program did not go on")


async def waiting_calls_return_when_the_machine_is_stopped(context: CheckContext) -> None:
    machine, told = context.machine, list[str]()
    machine.on_end.append(told.append)
    with context.open("/bin/sleep", "60") as stream:
        await stream.event()
        waiting = asyncio.ensure_future(stream.end())
        await asyncio.sleep(0)
        await machine.stop("the check is over")
        await _expect_death(waiting, "the check is over")
    await machine.stop("a second time")
    expect(machine.ended_by == "the check is over", f"ended_by is {machine.ended_by!r}")
    expect(told == ["the check is over"], f"the end was told as {told}")
    expect(machine.layer not in context.driver.layers.names(), "its layer is left")


async def waiting_calls_return_when_the_guest_dies(context: CheckContext) -> None:
    with context.open("/bin/sleep", "60") as stream:
        await stream.event()
        waiting = asyncio.ensure_future(stream.end())
        await asyncio.sleep(0)
        os.kill(context.machine.init_pid, signal.SIGKILL)
        await _expect_death(waiting, None)
    expect(context.machine.ended_by, "the machine does not say why it ended")


async def every_program_is_told(context: CheckContext) -> None:
    await context.run("/bin/sh", "-c", "/bin/true; /bin/true; exit 0")
    programs = [event.program for event in context.machine.execs.all()]
    expect(programs.count("/bin/true") == 2, f"what was told is {programs}")


async def a_judge_can_refuse_a_program(context: CheckContext) -> None:
    context.machine.execs.judge = lambda attempt: 0 if attempt.is_first else errno.EACCES
    result = await context.run("/bin/sh", "-c", "/bin/true; exit $?")
    expect(result.ending.get("exit") == 126, f"it ended with {result.ending}")


async def files_that_are_written_are_told(context: CheckContext) -> None:
    path = f"/tmp/{new_id()}"
    await context.run("/bin/sh", "-c", f"echo x > {path}")
    for _ in range(100):
        events = context.machine.files.all()
        if any(event.path == path and event.access == "write" for event in events):
            return
        await asyncio.sleep(0.02)
    raise CheckFailed(f"{path} was written, and {len(events)} other events were told")


async def every_address_leads_to_the_door(context: CheckContext) -> None:
    door = await offload(context.machine.network.open_door)
    try:
        dial = f"exec 3<>/dev/tcp/{_OUTSIDE[0]}/{_OUTSIDE[1]}; cat <&3"
        dialling = asyncio.ensure_future(context.run("/bin/bash", "-c", dial))
        loop = asyncio.get_running_loop()
        accepted, _ = await loop.sock_accept(door.tcp4)
        with accepted:
            expect(original_destination(accepted) == _OUTSIDE, "where it led to is not known")
            expect(context.machine.network.owner_of(accepted), "whose it is cannot be told")
            await loop.sock_sendall(accepted, b"hello")
        expect((await dialling).stdout == b"hello", "the answer did not arrive")
    finally:
        door.close()


async def the_host_sees_whether_programs_are_at_work(context: CheckContext) -> None:
    pid = context.machine.init_pid
    with context.open("/bin/sh", "-c", "read line; while :; do :; done", stdin=True) as stream:
        await stream.event()
        expect(await wait_until_quiescent(pid, 5.0), "a program that waits counts as one at work")
        await stream.send(b"go\n")
        for _ in range(500):
            if is_at_work(pid):
                return
            await asyncio.sleep(0.01)
    raise CheckFailed("a program that computes counts as one that waits")


class Check(msgspec.Struct, frozen=True):
    """One part of the contract, and the capability that it is about, if it is optional."""

    run: Callable[[CheckContext], Awaitable[None]]
    needs: Capability | None = None

    @property
    def name(self) -> str:
        return self.run.__name__


CHECKS = (
    Check(a_machine_serves_and_says_what_it_enforces),
    Check(a_missing_capability_is_refused_with_its_reason),
    Check(a_spec_that_cannot_be_kept_is_refused),
    Check(a_failed_preparation_leaves_nothing),
    Check(a_program_has_output_and_exit_status),
    Check(a_program_that_is_not_there_is_told),
    Check(input_reaches_a_program_to_its_end),
    Check(files_keep_their_content),
    Check(a_signal_ends_a_program_and_what_it_started),
    Check(a_frozen_machine_stands_still_and_goes_on),
    Check(waiting_calls_return_when_the_machine_is_stopped),
    Check(waiting_calls_return_when_the_guest_dies, Capability.HOST_PROCESSES),
    Check(the_host_sees_whether_programs_are_at_work, Capability.HOST_PROCESSES),
    Check(every_program_is_told, Capability.EXEC_EVENTS),
    Check(a_judge_can_refuse_a_program, Capability.EXEC_JUDGE),
    Check(files_that_are_written_are_told, Capability.FILE_EVENTS),
    Check(every_address_leads_to_the_door, Capability.NETWORK),
)


async def self_check(driver: Driver, checks: tuple[Check, ...] = CHECKS) -> list[CheckResult]:
    """Run the checks one after the other, each on a machine of its own."""
    return [await _check(driver, check) for check in checks]


async def _check(driver: Driver, check: Check) -> CheckResult:
    name = new_id()
    machine = await driver.start(Spec(), Allocation(name, name, name))
    try:
        if check.needs is not None and check.needs in machine.missing:
            return CheckResult(check.name, missing=machine.missing[check.needs])
        context = CheckContext(driver, machine)
        await asyncio.wait_for(check.run(context), TIMEOUT_S)
        if machine.ended_by is None:
            await machine.channel.ask("remove", path=context.directory)
    except (CheckFailed, TimeoutError) as error:
        return CheckResult(check.name, failure=str(error) or f"it took over {TIMEOUT_S:g} s")
    finally:
        await machine.stop("the check is over")
    return CheckResult(check.name)


async def _expect_death(waiting: asyncio.Future[Any], reason: str | None) -> None:
    try:
        await asyncio.wait_for(waiting, TIMEOUT_S / 2)
    except SandboxDied as error:
        expect(reason is None or reason in str(error), f"it was told that {error}")
    else:
        raise CheckFailed("the call returned as if nothing had happened")
