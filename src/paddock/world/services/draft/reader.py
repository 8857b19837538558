"""A real read with the captured writes laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.asgi import Headers, HttpAnswer, WorldRequest
from paddock.world.overlay.bodies import header, is_json, loaded, media_of
from paddock.world.overlay.ids import has_id
from paddock.world.overlay.pages import TOTAL_HEADERS, order_of
from paddock.world.overlay.paths import canonical, is_plural, last, parent
from paddock.world.overlay.shapes import find_list, find_record, get, put
from paddock.world.services.draft.answers import (
    answer,
    dumped,
    etag_of,
    matches,
    refusal,
    shadowed,
)
from paddock.world.services.draft.changes import applied_leniently
from paddock.world.services.draft.list_overlay import Listing, lone
from paddock.world.services.draft.memory import DraftMemory, SeenPage, SeenRecord, Shadow

Answer = tuple[int, Headers, bytes]


class _View(msgspec.Struct, frozen=True):
    """An answer as it is to be seen, and what of it is a shadow's. No mark: it is the real one."""

    value: Any
    mark: str = ""
    total: int = 0  # more, or fewer, on all pages


class DraftReader:
    """Lays the shadow over reads."""

    def __init__(self, memory: DraftMemory) -> None:
        self._memory = memory

    def read(self, request: WorldRequest, status: int, headers: Headers, body: bytes) -> Answer:
        path = canonical(request.path)
        if request.method == "HEAD":
            return self._head(path, status, headers)
        if status == 304:
            return self._unchanged(request, path, headers)
        if request.method == "OPTIONS" or status == 206 or not is_json(media_of(headers)):
            return self._missing(path, status, headers, body)
        try:
            value = loaded(body)
        except ValueError:
            return status, headers, body
        if not 200 <= status < 300:
            self._memory.learn_refusal(status, value)
            return self._missing(path, status, headers, body)
        self._learn(request, path, headers, value)
        view = self._view(path, request.query, value, header(headers, "link"))
        if not view.mark:
            return status, headers, body
        return self._shown(request, path, status, _recounted(headers, view.total), view)

    def alone(self, request: WorldRequest) -> HttpAnswer:
        """What the shadow knows without the real host."""
        path = canonical(request.path)
        shadow = self._memory.shadow(path)
        if self._memory.gone_above(path) or (shadow is not None and shadow.is_gone):
            return refusal(404, self._memory.refusal(404))
        if shadow is not None and shadow.state == "created":
            said = answer(200, put({}, shadow.wrapper, shadow.record), shadow.key)
            return _if_new(request, said)
        envelope = self._empty_list(path)
        if envelope is None:
            return refusal(404, self._memory.refusal(404))
        view = self._view(path, request.query, envelope, "")
        return _if_new(request, answer(200, view.value, view.mark or "empty"))

    def touches(self, path: str) -> bool:
        """Whether a read of it may look other than the real host has it."""
        names = (last(path), last(parent(path)))
        return self._memory.shadow(path) is not None or bool(self._memory.shadows(*names))

    def _shown(
        self, request: WorldRequest, path: str, status: int, headers: Headers, view: _View
    ) -> Answer:
        body = dumped(view.value)
        etag = etag_of(body)
        seen = self._memory.seen(path)
        if seen is not None and self._memory.store.has("seen", path):
            self._memory.learn_record(path, SeenRecord(seen.record, seen.wrapper, etag))
        kept = shadowed(headers, body, view.mark)
        condition = header(request.headers, "if-none-match")
        if condition and matches(condition, etag):
            return 304, [one for one in kept if one[0] != b"content-length"], b""
        return status, kept, body

    def _view(self, path: str, query: str, value: Any, link: str) -> _View:
        shadow = self._memory.shadow(path)
        if shadow is not None and shadow.state == "changed":
            return self._changed(shadow, value)
        keys = find_list(value, last(path))
        if keys is None:
            return self._elsewhere(path, value)
        listing = Listing(self._memory, path, query, keys, link)
        return _View(*listing.overlaid(value))

    def _changed(self, shadow: Shadow, value: Any) -> _View:
        keys = find_record(value, last(shadow.collection))
        new = applied_leniently(get(value, keys), shadow.changes)
        return _View(put(value, keys, new), "changed")

    def _elsewhere(self, path: str, value: Any) -> _View:
        """The same record by another URL: it says which one is its own."""
        keys = find_record(value, last(parent(path)))
        record = get(value, keys)
        if not isinstance(record, Mapping):
            return _View(value)
        new, mark = Listing(self._memory, parent(path), "", (), "").changed_only(dict(record))
        return _View(put(value, keys, new), mark) if mark else _View(value)

    def _learn(self, request: WorldRequest, path: str, headers: Headers, value: Any) -> None:
        keys = find_list(value, last(path))
        with self._memory.store.transaction():
            if keys is None:
                way = find_record(value, last(parent(path)))
                record = get(value, way)
                if isinstance(record, dict) and request.method == "GET":
                    self._memory.learn_record(
                        path, SeenRecord(record, way, header(headers, "etag"))
                    )
                return
            items = get(value, keys)
            page = SeenPage(path, keys, tuple(items), put(value, keys, []), order_of(items))
            self._memory.learn_page(f"{path}?{request.query}", page)

    def _missing(self, path: str, status: int, headers: Headers, body: bytes) -> Answer:
        """A PUT makes what was not there."""
        if status != 404:
            return status, headers, body
        shadow = self._memory.shadow(path)
        changes = shadow.changes if shadow is not None and shadow.state == "changed" else ()
        if shadow is None or not any(one["how"] == "replace" for one in changes):
            if shadow is None:
                self._memory.learn_record(path, SeenRecord(None))
            return status, headers, body
        record = applied_leniently(None, changes)
        if isinstance(record, dict) and not has_id(record):
            record = {"id": shadow.key, **record}
        said = answer(200, put({}, shadow.wrapper, record), "created")
        return said.status, said.headers, said.body if isinstance(said.body, bytes) else b""

    def _head(self, path: str, status: int, headers: Headers) -> Answer:
        if status >= 300 or not self.touches(path):
            return status, headers, b""
        return status, shadowed(headers, None, "changed"), b""

    def _unchanged(self, request: WorldRequest, path: str, headers: Headers) -> Answer:
        """The agent's copy is the real one. Where that is not what it is to see, the copy that was
        kept here is answered instead."""
        if not self.touches(path):
            return 304, headers, b""
        seen = self._memory.seen(path)
        shadow = self._memory.shadow(path)
        if shadow is None or seen is None or seen.record is None:
            said = refusal(502, None, "ask again without a condition")
            return said.status, said.headers, said.body if isinstance(said.body, bytes) else b""
        view = self._view(path, request.query, put({}, seen.wrapper, seen.record), "")
        kept = [(b"content-type", b"application/json"), *headers]
        return self._shown(request, path, 200, kept, view)

    def _empty_list(self, path: str) -> Any:
        known = self._memory.alike(path)
        if known and known[0].envelope is not None:
            return lone(known[0].envelope, known[0].keys)
        shadows = self._memory.shadows(last(path))
        if is_plural(last(path)) or any(one.collection == path for one in shadows):
            return []
        return None


def _if_new(request: WorldRequest, said: HttpAnswer) -> HttpAnswer:
    condition = header(request.headers, "if-none-match")
    etag = header(said.headers, "etag")
    if condition and matches(condition, etag):
        return HttpAnswer(304, [one for one in said.headers if one[0] != b"content-length"], b"")
    return HttpAnswer(said.status, said.headers, b"") if request.method == "HEAD" else said


def _recounted(headers: Headers, change: int) -> Headers:
    return [
        (name, str(max(0, int(value) + change)).encode())
        if name.lower() in TOTAL_HEADERS and value.isdigit() and len(value) < 15
        else (name, value)
        for name, value in headers
    ]
