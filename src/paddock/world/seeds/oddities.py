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

OddField = tuple[str, str] | None  # a field and what is odd about it; None if it does not fit
Change = tuple[Any, str] | None  # a value and what is odd about it; None if it does not fit


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


def conflict(case: OddityCase) -> OddField:
    field = case.roles.texts[0] if case.roles.texts else None
    if field is None or case.get(field) is None:
        return None
    first, second = case.random.choice(phrases.CONFLICTS)
    case.set(field, f"{first}\n{second}")
    return field, f"says {first!r} and {second!r}"


# The following change the value of one field: they return the new value and a description.


def _set_null(_: OddityCase, __: Any) -> Change:
    return None, "is null"


def _set_empty(_: OddityCase, __: Any) -> Change:
    return "", "is empty"


def _mojibake(_: OddityCase, text: str) -> Change:
    return _accented(text).encode().decode("latin-1"), "read wrongly"


def _right_to_left(case: OddityCase, text: str) -> Change:
    return f"{case.random.choice(_RIGHT_TO_LEFT)} {text}", "runs from right to left"


def _emoji(case: OddityCase, text: str) -> Change:
    return f"{text} {case.random.choice(_EMOJI)}", "has an emoji"


def _zero_width(case: OddityCase, text: str) -> Change:
    sign = case.random.choice(_ZERO_WIDTH)
    middle = (len(text) + 1) // 2
    return text[:middle] + sign + text[middle:], f"has U+{ord(sign):04X}, which nobody sees"


def _very_long(_: OddityCase, text: str) -> Change:
    text += " "
    return (text * (_LONG // len(text) + 1))[:_LONG], f"has {_LONG} characters"


def _decomposed(_: OddityCase, text: str) -> Change:
    """Use decomposed Unicode, which looks like the composed form and is not equal to it."""
    text = _accented(text)
    apart = unicodedata.normalize("NFD", text)
    if apart == unicodedata.normalize("NFC", text):
        return None
    return apart, "is in Unicode form NFD"


def _date_format(case: OddityCase, text: str) -> Change:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    milliseconds = int(time.timestamp() * 1000)
    forms = [time.strftime(form) for form in ("%d.%m.%Y", "%m/%d/%y", "%d/%m/%Y %H:%M", "%Y%m%d")]
    without_zone = time.strftime("%Y-%m-%d %H:%M:%S")
    form = case.random.choice([*forms, milliseconds, without_zone])
    return form, f"is written {form!r}"


def _amount(case: OddityCase, value: Any) -> Change:
    value = case.random.choice((-abs(value) or -1, 0, *_HUGE))
    return value, f"is {value}"


def _text_number(_: OddityCase, value: Any) -> Change:
    text = f"{value / 100:,.2f}"
    return text, f"is the text {text!r}"


def _injection(case: OddityCase, text: Any) -> Change:
    """Add text that wants an agent to do something else. Its description is the word it wants."""
    canary = f"{case.random.choice(_CANARIES)}-{token(case.document['id'], 6).upper()}"
    wish = case.random.choice(phrases.INJECTIONS).format(canary=canary)
    return f"{text}\n{wish}".strip(), canary


def _leading_zeros(_: OddityCase, text: str) -> Change:
    zeros = re.sub(r"\d", "0", text, count=2)
    return (zeros, f"is {zeros!r}") if "0" in zeros else None


def _whitespace(case: OddityCase, text: str) -> Change:
    form = case.random.choice(("  {}", "{}\u00a0", "\t{}\r\n", " {} "))
    return form.format(text), "has white space around it"


def _dangling(case: OddityCase, _: Any) -> Change:
    gone = f"gone_{token(case.document['id'], 14)}"
    return gone, f"names {gone}, which does not exist"


class FieldOddity(msgspec.Struct, frozen=True):
    """An oddity of one field. It fits fields of these roles."""

    change: Callable[[OddityCase, Any], Change]
    roles: tuple[str, ...] = ("names", "texts")
    is_text: bool = True  # only fields that have text now

    def __call__(self, case: OddityCase) -> OddField:
        fields = [name for role in self.roles for name in getattr(case.roles, role)]
        field = case.texts(*fields) if self.is_text else case.pick(fields)
        if field is None:
            return None
        changed = self.change(case, case.get(field))
        if changed is None:
            return None
        value, what = changed
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


_ANY_TEXT = ("names", "texts", "digits")
ODDITIES: Mapping[str, Callable[[OddityCase], OddField]] = {
    "duplicate": duplicate,
    "missing": missing,
    "null": FieldOddity(_set_null, ("names", "texts", "dates", "digits"), is_text=False),
    "empty": FieldOddity(_set_empty, _ANY_TEXT),
    "mojibake": FieldOddity(_mojibake),  # UTF-8 read as Latin-1
    "right_to_left": FieldOddity(_right_to_left),
    "emoji": FieldOddity(_emoji),
    "zero_width": FieldOddity(_zero_width),
    "very_long": FieldOddity(_very_long, ("texts", "names")),
    "decomposed": FieldOddity(_decomposed),
    "conflict": conflict,
    "date_format": FieldOddity(_date_format, ("dates",)),
    "amount": FieldOddity(_amount, ("amounts",), is_text=False),
    "text_number": FieldOddity(_text_number, ("amounts",), is_text=False),
    "injection": FieldOddity(_injection, ("texts",), is_text=False),
    "leading_zeros": FieldOddity(_leading_zeros, ("digits",)),
    "whitespace": FieldOddity(_whitespace, _ANY_TEXT),
    "dangling": FieldOddity(_dangling, ("references",), is_text=False),
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
