"""Finds the class behind the name of a service.

A name is looked up in three places, and the first that has it wins. So no installed package can
take the name of a service that comes with Paddock:

1. `CORE`: the few services that are part of `paddock.world`;
2. the entry points of Paddock's own distribution, which name the services of `paddock_services`;
3. the entry points of all other installed distributions, in the same group.

Reading entry points takes time, so it happens only when a service is named that is not in `CORE`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from paddock.model.errors import InvalidInput
from paddock.model.version import DISTRIBUTION
from paddock.policy.problems import suggest
from paddock.world.service import Service

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "paddock.services"
CORE = {
    "app": "paddock.world.services.app:App",
    "command": "paddock.world.services.command:Command",
    "draft": "paddock.world.services.draft:DraftService",
    "model": "paddock.world.services.model:Model",
}


def load_service(name: str) -> type[Service]:
    """Return the class of a service. Raises InvalidInput for a name that nobody has."""
    if name in CORE:
        module, _, attribute = CORE[name].partition(":")
        core_service: type[Service] = getattr(importlib.import_module(module), attribute)
        return core_service
    entry_point = _own_services().get(name) or _installed_services().get(name)
    if entry_point is None:
        names = service_names()
        why = f"there is no service {name!r}; there are {', '.join(names)}"
        raise InvalidInput(why, hint=suggest(name, names))
    service = entry_point.load()
    if not (isinstance(service, type) and issubclass(service, Service)):
        raise InvalidInput(f"service {name!r}: {entry_point.value} is not a Service")
    return service


def service_names() -> list[str]:
    """Return the names of all services that a paddock file can use here."""
    return sorted({*CORE, *_own_services(), *_installed_services()})


def _own_services() -> dict[str, EntryPoint]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        entry_points = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return {}
    return {point.name: point for point in entry_points if point.group == GROUP}


def _installed_services() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}
