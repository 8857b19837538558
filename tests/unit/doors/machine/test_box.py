"""A sandbox over the fake driver: its parts work together, and refuse what the fence lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.doors.machine.box import Box
from paddock.doors.machine.engine import Engine
from paddock.doors.machine.sandbox import Sandbox
from paddock.doors.machine.sandboxes import create_box
from paddock.doors.terms import PolicyLike, terms_of
from paddock.fence.fake import FakeDriver
from paddock.journal.log import RunLog
from paddock.model.errors import CannotEnforce, Conflict, SandboxDied
from paddock.state.home import Home

RULES = """\
version: 1
agent: test
stage: broad
rules:
  - id: no-curl
    match: {kind: exec, program: curl}
    decide: block
    why: It is a test.
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    home = Home(tmp_path / "h")
    home.make()
    engine = Engine(home, FakeDriver)
    yield engine
    engine.close()


@pytest.fixture
def box(engine: Engine) -> Sandbox:
    return make(engine)


def make(engine: Engine, policy: PolicyLike = None, **options: object) -> Sandbox:
    """Make what `Sandbox.create` makes, on this engine."""
    decided, spec = terms_of(policy, options)
    core: Box = engine.call(create_box(engine, spec, decided))
    return Sandbox(engine, core)


def test_a_command_is_run_and_recorded(engine: Engine, box: Sandbox) -> None:
    result = box.commands.run("cat; echo $OWN", cwd="/tmp", stdin="in ", envs={"OWN": "out"})
    assert result.stdout == "in out\n"
    box.kill()
    (step,) = RunLog(engine.home.runs / box.sandbox_id).steps()
    assert step.action.kind == "exec"


def test_files_are_written_and_read(box: Sandbox, tmp_path: Path) -> None:
    path = str(tmp_path / "directory" / "file")
    box.files.write(path, "content")
    assert box.files.read(path) == "content"
    assert Path(path).read_text() == "content"


def test_a_paused_sandbox_refuses_calls_until_it_is_resumed(box: Sandbox) -> None:
    box.pause()
    with pytest.raises(Conflict, match="paused"):
        box.commands.run("true", cwd="/tmp")
    box.resume()
    assert box.commands.run("echo on", cwd="/tmp").stdout == "on\n"


def test_a_waiting_command_ends_with_the_sandbox(box: Sandbox) -> None:
    running = box.commands.run("sleep 60", background=True, cwd="/tmp")
    box.kill()
    with pytest.raises(SandboxDied, match="killed by its owner"):
        running.wait()


def test_a_missing_network_is_not_called_an_absent_one(box: Sandbox) -> None:
    network = box.get_info().enforcement["network"]
    assert network.startswith("not enforced"), network


def test_what_the_fence_cannot_do_is_refused_with_the_reason(
    engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(CannotEnforce, match="network of the host"):
        make(engine, network={"allow": ["example.com:443"]})
    file = tmp_path / "paddock.yaml"
    file.write_text(RULES)
    with pytest.raises(CannotEnforce, match="until it is decided on"):
        make(engine, file)
    assert engine.boxes == {}
    driver = engine.opened_driver
    assert driver is not None and driver.layers.names() == []


def test_exec_events_that_nobody_observes_are_refused_not_empty(box: Sandbox) -> None:
    with pytest.raises(CannotEnforce, match="isolates nothing"):
        box.exec_events()
