"""The three documents, each served afresh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.paddock_services.openapi.serving import DOCUMENTS, Served


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    served = Served(DOCUMENTS / "shop.yaml", tmp_path, "/v1")
    yield served
    served.store.close()


@pytest.fixture
def pets(tmp_path: Path) -> Iterator[Served]:
    served = Served(DOCUMENTS / "pets.json", tmp_path, "/api/v3")
    yield served
    served.store.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Served]:
    served = Served(DOCUMENTS / "desk.yaml", tmp_path, "/api")
    yield served
    served.store.close()
