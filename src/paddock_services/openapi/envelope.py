"""What is around the records of an answer: `{data: [...], has_more: false}`, `{pet: {...}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock_services.openapi.shape import Node, Shape, Shapes

_LISTS = (
    "data", "items", "results", "records", "values", "value", "entries", "content", "rows", "list",
    "objects", "elements", "resources", "members", "_embedded",
)  # fmt: skip
_ONES = ("data", "item", "result", "record", "value", "attributes", "resource")
_META = ("meta", "metadata", "pagination", "paging", "page", "page_info", "pageinfo", "links",
         "_links", "response_metadata", "cursors")  # fmt: skip


class Envelope(msgspec.Struct, frozen=True):
    """Where in a body the record or the records are: names from the outside in."""

    path: tuple[str, ...]
    node: Node  # of one record

    def unwrap(self, body: Any) -> Any:
        for name in self.path:
            body = body.get(name) if isinstance(body, Mapping) else None
        return body

    def wrap(self, content: Any, around: Mapping[str, Any] | None = None) -> Any:
        """The content in its place; `around` is what else the outermost object has."""
        if not self.path:
            return content
        for name in reversed(self.path[1:]):
            content = {name: content}
        return {**(around or {}), self.path[0]: content}


class Page(msgspec.Struct, frozen=True):
    """What an envelope may tell about the page that it carries."""

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
    """A name for comparing: `pet_id`, `petId` and `pet-id` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def singular(noun: str) -> str:
    if noun.endswith("ies") and len(noun) > 4:
        return noun[:-3] + "y"
    if noun.endswith(("ses", "xes", "zes", "ches", "shes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith("ss") else noun


def find_list(shapes: Shapes, node: Node | None, noun: str) -> Envelope | None:
    """Where an answer has its list of records. None: it has none."""
    if node is None:
        return None
    shape = _object_or_list(shapes, node)
    if shape.main_type == "array":
        return Envelope((), shape.items)
    names = {plain(name): name for name in shape.properties}
    wanted = (plain(noun), *(plain(name) for name in _LISTS))
    for name in (names[one] for one in wanted if one in names):
        found = _inner_list(shapes, shape.properties[name], name, noun)
        if found is not None:
            return found
    lists = [name for name in shape.properties if _is_list_of_objects(shapes, shape, name)]
    if len(lists) == 1 and _is_about_pages(shape):
        return Envelope((lists[0],), shapes.of(shape.properties[lists[0]]).items)
    return None


def find_one(shapes: Shapes, node: Node | None, noun: str, known: Node | None = None) -> Envelope:
    """Where a body has its record: as it is, or below a property."""
    shape = shapes.of(node) if node is not None else Shape()
    names = {plain(name): name for name in shape.properties}
    if "id" in names or (known is not None and is_same(shapes, node, known)):
        return Envelope((), node)
    wanted = (plain(singular(noun)), *_ONES)
    for name in (names[one] for one in wanted if one in names):
        inner = shape.properties[name]
        if _is_record(shapes, inner, known) and len(shape.required) <= 3:
            return Envelope((name,), inner)
    return Envelope((), node if node is not None else True)


def is_same(shapes: Shapes, one: Node | None, two: Node | None) -> bool:
    """Whether two schemas are the same component of the document."""
    if one is None or two is None:
        return False
    return one is two or bool(shapes.of(one).names & shapes.of(two).names)


def around(shapes: Shapes, node: Node | None, page: Page, depth: int = 0) -> dict[str, Any]:
    """What the envelope's own properties say about the page."""
    if node is None or depth > 2:
        return {}
    said: dict[str, Any] = {}
    for name, inner in shapes.of(node).properties.items():
        shape = shapes.of(inner)
        if plain(name) in _META_PLAIN and shape.main_type == "object":
            said[name] = around(shapes, inner, page, depth + 1)
            continue
        value = _told(plain(name), shape, page)
        if value is not None or (plain(name) in _NEXT and shape.allows("null")):
            said[name] = value
    return said


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


def _told(name: str, shape: Shape, page: Page) -> Any:
    if shape.main_type in ("integer", "number"):
        return _number(name, page)
    if name in _MORE and shape.main_type == "boolean":
        return page.has_more
    if name in _NEXT and shape.main_type == "string" and page.has_more:
        is_url = shape.words.get("format") in ("uri", "url") or name.endswith(("link", "url"))
        return page.next_url if is_url or name == "next" else page.next_cursor
    return None


def _number(name: str, page: Page) -> int | None:
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


def _object_or_list(shapes: Shapes, node: Node) -> Shape:
    """Where there is a choice, the branch that is a list."""
    shape = shapes.of(node)
    for choice in shape.choices:
        for branch in choice.nodes:
            if shapes.of(branch).main_type == "array":
                return shapes.of(branch)
    return shape


def _inner_list(shapes: Shapes, node: Node, name: str, noun: str) -> Envelope | None:
    shape = shapes.of(node)
    if shape.main_type == "array":
        return Envelope((name,), shape.items)
    names = {plain(inner): inner for inner in shape.properties}
    for one in (plain(noun), "items", "data"):
        if one in names and shapes.of(shape.properties[names[one]]).main_type == "array":
            items = shapes.of(shape.properties[names[one]]).items
            return Envelope((name, names[one]), items)
    return None


def _is_list_of_objects(shapes: Shapes, shape: Shape, name: str) -> bool:
    inner = shapes.of(shape.properties[name])
    return inner.main_type == "array" and shapes.of(inner.items).main_type == "object"


def _is_about_pages(shape: Shape) -> bool:
    names = {plain(name) for name in shape.properties}
    return bool(names & (_TOTAL | _COUNT | _MORE | _NEXT | _META_PLAIN | _PAGE | _LIMIT))


def _is_record(shapes: Shapes, node: Node, known: Node | None) -> bool:
    shape = shapes.of(node)
    if shape.main_type != "object":
        return False
    return known is None or is_same(shapes, node, known) or bool(shape.properties)
