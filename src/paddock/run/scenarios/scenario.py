"""A scenario, and the cases that it stands for: one for each point of its matrix.

A scenario may be written in Python: a function that checks what a run came to, and the keys of a
scenario file.

    @scenario(agent=["python", "agent.py"], file="paddock.yaml", expect={"steps": {"max": 40}})
    def refund_a_duplicate_charge(result):
        assert len(result.world["api.stripe.com"]["refunds"]) == 1
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.run.scenarios.terms import Expectations

if TYPE_CHECKING:
    from paddock.run.scenarios.result import RunResult

Check = Callable[["RunResult"], object]
TIMEOUT_S = 300.0
NO_FAULTS = "none"


class Scenario(msgspec.Struct, frozen=True):
    """An agent, what is around it, and what is expected. Paths are absolute."""

    name: str
    agent: tuple[str, ...]
    cwd: Path
    source: str = ""  # the file that it stands in
    file: Path | None = None
    world: Mapping[str, Any] | None = None  # laid over the file's
    faults: Any = None  # in place of the file's; `none` for none
    seed: int | None = None
    stage: str | None = None
    sets: Mapping[str, Any] = {}
    envs: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}  # put into the project before
    files_from: tuple[Path, ...] = ()  # where their content was read
    stdin: bytes | None = None
    repeat: int = 1
    timeout_s: float = TIMEOUT_S
    matrix: Mapping[str, tuple[Any, ...]] = {}
    expect: Expectations = msgspec.field(default_factory=Expectations)
    check: Check | None = None


class Case(msgspec.Struct, frozen=True):
    """One point of a scenario's matrix. Its scenario has the values of the point, and no matrix."""

    name: str
    scenario: Scenario
    point: Mapping[str, str]  # axis: value, as shown


# An axis of the matrix, and what of the scenario its values take the place of.
AXES: Mapping[str, str] = {
    "faults": "faults",
    "seed": "seed",
    "policy": "file",
    "stage": "stage",
    "agent": "agent",
    "set": "sets",
}


def cases_of(scenario: Scenario) -> Iterator[Case]:
    """Yield all cases in the order of the matrix; without a matrix, the scenario itself."""
    axes = list(scenario.matrix)
    for values in itertools.product(*scenario.matrix.values()):
        shown = {axis: _shown(value) for axis, value in zip(axes, values, strict=True)}
        chosen = {AXES[axis]: value for axis, value in zip(axes, values, strict=True)}
        if "sets" in chosen:
            chosen["sets"] = {**scenario.sets, **chosen["sets"]}
        point = ", ".join(f"{axis}={value}" for axis, value in shown.items())
        name = f"{scenario.name} [{point}]" if point else scenario.name
        yield Case(name, replace(scenario, matrix={}, **chosen), shown)


def scenario(**options: Any) -> Callable[[Check], Scenario]:
    """Make a function a scenario. The words are those of a scenario file; without `name` it is
    called as the function is. What the function raises about the result is a failure."""

    def declare(check: Check) -> Scenario:
        from paddock.run.scenarios.parser import scenario_of

        path = Path(inspect.getsourcefile(check) or "scenario.py")
        name = check.__name__.replace("_", " ")
        return replace(scenario_of({"name": name, **options}, path), check=check)

    return declare


def fault_list(faults: Any) -> Any:
    """Return what a policy takes: `none` is no faults at all, and one fault is a list of one."""
    if faults == NO_FAULTS:
        return []
    return [faults] if isinstance(faults, Mapping) else faults


def _shown(value: Any) -> str:
    """Shorten a value of an axis to a few characters."""
    match value:
        case Path():
            text = value.name
        case {"id": str(name)} | {"set": str(name)}:
            text = name
        case dict():
            text = ",".join(f"{key}={item}" for key, item in value.items())
        case list():
            text = "+".join(map(_shown, value)) or NO_FAULTS
        case tuple():
            text = " ".join(map(str, value))
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
