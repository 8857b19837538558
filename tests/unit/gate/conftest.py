"""A key, a store, and gates that are let go after a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.gate.approvals import Approvals
from paddock.gate.gate import Gate
from paddock.gate.store import GateStore
from paddock.journal.integrity.keys import SigningKey
from unit.gate.gates import REFUNDS, make_gate

Opener = Callable[..., Gate]


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return SigningKey.open(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GateStore]:
    store = GateStore(tmp_path / "gate.sqlite")
    yield store
    store.close()


@pytest.fixture
def approvals(store: GateStore) -> Approvals:
    return Approvals(store)


@pytest.fixture
def opener(tmp_path: Path, key: SigningKey, store: GateStore) -> Iterator[Opener]:
    gates: list[Gate] = []

    def open_one(text: str = REFUNDS, **options: Any) -> Gate:
        options.setdefault("store", store)
        gates.append(make_gate(tmp_path, key, text, **options))
        return gates[-1]

    yield open_one
    for gate in gates:
        gate._journal.abandon()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB, which only root can mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this user cannot mount a small disk: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)
