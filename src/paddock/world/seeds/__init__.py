"""Seed data for a world: from files, from the paddock file itself, or generated.

`load_seed` takes the value of `seed:` and returns documents by kind. Files and written-out
documents (`sources`, `documents`) come first, so that generated ones can refer to them. A generator
(`generator`) makes documents of a shape (`shapes`, `custom_fields`) with Faker, and then makes some
of them odd on purpose (`oddities`): duplicates, broken encodings, prompt injections. The same seed
number gives the same documents.
"""

from paddock.world.seeds.documents import Oddity, SeedData
from paddock.world.seeds.sources import load_seed

__all__ = ["Oddity", "SeedData", "load_seed"]
