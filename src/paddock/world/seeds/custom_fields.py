"""Custom fields of a recipe: `fields: {name: name, plan: {one_of: [free, pro]}}`."""

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


class CustomField(msgspec.Struct, frozen=True):
    """A field, with its role for oddities."""

    make: Make
    role: str = ""  # as in FieldRoles: names, texts, dates, amounts, digits, or references
    kind: str = ""  # that it refers to
    size: int = 1  # the maximal number of values in it


def parse_fields(value: Any, where: str, depth: int = MAX_DEPTH) -> dict[str, CustomField]:
    """Parse the fields of a recipe. Raises InvalidInput."""
    if not isinstance(value, Mapping) or len(value) > _MAX_FIELDS:
        raise InvalidInput(f"{where}: fields are a mapping of at most {_MAX_FIELDS}")
    if depth == 0:
        raise InvalidInput(f"{where}: fields are nested deeper than {MAX_DEPTH}")
    fields = {}
    for name, description in value.items():
        checked = checked_name(name, "field", where)
        fields[checked] = _parse(description, f"{where}: {checked[:60]}", depth)
    if _size(fields) > _MAX_SIZE:  # lists within lists multiply
        raise InvalidInput(f"{where}: fields come to more than {_MAX_SIZE} values a document")
    return fields


def with_fields(roles: FieldRoles, fields: Mapping[str, CustomField]) -> FieldRoles:
    """Return the roles of a shape's fields, after these fields were added or have replaced some."""
    by_role: dict[str, Any] = {}
    for role in ("names", "texts", "dates", "amounts", "digits"):
        old = [name for name in getattr(roles, role) if name.partition(".")[0] not in fields]
        new = [name for name, field in fields.items() if field.role == role]
        by_role[role] = (*old, *new)
    references = {name: kind for name, kind in roles.references.items() if name not in fields}
    references |= {name: field.kind for name, field in fields.items() if field.kind}
    return FieldRoles(**by_role, references=references, is_person=roles.is_person)


def _parse(description: Any, where: str, depth: int) -> CustomField:
    if isinstance(description, str) and description in PLAIN:
        return PLAIN[description]
    if isinstance(description, Mapping) and len(description) == 1:
        name, value = next(iter(description.items()))
        if name in _WITH_VALUE:
            return _WITH_VALUE[name](value, where, depth)
    hint = f"there are {', '.join(PLAIN)}, and {{{', '.join(_WITH_VALUE)}: ...}}"
    raise InvalidInput(f"{where}: no such field: {description!r:.60}", hint=hint)


def _one_of(value: Any, where: str, _: int) -> CustomField:
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_CHOICES:
        raise InvalidInput(f"{where}: one_of is a list of 1 to {_MAX_CHOICES} values")
    choices = tuple(value)
    return CustomField(lambda maker: maker.random.choice(choices))


def _always(value: Any, where: str, _: int) -> CustomField:
    return CustomField(lambda maker: value)


def _number(value: Any, where: str, _: int) -> CustomField:
    least, most = _range(value, where)
    return CustomField(lambda maker: maker.random.randint(least, most), "amounts")


def _amount(value: Any, where: str, _: int) -> CustomField:
    least, most = _range(value, where)
    return CustomField(lambda maker: maker.amount(least, most), "amounts")


def _range(value: Any, where: str) -> tuple[int, int]:
    is_pair = (
        isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
    )
    if not is_pair or not -_MAX_NUMBER <= value[0] <= value[1] <= _MAX_NUMBER:
        raise InvalidInput(f"{where}: is not [LEAST, MOST], two whole numbers")
    return value[0], value[1]


def _id_of(value: Any, where: str, _: int) -> CustomField:
    kind = checked_name(value, "kind", where)
    return CustomField(lambda maker: maker.reference(kind), "references", kind)


def _pattern(value: Any, where: str, _: int) -> CustomField:
    """Parse a pattern such as `INV-####-??`: # is a digit, ? a capital letter."""
    text = checked_name(value, "pattern", where)

    def make(maker: Maker) -> str:
        return re.sub(r"[#?]", lambda match: maker.random.choice(_SIGNS[match[0]]), text)

    return CustomField(make, "digits")


def _list(value: Any, where: str, depth: int) -> CustomField:
    if not isinstance(value, Mapping) or set(value) != {"of", "count"}:
        raise InvalidInput(f"{where}: list is {{of: FIELD, count: [LEAST, MOST]}}")
    least, most = _range(value["count"], where)
    if least < 0 or most > _MAX_LIST:
        raise InvalidInput(f"{where}: a list has 0 to {_MAX_LIST} entries")
    if depth <= 1:
        raise InvalidInput(f"{where}: is nested deeper than {MAX_DEPTH}")
    entry = _parse(value["of"], where, depth - 1)
    return CustomField(
        lambda maker: [entry.make(maker) for _ in range(maker.random.randint(least, most))],
        size=1 + most * entry.size,
    )


def _nested(value: Any, where: str, depth: int) -> CustomField:
    fields = parse_fields(value, where, depth - 1)
    return CustomField(
        lambda maker: {name: field.make(maker) for name, field in fields.items()},
        size=_size(fields),
    )


def _size(fields: Mapping[str, CustomField]) -> int:
    return 1 + sum(field.size for field in fields.values())


def _day(maker: Maker) -> str:
    return datetime.fromtimestamp(maker.timestamp(), UTC).strftime("%Y-%m-%d")


_SIGNS = {"#": string.digits, "?": string.ascii_uppercase}
PLAIN: Mapping[str, CustomField] = {
    "name": CustomField(lambda maker: maker.person(), "names"),
    "first_name": CustomField(lambda maker: maker.fake.first_name(), "names"),
    "last_name": CustomField(lambda maker: maker.fake.last_name(), "names"),
    "email": CustomField(lambda maker: maker.email(maker.person())),
    "phone": CustomField(lambda maker: maker.fake.phone_number(), "digits"),
    "company": CustomField(lambda maker: maker.fake.company(), "names"),
    "job": CustomField(lambda maker: maker.fake.job(), "texts"),
    "address": CustomField(address),
    "street": CustomField(lambda maker: maker.fake.street_address(), "names"),
    "city": CustomField(lambda maker: maker.fake.city(), "names"),
    "postal_code": CustomField(lambda maker: maker.fake.postcode(), "digits"),
    "country": CustomField(lambda maker: maker.country()),
    "currency": CustomField(currency),
    "word": CustomField(lambda maker: maker.fake.word()),
    "sentence": CustomField(lambda maker: maker.fake.sentence(), "texts"),
    "text": CustomField(lambda maker: maker.fake.paragraph(), "texts"),
    "note": CustomField(lambda maker: maker.one_of(*phrases.CUSTOMER_NOTES), "texts"),
    "boolean": CustomField(lambda maker: maker.often(0.5)),
    "date": CustomField(_day, "dates"),
    "time": CustomField(lambda maker: iso(maker.timestamp()), "dates"),
    "timestamp": CustomField(lambda maker: int(maker.timestamp())),
    "counter": CustomField(lambda maker: maker.number + 1),
}
_WITH_VALUE: Mapping[str, Callable[[Any, str, int], CustomField]] = {
    "one_of": _one_of,
    "always": _always,
    "number": _number,
    "amount": _amount,
    "id_of": _id_of,
    "pattern": _pattern,
    "list": _list,
    "fields": _nested,
}
