"""A scenario, and the cases that it stands for: one for each point of its matrix."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.model.values import dataclass
from paddock.run.scenarios.terms import Expectations

if TYPE_CHECKING:
    from paddock.run.scenarios.result import RunResult

TIMEOUT_S = 300.0
NO_FAULTS = "none"


@dataclass(frozen=True, slots=True)
class Scenario:
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
    sets: Mapping[str, Any] = field(default_factory=dict)
    envs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)  # put into the project before
    files_from: tuple[Path, ...] = ()  # where their content was read
    stdin: bytes | None = None
    repeat: int = 1
    timeout_s: float = TIMEOUT_S
    matrix: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    expect: Expectations = field(default_factory=Expectations)
    check: Callable[[RunResult], object] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
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
    """All cases, in the order of the matrix; without one the scenario itself."""
    axes = list(scenario.matrix)
    for values in itertools.product(*scenario.matrix.values()):
        shown = {axis: _shown(value) for axis, value in zip(axes, values, strict=True)}
        chosen = {AXES[axis]: value for axis, value in zip(axes, values, strict=True)}
        if "sets" in chosen:
            chosen["sets"] = {**scenario.sets, **chosen["sets"]}
        said = ", ".join(f"{axis}={value}" for axis, value in shown.items())
        name = f"{scenario.name} [{said}]" if said else scenario.name
        yield Case(name, replace(scenario, matrix={}, **chosen), shown)


def _shown(value: Any) -> str:
    """A value of an axis in a few letters."""
    match value:
        case Path():
            text = value.name
        case {"id": str(name)} | {"set": str(name)}:
            text = name
        case dict():
            text = ",".join(f"{key}={one}" for key, one in value.items())
        case list():
            text = "+".join(map(_shown, value)) or NO_FAULTS
        case tuple():
            text = " ".join(map(str, value))
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
