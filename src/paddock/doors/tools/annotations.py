"""Type hints as pydantic reads them: whether JSON can fill them, and what they say."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from typing import Any

from paddock.model.errors import InvalidInput


def readable(hint: Any) -> tuple[Any, Any]:
    """Return the hint and its pydantic adapter. Raises InvalidInput for types whose values JSON
    cannot express, or that do not survive the round trip."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        hint = _for_pydantic(hint)
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        words = str(error).split("\n")[0][:200]
        raise InvalidInput(f"JSON cannot fill the type {_spelled(hint)}: {words}") from None
    if _has_secret(schema):
        raise InvalidInput(
            "a secret does not come from an agent; the tool has to get it on the host"
        )
    return hint, adapter


def described(hint: Any) -> str | None:
    """Return what `Annotated[T, "text"]` or a pydantic Field in it says about the parameter."""
    for one in getattr(hint, "__metadata__", ()):
        words = one if isinstance(one, str) else getattr(one, "description", None)
        if isinstance(words, str) and words:
            return words
    return None


def _has_secret(schema: Any) -> bool:
    """Types that hide what they hold would give the tool stars instead of it."""
    if isinstance(schema, dict):
        if schema.get("writeOnly") is True:
            return True
        return any(map(_has_secret, schema.values()))
    return isinstance(schema, list) and any(map(_has_secret, schema))


def _for_pydantic(hint: Any) -> Any:
    """Replace TypedDict: before Python 3.12 pydantic takes only that of typing_extensions."""
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint):
        return _typed_dict(hint)
    parts = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if not parts or origin is typing.Literal:
        return hint
    if origin is typing.Annotated:
        return typing.Annotated[(_for_pydantic(parts[0]), *parts[1:])]
    made = tuple(map(_for_pydantic, parts))
    if made == parts:
        return hint
    if origin is types.UnionType or origin is typing.Union:
        return functools.reduce(operator.or_, made)
    return origin[made if len(made) > 1 else made[0]]


@functools.lru_cache(maxsize=256)
def _typed_dict(hint: Any) -> Any:
    from typing_extensions import TypedDict

    fields: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(hint, include_extras=True).items():
        if typing.get_origin(kind) not in (typing.Required, typing.NotRequired):
            is_required = name in hint.__required_keys__
            qualifier: Any = typing.Required if is_required else typing.NotRequired
            kind = qualifier[kind]
        fields[name] = _for_pydantic(kind)
    return TypedDict(hint.__name__, fields)  # type: ignore[operator]


def _spelled(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or str(hint)[:80]
