"""The resources of a document: which paths are collections, items of them, or something else.

OpenAPI has no notion of a resource, so this is a guess. A path that ends in a parameter is an item,
and the path above it a collection; a path whose GET returns a list is a collection as well. Paths
with the same noun and the same schema (or a shorter one of it) share one resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec
from msgspec.structs import replace

from paddock.world.overlay.paths import singular
from paddock_services.openapi.envelope import (
    Envelope,
    find_list,
    find_record,
    is_same,
    plain,
)
from paddock_services.openapi.routes import PathRoute, Routes, is_parameter
from paddock_services.openapi.schemas import SchemaNode, Schemas

_GENERIC_NAMES = frozenset({"id", "key", "uuid", "guid", "slug", "name", "number", "code"})
_OVERLAP = 0.7  # share of a shorter schema's properties that the longer one has
_ID_NAMES = ("id", "uuid", "guid", "key", "number", "code", "slug", "login", "username", "name")


class Role(Enum):
    """The role of a path."""

    COLLECTION = "collection"
    ITEM = "item"
    SINGLETON = "singleton"  # one record: a profile, settings
    VIEW = "view"  # a list of records of another path's collection
    ACTION = "action"  # on an item: cancel, close
    OTHER = "other"


class Resource(msgspec.Struct, frozen=True):
    """One kind of record."""

    kind: str  # in the store
    noun: str
    node: SchemaNode
    id_name: str | None = None  # the property that has the id
    id_parameter: str = "id"
    parents: tuple[str, ...] = ()  # names of the parents' ids that are part of a record's key
    is_creatable: bool = False
    is_creatable_first: bool = False  # it must exist before its children
    is_listed: bool = False


class RouteInfo(msgspec.Struct, frozen=True):
    """The role of one route, and the resource that it is about."""

    role: Role
    resource: Resource | None = None
    scope: Mapping[str, str] = {}  # name of a parameter -> name of the parent's id
    owners: tuple[tuple[str, str], ...] = ()  # kinds of the parents, with their parameters


class Resources:
    """The resources of a document, and the role of each of its routes."""

    def __init__(self, routes: Routes, schemas: Schemas) -> None:
        self._schemas = schemas
        self._routes = {route.segments: route for route in routes.all}
        self.by_kind: dict[str, Resource] = {}
        self._kind_of_base: dict[tuple[str, ...], str] = {}
        self._infos: dict[str, RouteInfo] = {}
        for base, members in sorted(self._bases().items(), key=_precedence):
            self._add(base, members)
        for route in routes.all:
            self._infos[route.template] = self._make_info(route)

    def info(self, route: PathRoute) -> RouteInfo:
        return self._infos[route.template]

    def named(self, name: str) -> Resource | None:
        """Find a resource by kind, noun or name of its schema, in any spelling."""
        if name in self.by_kind:
            return self.by_kind[name]
        for resource in self.by_kind.values():
            components = self._schemas.of(resource.node).components
            names = {resource.noun, singular(resource.noun), *components}
            if plain(name) in {plain(each) for each in names}:
                return resource
        return None

    def _bases(self) -> dict[tuple[str, ...], list[PathRoute]]:
        """Group the routes by collection; parameters in its path are without names."""
        bases: dict[tuple[str, ...], list[PathRoute]] = {}
        for route in self._routes.values():
            if route.is_item and len(route.segments) > 1:
                bases.setdefault(_nameless(route.segments[:-1]), []).append(route)
        for route in self._routes.values():
            base = _nameless(route.segments)
            if not route.is_item and route.segments and (base in bases or self._is_list(route)):
                bases.setdefault(base, []).append(route)
        return bases

    def _is_list(self, route: PathRoute) -> bool:
        listing = self.listing(route)
        if listing is None or self._schemas.of(listing.node).main_type != "object":
            return False
        if "POST" in route.operations:
            return True
        # A list that nothing can be added to may be a view of another collection.
        items = [other for other in self._routes.values() if other.is_item]
        return not any(
            is_same(self._schemas, listing.node, self._record(item, _noun(item.segments[:-1])))
            for item in items
        )

    def listing(self, route: PathRoute) -> Envelope | None:
        """Return the envelope of the list that its GET returns, if it does."""
        operation = route.operations.get("GET")
        if operation is None:
            return None
        return find_list(self._schemas, operation.success(200)[1].node, _noun(route.segments))

    def _record(self, route: PathRoute, noun: str) -> SchemaNode | None:
        """Return the schema of one record, by the answers of this route."""
        for method in ("GET", "POST", "PUT", "PATCH"):
            operation = route.operations.get(method)
            node = operation.success(200, 201)[1].node if operation else None
            if node is not None and self._schemas.of(node).main_type == "object":
                return find_record(self._schemas, node, noun).node
        return None

    def _add(self, base: tuple[str, ...], routes: list[PathRoute]) -> None:
        noun = _noun(base)
        item = next((route for route in routes if route.is_item), None)
        node = self._node_of(routes, noun)
        for resource in self.by_kind.values():
            if resource.noun == noun and self._has_records_of(node, resource, item):
                self._kind_of_base[base] = resource.kind
                self.by_kind[resource.kind] = _with_routes(resource, routes)
                return
        kind = self._free_kind(base, noun)
        self._kind_of_base[base] = kind
        parameter = item.segments[-1].strip("{}") if item else "id"
        parents = tuple(_scope(item.segments, True).values()) if item else ()
        resource = Resource(kind, noun, True if node is None else node, None, parameter, parents)
        named = replace(resource, id_name=self._id_name(resource))
        self.by_kind[kind] = _with_routes(named, routes)

    def _has_records_of(
        self, node: SchemaNode | None, resource: Resource, item: PathRoute | None
    ) -> bool:
        """Return whether a schema is that of the resource, or a shorter version of it."""
        if node is None or is_same(self._schemas, node, resource.node):
            return True
        mine = {plain(name) for name in self._schemas.properties(node)}
        theirs = {plain(name) for name in self._schemas.properties(resource.node)}
        is_shorter = len(mine & theirs) >= _OVERLAP * max(1, min(len(mine), len(theirs)))
        return item is None and plain(resource.id_name or "") in mine and is_shorter

    def _node_of(self, routes: list[PathRoute], noun: str) -> SchemaNode | None:
        ordered = sorted(routes, key=lambda route: not route.is_item)
        for route in ordered:
            listing = None if route.is_item else self.listing(route)
            node = listing.node if listing else self._record(route, noun)
            if node is not None:
                return node
        for route in ordered:
            for method in ("POST", "PUT", "PATCH"):
                operation = route.operations.get(method)
                body = operation.body_node() if operation else None
                if body is not None:
                    return find_record(self._schemas, body, noun).node
        return None

    def _free_kind(self, base: tuple[str, ...], noun: str) -> str:
        literals = [part for part in base if part != "{}"]
        names = [".".join(literals[-count:]) for count in range(1, len(literals) + 1)]
        names += [f"{noun}.{number}" for number in range(2, 10_000)]
        return next(name for name in names or ["records"] if name and name not in self.by_kind)

    def _id_name(self, resource: Resource) -> str | None:
        names = {plain(name): name for name in self._schemas.properties(resource.node)}
        parameter, noun = plain(resource.id_parameter), plain(singular(resource.noun))
        tail = parameter.removeprefix(noun)
        for wanted in (parameter, tail, *_ID_NAMES[:6], f"{noun}id", *_ID_NAMES[6:]):
            if wanted and wanted in names:
                return names[wanted]
        return None

    def _make_info(self, route: PathRoute) -> RouteInfo:
        segments = route.segments
        base = _nameless(segments[:-1] if route.is_item else segments)
        scope = _scope(segments, route.is_item)
        owners = tuple(self._owners(segments, route.is_item))
        kind = self._kind_of_base.get(base)
        if kind is not None:
            role = Role.ITEM if route.is_item else Role.COLLECTION
            return RouteInfo(role, self.by_kind[kind], scope, owners)
        view = self._viewed(route)
        if view is not None:
            return RouteInfo(Role.VIEW, view, scope, owners)
        if "GET" in route.operations and {"PUT", "PATCH"} & route.operations.keys():
            return RouteInfo(Role.SINGLETON, self._single(route, scope), scope, owners)
        if owners and len(segments) > 1 and is_parameter(segments[-2]):
            return RouteInfo(Role.ACTION, self.by_kind[owners[-1][0]], scope, owners)
        return RouteInfo(Role.OTHER, None, scope, owners)

    def _viewed(self, route: PathRoute) -> Resource | None:
        listing = self.listing(route)
        node = listing.node if listing else None
        if node is None and "POST" in route.operations:
            success = route.operations["POST"].success(201)
            node = success[1].node if success[0] == 201 else None
        for resource in self.by_kind.values():
            if is_same(self._schemas, node, resource.node):
                return resource
        return None

    def _single(self, route: PathRoute, scope: Mapping[str, str]) -> Resource:
        kind = ".".join(part for part in route.segments if "{" not in part) or "root"
        node = self._record(route, _noun(route.segments))
        node = True if node is None else node
        parents = tuple(scope.values())
        resource = Resource(kind, _noun(route.segments), node, parents=parents)
        return self.by_kind.setdefault(kind, resource)

    def _owners(self, segments: tuple[str, ...], is_item: bool) -> Iterable[tuple[str, str]]:
        end = len(segments) - 1 if is_item else len(segments)
        for index in range(1, end):
            kind = self._kind_of_base.get(_nameless(segments[:index]))
            if kind is not None and is_parameter(segments[index]):
                yield kind, segments[index].strip("{}")


def _can_post(route: PathRoute) -> bool:
    return not route.is_item and "POST" in route.operations


def _with_routes(resource: Resource, routes: list[PathRoute]) -> Resource:
    is_creatable = any(_can_post(route) or "PUT" in route.operations for route in routes)
    is_creatable_first = any(_can_post(route) or _can_put_new(route) for route in routes)
    is_listed = any("GET" in route.operations and not route.is_item for route in routes)
    return replace(
        resource,
        is_creatable=resource.is_creatable or is_creatable,
        is_creatable_first=resource.is_creatable_first or is_creatable_first,
        is_listed=resource.is_listed or is_listed,
    )


def _can_put_new(route: PathRoute) -> bool:
    put = route.operations.get("PUT")
    return put is not None and any(response.status == "201" for response in put.responses)


def _precedence(entry: tuple[tuple[str, ...], list[PathRoute]]) -> tuple[int, int, int]:
    """Return a sort key: collections with an item come first, then the less nested ones. The others
    join their resources."""
    base, routes = entry
    return not any(route.is_item for route in routes), base.count("{}"), len(base)


def _nameless(segments: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("{}" if is_parameter(part) else part for part in segments)


def _noun(segments: tuple[str, ...]) -> str:
    return next((part for part in reversed(segments) if "{" not in part), "records")


def _scope(segments: tuple[str, ...], is_item: bool) -> dict[str, str]:
    """Return the parameters above a record, each with a name that says whose id it is."""
    scope: dict[str, str] = {}
    literal = ""
    for part in segments[:-1] if is_item else segments:
        if not is_parameter(part):
            literal = part
            continue
        name = part.strip("{}")
        key = plain(name)
        if key in _GENERIC_NAMES:
            key = plain(singular(literal)) + key
        scope[name] = key
    return scope
