"""Ids of the record and of the stand-in. What was created again has another id; later requests
that name the recorded one mean the new one."""

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

_MAX_NAMES = 100_000
_MAX_DEPTH = 20
_FOREIGN = re.compile(r"(.+?)(?:_id|_ids|_uuid|_sid|Id|ID|Ids)")


class IdMap:
    """What the recorded ids are called in the stand-in. Numbers are kept apart by kind: ticket 7
    is not user 7."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str | int] = {}

    def learn(self, path: str, recorded: Any, given: Any) -> None:
        """From two answers to the same request: ids that stand at the same place."""
        words = [part for part in split_path(canonical(path)) if not is_id(part)]
        self._learn(singular(words[-1]) if words else "", recorded, given, 0)

    def renamed(self, exchange: Exchange) -> Exchange:
        """The request as the stand-in has to be asked."""
        if not self._known:
            return exchange
        parts = exchange.path.split("/")
        path = "/".join(self._in_path(one, parts[at - 1]) for at, one in enumerate(parts))
        query = self._in_query(exchange.query)
        return replace(exchange, path=path, query=query, body=self._in_body(exchange))

    def is_known(self, recorded: Any, given: Any) -> bool:
        """Whether the two are names of the same thing."""
        return bool(self._known.get(("", str(recorded))) == given)

    def _learn(self, kind: str, recorded: Any, given: Any, depth: int) -> None:
        if len(self._known) >= _MAX_NAMES or depth > _MAX_DEPTH:
            return
        if isinstance(recorded, Mapping) and isinstance(given, Mapping):
            for name, value in recorded.items():
                if name in given:
                    self._learn_field(kind, name, value, given[name])
                    inner = kind if name in LISTS else singular(name)
                    self._learn(inner, value, given[name], depth + 1)
        elif isinstance(recorded, list) and isinstance(given, list) and len(recorded) == len(given):
            for one, other in zip(recorded, given, strict=True):
                self._learn(kind, one, other, depth + 1)

    def _learn_field(self, kind: str, name: str, recorded: Any, given: Any) -> None:
        if is_name(name, recorded) and type(recorded) is type(given):
            self._known.setdefault(_key(_kind(kind, name), recorded), given)

    def _name(self, kind: str, value: Any) -> Any:
        found = self._known.get(_key(kind, value), value)
        return found if type(found) is type(value) else type(value)(found)

    def _in_path(self, part: str, before: str) -> str:
        stem = unquote(part)
        end = ".json" if stem.endswith(".json") else ""
        stem = stem.removesuffix(end)
        found = self._name(singular(before), stem)
        return part if found == stem else quote(str(found), safe="") + end

    def _in_query(self, query: str) -> str:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=1000)
        except ValueError:
            return query
        renamed = [(name, self._in_field("", name, value)) for name, value in pairs]
        return query if renamed == pairs else urlencode(renamed)

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
            return {key: self._in_value(singular(name), key, one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._in_value(kind, name, one) for one in value]
        return self._in_field(kind, name, value)

    def _in_field(self, kind: str, name: str, value: Any) -> Any:
        return self._name(_kind(kind, name), value) if is_name(name, value) else value


def is_name(field: str, value: Any) -> bool:
    """Whether a field names something: `id`, `customer_id`, or any with a value like `cus_3Px`."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    if field in ID_FIELDS or _FOREIGN.fullmatch(field):
        return True
    return isinstance(value, str) and not value.isdecimal() and is_id(value)


def _kind(holder: str, field: str) -> str:
    match = _FOREIGN.fullmatch(field)
    return singular(match[1]) if match and field not in ID_FIELDS else holder


def _key(kind: str, value: Any) -> tuple[str, str]:
    text = str(value)
    return (kind.lower() if text.isdecimal() else "", text)
