"""Generated documents: recipes such as `{generate: customers, count: 500, seed: 1}`, and the
documents that they make. The same recipe gives the same documents, with the same Faker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import HostCannot, InvalidInput
from paddock.model.version import install_command
from paddock.world.context import Context, token
from paddock.world.seeds.custom_fields import CustomField, parse_fields, with_fields
from paddock.world.seeds.documents import MAX_DOCUMENTS, Document, Intake, checked_name
from paddock.world.seeds.maker import Maker
from paddock.world.seeds.oddities import MILD, ODDITIES, Mess
from paddock.world.seeds.shapes import NEEDS, SHAPES, FieldRoles, SeedShape

DEFAULT_COUNT = 20
DEFAULT_MESS = 0.1
_MAX_LOCALES = 20
_RECIPE_KEYS = ("generate", "count", "seed", "mess", "locale", "fields", "kind")


class Recipe(msgspec.Struct, frozen=True):
    """A description of the documents to generate."""

    shape: str  # such as customers, or a custom name
    kind: str  # under which the documents are stored
    count: int
    seed: int
    mess: float | Mapping[str, float] = DEFAULT_MESS  # share of odd documents, or shares by oddity
    pool: tuple[str, ...] = MILD  # oddities to choose from
    locales: tuple[str, ...] = ("en_US",)
    fields: Mapping[str, CustomField] = {}


def parse_recipe(part: Mapping[str, Any], seed: int, where: str) -> Recipe:
    """Parse a recipe. `seed` is the world's, for a recipe without one. Raises InvalidInput."""
    for key in part:
        if key not in _RECIPE_KEYS:
            hint = f"there are {', '.join(_RECIPE_KEYS)}"
            raise InvalidInput(f"{where}: no word {str(key)[:60]!r} for a generator", hint=hint)
    shape = checked_name(part["generate"], "kind", where)
    fields = parse_fields(part.get("fields", {}), where)
    if shape not in SHAPES and not fields:
        hint = f"there are {', '.join(SHAPES)}; any other name needs fields: {{...}}"
        raise InvalidInput(f"{where}: nothing is known about {shape[:60]!r}", hint=hint)
    return Recipe(
        shape=shape,
        kind=checked_name(part.get("kind", shape), "kind", where),
        count=_parse_count(part.get("count", DEFAULT_COUNT), "count", where, most=MAX_DOCUMENTS),
        seed=_parse_count(part.get("seed", seed), "seed", where, most=2**63),
        mess=_parse_mess(part.get("mess", DEFAULT_MESS), where),
        pool=tuple(ODDITIES) if "mess" in part else MILD,
        locales=_parse_locales(part.get("locale", "en_US"), where),
        fields=fields,
    )


