"""What was said: conversations.history and replies, and search.messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from paddock_services.chat.call import Call, ChatError, next_cursor, page
from paddock_services.chat.workspace import (
    MESSAGES,
    USERS,
    Document,
    Workspace,
    shown_message,
)

_MAX_HISTORY = 999
_BATCH = 200
_MAX_QUERY = 1000
_TS = re.compile(r"\d{1,12}(\.\d{1,9})?")


def history(workspace: Workspace, call: Call) -> Document:
    channel = workspace.readable(call.need("channel"))["id"]
    limit, spans = call.limit(most=_MAX_HISTORY), _Span.of(call)
    after = call.cursor("next_ts")
    if after is not None and not workspace.store.has(MESSAGES, f"{channel}:{after}"):
        raise ChatError("invalid_cursor")
    found: list[Document] = []
    for message in _newest_first(workspace, channel, after):
        if spans.holds(message["ts"]):
            found.append(message)
        if len(found) > limit:
            break
    has_more, found = len(found) > limit, found[:limit]
    return {
        "messages": [shown_message(message) for message in found],
        "has_more": has_more,
        "pin_count": workspace.store.count("pins", {"channel": channel}),
        **next_cursor("next_ts", found[-1]["ts"] if has_more else None),
    }


def replies(workspace: Workspace, call: Call) -> Document:
    channel, ts = workspace.readable(call.need("channel"))["id"], call.need("ts")
    first = workspace.store.get(MESSAGES, f"{channel}:{ts}")
    if first is None:
        raise ChatError("thread_not_found")
    spans = _Span.of(call)
    thread = [first] if first["is_reply"] else [first, *workspace.replies(channel, ts)]
    thread = [one for one in thread if one is first or spans.holds(one["ts"])]
    shown, more = page(thread, call, "next_ts")
    has_more = bool(more["response_metadata"]["next_cursor"])
    return {"messages": [shown_message(one) for one in shown], "has_more": has_more, **more}


def search(workspace: Workspace, call: Call) -> Document:
    query = call.need("query")[:_MAX_QUERY]
    count, number = call.number("count", 20, 100), call.number("page", 1, 100)
    count, number = max(1, count), max(1, number)
    wanted = _Query(workspace, query)
    found = [one for one in workspace.store.find(MESSAGES, newest_first=True) if wanted.fits(one)]
    if call.text("sort_dir") == "asc":
        found.reverse()
    pages = math.ceil(len(found) / count)
    matches = [_match(workspace, one) for one in found[(number - 1) * count : number * count]]
    paging = {"count": count, "total": len(found), "page": number, "pages": pages}
    return {"query": query, "messages": {
        "total": len(found), "matches": matches, "paging": paging,
        "pagination": {"total_count": len(found), "page": number, "per_page": count,
                       "page_count": pages, "first": 1, "last": len(matches)},
    }}  # fmt: skip


METHODS = {
    "conversations.history": history,
    "conversations.replies": replies,
    "search.messages": search,
}


class _Span:
    """From the oldest to the latest message that is wanted."""

    def __init__(self, oldest: float, latest: float, is_inclusive: bool) -> None:
        self._oldest, self._latest, self._is_inclusive = oldest, latest, is_inclusive

    @classmethod
    def of(cls, call: Call) -> _Span:
        oldest, latest = call.text("oldest", "0"), call.text("latest", "999999999999")
        for name, value in (("oldest", oldest), ("latest", latest)):
            if not _TS.fullmatch(value):
                raise ChatError(f"invalid_ts_{name}")
        return cls(float(oldest), float(latest), call.flag("inclusive"))

    def holds(self, ts: str) -> bool:
        at = float(ts)
        if self._is_inclusive:
            return self._oldest <= at <= self._latest
        return self._oldest < at < self._latest


class _Query:
    """Words that all must be there; `in:#channel` and `from:@user` narrow it down."""

    def __init__(self, workspace: Workspace, text: str) -> None:
        self._words: list[str] = []
        self._channels: set[str] | None = None
        self._users: set[str] | None = None
        self._seen = {c["id"] for c in workspace.store.find("channels")
                      if workspace.me in c["members"]}  # fmt: skip
        for quoted, word in re.findall(r'"([^"]*)"|(\S+)', text):
            self._add(workspace, quoted, word)

    def _add(self, workspace: Workspace, quoted: str, word: str) -> None:
        if word.startswith("in:"):
            channel = workspace.named_channel(word[3:])
            self._channels = {channel["id"] if channel else word[3:]}
        elif word.startswith("from:"):
            name = word[5:].strip("<@>")
            named = workspace.store.find(USERS, {"name": name})
            self._users = {name, *(workspace.me if name == "me" else u["id"] for u in named)}
            self._users |= {workspace.me} if name == "me" else set()
        else:
            self._words.append((quoted or word).lower())

    def fits(self, message: Document) -> bool:
        if message["channel"] not in self._seen:
            return False
        if self._channels is not None and message["channel"] not in self._channels:
            return False
        if self._users is not None and message["user"] not in self._users:
            return False
        text = message["text"].lower()
        return all(word in text for word in self._words)


def _newest_first(workspace: Workspace, channel: str, after: str | None) -> Iterator[Document]:
    last = None if after is None else f"{channel}:{after}"
    where: dict[str, Any] = {"channel": channel, "is_reply": False}
    while True:
        batch = workspace.store.find(MESSAGES, where, limit=_BATCH, after=last, newest_first=True)
        yield from batch
        if len(batch) < _BATCH:
            return
        last = batch[-1]["id"]


def _match(workspace: Workspace, message: Document) -> Document:
    channel = workspace.store.get("channels", message["channel"]) or {}
    user = workspace.store.get(USERS, message["user"]) or {}
    return {
        **shown_message(message), "iid": message["id"], "team": workspace.team["id"],
        "channel": {"id": message["channel"], "name": channel.get("name", ""),
                    "is_private": channel.get("is_private", False)},
        "username": user.get("name", ""),
        "permalink": workspace.permalink(message["channel"], message),
    }  # fmt: skip
