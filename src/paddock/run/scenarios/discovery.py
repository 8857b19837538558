"""Which files are scenarios, and what stands in them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

from paddock.model.errors import InvalidInput
from paddock.run.scenarios.parser import read_scenario
from paddock.run.scenarios.scenario import Scenario

YAML_NAMES = ("*.scenario.yaml", "*.scenario.yml", "paddock_*.yaml", "paddock_*.yml")
PYTHON_NAMES = ("scenarios_*.py",)
MAX_BYTES = 1 << 20
MAX_FOUND = 10_000
_MODULE_PREFIX = "paddock_scenarios_"
# Nobody writes scenarios there, and they are large.
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages", "paddock_runs"})


def find_scenarios(places: Iterable[Path]) -> list[Scenario]:
    """Return all scenarios of these files and directories. Raises InvalidInput with all that is
    wrong with any of them, or that there are none."""
    scenarios: list[Scenario] = []
    wrong: list[str] = []
    paths = list(dict.fromkeys(file for path_ in places for file in _files(path_)))
    for path in paths:
        try:
            scenarios += scenarios_in(path)
        except InvalidInput as error:
            wrong.append(str(error))
    wrong += _twice(scenarios)
    if wrong:
        raise InvalidInput("\n".join(wrong))
    if not scenarios:
        names = ", ".join((*YAML_NAMES[:1], *PYTHON_NAMES))
        raise InvalidInput("there are no scenarios", hint=f"they are files such as {names}")
    return scenarios


def scenarios_in(path: Path) -> list[Scenario]:
    """Return the scenarios of one file. Raises InvalidInput."""
    if path.suffix == ".py":
        values = vars(_load(path)).values()
        return list({id(value): value for value in values if isinstance(value, Scenario)}.values())
    return [read_scenario(_text(path), path)]


def is_yaml_scenario(name: str) -> bool:
    """Return whether a file of this name is taken for a scenario."""
    return any(fnmatchcase(name, pattern) for pattern in YAML_NAMES)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix not in (".yaml", ".yml", ".py"):
            raise InvalidInput(f"{path} is neither YAML nor Python")
        yield path
        return
    if not path.is_dir():
        raise InvalidInput(f"there is nothing at {path}")
    for count, (directory, below, names) in enumerate(os.walk(path)):
        below[:] = sorted(name for name in below if _is_looked_into(name))
        for name in sorted(names):
            is_python = any(fnmatchcase(name, pattern) for pattern in PYTHON_NAMES)
            if is_python or is_yaml_scenario(name):
                yield Path(directory, name)
        if count > MAX_FOUND:
            raise InvalidInput(f"{path} has more than {MAX_FOUND} directories", hint="name fewer")


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


def _load(path: Path) -> ModuleType:
    name = _MODULE_PREFIX + str(abs(hash(path.absolute())))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # what is declared in it must find it again
    try:
        spec.loader.exec_module(module)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.message}", hint=error.hint) from None
    except Exception as error:  # of its author's
        del sys.modules[name]
        raise InvalidInput(f"{path} cannot be loaded: {type(error).__name__}: {error}") from None
    return module


def _twice(scenarios: Iterable[Scenario]) -> Iterator[str]:
    """Yield a complaint for each name that a file uses twice: reports identify scenarios by file
    and name."""
    counts = Counter((scenario.source, scenario.name) for scenario in scenarios)
    for (source, name), count in counts.items():
        if count > 1:
            yield f"{source}: {count} scenarios are called {name!r}"
