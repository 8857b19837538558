"""The evaluator of CEL, without what its package brings along.

`import cel` loads a command line with it (prompt_toolkit, rich, typer), which takes a good part of
a second. So the compiled module is loaded by itself, under the name that the package knows it by;
whoever imports the package later gets the same module.
"""

from __future__ import annotations

import sys
import threading
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME = "cel.cel"
_loading = threading.Lock()  # it cannot be loaded twice: the second time it panics


def cel() -> Any:
    """Return the compiled module: `compile`, `evaluate`, `Context`."""
    module = sys.modules.get(_NAME)
    if module is not None:
        return module
    with _loading:
        return sys.modules.get(_NAME) or _load()


def _load() -> Any:
    package = find_spec("cel")
    if package is None:
        raise ImportError("the package common-expression-language is not installed", name="cel")
    spec = PathFinder.find_spec(_NAME, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        raise ImportError("common-expression-language has no compiled module", name=_NAME)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules.setdefault(_NAME, module)
