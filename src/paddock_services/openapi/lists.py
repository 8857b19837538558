"""Lists: filters, sort order and pages, by query parameters with the usual names."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from paddock_services.openapi.api import OpenApiDescription
from paddock_services.openapi.envelope import ListPage, plain
from paddock_services.openapi.errors import invalid_request
from paddock_services.openapi.generation import MISSING
from paddock_services.openapi.records import Record, text_of
from paddock_services.openapi.request import CheckedRequest
from paddock_services.openapi.resources import Resource
from paddock_services.openapi.routes import Parameter
from paddock_services.openapi.validation import Violation, is_equal

MAX_PAGE = 1_000  # records in one answer
_DEFAULT_PAGE = 100
_LIMIT = frozenset({"limit", "perpage", "pagesize", "size", "count", "first", "maxresults", "top",
                    "take", "maxitems", "pagelimit"})  # fmt: skip
_OFFSET = frozenset({"offset", "skip", "start", "startindex", "pageoffset"})
_PAGE = frozenset({"page", "pagenumber", "pagenum", "pageno", "pageindex"})
_CURSOR = frozenset({"cursor", "after", "startingafter", "pagetoken", "nexttoken", "marker",
                     "token", "continuationtoken", "nextcursor",
                     "pagecursor", "startafter"})  # fmt: skip
_SEARCH = frozenset({"q", "query", "search", "searchterm", "term", "keyword", "text"})
_SORT = frozenset({"sort", "sortby", "orderby", "order", "ordering"})
_DIRECTION = frozenset({"direction", "sortorder", "sortdirection", "orderdirection", "order",
                        "dir"})  # fmt: skip


def list_page(
    api: OpenApiDescription, request: CheckedRequest, resource: Resource, records: list[Record]
) -> tuple[list[Record], ListPage]:
    """Return the records of the page that a request asks for, and the page's numbers. Raises
    RequestRefused."""
    selected = _sort(request, select(api, request, resource, records))
    paging = _PageParameters(request, resource)
    limit = min(paging.limit(), MAX_PAGE)
    offset = paging.offset(selected, limit)
    items = selected[offset : offset + limit]
    end = offset + len(items)
    page = ListPage(
        count=len(items),
        total=len(selected),
        limit=limit,
        offset=offset,
        page=paging.first_page() + (offset // limit if limit else 0),
        next_cursor=_encode_cursor(resource, items[-1], end) if items else None,
        next_url=paging.next_url(items, end),
    )
    return items, page


def select(
    api: OpenApiDescription, request: CheckedRequest, resource: Resource, records: list[Record]
) -> list[Record]:
    """Return the records that match the filters of the query."""
    fields = {plain(name): name for name in api.schemas.properties(resource.node)}
    for name, value in request.query.items():
        records = _filter(fields, name, value, records)
    return records


def _filter(
    fields: Mapping[str, str], name: str, value: Any, records: list[Record]
) -> list[Record]:
    if isinstance(value, dict):  # filter[status]=open
        for inner_name, inner in value.items():
            records = _filter(fields, inner_name, inner, records)
        return records
    if plain(name) in fields:
        field = fields[plain(name)]
        return [record for record in records if _matches(record.get(field), value)]
    if plain(name) in _SEARCH and isinstance(value, str):
        return [record for record in records if _contains(record, value.casefold())]
    return records


def _matches(value: Any, wanted: Any) -> bool:
    """Return whether a value is among those of a filter. An object is named by its id or name."""
    if isinstance(wanted, list):
        return any(_matches(value, each) for each in wanted)
    if isinstance(value, list):
        return any(_matches(each, wanted) for each in value)
    if isinstance(value, dict):
        return any(_matches(value.get(name), wanted) for name in ("id", "name"))
    return is_equal(value, wanted) or (value is not None and text_of(value) == text_of(wanted))


def _contains(value: Any, text: str) -> bool:
    """Return whether a text occurs anywhere in a value."""
    if isinstance(value, str):
        return text in value.casefold()
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(_contains(inner, text) for inner in value)


def _sort(request: CheckedRequest, records: list[Record]) -> list[Record]:
    """Sort as the query says: `sort=-total`, `sort=total:desc`, `sort=total&order=desc`."""
    sort, direction = "", ""
    for name, value in request.query.items():
        if isinstance(value, list):
            value = value[0] if value else ""
        is_direction = str(value).lower() in ("asc", "desc")
        if plain(name) in _SORT and not sort and not is_direction and isinstance(value, str):
            sort = value
        if plain(name) in _DIRECTION and not direction:
            direction = str(value).lower()
    if not sort:
        return records[::-1] if direction == "desc" else records
    field, _, suffix = sort.replace(" ", ":").lstrip("+").partition(":")
    is_descending = sort.startswith("-") or "desc" in (suffix.lower(), direction)

    def sort_key(record: Record) -> tuple[int, float, str]:
        value = next((v for name, v in record.items() if plain(name) == plain(field)), None)
        if isinstance(value, int | float):
            return 0, value, ""
        return (2, 0, "") if value is None else (1, 0, str(value))

    return sorted(records, key=sort_key, reverse=is_descending)


class _PageParameters:
    """The parameters of a request that choose a page."""

    def __init__(self, request: CheckedRequest, resource: Resource) -> None:
        self._request = request
        self._resource = resource
        self._declared = {
            plain(parameter.name): parameter
            for parameter in request.operation.parameters
            if parameter.location == "query"
        }

    def limit(self) -> int:
        parameter, value = self._find(_LIMIT)
        if isinstance(value, int) and value >= 0:
            return value
        default = _keyword(parameter, "default")
        if isinstance(default, int) and default > 0:
            return default
        return MAX_PAGE if parameter is None else _DEFAULT_PAGE

    def first_page(self) -> int:
        """Return the number of the first page, 0 or 1."""
        parameter, _ = self._find(_PAGE)
        bounds = (_keyword(parameter, "minimum"), _keyword(parameter, "default"))
        return 0 if 0 in bounds else 1

    def offset(self, records: list[Record], limit: int) -> int:
        _, cursor = self._find(_CURSOR)
        if cursor is not MISSING and cursor != "":
            return self._offset_after(records, text_of(cursor))
        _, offset = self._find(_OFFSET)
        if isinstance(offset, int):
            return max(0, offset)
        _, page = self._find(_PAGE)
        if isinstance(page, int):
            return max(0, page - self.first_page()) * limit
        return 0

    def next_url(self, items: list[Record], end: int) -> str | None:
        if not items:
            return None
        for names, value in (
            (_CURSOR, _encode_cursor(self._resource, items[-1], end)),
            (_OFFSET, str(end)),
            (_PAGE, str(self.first_page() + end // len(items))),
        ):
            parameter, _ = self._find(names)
            if parameter is not None:
                raw = self._request.raw
                pairs = parse_qsl(raw.query, keep_blank_values=True)
                others = [(name, text) for name, text in pairs if name != parameter.name]
                query = urlencode([*others, (parameter.name, value)])
                return f"{raw.origin}{raw.path}?{query}"
        return None

    def _find(self, names: frozenset[str]) -> tuple[Parameter | None, Any]:
        """Return the declared parameter with one of these names, and its value or MISSING."""
        for name, parameter in self._declared.items():
            if name in names:
                return parameter, self._request.query.get(parameter.name, MISSING)
        return None, MISSING

    def _offset_after(self, records: list[Record], cursor: str) -> int:
        id, offset = _decode_cursor(cursor)
        id_name = self._resource.id_name
        for index, record in enumerate(records):
            if id_name and text_of(record.get(id_name)) == id:
                return index + 1
        if offset is not None and offset >= 0:
            return offset  # the record that the cursor named is gone
        parameter, _ = self._find(_CURSOR)
        name = parameter.name if parameter else "cursor"
        violation = Violation(name, "is no cursor of this list", "cursor")
        raise invalid_request(self._request.operation, [violation])


def _keyword(parameter: Parameter | None, name: str) -> Any:
    if parameter is None or not isinstance(parameter.node, Mapping):
        return None
    return parameter.node.get(name)


def _encode_cursor(resource: Resource, record: Record, offset: int) -> str:
    id = text_of(record.get(resource.id_name, "")) if resource.id_name else ""
    return base64.urlsafe_b64encode(f"{offset}:{id}".encode()).decode().rstrip("=")


def _decode_cursor(text: str) -> tuple[str, int | None]:
    """Return the id and the offset of a cursor. The id of a record is a cursor, too."""
    try:
        padded = text + "=" * (-len(text) % 4)
        offset, _, id = base64.urlsafe_b64decode(padded).decode().partition(":")
        return id, int(offset)
    except (ValueError, binascii.Error):
        return text, None
