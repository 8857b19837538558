"""A forge as agents know it: repositories, issues, pulls, files; GitHub's REST interface."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.service import ASGIApp, Receive, Scope, Seed, Send, Service
from paddock_services.forge.comments import Comments, Labels
from paddock_services.forge.contents import Contents
from paddock_services.forge.desk import Desk
from paddock_services.forge.issues import Issues
from paddock_services.forge.planting import plant
from paddock_services.forge.pulls import Pulls
from paddock_services.forge.refs import Refs
from paddock_services.forge.repos import LOGIN, Repos
from paddock_services.forge.reviews import Reviews
from paddock_services.forge.search import Search
from paddock_services.forge.wire import (
    MAX_BODY,
    Call,
    Failed,
    Reply,
    Router,
    is_fresh,
    read_query,
    tag_of,
)

_ENTERPRISE = "/api/v3"  # where self-hosted ones have their interface
_HOUR_S = 3_600


class Forge(Service):
    """Answers as api.github.com does."""

    name: ClassVar[str] = "forge"
    options: ClassVar[dict[str, str]] = {
        "user": "login of whoever has the token; agent if it is not said",
        "token": "the only token that is accepted; any if it is not said",
        "rate_limit": "requests that may be made; 5000 if it is not said",
    }

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.desk = Desk(context)
        self.router = Router()
        self.repos = Repos(self.desk, self.router)
        self.issues = Issues(self.desk, self.router)
        self.comments = Comments(self.desk, self.router)
        self.pulls = Pulls(self.desk, self.issues, self.router)
        Labels(self.desk, self.router)
        Reviews(self.desk, self.router)
        Contents(self.desk, self.router)
        Refs(self.desk, self.router)
        Search(self.desk, self.issues, self.repos, self.router)
        self.router.add("GET", "/rate_limit", self._rate)
        self._used = 0

    @property
    def user(self) -> str:
        return str(self.context.options.get("user", "agent"))

    @property
    def limit(self) -> int:
        return int(self.context.options.get("rate_limit", 5_000))

    def check(self) -> None:
        options = self.context.options
        if not LOGIN.fullmatch(self.user):
            raise InvalidInput(f"forge: {self.user!r} is no login")
        if not isinstance(options.get("token", ""), str):
            raise InvalidInput("forge: token is a text")
        limit = options.get("rate_limit", 5_000)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise InvalidInput("forge: rate_limit is a number from 1 on")

    def seed(self, data: Seed) -> None:
        with self.context.store.transaction():
            plant(self, data)

    def invariants(self) -> list[str]:
        """What the forge promises about its records."""
        store, broken = self.context.store, []
        names = {one["id"]: one["full_name"] for one in store.find("repos")}
        seen: set[tuple[int, int]] = set()
        states: dict[tuple[int, int], str] = {}
        for issue in store.find("issues"):
            key = issue["repo"], issue["number"]
            states[key] = issue["state"]
            if key in seen:
                broken.append(f"{names.get(key[0])} has number {key[1]} twice")
            seen.add(key)
        for pull in store.find("pulls"):
            key = pull["repo"], pull["number"]
            if pull["merged_at"] is not None and states.get(key) != "closed":
                broken.append(f"{names.get(key[0])}#{key[1]} is merged, but not closed")
        for ref in store.find("refs"):
            if self.desk.git.get(ref["repo"], ref["sha"]) is None:
                broken.append(f"{names.get(ref['repo'])} has {ref['ref']} at no commit")
        return broken

    def app(self) -> ASGIApp:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            call = _call(scope)
            try:
                call = replace(call, raw=await _body(receive))
                reply = self.answer(call)
            except Failed as failed:
                reply = Reply(failed.body(), failed.status)
            await self._send(send, call, reply)

        return app

    def answer(self, call: Call) -> Reply:
        """All of it happens, or nothing. Raises Failed."""
        call = replace(call, me=self._who(call), query=read_query(call.query["?"]))
        if call.path != "/rate_limit":
            self._used += 1
        if self._used > self.limit:
            raise Failed(403, f"API rate limit exceeded for {call.me or 'you'}.")
        method = "GET" if call.method == "HEAD" else call.method
        handler, names = self.router.find(method, call.path)
        with self.context.store.transaction():
            return handler(replace(call, names=names))

    def _who(self, call: Call) -> str | None:
        given = call.headers.get("authorization", "")
        if not given:
            return None
        scheme, _, token = given.partition(" ")
        token = token.strip()
        if scheme.lower() == "basic":
            token = _password(token)
        wanted = self.context.options.get("token")
        if not token or (wanted is not None and token != wanted):
            raise Failed(401, "Bad credentials")
        return self.user

    def _rate(self, call: Call) -> Reply:
        core = {"limit": self.limit, "used": self._used, "remaining": self._left(),
                "reset": self._reset(), "resource": "core"}  # fmt: skip
        search = {"limit": 30, "used": 0, "remaining": 30, "reset": self._reset()}
        return Reply({"resources": {"core": core, "search": search}, "rate": core})

    def _left(self) -> int:
        return max(0, self.limit - self._used)

    def _reset(self) -> int:
        return int(self.context.now()) + _HOUR_S

    async def _send(self, send: Send, call: Call, reply: Reply) -> None:
        headers = {
            "content-type": "application/json; charset=utf-8",
            "x-github-media-type": "github.v3; format=json",
            "x-github-api-version-selected": "2022-11-28",
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self._left()),
            "x-ratelimit-used": str(min(self._used, self.limit)),
            "x-ratelimit-reset": str(self._reset()),
            "x-ratelimit-resource": "core",
            **reply.headers,
        }
        body, status = _bytes(reply.body), reply.status
        if call.method in ("GET", "HEAD") and status == 200:
            headers["etag"] = tag_of(body)
            if is_fresh(call.headers.get("if-none-match", ""), headers["etag"]):
                status, body = 304, b""
        if status in (204, 304):
            del headers["content-type"]
        else:
            headers["content-length"] = str(len(body))
        raw = [(name.encode(), _clean(value)) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        shown = b"" if call.method == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})


def _call(scope: Mapping[str, Any]) -> Call:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1")
               for name, value in scope["headers"]}  # fmt: skip
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    host = headers.get("host") or str(scope["server"][0])
    prefix = _ENTERPRISE if path.startswith(_ENTERPRISE + "/") else ""
    origin = f"{scope['scheme']}://{host}"
    return Call(
        scope["method"].upper(),
        path.removeprefix(prefix),
        {"?": scope["query_string"].decode("latin-1")},
        headers,
        b"",
        origin + prefix,
        f"{scope['scheme']}://{host.removeprefix('api.')}",
    )


async def _body(receive: Receive) -> bytes:
    """Raises Failed for one that is too large."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise Failed(413, "Request body is too large")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _bytes(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _clean(value: str) -> bytes:
    return value.encode("utf-8", "replace").replace(b"\r", b"").replace(b"\n", b"")


def _password(token: str) -> str:
    try:
        return base64.b64decode(token, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
