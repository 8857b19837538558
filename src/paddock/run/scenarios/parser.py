"""From words to a Scenario: the text of a file, or what a caller of Python says. All that is wrong
is told at once, with its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.model.plural import many
from paddock.policy.file.document import Document, read
from paddock.policy.file.document import Path as Place
from paddock.policy.problems import PolicyError, Problem, suggest
from paddock.run.scenarios import fixtures
from paddock.run.scenarios.rates import runs_to_show
from paddock.run.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pydantic import ValidationError

    from paddock.run.scenarios.shape import ScenarioShape

MAX_RUNS = 100_000  # of one scenario; they are listed before the first begins
_MISSING = {
    ("version",): "write version: 1",
    ("name",): "write name: and what the scenario is about",
    ("agent",): "write agent: [python, agent.py]",
    ("expect", "rate", "min"): "write min: 0.9",
}


def read_scenario(text: str, path: Path) -> Scenario:
    """Parse the scenario of a file. Raises PolicyError with everything that is wrong with it."""
    return _scenario(read(text, path.name), path)


def scenario_of(options: Mapping[str, Any], path: Path) -> Scenario:
    """Parse a scenario that a caller describes with the options of a file. `path` is the file that
    it is in."""
    return _scenario(Document(path.name, {"version": 1, **options}, {}, {}), path)


def _scenario(document: Document, path: Path) -> Scenario:
    from pydantic import ValidationError

    from paddock.run.scenarios.shape import ScenarioShape

    if not isinstance(document.value, dict):
        message = "the file is empty" if document.value is None else "the file is not a mapping"
        raise PolicyError(document.name, [Problem(1, 1, "", message, "begin it with version: 1")])
    try:
        shape = ScenarioShape.model_validate(document.value)
    except ValidationError as error:
        raise PolicyError(document.name, _complaints(document, error)) from None
    conversion = _Conversion(document, path.absolute().parent)
    scenario = conversion.scenario(shape)
    if conversion.problems:
        raise PolicyError(document.name, conversion.problems)
    return replace(scenario, source=str(path))


def _complaints(document: Document, error: ValidationError) -> Iterator[Problem]:
    """Explain the errors as for a paddock file, with the keys of a scenario."""
    from paddock.policy.complaints import complaints
    from paddock.run.scenarios.shape import SHAPES

    pairs = zip(error.errors(), complaints(document, error), strict=True)
    for detail, problem in pairs:
        general = _general(detail["loc"])
        if detail["type"] == "missing":
            yield replace(problem, hint=_MISSING.get(general))
        elif detail["type"] == "extra_forbidden" and general[:-1] in SHAPES:
            shape = SHAPES[general[:-1]]
            names = [detail.alias or name for name, detail in shape.model_fields.items()]
            yield replace(problem, hint=suggest(general[-1], names))
        else:
            yield problem


def _general(loc: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the path with `*` for numbers and file names, without pydantic's own names."""
    segments = [
        segment for segment in loc if segment not in ("SourceShape", "str", "entry", "list", "name")
    ]
    if loc[-1:] and loc[-1] in ("entry", "list", "name"):
        segments.append(loc[-1])
    general = ["*" if isinstance(segment, int) else segment for segment in segments]
    for number, part in enumerate(general[:-1]):
        if part == "files" and general[:number] in ([], ["expect"]):
            general[number + 1] = "*"
    return tuple(general)


