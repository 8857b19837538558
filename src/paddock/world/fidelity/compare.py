"""The comparison of two answers to one request, the real one and the stand-in's."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paddock.world.asgi import Headers
from paddock.world.fidelity.answer_shape import (
    AnswerShape,
    is_enum_value,
    parent_path,
    title,
    type_name,
)
from paddock.world.fidelity.id_map import IdMap, is_id_field
from paddock.world.overlay.bodies import is_secret, media_type
from paddock.world.overlay.times import is_time

# The weights of the parts of a score. Parts that an answer does not have are left out.
WEIGHTS = {"status": 30, "type": 10, "headers": 10, "shape": 40, "values": 10}
_EXTRA = 0.5  # an extra field hurts a client less than a missing one
_MIN_ANSWERS = 2  # before their values are taken for a whole enumeration
_RELEVANT_HEADERS = frozenset({
    "location", "link", "etag", "retry-after", "www-authenticate", "allow", "content-disposition",
    "x-total-count", "x-request-id", "request-id", "idempotency-key", "last-modified",
})  # fmt: skip
_PROSE_FIELDS = frozenset(
    {"message", "detail", "details", "description", "error_description", "title"}
)
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
    """One difference, as a sentence."""

    kind: DifferenceKind
    text: str


class AnswerComparison(msgspec.Struct):
    """The result for one exchange: a share from 0 to 1 for each part, and the differences."""

    parts: dict[str, float] = {}
    differences: list[AnswerDifference] = []

    @property
    def score(self) -> float:
        maximum = sum(WEIGHTS[name] for name in self.parts)
        reached = sum(WEIGHTS[name] * share for name, share in self.parts.items())
        return 100 * reached / maximum if maximum else 100.0

    def add(self, kind: DifferenceKind, text: str) -> None:
        self.differences.append(AnswerDifference(kind, text))


class ComparedAnswer(msgspec.Struct, frozen=True):
    """One of the two answers."""

    status: int
    headers: Headers
    value: Any  # its JSON, or None


def compare(
    real: ComparedAnswer, given: ComparedAnswer, usual: AnswerShape, names: IdMap
) -> AnswerComparison:
    """Compare two answers. `usual` is the shape of all real answers of this endpoint: a field that
    only some of them have is not required."""
    result = AnswerComparison()
    if not _compare_status(real.status, given.status, result):
        return result  # the bodies are not comparable
    _compare_types(real, given, result)
    _compare_headers(real.headers, given.headers, result)
    if real.value is not None and given.value is not None:
        _compare_shapes(real.value, given.value, usual, result)
        _compare_values(real.value, given.value, names, result)
    elif real.value is not None:
        result.parts["shape"] = 0.0
        result.add(DifferenceKind.MISSING, "there is no JSON in the answer")
    return result


def _compare_status(real: int, given: int, result: AnswerComparison) -> bool:
    is_same_class = real // 100 == given // 100
    if real == given:
        result.parts["status"] = 1.0
    else:
        result.parts["status"] = 0.5 if is_same_class else 0.0
        result.add(DifferenceKind.STATUS, f"status {given}, really {real}")
    return is_same_class


def _compare_types(real: ComparedAnswer, given: ComparedAnswer, result: AnswerComparison) -> None:
    wanted, got = media_type(real.headers), media_type(given.headers)
    if wanted:
        result.parts["type"] = float(wanted == got)
        if wanted != got:
            result.add(DifferenceKind.TYPE, f"content type {got or 'missing'}, really {wanted}")


def _compare_headers(real: Headers, given: Headers, result: AnswerComparison) -> None:
    wanted = {name for name in _names(real) if name in _RELEVANT_HEADERS or "ratelimit" in name}
    missing = sorted(wanted - _names(given))
    if wanted:
        result.parts["headers"] = 1 - len(missing) / len(wanted)
    for name in missing:
        result.add(DifferenceKind.HEADER, f"missing header {name}")


def _names(headers: Headers) -> set[str]:
    return {name.decode("latin-1").lower() for name, _ in headers}


def _compare_shapes(real: Any, given: Any, usual: AnswerShape, result: AnswerComparison) -> None:
    wanted, got = AnswerShape.of([real]), AnswerShape.of([given])
    right = wrong = 0.0
    for path in wanted.fields:
        if not usual.is_in_all(path) and path not in got.fields:
            continue
        if path not in got.fields:
            if _has_parent(path, got):
                wrong += 1
                result.add(DifferenceKind.MISSING, f'missing field "{title(path)}"')
            continue
        penalty, difference = _compare_field(path, usual, got)
        right += 1 - penalty
        wrong += penalty
        if difference is not None:
            result.differences.append(difference)
    for path in got.fields:
        if path not in usual.fields and _has_parent(path, usual):
            wrong += _EXTRA
            result.add(DifferenceKind.EXTRA, f'extra field "{title(path)}"')
    result.parts["shape"] = right / (right + wrong) if right + wrong else 1.0


def _has_parent(path: str, other: AnswerShape) -> bool:
    """Return whether the other answer has the object that the field would be in. Fields below
    something that is missing, null or an empty list are not counted again."""
    parent = parent_path(path)
    if parent is None or parent not in other.fields:
        return False
    return not path.endswith("[]") and "object" in other.fields[parent].types


def _compare_field(
    path: str, usual: AnswerShape, got: AnswerShape
) -> tuple[float, AnswerDifference | None]:
    expected, actual = usual.fields[path], got.fields[path]
    others = actual.types - expected.types
    if others - {"null"} and expected.types != {"null"}:
        types, real_types = " or ".join(sorted(actual.types)), " or ".join(sorted(expected.types))
        text = f'field "{title(path)}" is {types}, really {real_types}'
        return 1.0, AnswerDifference(DifferenceKind.OTHER, text)
    if "null" in others:
        return 0.5, AnswerDifference(
            DifferenceKind.NULL, f'field "{title(path)}" is null, really never'
        )
    strange = sorted(actual.values - expected.values)
    if (
        strange
        and expected.values
        and not expected.is_free_text
        and expected.answers >= _MIN_ANSWERS
    ):
        values = ", ".join(sorted(expected.values))
        text = f'field "{title(path)}" is {strange[0]!r}, really one of {values}'
        return 0.5, AnswerDifference(DifferenceKind.WORD, text)
    return 0.0, None


def _compare_values(real: Any, given: Any, names: IdMap, result: AnswerComparison) -> None:
    same = other = 0
    for path, expected, actual in _pairs("", real, given, 0):
        name = path.rpartition(".")[2].removesuffix("[]")
        if not _is_comparable(name, expected) or type_name(expected) != type_name(actual):
            continue
        if expected == actual or names.are_same(expected, actual):
            same += 1
        else:
            other += 1
            result.add(
                DifferenceKind.VALUE,
                f'field "{title(path)}" is {_short(actual)}, really {_short(expected)}',
            )
    if same + other:
        result.parts["values"] = same / (same + other)


def _pairs(path: str, real: Any, given: Any, depth: int) -> Iterator[tuple[str, Any, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(real, Mapping) and isinstance(given, Mapping):
        for name in real:
            if name in given:
                yield from _pairs(f"{path}.{name}", real[name], given[name], depth + 1)
    elif isinstance(real, list) and isinstance(given, list):
        if len(real) == len(given):
            for first, second in zip(real, given, strict=True):
                yield from _pairs(f"{path}[]", first, second, depth + 1)
    elif not isinstance(real, Mapping | list) and not isinstance(given, Mapping | list):
        yield path, real, given


def _is_comparable(name: str, value: Any) -> bool:
    """Return whether a stand-in should have the same value: no id, time, secret or prose."""
    if value is None or is_id_field(name, value) or is_time(value) or is_secret(name):
        return False
    if isinstance(value, str):
        is_link = "://" in value or value.startswith("/")
        return (
            name not in _PROSE_FIELDS
            and not is_link
            and (is_enum_value(value) or len(value) <= 200)
        )
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
