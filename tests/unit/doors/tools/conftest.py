"""Gates with real journals and stores, let go after a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from unit.doors.tools.sets import REFUNDS, make_gate

Opener = Callable[..., Gate]


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return SigningKey.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def opener(tmp_path: Path, key: SigningKey) -> Iterator[Opener]:
    gates: list[Gate] = []
    store = GateStore(tmp_path / "gate.sqlite")

    def open_one(text: str = REFUNDS, **options: Any) -> Gate:
        options.setdefault("run", f"run-{len(gates) + 1}")
        gates.append(make_gate(tmp_path, key, store, text, **options))
        return gates[-1]

    yield open_one
    for gate in gates:
        gate._journal.abandon()
    store.close()


@pytest.fixture
def gate(opener: Opener) -> Gate:
    return opener()
