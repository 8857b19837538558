"""`dataclass`, for frozen values with slots made in a fifth of the time: there are hundreds of such
classes, and making them was a third of the start of the command line.

The library compiles seven functions for each of them. Here one is compiled, `__init__`, which
writes through the slots themselves; the others are shared code. All else is the library's doing.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, **more):
        """As the library's; other kinds than frozen ones with slots are made by it."""
        if cls is not None or more or not (frozen and slots):
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, **more)
        return _value


__all__ = ["dataclass"]
_Class = type[Any]


class _Factory:
    """In a signature, for a default that is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _value(cls: _Class) -> _Class:
    if any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__):
        inherited: _Class = dataclasses.dataclass(frozen=True, slots=True)(cls)
        return inherited
    own = _own(cls)
    made: _Class = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    fields = made.__dataclass_fields__.values()
    if any(_is_init_var(one) for one in fields):
        raise TypeError(f"{cls.__name__}: an InitVar needs dataclasses.dataclass")
    for name, function in _functions(made).items():
        if name not in own:
            function.__qualname__ = f"{made.__qualname__}.{name}"
            setattr(made, name, function)
    params = made.__dataclass_params__
    params.init = params.repr = params.eq = params.frozen = True
    return made


def _own(cls: _Class) -> set[str]:
    """What its author wrote, which is never written over."""
    own = set(cls.__dict__)
    if own & {"__setattr__", "__delattr__"}:
        raise TypeError(f"{cls.__name__} is frozen: it cannot have a __setattr__ of its own")
    if cls.__dict__.get("__hash__") is None:
        own.discard("__hash__")  # Python puts None there for a class that has an __eq__
    return own


def _functions(made: _Class) -> dict[str, Any]:
    fields = dataclasses.fields(made)
    compared = tuple(one.name for one in fields if one.compare)
    hashed = tuple(one.name for one in fields if (one.compare if one.hash is None else one.hash))
    shown = tuple(one.name for one in fields if one.repr)
    names = tuple(one.name for one in fields)
    return {
        "__init__": _init(made, fields),
        **_comparing(_getter(compared), _getter(hashed)),
        "__repr__": _repr(shown),
        **_freezing(made, frozenset(names)),
        **_pickling(_getter(names), names),
    }


def _init(made: _Class, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    scope: dict[str, Any] = {"_missing": _FACTORY, "__name__": made.__module__}
    words, body = ["self"], []
    keyword_only = False
    for number, one in enumerate(sorted(fields, key=lambda one: bool(one.kw_only))):
        slot = getattr(made, one.name)
        if not isinstance(slot, MemberDescriptorType):
            raise TypeError(f"{made.__name__}.{one.name} has no slot")
        if one.kw_only and one.init and not keyword_only:
            keyword_only = True
            words.append("*")
        scope[f"_set{number}"] = slot.__set__
        word, value = _word(one, number, scope)
        words += [word] if word else []
        body += [f"_set{number}(self, {value})"] if value else []
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    # As the library does it. Names of fields are identifiers of a class statement, nothing else.
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(body or ["pass"]), scope)  # noqa: S102
    function = scope["__init__"]
    function.__annotations__ = {one.name: one.type for one in fields if one.init}
    function.__annotations__["return"] = None
    return function


def _word(one: dataclasses.Field[Any], number: int, scope: dict[str, Any]) -> tuple[str, str]:
    """A field as a parameter, and what is put into its slot."""
    name, default = one.name, f"_default{number}"
    if one.default_factory is not dataclasses.MISSING:
        scope[default] = one.default_factory
        if not one.init:
            return "", f"{default}()"
        return f"{name}=_missing", f"{default}() if {name} is _missing else {name}"
    if one.default is not dataclasses.MISSING:
        scope[default] = one.default
        return (f"{name}={default}", name) if one.init else ("", default)
    return (name, name) if one.init else ("", "")


def _getter(names: tuple[str, ...]) -> Any:
    """The fields of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    only = attrgetter(names[0])
    return lambda self: (only(self),)


def _comparing(compared: Any, hashed: Any) -> dict[str, Any]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(compared(self) == compared(other))

    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _repr(shown: tuple[str, ...]) -> Any:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({said})"

    return __repr__


def _freezing(made: _Class, names: frozenset[str]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _pickling(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    def __getstate__(self: Any) -> list[Any]:
        return list(values(self))

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}


def _is_init_var(one: dataclasses.Field[Any]) -> bool:
    return isinstance(one.type, dataclasses.InitVar) or "InitVar" in str(one.type)