def _parse_count(value: Any, key: str, where: str, *, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidInput(f"{where}: {key} is not a whole number from 0 to {most}")
    return value


def _parse_mess(value: Any, where: str) -> float | Mapping[str, float]:
    if not isinstance(value, Mapping):
        return _parse_share(value, "mess", where)
    unknown = sorted(str(name) for name in value if name not in ODDITIES)
    if unknown:
        hint = f"there are {', '.join(ODDITIES)}"
        raise InvalidInput(f"{where}: mess: no oddity {unknown[0][:60]!r}", hint=hint)
    shares = {name: _parse_share(share, f"mess: {name}", where) for name, share in value.items()}
    if sum(shares.values()) > 1:
        raise InvalidInput(f"{where}: mess: the shares come to more than 1")
    return shares


def _parse_share(value: Any, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{where}: {key} is a share from 0 to 1")
    return float(value)


def _parse_locales(value: Any, where: str) -> tuple[str, ...]:
    from faker.config import AVAILABLE_LOCALES

    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not 0 < len(names) <= _MAX_LOCALES:
        raise InvalidInput(f"{where}: locale is one name, or 1 to {_MAX_LOCALES} of them")
    for name in names:
        if not isinstance(name, str) or name not in AVAILABLE_LOCALES:
            raise InvalidInput(f"{where}: no locale {str(name)[:40]!r}", hint="as in de_DE, ja_JP")
    return tuple(names)


_REFERRED_TO = ("customers", "users", "products", "channels")  # come first
_PER_REFERENCE = 4  # documents that refer to one that was not asked for
_MAX_REFERENCES = 100


def generate(
    parts: Sequence[tuple[Mapping[str, Any], str]], intake: Intake, context: Context
) -> None:
    """Add the documents of the recipes. Raises InvalidInput, and HostCannot without Faker."""
    try:
        import faker  # noqa: F401
    except ImportError:
        hint = install_command("world")
        raise HostCannot("made-up data needs Faker, which is not installed", hint=hint) from None
    recipes = [parse_recipe(part, context.seed, where) for part, where in parts]
    generator = _Generator(intake, context)
    for recipe in recipes:
        generator.kinds.setdefault(recipe.shape, recipe.kind)
    for recipe in sorted(recipes, key=_rank):
        generator.make(recipe)


def _rank(recipe: Recipe) -> int:
    """Return a sort key. Custom shapes may refer to any other, so they come last."""
    if recipe.shape in _REFERRED_TO:
        return 0
    return 1 if recipe.shape in SHAPES else 2


class _Generator(msgspec.Struct):
    """Generates documents, with those that they refer to."""

    intake: Intake
    context: Context
    kinds: dict[str, str] = {}  # by shape
    _ids: dict[str, list[str]] = {}

    def make(self, recipe: Recipe) -> None:
        referenced = [field.kind for field in recipe.fields.values() if field.kind]
        for shape in (*NEEDS.get(recipe.shape, ()), *referenced):
            self._ensure(shape, recipe)
        documents, roles = self._documents(recipe)
        mess = Mess(recipe.kind, recipe.seed, recipe.mess, roles, recipe.pool)
        self.intake.data.report += mess.apply(documents)
        self.intake.add(recipe.kind, documents, f"seed: {recipe.shape}")
        self._ids.pop(recipe.kind, None)

    def _documents(self, recipe: Recipe) -> tuple[list[Document], FieldRoles]:
        shape = SHAPES.get(
            recipe.shape, SeedShape(f"{recipe.shape}_", lambda maker: {}, FieldRoles())
        )
        first = len(self.intake.data.get(recipe.kind, ()))
        maker = Maker(recipe.shape, recipe.seed, self.context.start, recipe.locales, self.ids)
        documents = []
        for number in range(first, first + recipe.count):
            maker.begin(number)
            custom = {name: field.make(maker) for name, field in recipe.fields.items()}
            documents.append({"id": maker.id(shape.prefix), **shape.make(maker), **custom})
        return documents, with_fields(shape.roles, recipe.fields)

    def _ensure(self, shape: str, recipe: Recipe) -> None:
        """Generate documents to refer to, if there are none."""
        if shape in SHAPES and not self.ids(shape) and shape != recipe.shape and recipe.count:
            count = min(1 + recipe.count // _PER_REFERENCE, _MAX_REFERENCES)
            kind = self.kinds.setdefault(shape, shape)
            self.make(replace(recipe, shape=shape, kind=kind, count=count, mess=0.0, fields={}))

    def ids(self, shape: str) -> list[str]:
        kind = self.kinds.get(shape, shape)
        if kind not in self._ids:
            documents = self.intake.data.get(kind, [])
            self._ids[kind] = [self._id(kind, *each) for each in enumerate(documents)]
        return self._ids[kind]

    def _id(self, kind: str, number: int, document: Document) -> str:
        """Return the id of a document. One from a file may have none and gets one."""
        if "id" not in document:
            document["id"] = f"{kind}_{token(f'{self.context.seed}/{kind}/{number}', 12)}"
        return str(document["id"])
