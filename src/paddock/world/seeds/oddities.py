"""Documents made odd on purpose: each oddity changes one document, or returns None if it does not
fit. `Mess` applies them to a share of the documents and reports what it did."""

from __future__ import annotations

import copy
import random
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from paddock.world.context import token
from paddock.world.seeds import phrases
from paddock.world.seeds.documents import Document, Oddity
from paddock.world.seeds.shapes import FieldRoles

_LONG = 20_000  # characters
_ACCENTS = str.maketrans("aeiouncAEIOU", "áéíöüñçÁÉÍÖÜ")
_RIGHT_TO_LEFT = (
    "\u202b\u0645\u062d\u0645\u062f \u0627\u0644\u0633\u064a\u062f\u202c",
    "\u202b\u05d9\u05d5\u05e1\u05e3 \u05db\u05d4\u05df\u202c",
    "\u202egnp.eliforp",
)
_EMOJI = (
    "\U0001f469\U0001f3fd\u200d\U0001f680",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f9fe\U0001f44d",
)
_ZERO_WIDTH = ("\u200b", "\ufeff", "\u2060", "\u00ad")
_CANARIES = ("PINEAPPLE", "LANTERN", "WALNUT", "HARBOUR", "VELVET", "COPPER")
_HUGE = (999_999_999_999, 2**53 + 1)

OddField = tuple[str, str] | None  # the field and what is odd about it; None if it does not fit


class OddityCase(msgspec.Struct, frozen=True):
    """A document to be made odd, and others that stay as they are."""

    document: Document
    roles: FieldRoles
    random: random.Random
    clean: Sequence[Document]

    def texts(self, *fields: str) -> str | None:
        """Choose a field that has text."""
        filled = [name for name in fields if isinstance(self.get(name), str) and self.get(name)]
        return self.random.choice(filled) if filled else None

    def get(self, field: str) -> Any:
        value: Any = self.document
        for name in field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def set(self, field: str, value: Any) -> None:
        *above, last = field.split(".")
        holder = self.document
        for name in above:
            holder = holder[name]
        holder[last] = value

    def pick(self, fields: Sequence[str]) -> str | None:
        """Choose a field that has a value."""
        filled = [name for name in fields if self.get(name) is not None]
        return self.random.choice(filled) if filled else None


def duplicate(case: OddityCase) -> OddField:
    """Make it the same person or thing as another document, with another id and spelling."""
    if not case.clean:
        return None
    other = case.random.choice(case.clean)
    id = case.document["id"]
    case.document.clear()
    case.document.update(copy.deepcopy({**other, "id": id}))
    field = case.texts(*case.roles.names)
    if field is None:
        return "id", f"the same as {other['id']}"
    spelling = _respell(case.get(field), case.random)
    case.set(field, spelling)
    if case.roles.is_person and isinstance(case.get("email"), str):
        case.set("email", case.get("email").upper())
    return field, f"the same as {other['id']}, spelled {spelling!r}"


def missing(case: OddityCase) -> OddField:
    fields = [name for name in case.document if name != "id"]
    if not fields:
        return None
    field = case.random.choice(fields)
    del case.document[field]
    return field, "is not there"


def null(case: OddityCase) -> OddField:
    field = case.pick((*case.roles.names, *case.roles.texts, *case.roles.dates, *case.roles.digits))
    return _put(case, field, None, "is null")


def empty(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.names, *case.roles.texts, *case.roles.digits)
    return _put(case, field, "", "is empty")


def mojibake(case: OddityCase) -> OddField:
    """Read UTF-8 as Latin-1."""
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    return _put(case, field, _accented(case.get(field)).encode().decode("latin-1"), "read wrongly")


