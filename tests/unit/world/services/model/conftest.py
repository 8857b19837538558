"""A model for each test; its store is closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from unit.world.services.model.asking import Say, Talk, talk


@pytest.fixture
def say(tmp_path: Path) -> Iterator[Say]:
    opened: list[Talk] = []

    def make(script: Mapping[str, Any] | str) -> Talk:
        opened.append(talk(tmp_path, script, f"model-{len(opened)}.db"))
        return opened[-1]

    yield make
    for one in opened:
        one.store.close()
