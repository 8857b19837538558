"""Which files are scenarios, and what stands in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from paddock.model.errors import InvalidInput
from paddock.run.scenarios.declaring import declared_in
from paddock.run.scenarios.reading import read_scenario
from paddock.run.scenarios.scenario import Scenario

YAML_NAMES = ("*.scenario.yaml", "*.scenario.yml", "paddock_*.yaml", "paddock_*.yml")
PYTHON_NAMES = ("scenarios_*.py",)
MAX_BYTES = 1 << 20
MAX_FOUND = 10_000
# Nobody writes scenarios there, and they are large.
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages", "paddock_runs"})


def find_scenarios(places: Iterable[Path]) -> list[Scenario]:
    """All scenarios of these files and directories. Raises InvalidInput with all that is wrong with
    any of them, or that there are none."""
    found: list[Scenario] = []
    wrong: list[str] = []
    paths = list(dict.fromkeys(one for place in places for one in _files(place)))
    for path in paths:
        try:
            found += scenarios_in(path)
        except InvalidInput as error:
            wrong.append(str(error))
    wrong += _twice(found)
    if wrong:
        raise InvalidInput("\n".join(wrong))
    if not found:
        names = ", ".join((*YAML_NAMES[:1], *PYTHON_NAMES))
        raise InvalidInput("there are no scenarios", hint=f"they are files such as {names}")
    return found


def scenarios_in(path: Path) -> list[Scenario]:
    """Those of one file. Raises InvalidInput."""
    if path.suffix == ".py":
        return declared_in(path)
    return [read_scenario(_text(path), path)]


def is_yaml_scenario(name: str) -> bool:
    """Whether a file of this name is taken for a scenario."""
    return any(fnmatchcase(name, pattern) for pattern in YAML_NAMES)


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        if place.suffix not in (".yaml", ".yml", ".py"):
            raise InvalidInput(f"{place} is neither YAML nor Python")
        yield place
        return
    if not place.is_dir():
        raise InvalidInput(f"there is nothing at {place}")
    for count, (directory, below, names) in enumerate(os.walk(place)):
        below[:] = sorted(one for one in below if _is_looked_into(one))
        for name in sorted(names):
            if is_yaml_scenario(name) or any(fnmatchcase(name, one) for one in PYTHON_NAMES):
                yield Path(directory, name)
        if count > MAX_FOUND:
            raise InvalidInput(f"{place} has more than {MAX_FOUND} directories", hint="name fewer")


def _is_looked_into(name: str) -> bool:
    return not name.startswith(".") and name not in _PASSED_OVER


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise InvalidInput(f"{path} is larger than 1 MiB")
        return raw.decode()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text: byte {error.start} is not UTF-8") from None


def _twice(found: Iterable[Scenario]) -> Iterator[str]:
    """Reports tell scenarios apart by file and name."""
    for (source, name), count in Counter((one.source, one.name) for one in found).items():
        if count > 1:
            yield f"{source}: {count} scenarios are called {name!r}"
