"""The forge as a service: its options, its seed, its invariants and its application."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.kit import (
    Api,
    Call,
    MalformedRequest,
    Reply,
    RequestError,
    Route,
    UnknownPath,
)
from paddock.world.service import ASGIApp, Seed, Service
from paddock_services.forge import comments, contents, issues, pulls, refs, repos, reviews, search
from paddock_services.forge.call import ENTERPRISE, GithubCall, Handler
from paddock_services.forge.errors import GithubError, not_found
from paddock_services.forge.hub import LOGIN, Hub
from paddock_services.forge.seed import fill_hub

ROUTES = {
    **repos.ROUTES,
    **issues.ROUTES,
    **comments.ROUTES,
    **pulls.ROUTES,
    **reviews.ROUTES,
    **contents.ROUTES,
    **refs.ROUTES,
    **search.ROUTES,
}
_RATE_LIMIT = 5_000
_HOUR_S = 3_600


class Forge(Service):
    """Answers as api.github.com does."""

    name: ClassVar[str] = "forge"
    options: ClassVar[dict[str, str]] = {
        "user": "login of whoever has the token; agent if it is not said",
        "token": "the only token that is accepted; any if it is not said",
        "rate_limit": "requests that may be made; 5000 if it is not said",
    }

    def check(self) -> None:
        options = self.context.options
        user, limit = str(options.get("user", "agent")), options.get("rate_limit", _RATE_LIMIT)
        if not LOGIN.fullmatch(user):
            raise InvalidInput(f"forge: {user!r} is no login")
        if not isinstance(options.get("token", ""), str):
            raise InvalidInput("forge: token is a text")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise InvalidInput("forge: rate_limit is a number from 1 on")

    def seed(self, data: Seed) -> None:
        with self.context.store.transaction():
            fill_hub(Hub(self.context), data)

    def invariants(self) -> list[str]:
        store, broken = self.context.store, []
        names = {repo["id"]: repo["full_name"] for repo in store.find("repos")}
        states: dict[tuple[int, int], str] = {}
        for issue in store.find("issues"):
            key = issue["repo"], issue["number"]
            if key in states:
                broken.append(f"{names.get(key[0])} has number {key[1]} twice")
            states[key] = issue["state"]
        for pull in store.find("pulls"):
            key = pull["repo"], pull["number"]
            if pull["merged_at"] is not None and states.get(key) != "closed":
                broken.append(f"{names.get(key[0])}#{key[1]} is merged, but not closed")
        for ref in store.find("refs"):
            if not store.has("commits", f"{ref['repo']}:{ref['sha']}"):
                broken.append(f"{names.get(ref['repo'])} has {ref['ref']} at no commit")
        return broken

    def app(self) -> ASGIApp:
        return GithubApi(self.context)


class GithubApi(Api):
    """Credentials, errors and headers as GitHub has them."""

    max_body = 50 << 20  # a file of 35 MB as base64

    def __init__(self, context: Context) -> None:
        routes = [Route("GET", "/rate_limit", self._show_rate_limit)]
        for name, handler in ROUTES.items():
            method, path = name.split(" ")
            routes.append(Route(method, path, partial(_handle, context, handler)))
        super().__init__(context.store, routes)
        options = context.options
        self._context = context
        self._token = options.get("token")
        self._login = str(options.get("user", "agent"))
        self._limit = int(options.get("rate_limit", _RATE_LIMIT))
        self._used = 0

    def route_path(self, path: str) -> str:
        return path.removeprefix(ENTERPRISE)

    def authenticate(self, call: Call) -> str | None:
        login = self._find_login(call)
        if self.route_path(call.path) != "/rate_limit":
            self._used += 1
        if self._used > self._limit:
            raise GithubError(403, f"API rate limit exceeded for {login or 'you'}.")
        return login

    def refuse(self, call: Call, error: RequestError) -> Reply:
        match error:
            case UnknownPath():
                refusal = not_found()  # GitHub does not say which methods a path has
            case MalformedRequest():
                refusal = GithubError(400, "Problems parsing JSON")
            case _:
                refusal = GithubError(error.status, "Request body is too large")
        return refusal.reply

    def finish(self, call: Call, reply: Reply) -> Reply:
        """Add the headers of GitHub."""
        headers = {
            "x-github-media-type": "github.v3; format=json",
            "x-github-api-version-selected": "2022-11-28",
            **{f"x-ratelimit-{name}": str(value) for name, value in self._rate_limit().items()},
            **reply.headers,
        }
        return replace(reply, headers=headers)

    def _find_login(self, call: Call) -> str | None:
        """Return who has the token of a request; nobody where there is none."""
        authorization = call.headers.get("authorization", "")
        if not authorization:
            return None
        basic = call.basic_credentials
        token = basic[1] if basic else authorization.partition(" ")[2].strip()
        if not token or self._token not in (None, token):
            raise GithubError(401, "Bad credentials")
        return self._login

    def _rate_limit(self) -> dict[str, int | str]:
        return {
            "limit": self._limit,
            "used": min(self._used, self._limit),
            "remaining": max(0, self._limit - self._used),
            "reset": int(self._context.now()) + _HOUR_S,
            "resource": "core",
        }

    def _show_rate_limit(self, call: Call) -> Reply:
        core = self._rate_limit()
        search = {**core, "limit": 30, "used": 0, "remaining": 30, "resource": "search"}
        return Reply({"resources": {"core": core, "search": search}, "rate": core})


def _handle(context: Context, handler: Handler, call: Call) -> Reply:
    return handler(GithubCall(context, call))
