"""The arguments of a call on their way in: bounded, read as JSON, checked, brought to one form.

The form is what policy decides on and what an approval is bound to, so it is also all that the
tool gets: reading it again gives the same form. Loading this file does not load pydantic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.plain import said

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

MAX_BYTES = 4 << 20  # a model writes far less; a file's content still fits
_MAX_COMPLAINTS = 10
_Dump = Callable[["BaseModel"], str]


def json_text(raw: str | Mapping[str, Any]) -> str:
    """Return the arguments as JSON text of bounded size. What has no JSON form is refused."""
    if isinstance(raw, str):
        text = raw.strip() or "{}"  # models send nothing at all for a tool without parameters
    elif isinstance(raw, Mapping):
        from pydantic_core import to_json

        try:
            text = to_json(dict(raw)).decode()
        except Exception as error:  # an object's own methods run here
            raise InvalidArguments(f"The arguments are no JSON: {said(error)}") from None
    else:
        raise InvalidArguments("The arguments are not an object.")
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidArguments(f"The arguments are larger than {MAX_BYTES} bytes.")
    return text


def object_of(raw: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as a JSON object of its own: nobody else holds a part of it."""
    text = json_text(raw)
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"The arguments are not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise InvalidArguments("The arguments are not a JSON object.")
    return value


def normal_form(
    model: type[BaseModel], raw: str | Mapping[str, Any], dump: _Dump, *, is_strict: bool
) -> dict[str, Any]:
    """Return what the model makes of the arguments, defaults included, as JSON that it reads again
    as the same."""
    given = json_text(raw)
    if "NaN" in given or "Infinity" in given:
        object_of(given)  # pydantic would take them for null
    text = dump(validated(model, given, is_strict=is_strict))
    form = object_of(text)
    again = dump(validated(model, text, is_strict=is_strict))
    if again != text and not _is_same(object_of(again), form):
        raise InvalidArguments("The arguments are read differently each time.")
    return form


def made_from(
    model: type[BaseModel], arguments: Mapping[str, Any], dump: _Dump, *, is_strict: bool
) -> BaseModel:
    """Return what the model makes of arguments in normal form, made anew: nobody else holds a part
    of it. Raises InvalidArguments for any others (a person's edit), because then the decision was
    not about what the tool would get."""
    made = validated(model, json_text(arguments), is_strict=is_strict)
    _check_form(object_of(dump(made)), arguments)
    return made


def validated(model: type[BaseModel], text: str, *, is_strict: bool) -> BaseModel:
    """Return an instance of the model. Raises InvalidArguments with everything that is wrong."""
    from pydantic import ValidationError

    try:
        return model.model_validate_json(text, strict=is_strict or None)
    except ValidationError as error:
        raise InvalidArguments(_complaints(error)) from None
    except Exception as error:  # a validator of the user's own types
        raise InvalidArguments(f"The arguments cannot be read: {said(error)}") from None


def _complaints(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{_spelled(one['loc'])}: {one['msg']}" for one in problems[:_MAX_COMPLAINTS]]
    more = len(problems) - len(lines)
    return "\n".join(["Invalid arguments.", *lines, *([f"and {more} more"] if more else [])])


def _spelled(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:80] for part in place) or "arguments"


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


def _check_form(form: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    if not _is_same(form, given):
        raise InvalidArguments(
            "The arguments are not complete, or not written as the tool writes them."
        )


def _is_same(one: Any, other: Any) -> bool:
    """Sets come back in any order; nothing else does."""
    return bool(one == other) or _unordered(one) == _unordered(other)


def _unordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unordered(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted(map(_unordered, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value


class SchemaReader(msgspec.Struct, frozen=True):
    """For a tool that comes with a JSON Schema and checks its arguments itself. Here only missing
    and unknown ones are found, and defaults filled in, so that rules see them."""

    schema: Mapping[str, Any]

    def read(self, raw: str | Mapping[str, Any]) -> dict[str, Any]:
        given = object_of(raw)
        properties = self._properties()
        unknown = sorted(given.keys() - properties.keys())
        if unknown and self.schema.get("additionalProperties") is False:
            raise InvalidArguments(f"Invalid arguments.\nunknown: {', '.join(unknown)[:400]}")
        for name, one in properties.items():
            if name not in given and isinstance(one, Mapping) and "default" in one:
                given[name] = object_of({"value": one["default"]})["value"]
        required = self.schema.get("required") or ()
        if missing := [str(name) for name in required if name not in given]:
            raise InvalidArguments(f"Invalid arguments.\nmissing: {', '.join(missing)[:400]}")
        return given

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the tool gets, made anew."""
        form = self.read(arguments)
        _check_form(form, arguments)
        return form

    def _properties(self) -> Mapping[str, Any]:
        found = self.schema.get("properties")
        return found if isinstance(found, Mapping) else {}


class ModelReader(msgspec.Struct, frozen=True):
    """For a tool whose arguments a pydantic model describes, as generously as it reads them."""

    model: type[BaseModel]

    def read(self, raw: str | Mapping[str, Any]) -> dict[str, Any]:
        return normal_form(self.model, raw, _dumped, is_strict=False)

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the tool gets, of its own types, made anew."""
        made = made_from(self.model, arguments, _dumped, is_strict=False)
        return {name: getattr(made, name) for name in type(made).model_fields}


def _dumped(made: BaseModel) -> str:
    return made.model_dump_json(by_alias=True, warnings="none")
