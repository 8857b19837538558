"""What a document is about: which paths are collections, items of them, and something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec
from msgspec.structs import replace

from paddock_services.openapi.envelope import (
    Envelope,
    find_list,
    find_one,
    is_same,
    plain,
    singular,
)
from paddock_services.openapi.routes import Operation, Route, Routes, is_parameter
from paddock_services.openapi.shape import Node, Shapes

_VAGUE = frozenset({"id", "key", "uuid", "guid", "slug", "name", "number", "code"})
_MOSTLY = 0.7  # of the properties of a shorter schema are those of the longer one
_ID_NAMES = ("id", "uuid", "guid", "key", "number", "code", "slug", "login", "username", "name")


class Role(Enum):
    """What a path is."""

    COLLECTION = "collection"
    ITEM = "item"
    SINGLETON = "singleton"  # one record: a profile, settings
    VIEW = "view"  # a list of the records of a collection elsewhere
    ACTION = "action"  # on an item: cancel, close
    OTHER = "other"


class Resource(msgspec.Struct, frozen=True):
    """One kind of records."""

    kind: str  # in the store
    noun: str
    node: Node
    id_name: str | None = None  # the property that has the id
    id_parameter: str = "id"
    parents: tuple[str, ...] = ()  # whose ids are part of a record's key
    is_creatable: bool = False
    is_made_first: bool = False  # before its children, because the document says how
    is_listed: bool = False


class Place(msgspec.Struct, frozen=True):
    """What one route is about."""

    role: Role
    resource: Resource | None = None
    scope: Mapping[str, str] = {}  # parameter -> key of the parent
    owners: tuple[tuple[str, str], ...] = ()  # kinds above, with the parameter that has their id


class Resources:
    """The resources of a document, and the place of each of its routes."""

    def __init__(self, routes: Routes, shapes: Shapes) -> None:
        self._shapes = shapes
        self._routes = {route.segments: route for route in routes.all}
        self.by_kind: dict[str, Resource] = {}
        self._kind_of_base: dict[tuple[str, ...], str] = {}
        self._places: dict[str, Place] = {}
        for base, found in sorted(self._bases().items(), key=_weight):
            self._add(base, found)
        for route in routes.all:
            self._places[route.template] = self._place(route)

    def place(self, route: Route) -> Place:
        return self._places[route.template]

    def named(self, name: str) -> Resource | None:
        """By kind, noun or name of the schema, as people write it."""
        if name in self.by_kind:
            return self.by_kind[name]
        wanted = plain(name)
        for one in self.by_kind.values():
            known = {one.noun, singular(one.noun), *self._shapes.of(one.node).names}
            if wanted in {plain(each) for each in known}:
                return one
        return None

    def _bases(self) -> dict[tuple[str, ...], list[Route]]:
        """Routes by the collection that they belong to, its parameters without names."""
        found: dict[tuple[str, ...], list[Route]] = {}
        for route in self._routes.values():
            if route.is_item and len(route.segments) > 1:
                found.setdefault(_nameless(route.segments[:-1]), []).append(route)
        for route in self._routes.values():
            base = _nameless(route.segments)
            if not route.is_item and route.segments and (base in found or self._is_list(route)):
                found.setdefault(base, []).append(route)
        return found

    def _is_list(self, route: Route) -> bool:
        listing = self.listing(route)
        if listing is None or self._shapes.of(listing.node).main_type != "object":
            return False
        if "POST" in route.operations:
            return True
        # A list without a way to add to it may be a view of what has a place of its own.
        return not any(
            is_same(self._shapes, listing.node, self._record(one, _noun(one.segments[:-1])))
            for one in self._routes.values()
            if one.is_item
        )

    def listing(self, route: Route) -> Envelope | None:
        """How its GET carries a list."""
        operation = route.operations.get("GET")
        if operation is None:
            return None
        return find_list(self._shapes, operation.success(200)[1].node, _noun(route.segments))

    def _record(self, route: Route, noun: str) -> Node | None:
        """The schema of one record, as far as this route tells."""
        for method in ("GET", "POST", "PUT", "PATCH"):
            operation = route.operations.get(method)
            node = operation.success(200, 201)[1].node if operation else None
            if node is not None and self._shapes.of(node).main_type == "object":
                return find_one(self._shapes, node, noun).node
        return None

    def _add(self, base: tuple[str, ...], routes: list[Route]) -> None:
        noun = _noun(base)
        item = next((one for one in routes if one.is_item), None)
        node = self._node_of(routes, noun)
        for resource in self.by_kind.values():
            if resource.noun == noun and self._is_kin(node, resource, item):
                self._kind_of_base[base] = resource.kind
                self.by_kind[resource.kind] = _joined(resource, routes)
                return
        kind = self._free_kind(base, noun)
        self._kind_of_base[base] = kind
        parameter = item.segments[-1].strip("{}") if item else "id"
        parents = tuple(_scope((item or routes[0]).segments, bool(item)).values()) if item else ()
        resource = Resource(
            kind, noun, True if node is None else node, None, parameter, parents,
        )  # fmt: skip
        named = replace(resource, id_name=self._id_name(resource))
        self.by_kind[kind] = _joined(named, routes)

    def _is_kin(self, node: Node | None, resource: Resource, item: Route | None) -> bool:
        """Whether these are records of the resource: the same schema, or a shorter one of it."""
        if node is None or is_same(self._shapes, node, resource.node):
            return True
        mine = {plain(name) for name in self._shapes.properties(node)}
        theirs = {plain(name) for name in self._shapes.properties(resource.node)}
        is_shorter = len(mine & theirs) >= _MOSTLY * max(1, min(len(mine), len(theirs)))
        return item is None and plain(resource.id_name or "") in mine and is_shorter

    def _node_of(self, routes: list[Route], noun: str) -> Node | None:
        ordered = sorted(routes, key=lambda one: not one.is_item)
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
                    return find_one(self._shapes, body, noun).node
        return None

    def _free_kind(self, base: tuple[str, ...], noun: str) -> str:
        literals = [part for part in base if part != "{}"]
        names = [".".join(literals[-count:]) for count in range(1, len(literals) + 1)]
        names += [f"{noun}.{number}" for number in range(2, 10_000)]
        return next(name for name in names or ["records"] if name and name not in self.by_kind)

    def _id_name(self, resource: Resource) -> str | None:
        names = {plain(name): name for name in self._shapes.properties(resource.node)}
        parameter, noun = plain(resource.id_parameter), plain(singular(resource.noun))
        tail = parameter.removeprefix(noun)
        for wanted in (parameter, tail, *_ID_NAMES[:6], f"{noun}id", *_ID_NAMES[6:]):
            if wanted and wanted in names:
                return names[wanted]
        return None

    def _place(self, route: Route) -> Place:
        segments = route.segments
        base = _nameless(segments[:-1] if route.is_item else segments)
        scope = _scope(segments, route.is_item)
        owners = tuple(self._owners(segments, route.is_item))
        kind = self._kind_of_base.get(base)
        if kind is not None:
            role = Role.ITEM if route.is_item else Role.COLLECTION
            return Place(role, self.by_kind[kind], scope, owners)
        view = self._viewed(route)
        if view is not None:
            return Place(Role.VIEW, view, scope, owners)
        if "GET" in route.operations and {"PUT", "PATCH"} & route.operations.keys():
            return Place(Role.SINGLETON, self._single(route, scope), scope, owners)
        if owners and len(segments) > 1 and is_parameter(segments[-2]):
            return Place(Role.ACTION, self.by_kind[owners[-1][0]], scope, owners)
        return Place(Role.OTHER, None, scope, owners)

    def _viewed(self, route: Route) -> Resource | None:
        listing = self.listing(route)
        node = listing.node if listing else None
        if node is None and "POST" in route.operations:
            success = route.operations["POST"].success(201)
            node = success[1].node if success[0] == 201 else None
        for resource in self.by_kind.values():
            if is_same(self._shapes, node, resource.node):
                return resource
        return None

    def _single(self, route: Route, scope: Mapping[str, str]) -> Resource:
        kind = ".".join(part for part in route.segments if "{" not in part) or "root"
        node = self._record(route, _noun(route.segments))
        one = Resource(kind, _noun(route.segments), True if node is None else node,
                       parents=tuple(scope.values()))  # fmt: skip
        return self.by_kind.setdefault(kind, one)

    def _owners(self, segments: tuple[str, ...], is_item: bool) -> Iterable[tuple[str, str]]:
        end = len(segments) - 1 if is_item else len(segments)
        for place in range(1, end):
            kind = self._kind_of_base.get(_nameless(segments[:place]))
            if kind is not None and is_parameter(segments[place]):
                yield kind, segments[place].strip("{}")


def create_operation(route: Route) -> Operation | None:
    return None if route.is_item else route.operations.get("POST")


def _joined(resource: Resource, routes: list[Route]) -> Resource:
    is_creatable = any(create_operation(one) or "PUT" in one.operations for one in routes)
    is_made_first = any(create_operation(one) or _puts_new(one) for one in routes)
    is_listed = any("GET" in one.operations and not one.is_item for one in routes)
    return replace(
        resource,
        is_creatable=resource.is_creatable or is_creatable,
        is_made_first=resource.is_made_first or is_made_first,
        is_listed=resource.is_listed or is_listed,
    )


def _puts_new(route: Route) -> bool:
    put = route.operations.get("PUT")
    return put is not None and any(one.status == "201" for one in put.responses)


def _weight(entry: tuple[tuple[str, ...], list[Route]]) -> tuple[int, int, int]:
    """Those with an item first, then the less nested: the others join them."""
    base, routes = entry
    return not any(one.is_item for one in routes), base.count("{}"), len(base)


def _nameless(segments: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("{}" if is_parameter(part) else part for part in segments)


def _noun(segments: tuple[str, ...]) -> str:
    return next((part for part in reversed(segments) if "{" not in part), "records")


def _scope(segments: tuple[str, ...], is_item: bool) -> dict[str, str]:
    """The parameters above a record, each with a name that says of what it is the id."""
    found: dict[str, str] = {}
    before = ""
    for part in segments[:-1] if is_item else segments:
        if not is_parameter(part):
            before = part
            continue
        name = part.strip("{}")
        key = plain(name)
        found[name] = plain(singular(before)) + key if key in _VAGUE else key
    return found
