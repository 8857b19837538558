"""Two views, part by part: where they differ, unless a rule says that they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from paddock.doors.network.bodies.digests import SPELLING, stable_place
from paddock.doors.network.bodies.stable_digests import STABLE
from paddock.model.errors import InvalidInput
from paddock.run.matching.bindings import Bindings, Id
from paddock.run.matching.recorded_step import ABSENT, ActionView, Difference
from paddock.run.matching.rules import STRICT, Rules, words_of
from paddock.run.matching.timestamps import Timestamps
from paddock.run.matching.view import OF_BODY, step_in
from paddock.run.matching.volatile import (
    BODY,
    CREDENTIAL,
    MOMENT,
    SIGNED,
    TOKEN,
    Volatile,
    dropped,
    entries,
    is_same_token,
)

MAX_DIFFERENCES = 50
Place = tuple[str | int, ...]
# The most telling first; what is not named comes between these and the last.
_FIRST = ("method", "scheme", "host", "port", "path", "query", "name", "program", "argv", "cwd",
          "model", "body", "arguments")  # fmt: skip
_LAST = ("headers", "conversation", "prompt_digest", "system_ref", "tools_ref", "body_bytes",
         "body_sha256")  # fmt: skip
# Who is asked, and for what: no rule lets these vary.
_FIXED = frozenset({"method", "scheme", "host", "port", "name", "type", "upgrade"})
_MEASURES = ("body_bytes", "body_sha256")
_OF_MEASURES = frozenset({*_MEASURES, STABLE})
_FORM = "application/x-www-form-urlencoded"


def compare(
    recorded: ActionView, proposed: ActionView, rules: Rules = STRICT, limit: int = MAX_DIFFERENCES
) -> tuple[Difference, ...]:
    """Return where the proposed view differs from the recorded one, the most telling difference
    first. Empty for a match."""
    return ViewComparison(rules, Bindings(), limit).run(recorded, proposed)


class ViewComparison:
    """One comparison, the pairs of ids that hold if it ends in a match, and what was let vary."""

    def __init__(self, rules: Rules, bindings: Bindings, limit: int = MAX_DIFFERENCES) -> None:
        self.pairs: dict[Id, Id] = {}
        self._rules = rules
        self._bindings = bindings
        self._limit = limit
        self._found: list[Difference] = []
        self._has_varied_body = self._is_any_body = False
        self._names: frozenset[str] = frozenset()  # of the query's parameters, in lower case
        self._varied: dict[str, None] = {}

    def run(self, recorded: ActionView, proposed: ActionView) -> tuple[Difference, ...]:
        if recorded.kind is not proposed.kind:
            return (Difference("kind", str(recorded.kind), str(proposed.kind)),)
        ours, theirs = recorded.parts, proposed.parts
        self._names = _lower_names(ours.get("query"))
        self._is_any_body = is_any = self._lets_any_body(recorded, proposed)
        is_same = _is_same_body(ours, theirs)
        left = OF_BODY if is_any or is_same else _OF_MEASURES
        # Where the bodies are not the same bytes, what is computed from them may differ as well.
        self._has_varied_body = not is_same and (
            is_any or _is_same_but_for_separators(ours, theirs)
        )
        for key in _ordered(frozenset({*ours, *theirs}) - left):
            self._part(key, ours.get(key, ABSENT), theirs.get(key, ABSENT))
        self._keyed(recorded.keyed, proposed.keyed)
        if not self._found and left is not OF_BODY:
            self._measures(ours, theirs)
            self._spelling(recorded.keyed, proposed.keyed)
        return tuple(self._found[: self._limit])

    def varied(self, recorded: ActionView, proposed: ActionView) -> tuple[str, ...]:
        """Return, after a match, the labels of what differed and was allowed to."""
        return (*self._varied, *headers_left_out(recorded, proposed))

    def _lets_any_body(self, recorded: ActionView, proposed: ActionView) -> bool:
        """Return whether the body may be anything: `body=any` holds for all, however long, and
        whether or not rules can read them, as long as there is one on both sides."""
        return self._rules.lets_any_body and has_body(recorded) and has_body(proposed)

    def _part(self, key: str, ours: Any, theirs: Any) -> None:
        if self._is_full:
            return
        if key in _FIXED:
            if type(ours) is not type(theirs) or ours != theirs:
                self._differ(key, ours, theirs)
        elif key == "path" and isinstance(ours, str) and isinstance(theirs, str):
            self._path(ours, theirs)
        elif key == "query":
            self._query(ours, theirs)
        else:
            self._value((key,), ours, theirs)

    def _path(self, ours: str, theirs: str) -> None:
        (first, *mine), (head, *others) = ours.split("/"), theirs.split("/")
        is_alike = (first, len(mine)) == (head, len(others)) and all(
            self._may_be(("path", index), segment, other)
            for index, (segment, other) in enumerate(zip(mine, others, strict=True))
        )
        if not is_alike and not self._may_be(("path",), ours, theirs):
            self._differ("path", ours, theirs)

    def _query(self, ours: Any, theirs: Any) -> None:
        """Compare the query's pairs in order. An additional, missing or moved pair is shown as a
        difference of the whole query."""
        mine, others = _names(ours), _names(theirs)
        if mine is None or others is None or mine != others:
            if ours != theirs:
                self._differ("query", _joined(ours), _joined(theirs))
            return
        for pair, other in zip(ours, theirs, strict=True):
            name = unquote_plus(pair[0])
            if not self._is_same_pair(("query", name), pair, other):
                self._differ(f"query{step_in(name)}", pair[-1], other[-1])

    def _is_same_pair(self, place: Place, pair: list[str], other: list[str]) -> bool:
        if len(pair) != len(other):  # `a` and `a=` are two things to a server
            return False
        mine, others = unquote_plus(pair[-1]), unquote_plus(other[-1])
        if mine == others and pair != other:
            return False  # the same in another spelling
        return len(pair) == 1 or self._may_be(place, mine, others)

    def _value(self, place: Place, ours: Any, theirs: Any) -> None:
        if self._is_full:
            return
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if not self._is_let_vary(place, ours, theirs):
                self._object(place, ours, theirs)
        elif isinstance(ours, list) and isinstance(theirs, list):
            if not self._is_let_vary(place, ours, theirs):
                self._array(place, ours, theirs)
        elif not self._may_be(place, ours, theirs):
            self._differ(_spelled(place), ours, theirs)

    def _object(self, place: Place, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
        for key, value in ours.items():
            self._value((*place, key), value, theirs.get(key, ABSENT))
        for key in theirs.keys() - ours.keys():
            self._value((*place, key), ABSENT, theirs[key])

    def _array(self, place: Place, ours: list[Any], theirs: list[Any]) -> None:
        shared = min(len(ours), len(theirs))
        for index in range(shared):
            self._value((*place, index), ours[index], theirs[index])
        for index, value in enumerate(ours[shared:], shared):
            self._value((*place, index), value, ABSENT)
        for index, value in enumerate(theirs[shared:], shared):
            self._value((*place, index), ABSENT, value)

    def _keyed(self, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
        """Compare values that the journal does not show by their keyed hashes. Of the rules only
        `any` and `id` can be applied to them."""
        if ours == theirs:
            return
        for at in sorted({*ours, *theirs} - {SPELLING}):
            mine, others = ours.get(at), theirs.get(at)
            if mine == others or self._is_keyed_variable(at, mine, others):
                continue
            if self._is_any_body and _words(at)[:1] == ("body",):
                continue
            if at.endswith(stable_place("")):
                continue  # looked at with the credential that it is about
            stable = stable_place(at)
            if mine and others and ours.get(stable) and ours[stable] == theirs.get(stable):
                self._vary(SIGNED.label.replace(CREDENTIAL, at.removeprefix("headers.")))
                continue
            self._differ(at, _unshown(mine), _unshown(others))

    def _is_keyed_variable(self, at: str, ours: str | None, theirs: str | None) -> bool:
        if ours is None or theirs is None:
            return False
        rules = self._rules.at(_words(at)) if self._rules.vary else []
        self._has_varied_body |= at.startswith("body") and bool(rules)
        return any(
            rule.as_ == "any" or (rule.is_id and self._is_pair(ours, theirs)) for rule in rules
        )

    def _measures(self, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        """Compare the sizes of bodies. Bodies that are equal as JSON may have another order of
        keys, which does not matter; another size means that numbers or texts are encoded
        differently."""
        if _is_same_but_for_separators(ours, theirs):
            self._vary(f"{BODY} without {ours[STABLE]['without']}")
            return
        if self._has_varied_body:
            return
        is_json = "body" in ours and not _is_form(ours)
        for key in ("body_bytes",) if is_json else _MEASURES:
            if ours.get(key) != theirs.get(key):
                self._differ(key, ours.get(key, ABSENT), theirs.get(key, ABSENT))

    def _spelling(self, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
        """Compare the encodings of numbers: in the journal 1.0 is 1, and only this tells them
        apart."""
        mine, others = ours.get(SPELLING), theirs.get(SPELLING)
        if mine != others and not self._has_varied_body:
            self._differ(SPELLING, _unshown(mine), _unshown(others))

    def _may_be(self, place: Place, ours: Any, theirs: Any) -> bool:
        """Return whether the proposed value is equal to the recorded one or allowed to differ from
        it."""
        if self._is_let_vary(place, ours, theirs):
            return True
        entries_here = self._entries(place)
        if type(ours) is type(theirs) and ours == theirs:
            # Where an id is declared, an equal one must fit its pairs like any other.
            if any(rule.is_id and rule.allows(ours) for rule in self._rules.at(place)):
                return False
            return all(self._fits(rule, ours, theirs) for rule in entries_here if rule.is_id)
        if any(self._allows(rule, ours, theirs) for rule in entries_here):
            return True
        moments = self._rules.moments
        is_free = moments is not None and self._is_moment(moments, ours, theirs)
        if is_free:
            self._vary(MOMENT)
        elif is_same_token(ours, theirs):
            is_free = True
            self._vary(TOKEN.label)
        if not is_free and self._bindings and isinstance(ours, str):
            is_free = self._bindings.translate(ours) == theirs
        self._has_varied_body |= is_free and place[0] == "body"
        return is_free

    def _is_moment(self, moments: Timestamps, ours: Any, theirs: Any) -> bool:
        return moments.allow(ours, theirs) and all(
            self._is_pair(id_, other) for id_, other in moments.drawn_ids(ours, theirs)
        )

    def _entries(self, place: Place) -> tuple[Volatile, ...]:
        """Return the entries of the list of volatile fields that apply to a location."""
        if len(place) != 2 or place[0] not in ("headers", "query") or not isinstance(place[1], str):
            return ()
        listed = entries("header" if place[0] == "headers" else "query", place[1])
        return tuple(
            entry for entry in listed if entry.beside is None or entry.beside in self._names
        )

    def _allows(self, entry: Volatile, ours: Any, theirs: Any) -> bool:
        """Return whether an entry lets a value be another one."""
        if not isinstance(ours, str) or not isinstance(theirs, str):
            return False
        if entry.is_of_body and not self._has_varied_body:
            return False
        if entry.are_close is not None:
            is_free = entry.are_close(ours, theirs)
        else:
            mine, others = entry.stem(ours), entry.stem(theirs)
            is_free = mine is not None and others is not None and mine[0] == others[0]
            is_free = is_free and (not entry.is_id or self._fits(entry, ours, theirs))
        if is_free:
            self._vary(entry.label)
        return is_free

    def _fits(self, entry: Volatile, ours: str, theirs: str) -> bool:
        """Return whether the ids in two values may be pairs."""
        mine, others = entry.stem(ours), entry.stem(theirs)
        if mine is None or others is None:
            return True  # no id of that shape: nothing that belongs together
        return all(map(self._is_pair, mine[1], others[1]))

    def _vary(self, label: str) -> None:
        self._varied[label] = None

    def _is_let_vary(self, place: Place, ours: Any, theirs: Any) -> bool:
        if not self._rules.vary or ours is ABSENT or theirs is ABSENT:
            return False
        for rule in self._rules.at(place):
            if rule.as_ != "any" and type(ours) is not type(theirs):
                continue
            if not rule.allows(ours) or not rule.allows(theirs):
                continue
            if not rule.is_id or self._is_pair(ours, theirs):
                self._has_varied_body |= place[0] == "body"
                return True
        return False

    def _is_pair(self, ours: Id, theirs: Id) -> bool:
        if not self._bindings.fits(ours, theirs, self.pairs):
            return False
        self.pairs.setdefault(ours, theirs)
        return True

    @property
    def _is_full(self) -> bool:
        return len(self._found) >= self._limit

    def _differ(self, at: str, ours: Any, theirs: Any) -> None:
        self._found.append(Difference(at, ours, theirs))


def headers_left_out(recorded: ActionView, proposed: ActionView) -> Iterator[str]:
    """Yield the labels of headers that differ and are not compared."""
    if recorded.left_out == proposed.left_out:
        return
    ours, theirs = recorded.left_out, proposed.left_out
    for name in sorted({*ours, *theirs}):
        entry = dropped(name) if ours.get(name) != theirs.get(name) else None
        if entry is not None:
            yield entry.label


def has_body(view: ActionView) -> bool:
    """Return whether a request has a body, as far as its head and what was read of it tell."""
    if view.parts.get("body_bytes") or "body" in view.parts:
        return True
    length = view.left_out.get("content-length", "0").strip()
    return "transfer-encoding" in view.left_out or length != "0"


def _lower_names(query: Any) -> frozenset[str]:
    names = _names(query) or ()
    return frozenset(unquote_plus(name).lower() for name in names)


def _is_same_but_for_separators(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    stable = ours.get(STABLE)
    return isinstance(stable, dict) and stable == theirs.get(STABLE)


def _is_same_body(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    sent = ours.get("body_sha256")
    return sent is not None and sent == theirs.get("body_sha256")


@lru_cache(maxsize=256)
def _ordered(keys: frozenset[str]) -> list[str]:
    def rank(key: str) -> tuple[int, str]:
        if key in _FIRST:
            return _FIRST.index(key), key
        return len(_FIRST) + (1 + _LAST.index(key) if key in _LAST else 0), key

    return sorted(keys, key=rank)


def _names(query: Any) -> list[str] | None:
    return [pair[0] for pair in query] if isinstance(query, list) else None


def _joined(query: Any) -> Any:
    return "&".join("=".join(pair) for pair in query) if isinstance(query, list) else query


def _is_form(parts: Mapping[str, Any]) -> bool:
    headers = parts.get("headers")
    kind = headers.get("content-type", "") if isinstance(headers, dict) else ""
    return str(kind).lower().startswith(_FORM)


def _spelled(place: Place) -> str:
    return "".join(step_in(word) for word in place).lstrip(".")


def _words(at: str) -> Place:
    try:
        return words_of(at)
    except InvalidInput:  # a key that cannot be quoted: no rule names it
        return (at,)


def _unshown(keyed: str | None) -> Any:
    return ABSENT if keyed is None else f"*** ({keyed[:8]})"
