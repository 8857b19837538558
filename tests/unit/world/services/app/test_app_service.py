"""Any ASGI application as a stand-in: in a pen, with a store, cut off when it hangs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cases import for_each
from paddock.model.errors import InvalidInput
from paddock.world.registry import load_service
from paddock.world.service import StandInFailed
from paddock.world.services.app import App
from unit.world.services.app.doorway import ask, body, context

PLAIN = """
import json, os, socket

calls = 0

async def answer(send, value, status=200):
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})

async def app(scope, receive, send):
    global calls
    if scope["type"] != "http":
        return
    calls += 1
    context = scope["state"]["paddock"]
    match scope["path"]:
        case "/hang":
            while True:
                pass
        case "/make":
            with context.store.transaction():
                id = context.new_id("x_")
                context.store.put("thing", id, {"id": id, "at": context.tick()})
            await answer(send, id)
        case "/things":
            await answer(send, context.store.find("thing"))
        case "/headers":
            await answer(send, [name.decode() for name, _ in scope["headers"]])
        case "/about":
            options = dict(context.options)
            await answer(send, [context.name, context.host, scope["scheme"], options, calls])
        case "/raise":
            raise ValueError("oops")
        case "/die":
            os._exit(1)
        case "/dial":
            try:
                socket.create_connection(("192.0.2.1", 80), 5)
            except OSError as error:
                await answer(send, str(error))

def makes(context):
    async def made(scope, receive, send):
        if scope["type"] == "http":
            await answer(send, context.host)
    return made

nothing = 5
"""
SERVICE = """
from paddock.world.service import Service

class Shop(Service):
    name = "shop"

    def app(self):
        async def app(scope, receive, send):
            if scope["type"] == "http":
                text = str(self.context.store.count("order")).encode()
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": text})
        return app

    def seed(self, data):
        for order in data["orders"]:
            self.context.store.put("order", order["no"], order)

    def invariants(self):
        return [f"order {o['no']} is below zero" for o in self.context.store.find("order")
                if o["sum"] < 0]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "plain.py").write_text(PLAIN)
    (project / "shop.py").write_text(SERVICE)
    (project / "broken.py").write_text("import no_such_package")
    (project / "slow.py").write_text("while True: pass")
    return tmp_path


def app(place: Path, name: str = "plain:app", **words: Any) -> App:
    made = App(context(place, {"app": name, **words}))
    made.check()
    return made


async def said(service: App, *words: str) -> Any:
    return json.loads(body(await ask(service, *words)))


def test_the_name_in_a_file_leads_to_it() -> None:
    assert load_service("app") is App


