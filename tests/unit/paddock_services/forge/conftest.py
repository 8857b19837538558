"""A forge for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.paddock_services.forge.asking import Asking


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Asking]:
    made = Asking(tmp_path)
    yield made
    assert made.forge.invariants() == []
    made.store.close()
