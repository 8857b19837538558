"""The parts of generated documents: random values derived from the seed, and Faker's names.
Document number 7 of a seed is the same however many there are."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import msgspec

from paddock.model.errors import InvalidInput
from paddock.world.context import token

T = TypeVar("T")
_DAY_S = 86_400
_PAST_DAYS = 720  # before the world's clock starts, in which things were created
_PROVIDERS = [
    f"faker.providers.{name}"
    for name in ("address", "company", "internet", "job", "lorem", "person", "phone_number")
]
_LAST_NAME_FIRST = frozenset({"hu", "ja", "ko", "zh"})
_DOMAINS = ("example.com", "example.net", "example.org")  # reserved: mail to them goes nowhere


class Maker(msgspec.Struct):
    """Makes the parts of one document after the other."""

    shape: str
    seed: int
    start: float
    locales: tuple[str, ...]
    ids_of: Callable[[str], Sequence[str]]  # ids of the documents of a kind, to refer to
    number: int = 0
    locale: str = "en_US"
    random: Random = msgspec.field(default_factory=Random)
    _fakes: dict[str, Any] = {}

    def begin(self, number: int) -> None:
        """Start the document with this number."""
        self.number = number
        self.random = Random(f"{self.seed}/{self.shape}/{number}")  # noqa: S311
        self.locale = self.random.choice(self.locales)
        self.fake.seed_instance(self.random.getrandbits(64))

    @property
    def fake(self) -> Any:
        """The Faker of the locale. Its own choice among locales would not follow the seed."""
        if self.locale not in self._fakes:
            from faker import Faker

            self._fakes[self.locale] = Faker(self.locale, providers=_PROVIDERS, use_weighting=False)
        return self._fakes[self.locale]

    def id(self, prefix: str) -> str:
        return prefix + token(f"{self.seed}/{self.shape}/{self.number}", 14)

    def one_of(self, *choices: T) -> T:
        return self.random.choice(choices)

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def reference(self, kind: str) -> str:
        """Return the id of an existing document. Raises InvalidInput when there is none."""
        ids = self.ids_of(kind)
        if not ids:
            hint = "a list of seeds may have {generate: ...} or documents of it, before this"
            raise InvalidInput(f"seed: {self.shape}: no {kind} to refer to", hint=hint)
        return self.random.choice(ids)

    def person(self) -> str:
        """Return a name without titles, as people write it in a form."""
        first, last = self.fake.first_name(), self.fake.last_name()
        is_last_first = self.locale.partition("_")[0] in _LAST_NAME_FIRST
        return f"{last} {first}" if is_last_first else f"{first} {last}"

    def timestamp(self) -> float:
        """Return a time before the world's clock starts, in whole seconds."""
        return self.start - self.random.randrange(_DAY_S, _PAST_DAYS * _DAY_S)

    def amount(self, least: int = 100, most: int = 50_000) -> int:
        """Return an amount in the smallest unit. Small ones are more frequent."""
        return round(least + (most - least) * self.random.random() ** 3)

    def email(self, name: str) -> str:
        """Return an address that looks like the name and belongs to nobody."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        names = re.findall(r"[a-z]+", plain) or [re.sub(r"[^a-z0-9]", "", self.fake.user_name())]
        number = self.random.randrange(100) if self.often(0.5) else ""
        return f"{'.'.join(names[:2])}{number}@{self.one_of(*_DOMAINS)}"

    def country(self) -> str:
        _, _, country = self.locale.partition("_")
        return country or "US"


def iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
