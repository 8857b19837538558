"""Makes documents up from recipes. The same recipe, the same documents, with the same Faker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from paddock.model.errors import HostCannot
from paddock.model.version import install_command
from paddock.world.context import Context, token
from paddock.world.seeds.custom_fields import with_fields
from paddock.world.seeds.documents import Document, Intake
from paddock.world.seeds.maker import Maker
from paddock.world.seeds.mess import Mess
from paddock.world.seeds.recipes import Recipe, parse_recipe
from paddock.world.seeds.shapes import NEEDS, SHAPES, FieldRoles, SeedShape

_ORDER = ("customers", "users", "products", "channels")  # are referred to, so they come first
_PER_OTHER = 4  # documents that refer to one that nobody asked for
_MOST_OTHERS = 100


def generate(
    parts: Sequence[tuple[Mapping[str, Any], str]], intake: Intake, context: Context
) -> None:
    """Takes in what the recipes make. Raises InvalidInput, and HostCannot without Faker."""
    try:
        import faker  # noqa: F401
    except ImportError:
        hint = install_command("world")
        raise HostCannot("made-up data needs Faker, which is not installed", hint=hint) from None
    recipes = [parse_recipe(words, context.seed, where) for words, where in parts]
    kitchen = _Kitchen(intake, context)
    for recipe in recipes:
        kitchen.kinds.setdefault(recipe.shape, recipe.kind)
    for recipe in sorted(recipes, key=_rank):
        kitchen.make(recipe)


def _rank(recipe: Recipe) -> int:
    """Own shapes may refer to any other, so they come last, in the order of the file."""
    if recipe.shape in _ORDER:
        return 0
    return 1 if recipe.shape in SHAPES else 2


class _Kitchen(msgspec.Struct):
    intake: Intake
    context: Context
    kinds: dict[str, str] = {}  # under which a shape's documents are kept
    _ids: dict[str, list[str]] = {}

    def make(self, recipe: Recipe) -> None:
        wanted = [own.kind for own in recipe.fields.values() if own.kind]
        for shape in (*NEEDS.get(recipe.shape, ()), *wanted):
            self._have(shape, recipe)
        documents, roles = self._documents(recipe)
        mess = Mess(recipe.kind, recipe.seed, recipe.mess, roles, recipe.pool)
        self.intake.data.report += mess.make(documents)
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
            own = {name: one.make(maker) for name, one in recipe.fields.items()}
            documents.append({"id": maker.id(shape.prefix), **shape.make(maker), **own})
        return documents, with_fields(shape.roles, recipe.fields)

    def _have(self, shape: str, asking: Recipe) -> None:
        """What is referred to exists: it is made where nobody asked for it."""
        if shape in SHAPES and not self.ids(shape) and shape != asking.shape and asking.count:
            count = min(1 + asking.count // _PER_OTHER, _MOST_OTHERS)
            kind = self.kinds.setdefault(shape, shape)
            self.make(replace(asking, shape=shape, kind=kind, count=count, mess=0.0, fields={}))

    def ids(self, shape: str) -> list[str]:
        kind = self.kinds.get(shape, shape)
        if kind not in self._ids:
            self._ids[kind] = [self._id(kind, *one) for one in enumerate(self._there(kind))]
        return self._ids[kind]

    def _there(self, kind: str) -> list[Document]:
        return self.intake.data.get(kind, [])

    def _id(self, kind: str, number: int, document: Document) -> str:
        """One from a file may have none; it gets one, so that it can be referred to."""
        if "id" not in document:
            document["id"] = f"{kind}_{token(f'{self.context.seed}/{kind}/{number}', 12)}"
        return str(document["id"])
