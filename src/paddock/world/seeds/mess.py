"""Makes some of the documents odd, on purpose, and says of each which and how."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from paddock.world.seeds import oddities
from paddock.world.seeds.documents import Document, Oddity
from paddock.world.seeds.oddities import Case
from paddock.world.seeds.shapes import FieldRoles

Odd = Callable[[Case], tuple[str, str] | None]  # the field and what is odd; None: does not fit
ODDITIES: Mapping[str, Odd] = {
    "duplicate": oddities.duplicate,
    "missing": oddities.missing,
    "null": oddities.null,
    "empty": oddities.empty,
    "mojibake": oddities.mojibake,
    "right_to_left": oddities.right_to_left,
    "emoji": oddities.emoji,
    "zero_width": oddities.zero_width,
    "very_long": oddities.very_long,
    "decomposed": oddities.decomposed,
    "conflict": oddities.conflict,
    "date_format": oddities.date_format,
    "amount": oddities.amount,
    "text_number": oddities.text_number,
    "injection": oddities.injection,
    "leading_zeros": oddities.leading_zeros,
    "whitespace": oddities.whitespace,
    "dangling": oddities.dangling,
}
# These change the shape or the sense of a document: a stand-in may refuse what they make.
_HARD = ("missing", "null", "date_format", "amount", "text_number", "dangling")
MILD = tuple(name for name in ODDITIES if name not in _HARD)


class Mess(msgspec.Struct, frozen=True):
    """How odd the documents of one kind are to be."""

    kind: str
    seed: int
    share: float | Mapping[str, float]
    roles: FieldRoles
    pool: Sequence[str] = tuple(ODDITIES)  # to choose from, where the share is one of all

    def make(self, documents: Sequence[Document]) -> list[Oddity]:
        """Changes documents in place. No document gets two oddities."""
        chance = random.Random(f"{self.seed}/{self.kind}/mess")  # noqa: S311
        clean = list(range(len(documents)))
        chance.shuffle(clean)
        report: list[Oddity] = []
        for names in self._wanted(len(documents), chance):
            found = self._one(names, documents, clean, chance)
            if found is not None:
                report.append(found)
        return report

    def _wanted(self, count: int, chance: random.Random) -> list[Sequence[str]]:
        """For each oddity that is to be: which it may be, the first that fits."""
        if isinstance(self.share, Mapping):
            return [
                (name,)
                for name, share in self.share.items()
                for _ in range(int(count * share + 0.5))
            ]
        names = list(self.pool)
        chance.shuffle(names)
        return [
            names[at % len(names) :] + names[: at % len(names)]
            for at in range(int(count * self.share + 0.5))
        ]

    def _one(
        self,
        names: Sequence[str],
        documents: Sequence[Document],
        clean: list[int],
        chance: random.Random,
    ) -> Oddity | None:
        if not clean:
            return None
        at = clean.pop()
        document = documents[at]
        case = Case(document, self.roles, chance, [documents[one] for one in clean[:50]])
        for name in names:
            found = ODDITIES[name](case)
            if found is not None:
                return Oddity(self.kind, document["id"], found[0], name, found[1])
        return None  # it stays as it is
