"""What one made-up document is made of: chance that follows from the seed, and names that Faker
knows. Document number 7 of a seed is the same however many there are.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.context import token

T = TypeVar("T")
_DAY_S = 86_400
_PAST_DAYS = 720  # that things were made in, before the world's clock starts
_PROVIDERS = [
    f"faker.providers.{name}"
    for name in ("address", "company", "internet", "job", "lorem", "person", "phone_number")
]
_LAST_NAME_FIRST = frozenset({"hu", "ja", "ko", "zh"})
_DOMAINS = ("example.com", "example.net", "example.org")  # nobody's: mail to them goes nowhere


class Maker(msgspec.Struct):
    """Hands out the parts of one document after the other."""

    shape: str
    seed: int
    start: float
    locales: tuple[str, ...]
    ids_of: Callable[[str], Sequence[str]]  # of the documents that may be referred to
    number: int = 0
    locale: str = "en_US"
    chance: random.Random = msgspec.field(default_factory=random.Random)
    _fakes: dict[str, Any] = {}

    def begin(self, number: int) -> None:
        """From here on everything is for this document."""
        self.number = number
        self.chance = random.Random(f"{self.seed}/{self.shape}/{number}")  # noqa: S311
        self.locale = self.chance.choice(self.locales)
        self.fake.seed_instance(self.chance.getrandbits(64))

    @property
    def fake(self) -> Any:
        """One a locale: Faker's own choice among several is not bound to the seed."""
        if self.locale not in self._fakes:
            from faker import Faker

            self._fakes[self.locale] = Faker(self.locale, providers=_PROVIDERS, use_weighting=False)
        return self._fakes[self.locale]

    def id(self, prefix: str) -> str:
        return prefix + token(f"{self.seed}/{self.shape}/{self.number}", 14)

    def one_of(self, *choices: T) -> T:
        return self.chance.choice(choices)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def reference(self, kind: str) -> str:
        """The id of a document that exists. Raises InvalidInput when there is none."""
        ids = self.ids_of(kind)
        if not ids:
            hint = "a list of seeds may have {generate: ...} or documents of it, before this"
            raise InvalidInput(f"seed: {self.shape}: no {kind} to refer to", hint=hint)
        return self.chance.choice(ids)

    def person(self) -> str:
        """Without titles: what people write in a form."""
        first, last = self.fake.first_name(), self.fake.last_name()
        is_last_first = self.locale.partition("_")[0] in _LAST_NAME_FIRST
        return f"{last} {first}" if is_last_first else f"{first} {last}"

    def moment(self) -> float:
        """Whole seconds, before the world's time starts."""
        return self.start - self.chance.randrange(_DAY_S, _PAST_DAYS * _DAY_S)

    def amount(self, least: int = 100, most: int = 50_000) -> int:
        """In the smallest unit; small ones more often, as in life."""
        return round(least + (most - least) * self.chance.random() ** 3)

    def email(self, name: str) -> str:
        """An address that looks like the name and belongs to nobody."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        words = re.findall(r"[a-z]+", plain) or [re.sub(r"[^a-z0-9]", "", self.fake.user_name())]
        number = self.chance.randrange(100) if self.often(0.5) else ""
        return f"{'.'.join(words[:2])}{number}@{self.one_of(*_DOMAINS)}"

    def country(self) -> str:
        _, _, country = self.locale.partition("_")
        return country or "US"


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
