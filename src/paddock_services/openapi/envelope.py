"""The wrapping of records in an answer: `{data: [...], has_more: false}`, `{pet: {...}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.overlay.paths import singular
from paddock_services.openapi.schemas import FlatSchema, SchemaNode, Schemas

_LISTS = (
    "data", "items", "results", "records", "values", "value", "entries", "content", "rows", "list",
    "objects", "elements", "resources", "members", "_embedded",
)  # fmt: skip
_RECORDS = ("data", "item", "result", "record", "value", "attributes", "resource")
_META = ("meta", "metadata", "pagination", "paging", "page", "page_info", "pageinfo", "links",
         "_links", "response_metadata", "cursors")  # fmt: skip


class Envelope(msgspec.Struct, frozen=True):
    """The place of the record or the records in a body: names from the outside in."""

    path: tuple[str, ...]
    node: SchemaNode  # of one record

    def unwrap(self, body: Any) -> Any:
        for name in self.path:
            body = body.get(name) if isinstance(body, Mapping) else None
        return body

    def wrap(self, content: Any, around: Mapping[str, Any] | None = None) -> Any:
        """Return the content in its place; `around` has more properties of the outermost object."""
        if not self.path:
            return content
        for name in reversed(self.path[1:]):
            content = {name: content}
        return {**(around or {}), self.path[0]: content}


class ListPage(msgspec.Struct, frozen=True):
    """The facts about a page that an envelope may state."""

    count: int
    total: int
    limit: int
    offset: int
    page: int
    next_cursor: str | None
    next_url: str | None

    @property
    def has_more(self) -> bool:
        return self.offset + self.count < self.total


def plain(name: str) -> str:
    """Return a name for comparisons, equal for `pet_id`, `petId` and `pet-id`."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def find_list(schemas: Schemas, node: SchemaNode | None, noun: str) -> Envelope | None:
    """Find the list of records in an answer, if there is one."""
    if node is None:
        return None
    schema = _object_or_list(schemas, node)
    if schema.main_type == "array":
        return Envelope((), schema.items)
    names = {plain(name): name for name in schema.properties}
    wanted = (plain(noun), *(plain(name) for name in _LISTS))
    for name in (names[each] for each in wanted if each in names):
        envelope = _inner_list(schemas, schema.properties[name], name, noun)
        if envelope is not None:
            return envelope
    lists = [name for name in schema.properties if _is_list_of_objects(schemas, schema, name)]
    if len(lists) == 1 and _has_page_fields(schema):
        return Envelope((lists[0],), schemas.of(schema.properties[lists[0]]).items)
    return None


def find_record(
    schemas: Schemas, node: SchemaNode | None, noun: str, known: SchemaNode | None = None
) -> Envelope:
    """Find the record in a body: the body itself, or a property of it."""
    schema = schemas.of(node) if node is not None else FlatSchema()
    names = {plain(name): name for name in schema.properties}
    if "id" in names or (known is not None and is_same(schemas, node, known)):
        return Envelope((), node)
    wanted = (plain(singular(noun)), *_RECORDS)
    for name in (names[each] for each in wanted if each in names):
        inner = schema.properties[name]
        if _is_record(schemas, inner, known) and len(schema.required) <= 3:
            return Envelope((name,), inner)
    return Envelope((), node if node is not None else True)


def is_same(schemas: Schemas, first: SchemaNode | None, second: SchemaNode | None) -> bool:
    """Return whether two schemas are the same component of the document."""
    if first is None or second is None:
        return False
    if first is second:
        return True
    return bool(schemas.of(first).components & schemas.of(second).components)


def page_fields(
    schemas: Schemas, node: SchemaNode | None, page: ListPage, depth: int = 0
) -> dict[str, Any]:
    """Return the envelope's properties that describe the page."""
    if node is None or depth > 2:
        return {}
    fields: dict[str, Any] = {}
    for name, inner in schemas.of(node).properties.items():
        schema = schemas.of(inner)
        if plain(name) in _META_PLAIN and schema.main_type == "object":
            fields[name] = page_fields(schemas, inner, page, depth + 1)
            continue
        value = _page_field(plain(name), schema, page)
        if value is not None or (plain(name) in _NEXT and schema.allows_type("null")):
            fields[name] = value
    return fields


_META_PLAIN = frozenset(plain(name) for name in _META)
_TOTAL = {"total", "totalcount", "totalresults", "totalitems", "totalelements", "totalrecords",
          "totalsize"}  # fmt: skip
_COUNT = {"count", "resultcount", "numberofelements", "returned"}
_LIMIT = {"limit", "perpage", "pagesize", "size", "maxresults"}
_PAGE = {"page", "pagenumber", "currentpage", "number"}
_PAGES = {"totalpages", "pagecount", "pages", "lastpage"}
_MORE = {"hasmore", "hasnext", "hasnextpage", "more", "istruncated"}
_NEXT = {"next", "nextcursor", "nextpagetoken", "nexttoken", "cursor", "nextpage", "after",
         "endcursor", "continuationtoken", "nextlink", "nexturl", "nextmarker"}  # fmt: skip


def _page_field(name: str, schema: FlatSchema, page: ListPage) -> Any:
    if schema.main_type in ("integer", "number"):
        return _number(name, page)
    if name in _MORE and schema.main_type == "boolean":
        return page.has_more
    if name in _NEXT and schema.main_type == "string" and page.has_more:
        is_url = schema.keywords.get("format") in ("uri", "url") or name.endswith(("link", "url"))
        return page.next_url if is_url or name == "next" else page.next_cursor
    return None


def _number(name: str, page: ListPage) -> int | None:
    if name in _TOTAL:
        return page.total
    if name in _COUNT:
        return page.total if name == "count" else page.count
    if name in _LIMIT:
        return page.limit
    if name in _PAGE:
        return page.page
    if name in _PAGES:
        return -(-page.total // page.limit) if page.limit else 1
    return page.offset if name in ("offset", "skip", "start") else None


def _object_or_list(schemas: Schemas, node: SchemaNode) -> FlatSchema:
    """Return the schema, or the branch of its choices that is a list."""
    schema = schemas.of(node)
    for choice in schema.choices:
        for branch in choice.nodes:
            if schemas.of(branch).main_type == "array":
                return schemas.of(branch)
    return schema


def _inner_list(schemas: Schemas, node: SchemaNode, name: str, noun: str) -> Envelope | None:
    schema = schemas.of(node)
    if schema.main_type == "array":
        return Envelope((name,), schema.items)
    names = {plain(inner): inner for inner in schema.properties}
    for each in (plain(noun), "items", "data"):
        inner = schemas.of(schema.properties[names[each]]) if each in names else None
        if inner is not None and inner.main_type == "array":
            return Envelope((name, names[each]), inner.items)
    return None


def _is_list_of_objects(schemas: Schemas, schema: FlatSchema, name: str) -> bool:
    inner = schemas.of(schema.properties[name])
    return inner.main_type == "array" and schemas.of(inner.items).main_type == "object"


def _has_page_fields(schema: FlatSchema) -> bool:
    names = {plain(name) for name in schema.properties}
    return bool(names & (_TOTAL | _COUNT | _MORE | _NEXT | _META_PLAIN | _PAGE | _LIMIT))


def _is_record(schemas: Schemas, node: SchemaNode, known: SchemaNode | None) -> bool:
    schema = schemas.of(node)
    if schema.main_type != "object":
        return False
    return known is None or is_same(schemas, node, known) or bool(schema.properties)
