"""Lists: which records, in which order, which page of them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from paddock_services.openapi.api import Api
from paddock_services.openapi.asking import Asked
from paddock_services.openapi.check import Fault, same
from paddock_services.openapi.envelope import Page, plain
from paddock_services.openapi.fit import MISSING
from paddock_services.openapi.keeping import Record, text_of
from paddock_services.openapi.problems import invalid
from paddock_services.openapi.resources import Resource
from paddock_services.openapi.routes import Parameter

MAX_PAGE = 1_000  # records in one answer
_LIMIT = frozenset({"limit", "perpage", "pagesize", "size", "count", "first", "maxresults", "top",
                    "take", "maxitems", "pagelimit"})  # fmt: skip
_OFFSET = frozenset({"offset", "skip", "start", "startindex", "pageoffset"})
_PAGE = frozenset({"page", "pagenumber", "pagenum", "pageno", "pageindex"})
_CURSOR = frozenset({"cursor", "after", "startingafter", "pagetoken", "nexttoken", "marker",
                     "token", "continuationtoken", "nextcursor",
                     "pagecursor", "startafter"})  # fmt: skip
_SEARCH = frozenset({"q", "query", "search", "searchterm", "term", "keyword", "text"})
_SORT = frozenset({"sort", "sortby", "orderby", "order", "ordering"})
_WAY = frozenset({"direction", "sortorder", "sortdirection", "orderdirection", "order", "dir"})


class Listing(msgspec.Struct, frozen=True):
    """One page of records, and what can be said about it."""

    records: list[Record]
    page: Page


def listed(api: Api, asked: Asked, resource: Resource, records: list[Record]) -> Listing:
    """The page of the records that a request asks for. Raises Refused."""
    found = sort(asked, select(api, asked, resource, records))
    words = _Words(asked)
    limit = min(words.limit(), MAX_PAGE)
    offset = _offset(asked, words, resource, found, limit)
    part = found[offset : offset + limit]
    after = offset + len(part)
    page = Page(
        count=len(part),
        total=len(found),
        limit=limit,
        offset=offset,
        page=words.first_page() + (offset // limit if limit else 0),
        next_cursor=_cursor(resource, part[-1], after) if part else None,
        next_url=_next_url(asked, words, resource, part, after),
    )
    return Listing(part, page)


def select(api: Api, asked: Asked, resource: Resource, records: list[Record]) -> list[Record]:
    """The records whose fields are what the query names."""
    fields = {plain(name): name for name in api.shapes.properties(resource.node)}
    for name, value in asked.query.items():
        records = _select(fields, name, value, records)
    return records


def _select(
    fields: Mapping[str, str], name: str, value: Any, records: list[Record]
) -> list[Record]:
    if isinstance(value, dict):  # filter[status]=open
        for inner, one in value.items():
            records = _select(fields, inner, one, records)
        return records
    if plain(name) in fields:
        field = fields[plain(name)]
        return [one for one in records if _is_among(one.get(field), value)]
    if plain(name) in _SEARCH and isinstance(value, str):
        return [one for one in records if _mentions(one, value.casefold())]
    return records


def sort(asked: Asked, records: list[Record]) -> list[Record]:
    """In the order that the query names; by creation if it names none."""
    text = next((v for n, v in asked.query.items() if plain(n) in _SORT and _is_name(v)), None)
    way = next((v for n, v in asked.query.items() if plain(n) in _WAY), "")
    if isinstance(text, list):
        text = text[0] if text else None
    if not isinstance(text, str) or not text:
        return records[::-1] if str(way).lower() == "desc" else records
    name, _, suffix = text.replace(" ", ":").lstrip("+").partition(":")
    is_down = text.startswith("-") or "desc" in (suffix.lower(), str(way).lower())
    wanted = plain(name)

    def key(record: Record) -> tuple[int, float, str]:
        value = next((v for n, v in record.items() if plain(n) == wanted), None)
        if isinstance(value, int | float):
            return 0, value, ""
        return (2, 0, "") if value is None else (1, 0, str(value))

    return sorted(records, key=key, reverse=is_down)


def _is_name(value: Any) -> bool:
    return str(value).lower() not in ("asc", "desc")


class _Words:
    """The parameters of a list operation that speak of pages."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._known = {plain(one.name): one for one in asked.operation.parameters
                       if one.place == "query"}  # fmt: skip

    def parameter(self, names: frozenset[str]) -> Parameter | None:
        return next((self._known[name] for name in self._known if name in names), None)

    def value(self, names: frozenset[str]) -> Any:
        parameter = self.parameter(names)
        return MISSING if parameter is None else self._asked.query.get(parameter.name, MISSING)

    def limit(self) -> int:
        value = self.value(_LIMIT)
        if isinstance(value, int) and value >= 0:
            return value
        parameter = self.parameter(_LIMIT)
        default = _word(parameter, "default")
        if isinstance(default, int) and default > 0:
            return default
        return 100 if parameter is not None else MAX_PAGE

    def first_page(self) -> int:
        parameter = self.parameter(_PAGE)
        return 0 if 0 in (_word(parameter, "minimum"), _word(parameter, "default")) else 1


