"""Sandboxes whose hosts are stand-ins, with real clients in them. No test lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clients.packages import clients
from paddock import Sandbox

MakeBox = Callable[..., Sandbox]


@pytest.fixture(scope="session")
def packages() -> Path:
    """The clients that do not come with the system."""
    return clients()


@pytest.fixture(scope="module")
def make_box(packages: Path) -> Iterator[MakeBox]:
    """Creates sandboxes that end with the file."""
    made: list[Sandbox] = []

    def make(world: Mapping[str, Any], **words: Any) -> Sandbox:
        mount = {"source": str(packages), "target": "/clients", "mode": "read"}
        envs = {"PYTHONPATH": "/clients/python", **words.pop("envs", {})}
        box = Sandbox.create(world=world, envs=envs, mounts=[mount], **words)
        made.append(box)
        return box

    yield make
    for box in made:
        box.kill()
