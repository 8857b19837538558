"""From the words `seed:` of the paddock file to documents. Files and made-up data have their own
modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paddock.model.errors import InvalidInput
from paddock.world.context import Context
from paddock.world.seeds.documents import Intake, SeedData
from paddock.world.seeds.files import FileWords, Place, read_file

_MAX_PARTS = 100
_HINT = "a path, documents by kind, {file: ...}, {generate: ...}, or a list of those"


def load_seed(words: Any, context: Context, project: Path, *, takes_sql: bool = False) -> SeedData:
    """The documents that the words mean. Files and what is written out come first, so that what is
    made up can refer to it, wherever it stands in a list. With `takes_sql` a file of SQL is the
    document `{file: path}` of the kind `sql`. Raises InvalidInput."""
    parts = words if isinstance(words, list | tuple) else [words]
    if len(parts) > _MAX_PARTS:
        raise InvalidInput(f"seed: at most {_MAX_PARTS} parts, here are {len(parts)}")
    intake = Intake()
    recipes = []
    for number, part in enumerate(parts, 1):
        where = f"seed, part {number}" if len(parts) > 1 else "seed"
        if _is_recipe(part):
            recipes.append((part, where))
        else:
            _take(part, intake, Place(project, takes_sql), where)
    if recipes:
        from paddock.world.seeds.generator import generate  # Faker takes a while to load

        generate(recipes, intake, context)
    return intake.data


def _is_recipe(part: Any) -> bool:
    # A list below `generate` is documents of a kind that has this name.
    return isinstance(part, Mapping) and isinstance(part.get("generate"), str)


def _take(part: Any, intake: Intake, place: Place, where: str) -> None:
    match part:
        case str() if part:
            read_file(FileWords(part), intake, place, where)
        case Mapping() if isinstance(part.get("file"), str):
            read_file(FileWords.parse(part, where), intake, place, where)
        case Mapping():
            for kind, documents in part.items():
                intake.add(kind, documents, where)
        case _:
            raise InvalidInput(f"{where}: is not a seed", hint=_HINT)
