"""Definitions of the sections of a file, and how a value is read by one.

A section is defined once: a `Section` names its keys, how the value of each is read, which of them
must be there, and what to write in place of a mistake. The same definition reads a YAML file
(`policy.file`), reads what a Python caller passes (`parse_section`), and gives the JSON Schema.

Reading goes on after a mistake, so that all of them are reported at once. There are two kinds of
mistakes. Where no value can be made (another type, an unknown or missing key) the form returns
INVALID, and whatever contains it is not built either. Where the parts of a value do not fit
together, the function that builds it reports that and still returns a value, so that what contains
it is checked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import msgspec

from paddock.model.errors import InvalidInput
from paddock.model.sizes import parse_written_duration
from paddock.policy.problems import Path, spell_path, suggest

MAX_ENTRIES = 2000  # of one list
MAX_TEXT = 4096
INVALID: Final = object()

T = TypeVar("T")
JsonSchema = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Mistake(msgspec.Struct, frozen=True):
    """A part of a value that cannot be used, and what to write instead."""

    path: Path
    message: str
    hint: str | None = None
    of_key: bool = False  # the key itself is wrong, not its value


class Cursor(msgspec.Struct, frozen=True):
    """The position of a reader in a file. All cursors of one reading share the list of mistakes."""

    path: Path = ()
    mistakes: list[Mistake] = msgspec.field(default_factory=list)
    root: Section | None = None  # in which a key is searched that is unknown where it stands
    is_recorded: bool = False  # the text comes from a journal: what was once accepted is accepted

    def at(self, *keys: str | int) -> Cursor:
        return Cursor((*self.path, *keys), self.mistakes, self.root, self.is_recorded)

    def report(self, message: str, hint: str | None = None, *, of_key: bool = False) -> None:
        self.mistakes.append(Mistake(self.path, message, hint, of_key))

    def parse(self, parse: Callable[[Any], Any], value: Any) -> Any:
        """Return what `parse` makes of the value, or INVALID after reporting its InvalidInput."""
        try:
            return parse(value)
        except InvalidInput as error:
            self.report(error.message, error.hint)
            return INVALID

    def wrong_type(self, value: Any, wanted: str, hint: str) -> Any:
        # Whoever writes a secret where its source belongs must not find it in a log.
        shown = "the value" if self.path[:1] == ("secrets",) else show(value)
        self.report(f"{shown} is not {wanted}", hint)
        return INVALID


class ValueForm(Protocol):
    """One kind of value that a file can have."""

    def read(self, value: Any, cursor: Cursor) -> Any:
        """Return what the value means, or INVALID after reporting why it means nothing."""

    def json_schema(self) -> JsonSchema: ...


class Value(msgspec.Struct, frozen=True):
    """A single value, read by a function that raises InvalidInput."""

    parse: Callable[[Any], Any]
    schema: JsonSchema
    parse_recorded: Callable[[Any], Any] | None = None  # for texts of earlier versions

    def read(self, value: Any, cursor: Cursor) -> Any:
        parse = self.parse
        if cursor.is_recorded and self.parse_recorded is not None:
            parse = self.parse_recorded
        return cursor.parse(parse, value)

    def json_schema(self) -> JsonSchema:
        return self.schema


class ListOf(msgspec.Struct, frozen=True):
    """A list whose items are all of one form."""

    item: ValueForm
    most: int = MAX_ENTRIES
    least: int = 0
    hint: str = "write [one, two], or one item a line with a dash"

    def read(self, value: Any, cursor: Cursor) -> Any:
        if not isinstance(value, list | tuple):
            return cursor.wrong_type(value, "a list", self.hint)
        if len(value) < self.least:
            cursor.report("an empty list", f"write at least {self.least}")
            return INVALID
        if len(value) > self.most:
            cursor.report(f"more than {self.most} entries")
            return INVALID
        items = [self.item.read(item, cursor.at(n)) for n, item in enumerate(value)]
        return INVALID if _has_invalid(items) else items

    def json_schema(self) -> JsonSchema:
        schema = {"type": "array", "items": self.item.json_schema(), "maxItems": self.most}
        return {**schema, "minItems": self.least} if self.least else schema


class MapOf(msgspec.Struct, frozen=True):
    """A mapping from names to values of one form."""

    item: ValueForm
    most: int = MAX_ENTRIES
    hint: str = "write key: value"
    check_name: Callable[[str], Any] | None = None

    def read(self, value: Any, cursor: Cursor) -> Any:
        if not isinstance(value, Mapping):
            return cursor.wrong_type(value, "a mapping", self.hint)
        if len(value) > self.most:
            cursor.report(f"more than {self.most} entries")
            return INVALID
        items: dict[str, Any] = {}
        for name, item in value.items():
            inner = cursor.at(str(name))
            if self.check_name is not None and inner.parse(self.check_name, name) is INVALID:
                items[name] = INVALID
            else:
                items[name] = self.item.read(item, inner)
        return INVALID if _has_invalid(items.values()) else items

    def json_schema(self) -> JsonSchema:
        items = self.item.json_schema()
        return {"type": "object", "additionalProperties": items, "maxProperties": self.most}


class ByType(msgspec.Struct, frozen=True):
    """A value that may be a mapping or a list, or else something shorter that stands for it."""

    otherwise: ValueForm
    mapping: ValueForm | None = None
    sequence: ValueForm | None = None

    def read(self, value: Any, cursor: Cursor) -> Any:
        form = self.otherwise
        if self.mapping is not None and isinstance(value, Mapping):
            form = self.mapping
        elif self.sequence is not None and isinstance(value, list | tuple):
            form = self.sequence
        return form.read(value, cursor)

    def json_schema(self) -> JsonSchema:
        forms = (self.otherwise, self.mapping, self.sequence)
        return {"anyOf": [form.json_schema() for form in forms if form is not None]}


class Key(msgspec.Struct, frozen=True):
    """One key of a section. It must be there if `missing` says what to write where it is not."""

    form: ValueForm
    missing: str | None = None
    into: str | None = None  # the name of the argument for `build`, where it is not the key's
    may_be_empty: bool = False  # a key without a value counts like no key
    description: str | None = None

    def json_schema(self) -> JsonSchema:
        schema = self.form.json_schema()
        if self.may_be_empty:
            schema = {"anyOf": [schema, {"type": "null"}]}
        return {**schema, "description": self.description} if self.description else schema


class Section(msgspec.Struct, frozen=True):
    """A mapping with known keys. `build` gets the cursor, and the values that are there by name."""

    description: str
    build: Callable[..., Any]
    keys: Mapping[str, Key]
    hint: str = "write key: value"  # where something else than a mapping stands
    unknown_hints: Mapping[str, str] = {}  # for keys that people look for, and that are not here

    def read(self, value: Any, cursor: Cursor) -> Any:
        if not isinstance(value, Mapping):
            return cursor.wrong_type(value, "a mapping", self.hint)
        values: dict[str, Any] = {}
        is_valid = True
        for name, inner in value.items():
            key = self.keys.get(name)
            if key is None:
                hint = self._hint_for(str(name), cursor)
                cursor.at(str(name)[:60]).report("unknown key", hint, of_key=True)
                is_valid = False
            elif inner is not None or not key.may_be_empty:
                values[key.into or name] = key.form.read(inner, cursor.at(name))
        for name, key in self.keys.items():
            if key.missing is not None and name not in value:
                cursor.at(name).report("this key is missing", key.missing, of_key=True)
                is_valid = False
        if not is_valid or _has_invalid(values.values()):
            return INVALID
        return self.build(cursor, **values)

    def json_schema(self) -> JsonSchema:
        return {
            "type": "object",
            "description": self.description,
            "additionalProperties": False,
            "properties": {name: key.json_schema() for name, key in self.keys.items()},
            "required": [name for name, key in self.keys.items() if key.missing is not None],
        }

    def _hint_for(self, name: str, cursor: Cursor) -> str:
        """Return what to write for an unknown key."""
        from paddock.policy.synonyms import synonym  # only who has made a mistake waits for it

        if name in self.unknown_hints:
            return self.unknown_hints[name]
        if synonym(name, self.keys) is None:
            sections = self._sections_with(name)
            if not sections and cursor.root is not None:
                sections = cursor.root._sections_with(name)
            if sections:
                return f"it belongs under {' or '.join(sections)}"
        return suggest(name, self.keys)

    def _sections_with(self, name: str, path: Path = ()) -> list[str]:
        """Return the sections below this one that know the key. Lists and maps are left out."""
        names: list[str] = []
        for key, inner in self.keys.items():
            form = inner.form.mapping if isinstance(inner.form, ByType) else inner.form
            if isinstance(form, Section):
                if name in form.keys:
                    names.append(spell_path((*path, key)))
                names += form._sections_with(name, (*path, key))
        return names


def parse_section(form: ValueForm, value: Any, *path: str) -> Any:
    """Return what a Python caller's value for a section means. Raises InvalidInput for the first
    mistake; `path` is how messages name the section."""
    cursor = Cursor(path, root=form if isinstance(form, Section) else None)
    result = form.read(value, cursor)
    raise_first(cursor.mistakes)
    return result


def raise_first(mistakes: Iterable[Mistake]) -> None:
    """Raise InvalidInput for the first mistake, if there is one."""
    for mistake in mistakes:
        where = spell_path(mistake.path)
        raise InvalidInput(f"{where}: {mistake.message}", hint=mistake.hint)


def all_sections(form: ValueForm | None) -> Iterator[Section]:
    """Yield a section and every section inside of it."""
    match form:
        case Section():
            yield form
            for key in form.keys.values():
                yield from all_sections(key.form)
        case ListOf() | MapOf():
            yield from all_sections(form.item)
        case ByType():
            for inner in (form.otherwise, form.mapping, form.sequence):
                yield from all_sections(inner)


def as_given(_: Cursor, **values: Any) -> dict[str, Any]:
    """Build a section as the mapping of its keys."""
    return values


def builder(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `build` for values in which nothing can be at odds."""
    return lambda _, **values: make(**values)