class _Conversion(msgspec.Struct):
    """One conversion; what is wrong collects in `problems`."""

    document: Document
    directory: Path
    problems: list[Problem] = []
    read_from: list[Path] = []

    def scenario(self, shape: ScenarioShape) -> Scenario:
        from paddock.run.scenarios.expectations import ExpectationReader

        self._check(shape)
        options: Mapping[str, Any] = self.document.value
        return Scenario(
            name=shape.name,
            agent=shape.agent,
            cwd=self._directory(shape.cwd),
            file=self._file(shape.file, ("file",)),
            world=shape.world,
            faults=options.get("faults"),
            seed=shape.seed,
            stage=shape.stage,
            sets=shape.set or {},
            envs=shape.envs,
            files=self._files(shape),
            files_from=tuple(self.read_from),
            stdin=None if shape.stdin is None else shape.stdin.encode(),
            repeat=shape.repeat,
            timeout_s=shape.timeout,
            matrix=self._matrix(shape),
            expect=ExpectationReader(self.note).read(shape.expect),
        )

    def note(
        self, path: Place, message: str, hint: str | None = None, *, of_key: bool = False
    ) -> None:
        self.problems.append(self.document.problem(path, message, hint, of_key=of_key))

    def _check(self, shape: ScenarioShape) -> None:
        from paddock.policy.world_words import read_world

        if not shape.name.isprintable():
            self.note(("name",), "has characters that cannot be shown")
        if shape.world is not None:
            for path, message, hint in read_world(shape.world)[1]:
                self.note(path, message, hint)
        if shape.expect.rate is not None:
            needed = runs_to_show(shape.expect.rate.min)
            if shape.repeat < needed:
                problem = (
                    f"{many(shape.repeat, 'run')} cannot show a rate of {shape.expect.rate.min:g}"
                )
                hint = f"write repeat: {needed}, if not more"
                self.note(("expect", "rate", "min"), problem, hint)
        for axis in shape.matrix.model_fields_set if shape.matrix else ():
            name = "file" if axis == "policy" else axis
            if name in shape.model_fields_set and name not in ("agent", "set"):
                self.note(("matrix", axis), f"there is {name} as well", "write one of them")

    def _directory(self, word: str | None) -> Path:
        directory = self.directory if word is None else (self.directory / word).absolute()
        if not directory.is_dir():
            self.note(("cwd",), f"{directory} is not a directory")
        return directory

    def _file(self, word: str | None, path: Place) -> Path | None:
        if word is None:
            return None
        file = (self.directory / word).absolute()
        if not file.is_file():
            self.note(path, f"there is no file {file}", "a path starts where the scenario lies")
        return file

    def _files(self, shape: ScenarioShape) -> Mapping[str, bytes]:
        files: dict[str, bytes] = {}
        for target, what in shape.files.items():
            try:
                files.update(self._put(target, what))
            except InvalidInput as error:
                self.note(("files", target), error.message, error.hint)
        try:
            return fixtures.bounded(files)
        except InvalidInput as error:
            self.note(("files",), error.message, error.hint)
            return {}

    def _put(self, target: str, what: Any) -> Iterator[tuple[str, bytes]]:
        """Yield the files to put at a target: a text as it is, the content of a file or, where the
        target ends in /, of a directory."""
        inside = fixtures.checked_target(target)
        if target.endswith("/"):
            source = what if isinstance(what, str) else what.from_
            self.read_from.append(self.directory / source)
            yield from fixtures.read_tree(self.directory / source, inside)
        elif isinstance(what, str):
            yield inside, what.encode()
        else:
            self.read_from.append(self.directory / what.from_)
            yield inside, fixtures.read_file(self.directory / what.from_)

    def _matrix(self, shape: ScenarioShape) -> Mapping[str, tuple[Any, ...]]:
        axes: dict[str, tuple[Any, ...]] = {}
        if shape.matrix is None:
            return axes
        matrix = self.document.value["matrix"]
        for axis in matrix:  # in the order of the file
            if axis == "faults":
                axes[axis] = tuple(matrix[axis])
            elif axis == "policy":
                axes[axis] = tuple(
                    self._file(word, ("matrix", axis, n))
                    for n, word in enumerate(shape.matrix.policy)
                )
            else:
                axes[axis] = tuple(getattr(shape.matrix, axis))
        if not axes:
            self.note(("matrix",), "has no axis", "write seed: [1, 2, 3], or remove the key")
        runs = math.prod(map(len, axes.values())) * shape.repeat
        if runs > MAX_RUNS:
            self.note(("matrix",), f"{runs} runs, at most {MAX_RUNS}", "write fewer values")
        return axes
