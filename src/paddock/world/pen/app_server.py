"""The program in the pen of the service `app`: it loads somebody's ASGI application and serves it.

Any Python that has uvicorn can run it. Of Paddock it imports only modules of the world that need
nothing but the standard library.
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
_MAX_HELD = 64  # messages of an answer with status 500
_MAX_MESSAGE = 2000


class AppError(Exception):
    """An application that cannot be served, with the reason."""


def main() -> None:
    plan = json.loads(sys.argv[1])
    report = os.fdopen(int(os.environ["PADDOCK_READY"]), "wb", buffering=0)
    try:
        context = context_of(plan)
        if plan["project"]:
            sys.path.insert(0, plan["project"])
        target = load(plan["app"])
        if plan.get("ask"):
            report.write(json.dumps(ask(target, context, plan["ask"])).encode())
        else:
            listener = socket.socket(fileno=int(os.environ["PADDOCK_LISTENER"]))
            asyncio.run(serve(wrap(application(target, context), context), listener, report))
    except AppError as error:
        report.write(" ".join(str(error).split())[:_MAX_MESSAGE].encode())
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
    """Return the object that `module:attribute` names."""
    module, _, attribute = name.partition(":")
    try:
        target = importlib.import_module(module)
    except BaseException as error:
        raise AppError(f"cannot import {module}: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise AppError(f"{module} has no {attribute}") from None
    return target


def application(target: Any, context: Context) -> ASGIApp:
    """Return the ASGI application of a target: an application, a Service, or a callable that makes
    either."""
    try:
        made = service_of(target, context)
        if made is not None:
            return made.app()
        made = target(context) if _takes_context(target) else target
        if isinstance(made, Service):
            return made.app()
    except Exception as error:
        raise AppError(f"it could not be made: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise AppError(f"a {type(made).__name__} is no ASGI application")
    app: ASGIApp = made
    return app


def service_of(target: Any, context: Context) -> Service | None:
    is_service = isinstance(target, type) and issubclass(target, Service)
    return target(context) if is_service else None


def ask(target: Any, context: Context, question: str) -> Any:
    """Call `seed` or `invariants` of a Service that is not being served."""
    service = service_of(target, context)
    if service is None and question == "invariants":
        return None  # a plain application has none
    service = service or Service(context)
    try:
        if question == "seed":
            data: Seed = json.load(sys.stdin)
            with context.store.transaction():
                service.seed(data)
            return None
        if question == "invariants":
            return [str(message) for message in service.invariants()]
    except Exception as error:
        raise AppError(f"its {question} failed: {type(error).__name__}: {error}") from error
    raise AppError(f"{question!r} cannot be asked")


def wrap(app: ASGIApp, context: Context) -> ASGIApp:
    """Give the application its context and the current step, and remove the step's header."""

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
            await _report_failure(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    return call


async def _report_failure(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application, and report an exception in a header, which the network door removes.

    Frameworks send an answer with status 500 first and raise then. So such an answer is held back
    until the application has returned.
    """
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
            for each in pending:
                await send(each)
            return
        has_begun = True
        await send(message)

    reason = None
    try:
        await app(scope, receive, holding)
    except Exception as error:
        reason = " ".join(f"it raised {type(error).__name__}: {error}".split())[:_MAX_MESSAGE]
        if has_begun:
            raise
    if reason is not None:
        headers = [(FAILED_HEADER, reason.encode("ascii", "replace"))]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    for message in held:
        await send(message)


async def serve(app: ASGIApp, listener: socket.socket, report: Any) -> None:
    try:
        import uvicorn
    except ImportError:
        raise AppError(f"uvicorn is not installed for {sys.executable}") from None

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
        raise AppError("its own start-up failed")


def _takes_context(target: Any) -> bool:
    """Return whether a callable takes one argument, a context, and not a request's three."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    required = 0
    for each in parameters:
        is_positional = each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        required += is_positional and each.default is each.empty
    return required == 1


if __name__ == "__main__":
    main()