def test_an_application_answers_and_writes_to_the_store_of_its_world(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            id = await said(service, "/make", "x-paddock-step: 7")
            (change,) = service.context.store.changes()
            assert (change.kind, change.id, change.step) == ("thing", id, 7)
        finally:
            await service.close()

    asyncio.run(main())


def test_the_same_requests_give_the_same_state(tmp_path: Path) -> None:
    async def main(service: App) -> str:
        try:
            for _ in range(3):
                await ask(service, "/make")
            return service.context.store.digest()
        finally:
            await service.close()

    found = set()
    for name in "ab":
        (tmp_path / name / "project").mkdir(parents=True)
        (tmp_path / name / "project" / "plain.py").write_text(PLAIN)
        found.add(asyncio.run(main(app(tmp_path / name))))
    assert len(found) == 1


def test_the_header_of_the_step_is_not_shown_to_the_application(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            seen = await said(service, "/headers", "x-paddock-step: 7", "x-other: 1")
            assert seen == ["host", "connection", "x-other"]
        finally:
            await service.close()

    asyncio.run(main())


def test_it_has_its_name_its_host_and_the_words_of_the_file(place: Path) -> None:
    async def main() -> None:
        service = app(place, options={"plan": "free"})
        try:
            found = await said(service, "/about")
            assert found == ["service", "service.example", "https", {"plan": "free"}, 1]
        finally:
            await service.close()

    asyncio.run(main())


def test_it_cannot_dial_out(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            assert "unreachable" in await said(service, "/dial")
        finally:
            await service.close()

    asyncio.run(main())


def test_one_that_raises_answers_500_and_goes_on(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            assert (await ask(service, "/raise")).startswith(b"HTTP/1.1 500")
            assert (await said(service, "/about"))[-1] == 2
        finally:
            await service.close()

    asyncio.run(main())


def test_one_that_died_is_started_anew(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            assert await ask(service, "/die") == b""
            assert (await said(service, "/about"))[-1] == 1
        finally:
            await service.close()

    asyncio.run(main())


def test_one_that_hangs_is_cut_off_and_started_anew(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            hanging = asyncio.ensure_future(ask(service, "/hang"))
            await asyncio.sleep(1)
            assert not hanging.done()
            await service.stuck()
            assert await hanging == b""
            assert (await said(service, "/about"))[-1] == 1
        finally:
            await service.close()

    asyncio.run(main())


def test_reset_forgets_what_was_in_its_memory(place: Path) -> None:
    async def main() -> None:
        service = app(place)
        try:
            await ask(service, "/make")
            service.context.store.reset()
            await service.reset()
            assert (await said(service, "/about"))[-1] == 1
            assert await said(service, "/things") == []
        finally:
            await service.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken:app", "cannot import broken: ModuleNotFoundError: No module named"),
        ("plain:missing", "plain has no missing"),
        ("plain:nothing", "a int is no ASGI application"),
        ("absent:app", "cannot import absent"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence(place: Path, name: str, why: str) -> None:
    async def main() -> None:
        service = app(place, name)
        try:
            with pytest.raises(StandInFailed, match=why):
                await service.connect()
        finally:
            await service.close()

    asyncio.run(main())


def test_one_that_hangs_while_it_is_imported_is_given_up(place: Path) -> None:
    async def main() -> None:
        service = app(place, "slow:app", ready_s=2)
        try:
            with pytest.raises(StandInFailed, match="not ready within 2 s"):
                await service.connect()
        finally:
            await service.close()

    asyncio.run(main())


def test_a_callable_that_takes_a_context_makes_the_application(place: Path) -> None:
    async def main() -> None:
        service = app(place, "plain:makes")
        try:
            assert await said(service) == "service.example"
        finally:
            await service.close()

    asyncio.run(main())


def test_a_service_seeds_itself_and_says_what_is_broken(place: Path) -> None:
    async def main() -> None:
        service = app(place, "shop:Shop")
        service.seed({"orders": [{"no": "1", "sum": 5}, {"no": "2", "sum": -1}]})
        try:
            assert body(await ask(service)) == b"2"
            assert service.invariants() == ["order 2 is below zero"]
        finally:
            await service.close()

    asyncio.run(main())


def test_documents_seed_a_plain_application(place: Path) -> None:
    service = app(place)
    service.seed({"thing": [{"id": "a", "n": 1}]})
    assert service.context.store.get("thing", "a") == {"id": "a", "n": 1}
    assert service.invariants() == []


@for_each(
    "words",
    [
        {"app": "no-colon"},
        {"app": "../x:app"},
        {"app": "plain:app", "options": 5},
        {"app": "plain:app", "memory": "1KiB"},
        {"app": "plain:app", "ready_s": 0},
        {"app": "plain:app", "env": ["A"]},
        {"app": "plain:app", "env": {"A=B": "c"}},
        {"app": "plain:app", "read": ["/"]},
        {"app": "plain:app", "read": ["missing"]},
        {"app": "plain:app", "python": "no/python"},
    ],
)
def test_words_that_make_no_sense_are_refused(place: Path, words: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        App(context(place, words)).check()


def test_application_without_uvicorn_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.world.services.app.service.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="needs uvicorn") as refused:
        App(context(place, {"app": "plain:app"})).check()
    assert refused.value.hint == "pip install 'paddock-sandbox[world]'"
