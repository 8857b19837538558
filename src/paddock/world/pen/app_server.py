"""Runs in a pen: loads somebody's application and serves it to the callers that come in.

Any Python that has uvicorn can run it; of Paddock it uses only the world's own few words, and those
need the standard library alone.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from paddock.world.context import Context
from paddock.world.service import ASGIApp, Receive, Scope, Seed, Send, Service
from paddock.world.store import STEP, Store

STEP_HEADER = b"x-paddock-step"
FAILED_HEADER = b"x-paddock-failed"
_MAX_HELD = 64  # messages of an answer that says 500
_MAX_SENTENCE = 2000


class Failed(Exception):
    """What is wrong with an application, in a sentence."""


def main() -> None:
    plan = json.loads(sys.argv[1])
    report = os.fdopen(int(os.environ["PADDOCK_READY"]), "wb", buffering=0)
    try:
        context = context_of(plan)
        if plan["project"]:
            sys.path.insert(0, plan["project"])
        found = load(plan["app"])
        if plan.get("ask"):
            report.write(json.dumps(ask(found, context, plan["ask"])).encode())
        else:
            listener = socket.socket(fileno=int(os.environ["PADDOCK_LISTENER"]))
            asyncio.run(serve(wrapped(application(found, context), context), listener, report))
    except Failed as error:
        report.write(" ".join(str(error).split())[:_MAX_SENTENCE].encode())
        sys.exit(1)


def context_of(plan: dict[str, Any]) -> Context:
    return Context(
        name=plan["name"],
        host=plan["host"],
        port=plan["port"],
        store=Store.open(Path(plan["store"])),
        seed=plan["seed"],
        start=plan["start"],
        options=plan["options"],
        project=Path(plan["project"] or plan["directory"]),
        directory=Path(plan["directory"]),
    )


def load(name: str) -> Any:
    """What `module:attribute` names."""
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except BaseException as error:
        raise Failed(f"cannot import {module}: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Failed(f"{module} has no {attribute}") from None
    return found


def application(found: Any, context: Context) -> ASGIApp:
    """An ASGI application, out of one, of a Service, or of a callable that makes either."""
    try:
        made = service_of(found, context)
        if made is not None:
            return made.app()
        made = found(context) if _takes_context(found) else found
        if isinstance(made, Service):
            return made.app()
    except Exception as error:
        raise Failed(f"it could not be made: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise Failed(f"a {type(made).__name__} is no ASGI application")
    app: ASGIApp = made
    return app


def service_of(found: Any, context: Context) -> Service | None:
    is_service = isinstance(found, type) and issubclass(found, Service)
    return found(context) if is_service else None


def ask(found: Any, context: Context, what: dict[str, Any]) -> Any:
    """What is asked of a Service while it does not serve."""
    service = service_of(found, context)
    if service is None and what["what"] == "invariants":
        return None  # it has none, and need not be asked again
    service = service or Service(context)
    try:
        if what["what"] == "seed":
            data: Seed = json.load(sys.stdin)
            with context.store.transaction():
                service.seed(data)
            return None
        if what["what"] == "invariants":
            return [str(one) for one in service.invariants()]
    except Exception as error:
        raise Failed(f"its {what['what']} failed: {type(error).__name__}: {error}") from error
    raise Failed(f"{what['what']!r} cannot be asked")


def wrapped(app: ASGIApp, context: Context) -> ASGIApp:
    """Hands over the context and the step, and keeps the step's header to itself."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["paddock"] = context
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        headers = scope["headers"]
        steps = [value for name, value in headers if name == STEP_HEADER]
        scope["headers"] = [pair for pair in headers if pair[0] != STEP_HEADER]
        if context.port == 443:
            scope["scheme"] = "wss" if scope["type"] == "websocket" else "https"
        STEP.set(int(steps[0]) if steps and steps[0].isdigit() else None)
        if scope["type"] == "http":
            await _watched(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    return call


async def _watched(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """An application that raises says so, in a header that goes no further than the door.
    Frameworks answer 500 first and raise then, so such an answer waits until it is known."""
    held: list[Any] = []
    has_begun = False

    async def holding(message: Any) -> None:
        nonlocal has_begun
        is_start = message["type"] == "http.response.start"
        if held or (is_start and message["status"] >= 500):
            held.append(message)
            if len(held) <= _MAX_HELD:
                return
            pending, held[:] = list(held), []
            has_begun = True
            for one in pending:
                await send(one)
            return
        has_begun = True
        await send(message)

    why = None
    try:
        await app(scope, receive, holding)
    except Exception as error:
        why = " ".join(f"it raised {type(error).__name__}: {error}".split())[:_MAX_SENTENCE]
        if has_begun:
            raise
    if why is not None:
        marks = [(FAILED_HEADER, why.encode("ascii", "replace"))]
        await send({"type": "http.response.start", "status": 500, "headers": marks})
        await send({"type": "http.response.body", "body": b""})
        return
    for one in held:
        await send(one)


async def serve(app: ASGIApp, listener: socket.socket, report: Any) -> None:
    try:
        import uvicorn
    except ImportError:
        raise Failed(f"uvicorn is not installed for {sys.executable}") from None

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started and not self.should_exit:
                report.write(b"ready")

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, date_header=False,
        proxy_headers=False, lifespan="auto", loop="asyncio", timeout_keep_alive=3600,
    )  # fmt: skip
    server = Server(config)
    await server.serve(sockets=[listener])
    if not server.started:
        raise Failed("its own start-up failed")


def _takes_context(found: Any) -> bool:
    """One argument means a context, three mean a request."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) == 1


if __name__ == "__main__":
    main()
