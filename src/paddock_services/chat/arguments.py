"""The arguments of a method, read the way Slack reads them from forms and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paddock.world.kit import (
    ApiError,
    InvalidCursor,
    MalformedRequest,
    cursor_page,
    decode_cursor,
    encode_cursor,
    parse_json,
    whole_number,
)

Document = dict[str, Any]
_MAX_PAGE = 999
_TRUE = ("1", "true", "True")


class SlackError(ApiError):
    """An answer with `ok: false` and one of Slack's codes. Its status is 200 all the same."""

    def __init__(self, code: str, **details: Any) -> None:
        super().__init__(200, {"ok": False, "error": code, **details})


class Arguments:
    """The arguments of one call, without the token."""

    def __init__(self, values: Mapping[str, Any], origin: str) -> None:
        self.values = values
        self.origin = origin  # where the agent reached the stand-in

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise SlackError("invalid_arguments")

    def required(self, name: str) -> str:
        text = self.text(name)
        if not text:
            messages = [f"[ERROR] missing required field: {name}"]
            raise SlackError("invalid_arguments", response_metadata={"messages": messages})
        return text

    def flag(self, name: str) -> bool:
        return self.text(name) in _TRUE

    def number(self, name: str, default: int, most: int, error: str = "invalid_arguments") -> int:
        """Return a number from 1 on, at most `most`."""
        text = self.text(name)
        if not text:
            return default
        number = whole_number(text)
        if not number:
            raise SlackError(error)
        return min(number, most)

    def limit(self, default: int = 100) -> int:
        """Return how many items a page has."""
        return self.number("limit", default, _MAX_PAGE, "invalid_limit")

    def names(self, name: str) -> list[str]:
        """Return a list of texts, which may be one text with commas."""
        value = self.values.get(name)
        items = value if isinstance(value, list) else self.text(name).split(",")
        if not all(isinstance(item, str) for item in items):
            raise SlackError("invalid_arguments")
        return [item.strip() for item in items if item.strip()]

    def json(self, name: str, error: str) -> Any:
        """Return a JSON value, which a form carries as text. None: it is not there."""
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return parse_json(value)
        except MalformedRequest:
            raise SlackError(error) from None

    def cursor(self, listing: str) -> str | None:
        """Return the id of the last item that the agent has seen."""
        cursor = self.text("cursor")
        if not cursor:
            return None
        try:
            return decode_cursor(cursor, listing)
        except InvalidCursor:
            raise SlackError("invalid_cursor") from None

    def page(
        self, name: str, items: list[Document], show: Callable[[Document], Any], listing: str
    ) -> Document:
        """Return one page of items under a name, and the cursor that leads to the next page."""
        by_id = {item["id"]: item for item in items}
        try:
            page = cursor_page(list(by_id), self.limit(), after=self.cursor(listing))
        except InvalidCursor:
            raise SlackError("invalid_cursor") from None
        shown = [show(by_id[id]) for id in page.items]
        last = page.items[-1] if page.has_next else None
        return {name: shown, **next_cursor(listing, last)}


def next_cursor(listing: str, last: str | None) -> Document:
    """Return the part of an answer that leads to the next page. None: this is the last page."""
    cursor = "" if last is None else encode_cursor(last, listing)
    return {"response_metadata": {"next_cursor": cursor}}
