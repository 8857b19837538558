"""From words to a Scenario: the text of a file, or what a caller of Python says. All that is wrong
is told at once, with its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.model.plural import many
from paddock.policy.file import raise_located, read_values
from paddock.policy.file.document import Document, read
from paddock.policy.section import Cursor
from paddock.run.scenarios import fixtures
from paddock.run.scenarios.definition import SCENARIO, CopiedFile
from paddock.run.scenarios.rates import runs_to_show
from paddock.run.scenarios.scenario import TIMEOUT_S, Scenario
from paddock.run.scenarios.terms import Expectations

MAX_RUNS = 100_000  # of one scenario; they are listed before the first begins


def read_scenario(text: str, path: Path) -> Scenario:
    """Parse the scenario of a file. Raises PolicyError with everything that is wrong with it."""
    return _scenario(read(text, path.name), path)


def scenario_of(options: Mapping[str, Any], path: Path) -> Scenario:
    """Parse a scenario that a caller describes with the options of a file. `path` is the file that
    it is in."""
    return _scenario(Document(path.name, {"version": 1, **options}, {}, {}), path)


def _scenario(document: Document, path: Path) -> Scenario:
    values = read_values(document, SCENARIO)
    cursor = Cursor()
    scenario = _Conversion(cursor, path.absolute().parent).scenario(values)
    raise_located(document, cursor.mistakes)
    return replace(scenario, source=str(path))


class _Conversion(msgspec.Struct):
    """One conversion of values to a Scenario, with the checks that need files of the host."""

    cursor: Cursor
    directory: Path
    read_from: list[Path] = []

    def scenario(self, values: Mapping[str, Any]) -> Scenario:
        self._check(values)
        stdin = values.get("stdin")
        return Scenario(
            name=values["name"],
            agent=values["agent"],
            cwd=self._directory(values.get("cwd")),
            file=self._file(values.get("file"), self.cursor.at("file")),
            world=values.get("world"),
            faults=values.get("faults"),
            seed=values.get("seed"),
            stage=values.get("stage"),
            sets=values.get("set", {}),
            envs=values.get("envs", {}),
            files=self._files(values.get("files", {})),
            files_from=tuple(self.read_from),
            stdin=None if stdin is None else stdin.encode(),
            repeat=values.get("repeat", 1),
            timeout_s=values.get("timeout", TIMEOUT_S),
            matrix=self._matrix(values),
            expect=values.get("expect", Expectations()),
        )

    def _check(self, values: Mapping[str, Any]) -> None:
        if not values["name"].isprintable():
            self.cursor.at("name").report("has characters that cannot be shown")
        rate = values["expect"].least_rate if "expect" in values else None
        repeat = values.get("repeat", 1)
        if rate is not None and repeat < (needed := runs_to_show(rate)):
            message = f"{many(repeat, 'run')} cannot show a rate of {rate:g}"
            hint = f"write repeat: {needed}, if not more"
            self.cursor.at("expect", "rate", "min").report(message, hint)
        for axis in values.get("matrix", {}):
            name = "file" if axis == "policy" else axis
            if name in values and name not in ("agent", "set"):
                message = f"there is {name} as well"
                self.cursor.at("matrix", axis).report(message, "write one of them")

    def _directory(self, path: str | None) -> Path:
        directory = self.directory if path is None else (self.directory / path).absolute()
        if not directory.is_dir():
            self.cursor.at("cwd").report(f"{directory} is not a directory")
        return directory

    def _file(self, path: str | None, cursor: Cursor) -> Path | None:
        if path is None:
            return None
        file = (self.directory / path).absolute()
        if not file.is_file():
            cursor.report(f"there is no file {file}", "a path starts where the scenario lies")
        return file

    def _files(self, sources: Mapping[str, str | CopiedFile]) -> Mapping[str, bytes]:
        files: dict[str, bytes] = {}
        for target, source in sources.items():
            try:
                files.update(self._put(target, source))
            except InvalidInput as error:
                self.cursor.at("files", target).report(error.message, error.hint)
        try:
            return fixtures.bounded(files)
        except InvalidInput as error:
            self.cursor.at("files").report(error.message, error.hint)
            return {}

    def _put(self, target: str, source: str | CopiedFile) -> Iterator[tuple[str, bytes]]:
        """Yield the files to put at a target: a text as it is, the content of a file or, where the
        target ends in /, of a directory."""
        inside = fixtures.checked_target(target)
        if target.endswith("/"):
            path = self.directory / (source if isinstance(source, str) else source.source)
            self.read_from.append(path)
            yield from fixtures.read_tree(path, inside)
        elif isinstance(source, str):
            yield inside, source.encode()
        else:
            self.read_from.append(self.directory / source.source)
            yield inside, fixtures.read_file(self.directory / source.source)

    def _matrix(self, values: Mapping[str, Any]) -> Mapping[str, tuple[Any, ...]]:
        """Return the axes in the order of the file."""
        if "matrix" not in values:
            return {}
        axes = {axis: tuple(points) for axis, points in values["matrix"].items()}
        if "policy" in axes:
            paths = enumerate(axes["policy"])
            cursor = self.cursor.at("matrix", "policy")
            axes["policy"] = tuple(self._file(path, cursor.at(n)) for n, path in paths)
        if not axes:
            hint = "write seed: [1, 2, 3], or remove the key"
            self.cursor.at("matrix").report("has no axis", hint)
        runs = math.prod(map(len, axes.values())) * values.get("repeat", 1)
        if runs > MAX_RUNS:
            message = f"{runs} runs, at most {MAX_RUNS}"
            self.cursor.at("matrix").report(message, "write fewer values")
        return axes