def text(*, most: int | None = None, least: int = 0, hint: str = "put it in quotes") -> Value:
    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidInput(f"{show(value)} is not text", hint=hint)
        if len(value) < least:
            raise InvalidInput("an empty text", hint=hint)
        if most is not None and len(value) > most:
            raise InvalidInput(f"longer than {most} characters")
        return value

    schema: JsonSchema = {"type": "string"}
    if least:
        schema["minLength"] = least
    if most is not None:
        schema["maxLength"] = most
    return Value(parse, schema)


def short_name(hint: str = "put it in quotes") -> Value:
    """Return the form of a name: of an agent, a rule, a fault."""

    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidInput(f"{show(value)} is not text", hint=hint)
        if not _NAME.fullmatch(value):
            message = f"{show(value)} is not a name"
            raise InvalidInput(message, hint="use letters, digits, '.', '_' and '-'")
        return value

    return Value(parse, {"type": "string", "pattern": f"^{_NAME.pattern}$"})


def whole_number(least: int, most: int) -> Value:
    def parse(value: Any) -> int:
        if type(value) is not int:
            hint = "write it without quotes, fraction or unit"
            raise InvalidInput(f"{show(value)} is not a whole number", hint=hint)
        check_range(value, least, most)
        return value

    return Value(parse, {"type": "integer", "minimum": least, "maximum": most})


