"""Two answers to the same request, the real one and the stand-in's: what is different, and how
much of it is the same."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paddock.world.asgi import Headers
from paddock.world.fidelity.answer_shape import AnswerShape, above, is_word, title, type_of
from paddock.world.fidelity.id_map import IdMap, is_name
from paddock.world.overlay.bodies import is_secret, media_type
from paddock.world.overlay.times import is_time

# DifferenceKind one exchange is worth. Parts that an answer has not are left out of the sum.
WEIGHTS = {"status": 30, "type": 10, "headers": 10, "shape": 40, "values": 10}
_EXTRA = 0.5  # a field too many hurts a client less than one too few
_FEW = 2  # answers, before the words that were seen are taken for all that there are
_TELLING = frozenset({
    "location", "link", "etag", "retry-after", "www-authenticate", "allow", "content-disposition",
    "x-total-count", "x-request-id", "request-id", "idempotency-key", "last-modified",
})  # fmt: skip
_TEXTS = frozenset({"message", "detail", "details", "description", "error_description", "title"})
_MAX_DEPTH = 20


class DifferenceKind(enum.StrEnum):
    STATUS = "status"
    TYPE = "content type"
    HEADER = "header"
    MISSING = "missing"
    EXTRA = "extra"
    OTHER = "other type"
    NULL = "null"
    WORD = "word"
    VALUE = "value"


class AnswerDifference(msgspec.Struct, frozen=True):
    """One, as a sentence."""

    what: DifferenceKind
    text: str


class AnswerComparison(msgspec.Struct):
    """Of one exchange: a share from 0 to 1 for each part, and the differences."""

    parts: dict[str, float] = {}
    differences: list[AnswerDifference] = []

    @property
    def score(self) -> float:
        whole = sum(WEIGHTS[name] for name in self.parts)
        got = sum(WEIGHTS[name] * share for name, share in self.parts.items())
        return 100 * got / whole if whole else 100.0

    def note(self, what: DifferenceKind, text: str) -> None:
        self.differences.append(AnswerDifference(what, text))


class ComparedAnswer(msgspec.Struct, frozen=True):
    """An answer, read. `value` is its JSON, None when it has none."""

    status: int
    headers: Headers
    value: Any


def compare(
    real: ComparedAnswer, given: ComparedAnswer, usual: AnswerShape, names: IdMap
) -> AnswerComparison:
    """`usual` is the shape of all real answers of this kind: what only some have is not missed."""
    found = AnswerComparison()
    if not _same_status(real.status, given.status, found):
        return found  # what follows is about something else
    _compare_types(real, given, found)
    _compare_headers(real.headers, given.headers, found)
    if real.value is not None and given.value is not None:
        _compare_shapes(real.value, given.value, usual, found)
        _compare_values(real.value, given.value, names, found)
    elif real.value is not None:
        found.parts["shape"] = 0.0
        found.note(DifferenceKind.MISSING, "there is no JSON in the answer")
    return found


def _same_status(real: int, given: int, found: AnswerComparison) -> bool:
    is_class = real // 100 == given // 100
    found.parts["status"] = 1.0 if real == given else 0.5 if is_class else 0.0
    if real != given:
        found.note(DifferenceKind.STATUS, f"status {given}, really {real}")
    return is_class


def _compare_types(real: ComparedAnswer, given: ComparedAnswer, found: AnswerComparison) -> None:
    wanted, got = media_type(real.headers), media_type(given.headers)
    if wanted:
        found.parts["type"] = float(wanted == got)
        if wanted != got:
            found.note(DifferenceKind.TYPE, f"content type {got or 'missing'}, really {wanted}")


def _compare_headers(real: Headers, given: Headers, found: AnswerComparison) -> None:
    wanted = {name for name in _names(real) if name in _TELLING or "ratelimit" in name}
    missing = sorted(wanted - _names(given))
    if wanted:
        found.parts["headers"] = 1 - len(missing) / len(wanted)
    for name in missing:
        found.note(DifferenceKind.HEADER, f"missing header {name}")


def _names(headers: Headers) -> set[str]:
    return {name.decode("latin-1").lower() for name, _ in headers}


def _compare_shapes(real: Any, given: Any, usual: AnswerShape, found: AnswerComparison) -> None:
    wanted, got = AnswerShape.of([real]), AnswerShape.of([given])
    right = wrong = 0.0
    for place in wanted.fields:
        if not usual.is_always(place) and place not in got.fields:
            continue
        if place not in got.fields:
            if _can_be_seen(place, got):
                wrong += 1
                found.note(DifferenceKind.MISSING, f'missing field "{title(place)}"')
            continue
        flaw = _flaw(place, usual, got)
        right, wrong = right + 1 - flaw[0], wrong + flaw[0]
        if flaw[1] is not None:
            found.differences.append(flaw[1])
    for place in got.fields:
        if place not in usual.fields and _can_be_seen(place, usual):
            wrong += _EXTRA
            found.note(DifferenceKind.EXTRA, f'extra field "{title(place)}"')
    found.parts["shape"] = right / (right + wrong) if right + wrong else 1.0


def _can_be_seen(place: str, other: AnswerShape) -> bool:
    """Whether the other side has what the field would be in. DifferenceKind is below something that is
    missing, null or an empty list is not counted again."""
    holder = above(place)
    if holder is None or holder not in other.fields:
        return False
    inside = other.fields[holder].types
    return not place.endswith("[]") and "object" in inside


def _flaw(
    place: str, usual: AnswerShape, got: AnswerShape
) -> tuple[float, AnswerDifference | None]:
    known, here = usual.fields[place], got.fields[place]
    others = here.types - known.types
    if others - {"null"} and known.types != {"null"}:
        said, really = " or ".join(sorted(here.types)), " or ".join(sorted(known.types))
        text = f'field "{title(place)}" is {said}, really {really}'
        return 1.0, AnswerDifference(DifferenceKind.OTHER, text)
    if "null" in others:
        return 0.5, AnswerDifference(
            DifferenceKind.NULL, f'field "{title(place)}" is null, really never'
        )
    strange = sorted(here.words - known.words)
    if strange and known.words and not known.is_free and known.answers >= _FEW:
        words = ", ".join(sorted(known.words))
        text = f'field "{title(place)}" is {strange[0]!r}, really one of {words}'
        return 0.5, AnswerDifference(DifferenceKind.WORD, text)
    return 0.0, None


def _compare_values(real: Any, given: Any, names: IdMap, found: AnswerComparison) -> None:
    same = other = 0
    for place, one, two in _pairs("", real, given, 0):
        name = place.rpartition(".")[2].removesuffix("[]")
        if not _is_telling(name, one) or type_of(one) != type_of(two):
            continue
        if one == two or names.is_known(one, two):
            same += 1
        else:
            other += 1
            found.note(
                DifferenceKind.VALUE,
                f'field "{title(place)}" is {_short(two)}, really {_short(one)}',
            )
    if same + other:
        found.parts["values"] = same / (same + other)


def _pairs(place: str, real: Any, given: Any, depth: int) -> Iterator[tuple[str, Any, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(real, Mapping) and isinstance(given, Mapping):
        for name in real:
            if name in given:
                yield from _pairs(f"{place}.{name}", real[name], given[name], depth + 1)
    elif isinstance(real, list) and isinstance(given, list):
        for one, two in zip(real, given, strict=False) if len(real) == len(given) else ():
            yield from _pairs(f"{place}[]", one, two, depth + 1)
    elif not isinstance(real, Mapping | list) and not isinstance(given, Mapping | list):
        yield place, real, given


def _is_telling(name: str, value: Any) -> bool:
    """Whether a stand-in can be expected to have the same: no ids, no times, no prose."""
    if value is None or is_name(name, value) or is_time(value) or is_secret(name):
        return False
    if isinstance(value, str):
        is_link = "://" in value or value.startswith("/")
        return name not in _TEXTS and not is_link and (is_word(value) or len(value) <= 200)
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
