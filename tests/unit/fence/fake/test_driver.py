"""The fake driver cannot be chosen by accident, and refuses what it cannot enforce."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import paddock
from cases import for_each
from paddock.fence import registry
from paddock.fence.driver import Allocation, Capability
from paddock.fence.fake import FakeDriver, FakeMachine
from paddock.model.errors import CannotEnforce
from paddock.model.spec import Limits, Mount, MountMode, Spec
from paddock.state.home import Home

SOURCE = Path(paddock.__path__[0])


def with_machine(tmp_path: Path, use: Callable[[FakeMachine], Awaitable[None]]) -> None:
    """Start a fake machine, use it, and stop it."""

    async def run() -> None:
        driver = await FakeDriver.open(Home(tmp_path))
        machine = await driver.start(Spec(), Allocation("m", "m", "m"))
        try:
            await use(machine)
        finally:
            await machine.stop("the test is over")

    asyncio.run(run())


def test_no_file_flag_or_variable_can_choose_it() -> None:
    assert "fake" not in registry.driver_names()
    importing = re.compile(r"import.*\bfake\b|fence\.fake import|FakeDriver")
    others = [path for path in SOURCE.rglob("*.py") if path.parent.name != "fake"]
    assert [str(path) for path in others if importing.search(path.read_text())] == []


def test_it_probes_as_unusable(tmp_path: Path) -> None:
    probe = FakeDriver.probe(Home(tmp_path))
    assert not probe.is_usable
    assert not any(finding.is_enforced for finding in probe.findings)


@for_each(
    "spec",
    [
        Spec(limits=Limits(memory=64 << 20)),
        Spec(limits=Limits(pids=8)),
        Spec(template="dir:/"),
        Spec(snapshot="s"),
        Spec(mounts=(Mount(target="/x", mode=MountMode.READ, source="/tmp"),)),
    ],
)
def test_a_spec_that_asks_for_more_than_the_defaults_is_refused(spec: Spec, tmp_path: Path) -> None:
    driver = FakeDriver(Home(tmp_path))
    with pytest.raises(CannotEnforce, match="isolates nothing"):
        asyncio.run(driver.start(spec, Allocation("m", "m", "m")))
    assert driver.layers.names() == []


def test_it_says_of_every_limit_that_nothing_enforces_it(tmp_path: Path) -> None:
    async def look(machine: FakeMachine) -> None:
        assert machine.enforcement.keys() == set(Limits.__struct_fields__)
        assert all(by.startswith("not enforced") for by in machine.enforcement.values())
        with pytest.raises(CannotEnforce, match="network of the host"):
            _ = machine.network
        with pytest.raises(CannotEnforce, match="isolates nothing"):
            machine.require(Capability.EXEC_JUDGE)

    with_machine(tmp_path, look)


@for_each("operation", ["freeze", "thaw", "usage", "deleted_bytes", "kill_all", "furnish"])
def test_what_would_reach_the_host_itself_is_refused_by_its_guest(
    operation: str, tmp_path: Path
) -> None:
    async def ask(machine: FakeMachine) -> None:
        answer = await machine.channel.ask(operation, limit="memory")
        assert "the host itself" in answer["error"]["message"]

    with_machine(tmp_path, ask)