def right_to_left(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    mixed = f"{case.random.choice(_RIGHT_TO_LEFT)} {case.get(field)}"
    return _put(case, field, mixed, "runs from right to left")


def emoji(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    return _put(case, field, f"{case.get(field)} {case.random.choice(_EMOJI)}", "has an emoji")


def zero_width(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    text, sign = case.get(field), case.random.choice(_ZERO_WIDTH)
    middle = (len(text) + 1) // 2
    what = f"has U+{ord(sign):04X}, which nobody sees"
    return _put(case, field, text[:middle] + sign + text[middle:], what)


def very_long(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.texts, *case.roles.names)
    if field is None:
        return None
    text = case.get(field) + " "
    return _put(case, field, (text * (_LONG // len(text) + 1))[:_LONG], f"has {_LONG} characters")


def decomposed(case: OddityCase) -> OddField:
    """Use decomposed Unicode, which looks like the composed form and is not equal to it."""
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    text = _accented(case.get(field))
    apart = unicodedata.normalize("NFD", text)
    if apart == unicodedata.normalize("NFC", text):
        return None
    return _put(case, field, apart, "is in Unicode form NFD")


def conflict(case: OddityCase) -> OddField:
    field = case.roles.texts[0] if case.roles.texts else None
    if field is None or case.get(field) is None:
        return None
    first, second = case.random.choice(phrases.CONFLICTS)
    return _put(case, field, f"{first}\n{second}", f"says {first!r} and {second!r}")


def date_format(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.dates)
    if field is None:
        return None
    time = datetime.fromisoformat(case.get(field))
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    forms: list[Any] = [
        time.strftime("%d.%m.%Y"),
        time.strftime("%m/%d/%y"),
        time.strftime("%d/%m/%Y %H:%M"),
        time.strftime("%Y%m%d"),
        int(time.timestamp() * 1000),
        time.strftime("%Y-%m-%d %H:%M:%S"),  # without a zone
    ]
    form = case.random.choice(forms)
    return _put(case, field, form, f"is written {form!r}")


def amount(case: OddityCase) -> OddField:
    field = case.pick(case.roles.amounts)
    if field is None:
        return None
    value = case.random.choice((-abs(case.get(field)) or -1, 0, *_HUGE))
    return _put(case, field, value, f"is {value}")


def text_number(case: OddityCase) -> OddField:
    field = case.pick(case.roles.amounts)
    if field is None:
        return None
    value = f"{case.get(field) / 100:,.2f}"
    return _put(case, field, value, f"is the text {value!r}")


def injection(case: OddityCase) -> OddField:
    """Add text that wants an agent to do something else. Its description is the word it wants."""
    field = case.pick(case.roles.texts)
    if field is None:
        return None
    canary = f"{case.random.choice(_CANARIES)}-{token(case.document['id'], 6).upper()}"
    wish = case.random.choice(phrases.INJECTIONS).format(canary=canary)
    return _put(case, field, f"{case.get(field)}\n{wish}".strip(), canary)


def leading_zeros(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.digits)
    if field is None:
        return None
    value = re.sub(r"\d", "0", case.get(field), count=2)
    return _put(case, field, value, f"is {value!r}") if "0" in value else None


def whitespace(case: OddityCase) -> OddField:
    field = case.texts(*case.roles.names, *case.roles.texts, *case.roles.digits)
    if field is None:
        return None
    value = case.random.choice(("  {}", "{}\u00a0", "\t{}\r\n", " {} ")).format(case.get(field))
    return _put(case, field, value, "has white space around it")


def dangling(case: OddityCase) -> OddField:
    field = case.pick(list(case.roles.references))
    if field is None:
        return None
    gone = f"gone_{token(case.document['id'], 14)}"
    return _put(case, field, gone, f"names {gone}, which does not exist")


def _put(case: OddityCase, field: str | None, value: Any, what: str) -> OddField:
    if field is None:
        return None
    case.set(field, value)
    return field, what


def _accented(text: str) -> str:
    return text.translate(_ACCENTS) if text.isascii() else text


def _respell(name: str, generator: random.Random) -> str:
    first, _, last = name.partition(" ")
    middle = len(name) // 2
    swapped = name[: middle - 1] + name[middle : middle + 1] + name[middle - 1 : middle]
    forms = [name.upper(), name.lower(), swapped + name[middle + 1 :] if middle else name]
    if last:
        forms += [f"{last}, {first}", f"{first[0]}. {last}", f"{first}  {last}"]
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    other = [form for form in (*forms, plain) if form.strip() and form != name]
    return generator.choice(other) if other else f"{name}."


MakeOdd = Callable[[OddityCase], OddField]
ODDITIES: Mapping[str, MakeOdd] = {
    "duplicate": duplicate,
    "missing": missing,
    "null": null,
    "empty": empty,
    "mojibake": mojibake,
    "right_to_left": right_to_left,
    "emoji": emoji,
    "zero_width": zero_width,
    "very_long": very_long,
    "decomposed": decomposed,
    "conflict": conflict,
    "date_format": date_format,
    "amount": amount,
    "text_number": text_number,
    "injection": injection,
    "leading_zeros": leading_zeros,
    "whitespace": whitespace,
    "dangling": dangling,
}
# These change the shape or the meaning of a document, so a stand-in may refuse it.
_HARD = ("missing", "null", "date_format", "amount", "text_number", "dangling")
MILD = tuple(name for name in ODDITIES if name not in _HARD)


class Mess(msgspec.Struct, frozen=True):
    """Makes a share of the documents of one kind odd."""

    kind: str
    seed: int
    share: float | Mapping[str, float]
    roles: FieldRoles
    pool: Sequence[str] = tuple(ODDITIES)  # to choose from, if the share is a number

    def apply(self, documents: Sequence[Document]) -> list[Oddity]:
        """Change documents in place, each at most once, and report the changes."""
        generator = random.Random(f"{self.seed}/{self.kind}/mess")  # noqa: S311
        clean = list(range(len(documents)))
        generator.shuffle(clean)
        report: list[Oddity] = []
        for names in self._candidates(len(documents), generator):
            oddity = self._make_one_odd(names, documents, clean, generator)
            if oddity is not None:
                report.append(oddity)
        return report

    def _candidates(self, count: int, generator: random.Random) -> list[Sequence[str]]:
        """Return, for each document to be made odd, the oddities to try in order."""
        if isinstance(self.share, Mapping):
            return [
                (name,)
                for name, share in self.share.items()
                for _ in range(int(count * share + 0.5))
            ]
        names = list(self.pool)
        generator.shuffle(names)
        starts = [number % len(names) for number in range(int(count * self.share + 0.5))]
        return [names[start:] + names[:start] for start in starts]

    def _make_one_odd(
        self,
        names: Sequence[str],
        documents: Sequence[Document],
        clean: list[int],
        generator: random.Random,
    ) -> Oddity | None:
        if not clean:
            return None
        document = documents[clean.pop()]
        others = [documents[index] for index in clean[:50]]
        case = OddityCase(document, self.roles, generator, others)
        for name in names:
            change = ODDITIES[name](case)
            if change is not None:
                return Oddity(self.kind, document["id"], change[0], name, change[1])
        return None