def truth() -> Value:
    def parse(value: Any) -> bool:
        if not isinstance(value, bool):
            hint = "write true or false without quotes"
            raise InvalidInput(f"{show(value)} is not true or false", hint=hint)
        return value

    return Value(parse, {"type": "boolean"})


def choice(*names: str) -> Value:
    def parse(value: Any) -> str:
        if isinstance(value, str) and value in names:
            return value
        raise InvalidInput(f"{show(value)} is not known here", hint=suggest(value, names))

    return Value(parse, {"enum": list(names)})


def mapping(hint: str = "write key: value") -> Value:
    """Return the form of a mapping whose content is checked elsewhere."""

    def parse(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{show(value)} is not a mapping", hint=hint)
        return dict(value)

    return Value(parse, {"type": "object"})


def duration() -> Value:
    """Return the form of a duration of at least a second, in seconds."""
    examples = {"type": "string", "examples": ["30s", "15m", "24h"]}
    return Value(parse_seconds, {"anyOf": [examples, {"type": "number"}]})


def parse_seconds(value: Any) -> float:
    """Return a duration of at least a second, in seconds. Raises InvalidInput."""
    seconds = parse_quantity(parse_written_duration, value)
    if seconds < 1:
        raise InvalidInput(f"{value!r} is less than one second", hint="write 1s or more")
    return seconds


def parse_quantity(parse: Callable[[Any, str], T], value: Any) -> T:
    """Return a size or a duration. Raises InvalidInput with a message that names no key."""
    try:
        return parse(value, "")
    except InvalidInput as error:
        raise InvalidInput(error.message.removeprefix(": "), hint=error.hint) from None


def checked_text(value: Any, hint: str) -> str:
    """Return a text of a sane length that is not empty. Raises InvalidInput."""
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT:
        return value
    raise InvalidInput(f"{str(value)[:60]!r} is not a text", hint=hint)


def show(value: Any) -> str:
    """Return a value as a message shows it."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def check_range(value: float, least: float, most: float) -> None:
    """Raise InvalidInput for a number out of range."""
    if value < least:
        hint = f"write a number of at least {least:g}"
        raise InvalidInput(f"{show(value)} is out of range", hint=hint)
    if value > most:
        hint = f"write a number of at most {most:g}"
        raise InvalidInput(f"{show(value)} is out of range", hint=hint)


def _has_invalid(values: Iterable[Any]) -> bool:
    return any(value is INVALID for value in values)
