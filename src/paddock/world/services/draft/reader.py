"""Real reads with the captured writes laid over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.world.asgi import Headers, WorldRequest
from paddock.world.overlay.bodies import header_value, is_json, media_type, parse_json
from paddock.world.overlay.ids import has_id
from paddock.world.overlay.pages import TOTAL_HEADERS, sort_order
from paddock.world.overlay.patches import apply_leniently
from paddock.world.overlay.paths import canonical, is_plural, last_part, parent
from paddock.world.overlay.shapes import find_list, find_record, get_at, put_at
from paddock.world.services.draft.answers import (
    DraftAnswer,
    dump_json,
    etag_matches,
    etag_of,
    json_answer,
    not_modified,
    refusal,
    with_shadow_headers,
)
from paddock.world.services.draft.list_overlay import ListOverlay, empty_list
from paddock.world.services.draft.memory import DraftMemory, SeenPage, SeenRecord


class _View(msgspec.Struct, frozen=True):
    """An answer with the shadows in it. Without a mark it is the real one."""

    value: Any
    mark: str = ""
    total_change: int = 0  # of the number of records on all pages


class DraftReader:
    """Answers reads."""

    def __init__(self, memory: DraftMemory) -> None:
        self._memory = memory

    def overlay(self, request: WorldRequest, real: DraftAnswer) -> DraftAnswer:
        """Return the real answer with the shadows laid over it, and remember the real one."""
        path = canonical(request.path)
        status, headers, body = real
        if request.method == "HEAD":
            if status >= 300 or not self.is_affected(path):
                return DraftAnswer(status, headers, b"")
            return DraftAnswer(status, with_shadow_headers(headers, None, "changed"), b"")
        if status == 304:
            return self._answer_not_modified(request, path, headers)
        if request.method == "OPTIONS" or status == 206 or not is_json(media_type(headers)):
            return self._answer_missing(path, real)
        try:
            value = parse_json(body)
        except ValueError:
            return real
        if not 200 <= status < 300:
            self._memory.learn_refusal(status, value)
            return self._answer_missing(path, real)
        self._learn(request, path, headers, value)
        view = self._view(path, request.query, value, header_value(headers, "link"))
        if not view.mark:
            return real
        headers = _with_totals(headers, view.total_change)
        return self._answer_view(request, path, status, headers, view)

    def answer(self, request: WorldRequest) -> DraftAnswer:
        """Answer a read without the real host."""
        path = canonical(request.path)
        shadow = self._memory.shadow(path)
        if self._memory.is_below_deleted(path) or (shadow is not None and shadow.is_gone):
            return refusal(404, self._memory.refusal(404))
        if shadow is not None and shadow.state == "created":
            value, mark = put_at({}, shadow.wrapper, shadow.record), shadow.key
        else:
            envelope = self._empty_list(path)
            if envelope is None:
                return refusal(404, self._memory.refusal(404))
            view = self._view(path, request.query, envelope, "")
            value, mark = view.value, view.mark or "empty"
        answer = json_answer(200, value, mark)
        condition = header_value(request.headers, "if-none-match")
        if condition and etag_matches(condition, header_value(answer.headers, "etag")):
            return not_modified(answer)
        if request.method == "HEAD":
            return answer._replace(body=b"")
        return answer

    def is_affected(self, path: str) -> bool:
        """Return whether a read of the path may differ from what the real host has."""
        names = (last_part(path), last_part(parent(path)))
        return self._memory.shadow(path) is not None or bool(self._memory.shadows(*names))

    def _answer_view(
        self, request: WorldRequest, path: str, status: int, headers: Headers, view: _View
    ) -> DraftAnswer:
        body = dump_json(view.value)
        etag = etag_of(body)
        seen = self._memory.seen(path)
        if seen is not None and self._memory.store.has("seen", path):
            self._memory.learn_record(path, SeenRecord(seen.record, seen.wrapper, etag))
        answer = DraftAnswer(status, with_shadow_headers(headers, body, view.mark), body)
        condition = header_value(request.headers, "if-none-match")
        if condition and etag_matches(condition, etag):
            return not_modified(answer)
        return answer

    def _view(self, path: str, query: str, value: Any, link: str) -> _View:
        shadow = self._memory.shadow(path)
        if shadow is not None and shadow.state == "changed":
            keys = find_record(value, last_part(shadow.collection))
            record = apply_leniently(get_at(value, keys), shadow.changes)
            return _View(put_at(value, keys, record), "changed")
        list_keys = find_list(value, last_part(path))
        if list_keys is not None:
            return _View(*ListOverlay(self._memory, path, query, list_keys, link).apply(value))
        # The same record by another URL: it states its own.
        keys = find_record(value, last_part(parent(path)))
        record = get_at(value, keys)
        if not isinstance(record, Mapping):
            return _View(value)
        overlay = ListOverlay(self._memory, parent(path), "", (), "")
        new, mark = overlay.change_single(dict(record))
        return _View(put_at(value, keys, new), mark) if mark else _View(value)

    def _learn(self, request: WorldRequest, path: str, headers: Headers, value: Any) -> None:
        list_keys = find_list(value, last_part(path))
        with self._memory.store.transaction():
            if list_keys is not None:
                items, envelope = get_at(value, list_keys), put_at(value, list_keys, [])
                page = SeenPage(path, list_keys, tuple(items), envelope, sort_order(items))
                self._memory.learn_page(f"{path}?{request.query}", page)
                return
            keys = find_record(value, last_part(parent(path)))
            record = get_at(value, keys)
            if isinstance(record, dict) and request.method == "GET":
                etag = header_value(headers, "etag")
                self._memory.learn_record(path, SeenRecord(record, keys, etag))

    def _answer_missing(self, path: str, real: DraftAnswer) -> DraftAnswer:
        """Answer a 404 with the record that a captured PUT has created, if there is one."""
        if real.status != 404:
            return real
        shadow = self._memory.shadow(path)
        if shadow is None:
            self._memory.learn_record(path, SeenRecord(None))
            return real
        changes = shadow.changes if shadow.state == "changed" else ()
        if not any(change["how"] == "replace" for change in changes):
            return real
        record = apply_leniently(None, changes)
        if isinstance(record, dict) and not has_id(record):
            record = {"id": shadow.key, **record}
        return json_answer(200, put_at({}, shadow.wrapper, record), "created")

    def _answer_not_modified(
        self, request: WorldRequest, path: str, headers: Headers
    ) -> DraftAnswer:
        """The real host says that the agent's copy is current. If shadows change it, the agent gets
        the record that was read before, with the shadows."""
        if not self.is_affected(path):
            return DraftAnswer(304, headers, b"")
        seen = self._memory.seen(path)
        if self._memory.shadow(path) is None or seen is None or seen.record is None:
            return refusal(502, None, "ask again without a condition")
        view = self._view(path, request.query, put_at({}, seen.wrapper, seen.record), "")
        json_headers = [(b"content-type", b"application/json"), *headers]
        return self._answer_view(request, path, 200, json_headers, view)

    def _empty_list(self, path: str) -> Any:
        pages = self._memory.similar_pages(path)
        if pages and pages[0].envelope is not None:
            return empty_list(pages[0].envelope, pages[0].keys)
        if is_plural(last_part(path)) or self._memory.shadows_in(path):
            return []
        return None


def _with_totals(headers: Headers, change: int) -> Headers:
    """Correct the headers that state the number of all records."""
    result = []
    for name, value in headers:
        if name.lower() in TOTAL_HEADERS and value.isdigit() and len(value) < 15:
            value = str(max(0, int(value) + change)).encode()
        result.append((name, value))
    return result
