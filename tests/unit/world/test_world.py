"""A world as a whole: made, forked, reset, compared and closed, whatever stands in it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from paddock.model.errors import HostCannot, InvalidInput
from paddock.policy.world import world_of
from paddock.world.asgi import WorldRequest
from paddock.world.saved_worlds import open_saved_world
from paddock.world.world import World

SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/items": {"get": {"responses": {"200": {"description": "ok"}}}}},
}
IN_PROCESS = ["payments", "mail", "chat", "forge", "tickets", "model", "openapi", "draft"]


def words(tmp_path: Path) -> dict[str, Any]:
    spec = tmp_path / "shop.json"
    spec.write_text(json.dumps(SPEC))
    found: dict[str, Any] = {f"{name}.example": {"service": name} for name in IN_PROCESS}
    found["model.example"]["script"] = {"rules": [{"match": {"user": "a"}, "answer": "b"}]}
    found["openapi.example"]["spec"] = str(spec)
    return found


def opened(tmp_path: Path, said: dict[str, Any], run: str = "one") -> World:
    return World.open(tmp_path / "worlds" / run, run, world_of(said), tmp_path)


def test_a_fork_of_every_service_is_independent_both_ways(tmp_path: Path) -> None:
    async def main() -> None:
        parent = opened(tmp_path, words(tmp_path))
        for one in parent:
            one.store.put("thing", "before", {"id": "before"})
        child = await parent.fork(tmp_path / "worlds" / "two", "two")
        assert child.digest() == parent.digest()
        at_fork = parent.digest()
        for one in child:
            one.store.put("thing", "of the child", {"id": "x"})
        assert parent.digest() == at_fork
        for one in parent:
            one.store.delete("thing", "before")
        for one in child:
            assert one.store.has("thing", "before")
            assert one.store.ids("thing") == ["before", "of the child"]
        await parent.close()
        await child.close()

    asyncio.run(main())


def test_reset_brings_every_service_back_exactly(tmp_path: Path) -> None:
    async def main() -> None:
        world = opened(tmp_path, words(tmp_path))
        before = world.digest()
        for one in world:
            one.store.put("thing", "a", {"id": "a"})
            one.store.next("clock")
        assert world.digest() != before
        await world.reset()
        assert world.digest() == before
        await world.close()

    asyncio.run(main())


def test_a_world_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    said = {"a.example": "tickets", "b.example": {"service": "payments", "seed": "nowhere.json"}}
    with pytest.raises(InvalidInput, match="nowhere"):
        opened(tmp_path, said)
    assert list((tmp_path / "worlds").iterdir()) == []


def test_a_stand_in_of_a_package_that_is_missing_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import paddock.world.world as module

    def load(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'regex'", name="regex")

    monkeypatch.setattr(module, "load_service", load)
    with pytest.raises(HostCannot, match="needs the package regex") as told:
        opened(tmp_path, {"a.example": "chat"})
    assert told.value.hint == "pip install 'paddock-sandbox[world]'"


def test_the_step_of_a_request_is_in_what_it_changed(tmp_path: Path) -> None:
    async def main() -> None:
        world = opened(tmp_path, {"api.stripe.com": "payments"})
        headers = [(b"authorization", b"Bearer sk_test_1"),
                   (b"content-type", b"application/x-www-form-urlencoded")]  # fmt: skip
        asked = WorldRequest("POST", "/v1/customers", "", headers, b"email=a%40example.com")
        answer = await world["api.stripe.com"].request(asked, 7)
        assert answer.status == 200
        assert {one.step for one in world["api.stripe.com"].changes()} == {7}
        await world.close()

    asyncio.run(main())


def test_two_places_never_share_a_file(tmp_path: Path) -> None:
    said = {"a.example:80": "tickets", "a.example:81": "tickets", "*.a.example": "tickets"}
    world = opened(tmp_path, said)
    assert len({one.store.path for one in world}) == 3
    asyncio.run(world.close())


def test_what_is_kept_can_be_read_when_the_run_is_over(tmp_path: Path) -> None:
    world = opened(tmp_path, {"a.example": "tickets"})
    world["a.example"].store.put("thing", "a", {"id": "a"})
    with open_saved_world(tmp_path, "one") as kept:
        assert not kept.is_ended
    asyncio.run(world.close())
    kept = open_saved_world(tmp_path, "one")
    assert kept.is_ended
    assert [one.store.has("thing", "a") for one in kept.services] == [True]
    kept.close()


def test_invariants_that_raise_do_not_hide_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened(tmp_path, {"a.example": "tickets", "b.example": "chat"})

    def raising(_: object) -> list[str]:
        raise ValueError("no")

    assert world.broken() == {}
    monkeypatch.setattr(type(world["a.example"].service), "invariants", raising)
    monkeypatch.setattr(type(world["b.example"].service), "invariants", lambda _: ["Broken."])
    assert world.broken() == {
        "a.example": ["its invariants cannot be checked: ValueError: no"],
        "b.example": ["Broken."],
    }
    asyncio.run(world.close())


def test_invariants_of_every_service_can_be_checked(tmp_path: Path) -> None:
    world = opened(tmp_path, words(tmp_path))
    assert world.broken() == {}
    asyncio.run(world.close())