def _word(parameter: Parameter | None, word: str) -> Any:
    if parameter is None or not isinstance(parameter.node, Mapping):
        return None
    return parameter.node.get(word)


def _offset(
    asked: Asked, words: _Words, resource: Resource, found: list[Record], limit: int
) -> int:
    cursor = words.value(_CURSOR)
    if cursor is not MISSING and cursor != "":
        return _after(asked, words, resource, found, text_of(cursor))
    offset = words.value(_OFFSET)
    if isinstance(offset, int):
        return max(0, offset)
    page = words.value(_PAGE)
    if isinstance(page, int):
        return max(0, page - words.first_page()) * limit
    return 0


def _after(
    asked: Asked, words: _Words, resource: Resource, found: list[Record], cursor: str
) -> int:
    id, place = _read_cursor(cursor)
    for number, record in enumerate(found):
        if resource.id_name and text_of(record.get(resource.id_name)) == id:
            return number + 1
    if place is None or place < 0:
        parameter = words.parameter(_CURSOR)
        name = parameter.name if parameter else "cursor"
        raise invalid(asked.operation, [Fault(name, "is no cursor of this list", "cursor")])
    return place  # the record that it named is gone


def _cursor(resource: Resource, record: Record, place: int) -> str:
    id = text_of(record.get(resource.id_name, "")) if resource.id_name else ""
    return base64.urlsafe_b64encode(f"{place}:{id}".encode()).decode().rstrip("=")


def _read_cursor(text: str) -> tuple[str, int | None]:
    try:
        padded = text + "=" * (-len(text) % 4)
        place, _, id = base64.urlsafe_b64decode(padded).decode().partition(":")
        return id, int(place)
    except (ValueError, binascii.Error):
        return text, None  # the id of a record is a cursor, too


def _next_url(
    asked: Asked, words: _Words, resource: Resource, part: list[Record], after: int
) -> str | None:
    if not part:
        return None
    for names, value in (
        (_CURSOR, _cursor(resource, part[-1], after)),
        (_OFFSET, str(after)),
        (_PAGE, str(words.first_page() + after // max(1, len(part)))),
    ):
        parameter = words.parameter(names)
        if parameter is not None:
            pairs = parse_qsl(asked.raw.query, keep_blank_values=True)
            kept = [(name, text) for name, text in pairs if name != parameter.name]
            query = urlencode([*kept, (parameter.name, value)])
            return f"{asked.raw.origin}{asked.raw.path}?{query}"
    return None


def _is_among(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_is_among(value, one) for one in wanted)
    if isinstance(value, list):
        return any(_is_among(one, wanted) for one in value)
    if isinstance(value, dict):
        return any(_is_among(value.get(name), wanted) for name in ("id", "name"))
    return same(value, wanted) or (value is not None and text_of(value) == text_of(wanted))


def _mentions(value: Any, text: str) -> bool:
    if isinstance(value, str):
        return text in value.casefold()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_mentions(one, text) for one in inner)
