"""Fields of one's own shape: `fields: {name: name, plan: {one_of: [free, pro]}}`."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.seeds import phrases
from paddock.world.seeds.documents import MAX_DEPTH, checked_name
from paddock.world.seeds.maker import Maker, iso
from paddock.world.seeds.shapes import FieldRoles, address, currency

_MAX_FIELDS = 200
_MAX_CHOICES = 1000
_MAX_LIST = 1000
_MAX_SIZE = 10_000
_MAX_NUMBER = 10**15
Make = Callable[[Maker], Any]


class OwnField(msgspec.Struct, frozen=True):
    """How one field is made, and what it is to those who make things odd."""

    make: Make
    role: str = ""  # as in FieldRoles: names, texts, dates, amounts, digits, or references
    kind: str = ""  # that it refers to
    size: int = 1  # the most values that it can come to


def parse_fields(words: Any, where: str, depth: int = MAX_DEPTH) -> dict[str, OwnField]:
    """Raises InvalidInput."""
    if not isinstance(words, Mapping) or len(words) > _MAX_FIELDS:
        raise InvalidInput(f"{where}: fields are a mapping of at most {_MAX_FIELDS}")
    if depth == 0:
        raise InvalidInput(f"{where}: fields are nested deeper than {MAX_DEPTH}")
    found = {}
    for name, word in words.items():
        checked = checked_name(name, "field", where)
        found[checked] = _parse(word, f"{where}: {checked[:60]}", depth)
    if _size(found) > _MAX_SIZE:  # known before one is made: lists in lists multiply
        raise InvalidInput(f"{where}: fields come to more than {_MAX_SIZE} values a document")
    return found


def with_fields(roles: FieldRoles, fields: Mapping[str, OwnField]) -> FieldRoles:
    """The roles of a shape to which these fields were added, or whose fields they replace."""
    found: dict[str, Any] = {
        role: tuple(one for one in getattr(roles, role) if one.partition(".")[0] not in fields)
        + tuple(name for name, own in fields.items() if own.role == role)
        for role in ("names", "texts", "dates", "amounts", "digits")
    }
    kept = {name: kind for name, kind in roles.references.items() if name not in fields}
    added = {name: own.kind for name, own in fields.items() if own.kind}
    return FieldRoles(**found, references=kept | added, is_person=roles.is_person)


def _parse(word: Any, where: str, depth: int) -> OwnField:
    if isinstance(word, str) and word in PLAIN:
        return PLAIN[word]
    if isinstance(word, Mapping) and len(word) == 1:
        name, value = next(iter(word.items()))
        if name in _WITH_VALUE:
            return _WITH_VALUE[name](value, where, depth)
    hint = f"there are {', '.join(PLAIN)}, and {{{', '.join(_WITH_VALUE)}: ...}}"
    raise InvalidInput(f"{where}: no such field: {word!r:.60}", hint=hint)


def _one_of(value: Any, where: str, _: int) -> OwnField:
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_CHOICES:
        raise InvalidInput(f"{where}: one_of is a list of 1 to {_MAX_CHOICES} values")
    choices = tuple(value)
    return OwnField(lambda maker: maker.chance.choice(choices))


def _always(value: Any, where: str, _: int) -> OwnField:
    return OwnField(lambda maker: value)


def _number(value: Any, where: str, _: int) -> OwnField:
    least, most = _range(value, where)
    return OwnField(lambda maker: maker.chance.randint(least, most), "amounts")


def _amount(value: Any, where: str, _: int) -> OwnField:
    least, most = _range(value, where)
    return OwnField(lambda maker: maker.amount(least, most), "amounts")


def _range(value: Any, where: str) -> tuple[int, int]:
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value)
    if not is_pair or not -_MAX_NUMBER <= value[0] <= value[1] <= _MAX_NUMBER:
        raise InvalidInput(f"{where}: is not [LEAST, MOST], two whole numbers")
    return value[0], value[1]


def _id_of(value: Any, where: str, _: int) -> OwnField:
    kind = checked_name(value, "kind", where)
    return OwnField(lambda maker: maker.reference(kind), "references", kind)


def _pattern(value: Any, where: str, _: int) -> OwnField:
    """`INV-####-??`: # is a digit, ? a capital letter."""
    text = checked_name(value, "pattern", where)

    def make(maker: Maker) -> str:
        return re.sub(r"[#?]", lambda found: maker.chance.choice(_SIGNS[found[0]]), text)

    return OwnField(make, "digits")


def _list(value: Any, where: str, depth: int) -> OwnField:
    if not isinstance(value, Mapping) or set(value) != {"of", "count"}:
        raise InvalidInput(f"{where}: list is {{of: FIELD, count: [LEAST, MOST]}}")
    least, most = _range(value["count"], where)
    if least < 0 or most > _MAX_LIST:
        raise InvalidInput(f"{where}: a list has 0 to {_MAX_LIST} entries")
    if depth <= 1:
        raise InvalidInput(f"{where}: is nested deeper than {MAX_DEPTH}")
    one = _parse(value["of"], where, depth - 1)
    return OwnField(
        lambda maker: [one.make(maker) for _ in range(maker.chance.randint(least, most))],
        size=1 + most * one.size,
    )


def _below(value: Any, where: str, depth: int) -> OwnField:
    fields = parse_fields(value, where, depth - 1)
    return OwnField(
        lambda maker: {name: one.make(maker) for name, one in fields.items()}, size=_size(fields)
    )


def _size(fields: Mapping[str, OwnField]) -> int:
    return 1 + sum(one.size for one in fields.values())


def _day(maker: Maker) -> str:
    return datetime.fromtimestamp(maker.moment(), UTC).strftime("%Y-%m-%d")


_SIGNS = {"#": string.digits, "?": string.ascii_uppercase}
PLAIN: Mapping[str, OwnField] = {
    "name": OwnField(lambda maker: maker.person(), "names"),
    "first_name": OwnField(lambda maker: maker.fake.first_name(), "names"),
    "last_name": OwnField(lambda maker: maker.fake.last_name(), "names"),
    "email": OwnField(lambda maker: maker.email(maker.person())),
    "phone": OwnField(lambda maker: maker.fake.phone_number(), "digits"),
    "company": OwnField(lambda maker: maker.fake.company(), "names"),
    "job": OwnField(lambda maker: maker.fake.job(), "texts"),
    "address": OwnField(address),
    "street": OwnField(lambda maker: maker.fake.street_address(), "names"),
    "city": OwnField(lambda maker: maker.fake.city(), "names"),
    "postal_code": OwnField(lambda maker: maker.fake.postcode(), "digits"),
    "country": OwnField(lambda maker: maker.country()),
    "currency": OwnField(currency),
    "word": OwnField(lambda maker: maker.fake.word()),
    "sentence": OwnField(lambda maker: maker.fake.sentence(), "texts"),
    "text": OwnField(lambda maker: maker.fake.paragraph(), "texts"),
    "note": OwnField(lambda maker: maker.one_of(*phrases.CUSTOMER_NOTES), "texts"),
    "boolean": OwnField(lambda maker: maker.often(0.5)),
    "date": OwnField(_day, "dates"),
    "time": OwnField(lambda maker: iso(maker.moment()), "dates"),
    "timestamp": OwnField(lambda maker: int(maker.moment())),
    "counter": OwnField(lambda maker: maker.number + 1),
}
_WITH_VALUE: Mapping[str, Callable[[Any, str, int], OwnField]] = {
    "one_of": _one_of,
    "always": _always,
    "number": _number,
    "amount": _amount,
    "id_of": _id_of,
    "pattern": _pattern,
    "list": _list,
    "fields": _below,
}
