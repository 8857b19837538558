"""A world that cannot be made leaves nothing; one that loses its files ends all the same."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import InvalidInput
from paddock.policy.world import world_of
from paddock.world.service import Service
from paddock.world.world import World

STRIPE = {"api.stripe.com": "payments"}


def opened(path: Path, words: dict[str, Any]) -> World:
    return World.open(path / "w", "run", world_of(words), path)


def open_stores(path: Path) -> list[str]:
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [one for one in links if one.startswith(str(path))]


@pytest.mark.parametrize(
    "second",
    [
        {"service": "payments", "sed": 1},
        {"service": "payments", "seed": "nowhere.json"},
        {"service": "payments", "timeout": "soon"},
        {"service": "openapi", "spec": "nowhere.json"},
    ],
)
def test_a_world_that_cannot_be_made_leaves_nothing(tmp_path: Path, second: Any) -> None:
    with pytest.raises(InvalidInput, match=r"world\.b\.example"):
        opened(tmp_path, {"a.example": "payments", "b.example": second})
    assert not (tmp_path / "w").exists()
    assert open_stores(tmp_path) == []


def test_a_seed_that_is_no_json_leaves_nothing(tmp_path: Path) -> None:
    seed = {"customers": [{"id": "cus_1", "created": datetime.now()}]}
    with pytest.raises((InvalidInput, TypeError)):
        opened(tmp_path, {"a.example": {"service": "payments", "seed": seed}})
    assert not (tmp_path / "w").exists()
    assert open_stores(tmp_path) == []


def test_a_fork_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = opened(tmp_path, {"a.example": "payments", "b.example": "chat"})

    async def fail(self: Service, parent: Service) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(type(world["b.example"].service), "copy_from", fail)

    async def fork() -> None:
        with pytest.raises(OSError, match="no space"):
            await world.fork(tmp_path / "fork", "other")
        assert not (tmp_path / "fork").exists()
        assert open_stores(tmp_path / "fork") == []
        await world.close()

    asyncio.run(fork())


def test_a_world_whose_files_are_gone_can_be_closed(tmp_path: Path) -> None:
    world = opened(tmp_path, STRIPE)
    shutil.rmtree(tmp_path / "w")
    asyncio.run(world.close())
    assert open_stores(tmp_path) == []


def test_invariants_are_told_between_requests_not_in_the_middle_of_one(tmp_path: Path) -> None:
    world = opened(tmp_path, STRIPE)
    store = world["api.stripe.com"].store
    charge = {"id": "ch_1", "object": "charge", "amount": 1000, "amount_refunded": 400}
    found: list[dict[str, list[str]]] = []
    with store.transaction():
        store.put("charges", "ch_1", {**charge, "status": "succeeded", "captured": True})
        asker = threading.Thread(target=lambda: found.append(world.broken()))
        asker.start()
        asker.join(20)
    assert found == [{}]
    assert "api.stripe.com" in world.broken()  # the half of it is a fault for sure
    asyncio.run(world.close())
