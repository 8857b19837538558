"""The ways in which a document can be odd. Each changes one, or gives None: it does not fit."""

from __future__ import annotations

import copy
import random
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from paddock.world.context import token
from paddock.world.seeds import phrases
from paddock.world.seeds.documents import Document
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

Found = tuple[str, str] | None


class Case(msgspec.Struct, frozen=True):
    """One document that is to be odd, and others that are not."""

    document: Document
    roles: FieldRoles
    chance: random.Random
    clean: Sequence[Document]

    def texts(self, *fields: str) -> str | None:
        """A field that has text now."""
        found = [one for one in fields if isinstance(self.get(one), str) and self.get(one)]
        return self.chance.choice(found) if found else None

    def get(self, field: str) -> Any:
        value: Any = self.document
        for name in field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def set(self, field: str, value: Any) -> None:
        *above, last = field.split(".")
        place = self.document
        for name in above:
            place = place[name]
        place[last] = value

    def pick(self, fields: Sequence[str]) -> str | None:
        there = [one for one in fields if self.get(one) is not None]
        return self.chance.choice(there) if there else None


def duplicate(case: Case) -> Found:
    """The same person or thing again, under another id and spelled in another way."""
    if not case.clean:
        return None
    other = case.chance.choice(case.clean)
    own = case.document["id"]
    case.document.clear()
    case.document.update(copy.deepcopy({**other, "id": own}))
    field = case.texts(*case.roles.names)
    if field is None:
        return "id", f"the same as {other['id']}"
    spelled = _respelled(case.get(field), case.chance)
    case.set(field, spelled)
    if case.roles.is_person and isinstance(case.get("email"), str):
        case.set("email", case.get("email").upper())
    return field, f"the same as {other['id']}, spelled {spelled!r}"


def missing(case: Case) -> Found:
    fields = [name for name in case.document if name != "id"]
    if not fields:
        return None
    field = case.chance.choice(fields)
    del case.document[field]
    return field, "is not there"


def null(case: Case) -> Found:
    field = case.pick((*case.roles.names, *case.roles.texts, *case.roles.dates, *case.roles.digits))
    return _put(case, field, None, "is null")


def empty(case: Case) -> Found:
    field = case.texts(*case.roles.names, *case.roles.texts, *case.roles.digits)
    return _put(case, field, "", "is empty")


def mojibake(case: Case) -> Found:
    """UTF-8 that somebody read as Latin-1."""
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    return _put(case, field, _accented(case.get(field)).encode().decode("latin-1"), "read wrongly")


def right_to_left(case: Case) -> Found:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    mixed = f"{case.chance.choice(_RIGHT_TO_LEFT)} {case.get(field)}"
    return _put(case, field, mixed, "runs from right to left")


def emoji(case: Case) -> Found:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    return _put(case, field, f"{case.get(field)} {case.chance.choice(_EMOJI)}", "has an emoji")


def zero_width(case: Case) -> Found:
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    text, sign = case.get(field), case.chance.choice(_ZERO_WIDTH)
    middle = (len(text) + 1) // 2
    said = f"has U+{ord(sign):04X}, which nobody sees"
    return _put(case, field, text[:middle] + sign + text[middle:], said)


def very_long(case: Case) -> Found:
    field = case.texts(*case.roles.texts, *case.roles.names)
    if field is None:
        return None
    text = case.get(field) + " "
    return _put(case, field, (text * (_LONG // len(text) + 1))[:_LONG], f"has {_LONG} characters")


def decomposed(case: Case) -> Found:
    """Looks like the composed form, and is not equal to it."""
    field = case.texts(*case.roles.names, *case.roles.texts)
    if field is None:
        return None
    text = _accented(case.get(field))
    apart = unicodedata.normalize("NFD", text)
    if apart == unicodedata.normalize("NFC", text):
        return None
    return _put(case, field, apart, "is in Unicode form NFD")


def conflict(case: Case) -> Found:
    field = case.roles.texts[0] if case.roles.texts else None
    if field is None or case.get(field) is None:
        return None
    first, second = case.chance.choice(phrases.CONFLICTS)
    return _put(case, field, f"{first}\n{second}", f"says {first!r} and {second!r}")


def date_format(case: Case) -> Found:
    field = case.texts(*case.roles.dates)
    if field is None:
        return None
    moment = datetime.fromisoformat(case.get(field))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    forms: list[Any] = [
        moment.strftime("%d.%m.%Y"),
        moment.strftime("%m/%d/%y"),
        moment.strftime("%d/%m/%Y %H:%M"),
        moment.strftime("%Y%m%d"),
        int(moment.timestamp() * 1000),
        moment.strftime("%Y-%m-%d %H:%M:%S"),  # of which zone?
    ]
    form = case.chance.choice(forms)
    return _put(case, field, form, f"is written {form!r}")


def amount(case: Case) -> Found:
    field = case.pick(case.roles.amounts)
    if field is None:
        return None
    value = case.chance.choice((-abs(case.get(field)) or -1, 0, *_HUGE))
    return _put(case, field, value, f"is {value}")


def text_number(case: Case) -> Found:
    field = case.pick(case.roles.amounts)
    if field is None:
        return None
    value = f"{case.get(field) / 100:,.2f}"
    return _put(case, field, value, f"is the text {value!r}")


def injection(case: Case) -> Found:
    """Text that wants an agent to do something else. `said` is the word that it asks for."""
    field = case.pick(case.roles.texts)
    if field is None:
        return None
    canary = f"{case.chance.choice(_CANARIES)}-{token(case.document['id'], 6).upper()}"
    wish = case.chance.choice(phrases.INJECTIONS).format(canary=canary)
    return _put(case, field, f"{case.get(field)}\n{wish}".strip(), canary)


def leading_zeros(case: Case) -> Found:
    field = case.texts(*case.roles.digits)
    if field is None:
        return None
    value = re.sub(r"\d", "0", case.get(field), count=2)
    return _put(case, field, value, f"is {value!r}") if "0" in value else None


def whitespace(case: Case) -> Found:
    field = case.texts(*case.roles.names, *case.roles.texts, *case.roles.digits)
    if field is None:
        return None
    value = case.chance.choice(("  {}", "{}\u00a0", "\t{}\r\n", " {} ")).format(case.get(field))
    return _put(case, field, value, "has white space around it")


def dangling(case: Case) -> Found:
    field = case.pick(list(case.roles.references))
    if field is None:
        return None
    gone = f"gone_{token(case.document['id'], 14)}"
    return _put(case, field, gone, f"names {gone}, which does not exist")


def _put(case: Case, field: str | None, value: Any, said: str) -> Found:
    if field is None:
        return None
    case.set(field, value)
    return field, said


def _accented(text: str) -> str:
    return text.translate(_ACCENTS) if text.isascii() else text


def _respelled(name: str, chance: random.Random) -> str:
    first, _, last = name.partition(" ")
    middle = len(name) // 2
    swapped = name[: middle - 1] + name[middle : middle + 1] + name[middle - 1 : middle]
    forms = [name.upper(), name.lower(), swapped + name[middle + 1 :] if middle else name]
    if last:
        forms += [f"{last}, {first}", f"{first[0]}. {last}", f"{first}  {last}"]
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    other = [form for form in (*forms, plain) if form.strip() and form != name]
    return chance.choice(other) if other else f"{name}."
