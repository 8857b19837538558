"""The rig of the world's figures: requests, a sandbox that sends them to stand-ins, and
the same stand-ins without a sandbox. Also how the host process is kept on one core.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from bench.world import load as load_script
from paddock import Sandbox
from paddock.model.errors import HostCannot
from paddock.state.home import Home

PYTHON = ["/usr/bin/python3", "-I", "-S"]
CUSTOMERS = 500
_LOAD = Path(load_script.__file__)
_LOAD_S = 300.0
_KEY = {"Authorization": "Bearer sk_test_bench"}
_PORT = 443


class Asking(msgspec.Struct, frozen=True):
    """A request. `@` in its path stands for a number, another one each time, below `numbers`."""

    host: str
    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: str = ""
    numbers: int = 1


GET_CUSTOMER = Asking("api.stripe.com", "GET", "/v1/customers/cus_bench@", _KEY, numbers=CUSTOMERS)
CREATE_INTENT = Asking(
    "api.stripe.com",
    "POST",
    "/v1/payment_intents",
    {**_KEY, "Content-Type": "application/x-www-form-urlencoded"},
    "amount=1999&currency=eur&customer=cus_bench7&payment_method_types[0]=card",
)
ASK_MODEL = Asking(
    "api.openai.com",
    "POST",
    "/v1/chat/completions",
    {**_KEY, "Content-Type": "application/json"},
    json.dumps({
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "You work at the help desk of a shop."},
            {"role": "user", "content": "Where is my order A-1001? I have waited for two weeks."},
        ],
    }),
)  # fmt: skip
_SCRIPT = {
    "rules": [
        {"match": {"user": "refund"}, "answer": "How much was it?"},
        {"match": {"user": "where is my order"}, "answer": "It has left our house, and is near."},
    ]
}


def world_words() -> dict[str, Any]:
    """The world as a paddock file would say it."""
    customers = [
        {"id": f"cus_bench{number}", "email": f"ada.{number}@example.com", "name": f"Ada {number}"}
        for number in range(CUSTOMERS)
    ]
    return {
        "api.stripe.com": {"service": "payments", "seed": {"customers": customers}},
        "api.openai.com": {"service": "model", "script": _SCRIPT},
    }


class Inside(msgspec.Struct, frozen=True):
    """A sandbox with the load in its files. `core`: that the load keeps to, if there is one."""

    box: Sandbox
    core: int | None = None

    def load(self, asking: Asking, *, connections: int, seconds: float) -> dict[str, Any]:
        """Run the load once; return what it measured, and `cpu_s`, that a request took of the host
        process. Raises CommandExitException when it fails."""
        words = {**asdict(asking), "port": _PORT, "connections": connections, "seconds": seconds}
        argv = [*PYTHON, "load.py", json.dumps({**words, "core": self.core})]
        before = time.process_time()
        told: dict[str, Any] = json.loads(self.box.commands.run(argv, timeout=_LOAD_S).stdout)
        return {**told, "cpu_s": (time.process_time() - before) / told["requests"]}


@contextlib.contextmanager
def open_inside() -> Iterator[Inside]:
    """The host process on one core and the load on another, as far as there are two."""
    limits = {"cpu": len(os.sched_getaffinity(0))}
    with (
        kept_world(Sandbox.create(limits=limits, world=world_words(), timeout=3600)) as box,
        on_one_core() as other,
    ):
        box.files.write("load.py", _LOAD.read_text())
        yield Inside(box, other)


@contextlib.contextmanager
def kept_world(box: Sandbox) -> Iterator[Sandbox]:
    """A sandbox of the bench: after the block it is gone, and its world with it."""
    try:
        with box:
            yield box
    finally:
        shutil.rmtree(Home.find().worlds / box.sandbox_id, ignore_errors=True)


@contextlib.contextmanager
def on_one_core() -> Iterator[int | None]:
    """Keeps all threads of this process on one core, and tells of another one for the load."""
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    try:
        _keep_to({first})
        yield others[0] if others else None
    finally:
        _keep_to(before)


def _keep_to(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def in_process(asking: Asking, scratch: Path, count: int) -> list[float]:
    """Return the seconds of each call of the stand-in itself: no sandbox, no TLS, no gate, no
    journal."""
    from paddock.world.context import Context
    from paddock.world.registry import load_service
    from paddock.world.store import Store

    words = world_words()[asking.host]
    with Store.open(scratch / f"{asking.host}.sqlite") as store:
        context = Context(asking.host, asking.host, _PORT, store, options=words)
        service = load_service(words["service"])(context)
        with store.transaction():
            service.seed(words.get("seed", {}))
        return asyncio.run(_calls(service, asking, count))


async def _calls(service: Any, asking: Asking, count: int) -> list[float]:
    from paddock.world.asgi import WorldRequest, call

    app, taken = service.app(), []
    headers = [(name.lower().encode(), text.encode()) for name, text in asking.headers.items()]
    for number in range(count):
        path = asking.path.replace("@", str(number % asking.numbers))
        request = WorldRequest(
            asking.method, path, headers=headers, body=asking.body.encode(), host=asking.host
        )
        began = time.perf_counter()
        answer = await call(app, request, is_prompt=service.is_prompt)
        taken.append(time.perf_counter() - began)
        if answer.status != 200:
            raise HostCannot(f"the stand-in answered {answer.status} to {asking.path}")
    return taken
