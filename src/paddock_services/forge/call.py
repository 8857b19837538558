"""A request to the forge as its handlers see it, and the fields of its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from paddock.world.context import Context
from paddock.world.kit import Call, Reply, numbered_page, whole_number
from paddock_services.forge.errors import GithubError, invalid, not_found
from paddock_services.forge.hub import Hub, Repo, Urls

T = TypeVar("T")
ENTERPRISE = "/api/v3"  # where self-hosted forges have their API
_PAGE_SIZE = 30
_MAX_PAGE_SIZE = 100
_MAX_NAMES = 100
_MAX_NAME = 100


class GithubCall:
    """One request, and the forge that it is for."""

    def __init__(self, context: Context, call: Call) -> None:
        prefix = ENTERPRISE if call.path.startswith(f"{ENTERPRISE}/") else ""
        page = call.origin.replace("://api.", "://", 1)
        self.hub = Hub(context, Urls(call.origin + prefix, page))
        self.store = self.hub.store
        self.user = call.user  # None: nobody is logged in
        self.params = call.params
        self.query = call.query
        self.headers = call.headers
        self._call = call

    @cached_property
    def json(self) -> Any:
        return self._call.json() if self._call.body else {}

    @cached_property
    def body(self) -> dict[str, Any]:
        return self._call.json_object()

    @property
    def login(self) -> str:
        """Return who is logged in. Raises GithubError where nobody is."""
        self.require_login()
        return str(self.user)

    def require_login(self) -> None:
        if self.user is None:
            raise GithubError(401, "Requires authentication")

    def repo(self) -> Repo:
        """Return the repository of the path. One that the caller must not see is not found."""
        repo = self.hub.repo(f"{self.params['owner']}/{self.params['repo']}")
        if repo is None or (repo.is_private and self.user is None):
            raise not_found()
        return repo

    def writable_repo(self) -> Repo:
        """Return the repository of the path to somebody who is logged in."""
        repo = self.repo()
        self.require_login()
        if repo.record.get("archived"):
            raise GithubError(403, "Repository was archived so is read-only.")
        return repo

    def page(self, items: Sequence[T], show: Callable[[T], Any]) -> Reply:
        """Return the page of a list that the query asks for, with links to the others."""
        size = min(whole_number(self.query.get("per_page")) or _PAGE_SIZE, _MAX_PAGE_SIZE)
        page = numbered_page(items, whole_number(self.query.get("page")) or 1, size)
        links = [
            f'<{self._call.url(page=number)}>; rel="{relation}"'
            for relation, number in page.neighbours.items()
        ]
        headers = {"link": ", ".join(links)} if links else {}
        return Reply([show(item) for item in page.items], headers=headers)


Handler = Callable[[GithubCall], Reply]
Routes = Mapping[str, Handler]  # by method and path


def text_field(fields: Mapping[str, Any], name: str, resource: str) -> str | None:
    """Return a text of a body, or None where there is none. Raises GithubError."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(resource, name)
    return value


def required_text(fields: Mapping[str, Any], name: str, resource: str) -> str:
    """Return a text of a body that must be there. Raises GithubError."""
    text = text_field(fields, name, resource)
    if not text:
        raise invalid(resource, name, "missing_field")
    return text


def names_field(fields: Mapping[str, Any], name: str, resource: str) -> list[str]:
    """Return a list of names, which may be objects with a name, without duplicates."""
    value = fields.get(name)
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    names = [item.get("name") if isinstance(item, dict) else item for item in items]
    is_valid = all(isinstance(text, str) and 0 < len(text) <= _MAX_NAME for text in names)
    if not is_valid or len(names) > _MAX_NAMES:
        raise invalid(resource, name)
    return list(dict.fromkeys(map(str, names)))
