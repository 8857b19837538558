"""Scenarios written in Python: a function that checks what a run came to, and the words of a file.

@scenario(agent=["python", "agent.py"], file="paddock.yaml", expect={"steps": {"max": 40}})
def refund_a_duplicate_charge(result):
    assert len(result.world["api.stripe.com"]["refunds"]) == 1
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from paddock.model.errors import InvalidInput
from paddock.run.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from paddock.run.scenarios.result import RunResult

Check = Callable[["RunResult"], object]
_PREFIX = "paddock_scenarios_"


def scenario(**words: Any) -> Callable[[Check], Scenario]:
    """Makes a function a scenario. The words are those of a scenario file; without `name` it is
    called as the function is. What the function raises about the result is a failure."""

    def declared(check: Check) -> Scenario:
        from paddock.run.scenarios.reading import scenario_of

        path = Path(inspect.getsourcefile(check) or "scenario.py")
        name = check.__name__.replace("_", " ")
        return replace(scenario_of({"name": name, **words}, path), check=check)

    return declared


def declared_in(path: Path) -> list[Scenario]:
    """The scenarios of a module, in the order in which they stand. Raises InvalidInput."""
    module = _loaded(path)
    found = {id(one): one for one in vars(module).values() if isinstance(one, Scenario)}
    return list(found.values())


def _loaded(path: Path) -> ModuleType:
    name = _PREFIX + str(abs(hash(path.absolute())))
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
