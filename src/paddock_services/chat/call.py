"""One call of the Web API: its arguments, read the way Slack reads them from forms and JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.services.untrusted import Malformed, parse_json

MAX_PAGE = 1000
_TRUE = {"1", "true", "True"}


class ChatError(Exception):
    """An answer `ok: false` with one of Slack's codes."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


def missing(name: str) -> ChatError:
    """That a required argument is not there."""
    messages = [f"[ERROR] missing required field: {name}"]
    return ChatError("invalid_arguments", response_metadata={"messages": messages})


class Call(msgspec.Struct, frozen=True):
    """What was called with which arguments. The token is not among them."""

    arguments: Mapping[str, Any]
    base: str = "https://slack.com"  # where the agent reached this stand-in

    def text(self, name: str, default: str = "") -> str:
        value = self.arguments.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise ChatError("invalid_arguments")

    def need(self, name: str) -> str:
        """A text that must be there."""
        found = self.text(name)
        if not found:
            raise missing(name)
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        return self.text(name) in _TRUE if self.arguments.get(name) is not None else default

    def limit(self, default: int = 100, most: int = MAX_PAGE) -> int:
        """How many items a page has."""
        found = self.text("limit")
        if not found:
            return default
        if not found.isdecimal() or len(found) > 9 or int(found) < 1:
            raise ChatError("invalid_limit")
        return min(int(found), most)

    def number(self, name: str, default: int, most: int) -> int:
        found = self.text(name)
        if not found:
            return default
        if not found.isdecimal() or len(found) > 15:
            raise ChatError("invalid_arguments")
        return min(int(found), most)

    def names(self, name: str) -> list[str]:
        """A list of words, or words with commas between them."""
        value = self.arguments.get(name)
        words = value if isinstance(value, list) else self.text(name).split(",")
        if not all(isinstance(word, str) for word in words):
            raise ChatError("invalid_arguments")
        return [word.strip() for word in words if word.strip()]

    def structure(self, name: str, error: str) -> Any:
        """A JSON value that forms carry as text. None: it is not there."""
        value = self.arguments.get(name)
        if not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return parse_json(value)
        except Malformed:
            raise ChatError(error) from None

    def cursor(self, kind: str) -> str | None:
        """The id of the last item that was seen."""
        given = self.text("cursor")
        if not given:
            return None
        try:
            word, _, id = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise ChatError("invalid_cursor") from None
        if word != kind or not id:
            raise ChatError("invalid_cursor")
        return id


def next_cursor(kind: str, id: str | None) -> dict[str, Any]:
    """The part of an answer that leads to the next page. None: this was the last one."""
    cursor = "" if id is None else base64.b64encode(f"{kind}:{id}".encode()).decode()
    return {"response_metadata": {"next_cursor": cursor}}


def page(items: list[dict[str, Any]], call: Call, kind: str, default: int = 100) -> Any:
    """A page of the items, and what leads to the next one."""
    after, limit, start = call.cursor(kind), call.limit(default), 0
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise ChatError("invalid_cursor")
        start = ids.index(after) + 1
    shown = items[start : start + limit]
    has_more = start + limit < len(items)
    return shown, next_cursor(kind, shown[-1]["id"] if has_more else None)
