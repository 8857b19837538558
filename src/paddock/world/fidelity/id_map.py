"""The mapping of recorded ids to those of the stand-in. A record that is created again has another
id, and later requests must name the new one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from msgspec.structs import replace

from paddock.world.fidelity.exchanges import Exchange
from paddock.world.overlay.bodies import is_form, is_json, media_type, parse_json
from paddock.world.overlay.ids import ID_FIELDS
from paddock.world.overlay.paths import canonical, is_id, singular, split_path
from paddock.world.overlay.shapes import LISTS

_MAX_IDS = 100_000
_MAX_DEPTH = 20
_FOREIGN = re.compile(r"(.+?)(?:_id|_ids|_uuid|_sid|Id|ID|Ids)")


class IdMap:
    """The ids of the stand-in by recorded id. Numbers are kept apart by kind: ticket 7 is not user
    7."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str | int] = {}

    def learn(self, path: str, recorded: Any, given: Any) -> None:
        """Learn the ids at the same places of two answers to one request."""
        nouns = [part for part in split_path(canonical(path)) if not is_id(part)]
        self._learn(singular(nouns[-1]) if nouns else "", recorded, given, 0)

    def translate(self, exchange: Exchange) -> Exchange:
        """Return the request with the ids of the stand-in."""
        if not self._ids:
            return exchange
        parts = exchange.path.split("/")
        path = "/".join(self._in_path(part, parts[index - 1]) for index, part in enumerate(parts))
        query = self._in_query(exchange.query)
        return replace(exchange, path=path, query=query, body=self._in_body(exchange))

    def are_same(self, recorded: Any, given: Any) -> bool:
        """Return whether two ids name the same thing."""
        return bool(self._ids.get(("", str(recorded))) == given)

    def _learn(self, kind: str, recorded: Any, given: Any, depth: int) -> None:
        if len(self._ids) >= _MAX_IDS or depth > _MAX_DEPTH:
            return
        if isinstance(recorded, Mapping) and isinstance(given, Mapping):
            for name, value in recorded.items():
                if name in given:
                    self._learn_field(kind, name, value, given[name])
                    inner = kind if name in LISTS else singular(name)
                    self._learn(inner, value, given[name], depth + 1)
        elif isinstance(recorded, list) and isinstance(given, list) and len(recorded) == len(given):
            for first, second in zip(recorded, given, strict=True):
                self._learn(kind, first, second, depth + 1)

    def _learn_field(self, kind: str, name: str, recorded: Any, given: Any) -> None:
        if is_id_field(name, recorded) and type(recorded) is type(given):
            self._ids.setdefault(_key(_kind(kind, name), recorded), given)

    def _translate(self, kind: str, value: Any) -> Any:
        id = self._ids.get(_key(kind, value), value)
        return id if type(id) is type(value) else type(value)(id)

    def _in_path(self, part: str, noun: str) -> str:
        stem = unquote(part)
        suffix = ".json" if stem.endswith(".json") else ""
        stem = stem.removesuffix(suffix)
        id = self._translate(singular(noun), stem)
        return part if id == stem else quote(str(id), safe="") + suffix

    def _in_query(self, query: str) -> str:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            return query
        translated = [(name, self._in_field("", name, value)) for name, value in pairs]
        return query if translated == pairs else urlencode(translated)

    def _in_body(self, exchange: Exchange) -> bytes:
        if is_form(exchange.headers):
            return self._in_query(exchange.body.decode("utf-8", "replace")).encode()
        if not exchange.body or not is_json(media_type(exchange.headers)):
            return exchange.body
        try:
            return json.dumps(self._in_value("", "", parse_json(exchange.body))).encode()
        except (ValueError, RecursionError):
            return exchange.body

    def _in_value(self, kind: str, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            kind = singular(name)
            return {key: self._in_value(kind, key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._in_value(kind, name, item) for item in value]
        return self._in_field(kind, name, value)

    def _in_field(self, kind: str, name: str, value: Any) -> Any:
        return self._translate(_kind(kind, name), value) if is_id_field(name, value) else value


def is_id_field(field: str, value: Any) -> bool:
    """Return whether a field holds an id: `id`, `customer_id`, or a value like `cus_3Px`."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    if field in ID_FIELDS or _FOREIGN.fullmatch(field):
        return True
    return isinstance(value, str) and not value.isdecimal() and is_id(value)


def _kind(holder: str, field: str) -> str:
    match = _FOREIGN.fullmatch(field)
    if match and field not in ID_FIELDS:
        return singular(match[1])
    return holder


def _key(kind: str, value: Any) -> tuple[str, str]:
    text = str(value)
    return (kind.lower() if text.isdecimal() else "", text)
