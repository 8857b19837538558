"""The words of a generator, `{generate: customers, count: 500, seed: 1}`, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.seeds.custom_fields import OwnField, parse_fields
from paddock.world.seeds.documents import MAX_DOCUMENTS, checked_name
from paddock.world.seeds.mess import MILD, ODDITIES
from paddock.world.seeds.shapes import SHAPES

DEFAULT_COUNT = 20
DEFAULT_MESS = 0.1
_MAX_LOCALES = 20
_WORDS = ("generate", "count", "seed", "mess", "locale", "fields", "kind")


class Recipe(msgspec.Struct, frozen=True):
    """What is to be made, how many, and how odd."""

    shape: str  # customers, or a name of one's own
    kind: str  # that the documents are stored as
    count: int
    seed: int
    mess: float | Mapping[str, float] = DEFAULT_MESS  # share of all, or by oddity
    pool: tuple[str, ...] = MILD  # that the odd ones are chosen from
    locales: tuple[str, ...] = ("en_US",)
    fields: Mapping[str, OwnField] = {}


def parse_recipe(words: Mapping[str, Any], seed: int, where: str) -> Recipe:
    """`seed` is the world's, for a recipe that has none of its own. Raises InvalidInput."""
    for word in words:
        if word not in _WORDS:
            hint = f"there are {', '.join(_WORDS)}"
            raise InvalidInput(f"{where}: no word {str(word)[:60]!r} for a generator", hint=hint)
    shape = checked_name(words["generate"], "kind", where)
    fields = parse_fields(words.get("fields", {}), where)
    if shape not in SHAPES and not fields:
        hint = f"there are {', '.join(SHAPES)}; any other name needs fields: {{...}}"
        raise InvalidInput(f"{where}: nothing is known about {shape[:60]!r}", hint=hint)
    return Recipe(
        shape=shape,
        kind=checked_name(words.get("kind", shape), "kind", where),
        count=_whole(words.get("count", DEFAULT_COUNT), "count", where, most=MAX_DOCUMENTS),
        seed=_whole(words.get("seed", seed), "seed", where, most=2**63),
        mess=_mess(words.get("mess", DEFAULT_MESS), where),
        pool=tuple(ODDITIES) if "mess" in words else MILD,
        locales=_locales(words.get("locale", "en_US"), where),
        fields=fields,
    )


def _whole(value: Any, word: str, where: str, *, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidInput(f"{where}: {word} is not a whole number from 0 to {most}")
    return value


def _mess(value: Any, where: str) -> float | Mapping[str, float]:
    if not isinstance(value, Mapping):
        return _share(value, "mess", where)
    unknown = sorted(str(name) for name in value if name not in ODDITIES)
    if unknown:
        hint = f"there are {', '.join(ODDITIES)}"
        raise InvalidInput(f"{where}: mess: no oddity {unknown[0][:60]!r}", hint=hint)
    shares = {name: _share(share, f"mess: {name}", where) for name, share in value.items()}
    if sum(shares.values()) > 1:
        raise InvalidInput(f"{where}: mess: the shares come to more than 1")
    return shares


def _share(value: Any, word: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{where}: {word} is a share from 0 to 1")
    return float(value)


def _locales(value: Any, where: str) -> tuple[str, ...]:
    from faker.config import AVAILABLE_LOCALES

    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not 0 < len(names) <= _MAX_LOCALES:
        raise InvalidInput(f"{where}: locale is one name, or 1 to {_MAX_LOCALES} of them")
    for name in names:
        if not isinstance(name, str) or name not in AVAILABLE_LOCALES:
            raise InvalidInput(f"{where}: no locale {str(name)[:40]!r}", hint="as in de_DE, ja_JP")
    return tuple(names)
