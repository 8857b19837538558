"""Data for a world: from files, from the paddock file itself, or made up from a number."""

from paddock.world.seeds.documents import Oddity, SeedData
from paddock.world.seeds.sources import load_seed

__all__ = ["Oddity", "SeedData", "load_seed"]
