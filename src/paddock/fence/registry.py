"""The drivers that a sandbox can have. The doors get theirs from here and import none themselves.

Only what is listed here can be chosen. `fence.fake`, which isolates nothing, is not: a test passes
it to a constructor. Nothing heavy may be imported here, because a command line that will need a
sandbox asks for `early_start` before it loads its own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.fence.driver import Driver

DEFAULT = "container"
_CLASSES = {"container": ("paddock.fence.container.driver", "ContainerDriver")}


def driver_names() -> tuple[str, ...]:
    """Return the names of all drivers."""
    return tuple(_CLASSES)


def driver_class(name: str = DEFAULT) -> type[Driver]:
    """Return a driver by its name; KeyError if there is none."""
    module, class_name = _CLASSES[name]
    driver: type[Driver] = getattr(import_module(module), class_name)
    return driver


@contextmanager
def early_start() -> Iterator[None]:
    """Within this the processes of the default driver get up, for the first who opens it."""
    from paddock.fence.container.keeper_start import early_keeper

    with early_keeper():
        yield
