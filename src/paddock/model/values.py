"""`dataclass`, for classes with slots made in a tenth of the time: there are hundreds of them, and
making them was a third of the start of the command line.

The library compiles seven functions for each. Here one is compiled, `__init__`, when the first
object is made; the others are shared code. What comes out is a dataclass to the library and to
whoever looks at it. Kinds that are rare are made by the library.
"""

from __future__ import annotations

import dataclasses
from _thread import get_ident
from functools import cache, partial
from operator import attrgetter, ge, gt, le, lt
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
    from inspect import Signature
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, order=False, **more):
        """As the library's; other kinds than those with slots are made by it."""
        if cls is not None or more or not slots:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, order=order, **more)
        return partial(_value, is_frozen=frozen, is_ordered=order)


__all__ = ["dataclass"]
_Class = type[Any]
_Field = dataclasses.Field[Any]


class _Factory:
    """In a signature, for a default that is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_being_shown: set[tuple[int, int]] = set()  # objects that hold themselves would have no end
_MISSING = dataclasses.MISSING
_CLASS_VARS = ("ClassVar", "typing.ClassVar")
_NOT_HERE = ("InitVar", "dataclasses.InitVar", "KW_ONLY", "dataclasses.KW_ONLY")


@cache
def _params(is_frozen: bool, is_ordered: bool) -> Any:
    """What the library says of such a class."""

    class Pattern:
        """Nothing in it."""

    made: Any = dataclasses.dataclass(frozen=is_frozen, order=is_ordered)(Pattern)
    return made.__dataclass_params__


@cache
def _kind_of_field() -> Any:
    """What the library calls a field that is no variable of the class."""

    class Pattern:
        """One field."""

        field: int

    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(Pattern)
    return made.__dataclass_fields__["field"]._field_type


def _value(cls: _Class, *, is_frozen: bool, is_ordered: bool) -> _Class:
    is_inherited = any(hasattr(base, "__dataclass_fields__") for base in cls.__bases__)
    if is_inherited or "__slots__" in cls.__dict__:
        by_library = dataclasses.dataclass(frozen=is_frozen, slots=True, order=is_ordered)
        made: _Class = by_library(cls)
        return made
    fields = _fields(cls)
    own = _own(cls, is_frozen=is_frozen)
    space = {name: one for name, one in cls.__dict__.items() if name not in fields}
    space.pop("__dict__", None)
    space.pop("__weakref__", None)
    functions = _functions(fields, is_frozen=is_frozen, is_ordered=is_ordered)
    for name, function in functions.items():
        if name not in own:
            space[name] = function
    space["__slots__"] = tuple(fields)
    space["__dataclass_fields__"] = fields
    space["__dataclass_params__"] = _params(is_frozen, is_ordered)
    given = (one.name for one in fields.values() if one.init and not one.kw_only)
    space.setdefault("__match_args__", tuple(given))
    metaclass: Any = type(cls)
    made = metaclass(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    if "__init__" not in own:
        _add_init(made, fields, is_frozen=is_frozen)
    return made


def _fields(cls: _Class) -> dict[str, _Field]:
    fields: dict[str, _Field] = {}
    has_default = False
    for name, said in cls.__annotations__.items():
        text = said if isinstance(said, str) else str(said)
        if text.startswith(_CLASS_VARS):
            continue
        if text.startswith(_NOT_HERE):
            raise TypeError(f"{cls.__name__}: {text} needs dataclasses.dataclass")
        one = _field(cls, name, said)
        is_given = one.default is not _MISSING or one.default_factory is not _MISSING
        if has_default and not is_given and one.init and not one.kw_only:
            raise TypeError(f"{cls.__name__}.{name}: no default, behind one that has a default")
        has_default |= is_given and one.init and not one.kw_only
        fields[name] = one
    return fields


def _field(cls: _Class, name: str, said: Any) -> _Field:
    default = cls.__dict__.get(name, _MISSING)
    is_field = isinstance(default, dataclasses.Field)
    one: Any = default if is_field else dataclasses.field(default=default)
    if type(one.default).__hash__ is None:
        raise ValueError(f"{cls.__name__}.{name}: a default that changes needs a default_factory")
    one.name, one.type, one._field_type = name, said, _kind_of_field()
    one.kw_only = one.kw_only is True
    field: _Field = one
    return field


def _own(cls: _Class, *, is_frozen: bool) -> set[str]:
    """What its author wrote, which is never written over."""
    own = set(cls.__dict__)
    if is_frozen and own & {"__setattr__", "__delattr__"}:
        raise TypeError(f"{cls.__name__} is frozen: it cannot have a __setattr__ of its own")
    if cls.__dict__.get("__hash__") is None:
        own.discard("__hash__")  # Python puts None there for a class that has an __eq__
    return own


def _functions(fields: dict[str, _Field], *, is_frozen: bool, is_ordered: bool) -> dict[str, Any]:
    every = fields.values()
    compared = tuple(one.name for one in every if one.compare)
    shown = tuple(one.name for one in every if one.repr)
    functions = {"__eq__": _eq(_getter(compared)), "__repr__": _repr(shown), "__hash__": None}
    if is_ordered:
        functions |= _ordering(_getter(compared))
    if not is_frozen:
        return functions
    hashed = tuple(one.name for one in every if (one.compare if one.hash is None else one.hash))
    names = tuple(fields)
    functions["__hash__"] = _hash(_getter(hashed))
    return functions | _freezing(frozenset(names)) | _pickling(_getter(names), names)


def _add_init(made: _Class, fields: dict[str, _Field], *, is_frozen: bool) -> None:
    """Many of the classes that a program loads never get an object."""

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        function = _init(made, fields, is_frozen=is_frozen)
        made.__init__ = function
        function(self, *given, **named)

    made.__init__ = __init__
    made.__signature__ = _Signature(made, lambda: _init(made, fields, is_frozen=is_frozen))


class _Signature:
    """Of a class, for whoever asks before there is an object."""

    __slots__ = ("_made", "_owner")

    def __init__(self, owner: _Class, made: Any) -> None:
        self._owner = owner
        self._made = made

    def __get__(self, one: object, owner: _Class) -> Signature:
        import inspect

        if owner is not self._owner:
            raise AttributeError("__signature__")  # a subclass has another
        signature = inspect.signature(self._made())
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _init(made: _Class, fields: dict[str, _Field], *, is_frozen: bool) -> Any:
    scope: dict[str, Any] = {"_missing": _FACTORY, "__name__": made.__module__}
    words, body = ["self"], []
    keyword_only = False
    for number, one in enumerate(sorted(fields.values(), key=lambda one: bool(one.kw_only))):
        slot = getattr(made, one.name)
        if not isinstance(slot, MemberDescriptorType):
            raise TypeError(f"{made.__name__}.{one.name} has no slot")
        if one.kw_only and one.init and not keyword_only:
            keyword_only = True
            words.append("*")
        scope[f"_set{number}"] = slot.__set__
        word, value = _word(one, number, scope)
        words += [word] if word else []
        put = f"_set{number}(self, {value})" if is_frozen else f"self.{one.name} = {value}"
        body += [put] if value else []
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    # As the library does it. Names of fields are identifiers of a class statement, nothing else.
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(body or ["pass"]), scope)  # noqa: S102
    function = scope["__init__"]
    function.__qualname__ = f"{made.__qualname__}.__init__"
    function.__annotations__ = {one.name: one.type for one in fields.values() if one.init}
    function.__annotations__["return"] = None
    return function


def _word(one: _Field, number: int, scope: dict[str, Any]) -> tuple[str, str]:
    """A field as a parameter, and what is put into its slot."""
    name, default = one.name, f"_default{number}"
    if one.default_factory is not _MISSING:
        scope[default] = one.default_factory
        if not one.init:
            return "", f"{default}()"
        return f"{name}=_missing", f"{default}() if {name} is _missing else {name}"
    if one.default is not _MISSING:
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


def _eq(compared: Any) -> Any:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(compared(self) == compared(other))

    return __eq__


def _ordering(compared: Any) -> dict[str, Any]:
    def told_by(compare: Any) -> Any:
        def told(self: Any, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return bool(compare(compared(self), compared(other)))

        return told

    return {f"__{one.__name__}__": told_by(one) for one in (lt, le, gt, ge)}


def _hash(hashed: Any) -> Any:
    def __hash__(self: Any) -> int:
        return hash(hashed(self))

    return __hash__


def _repr(shown: tuple[str, ...]) -> Any:
    def __repr__(self: Any) -> str:
        key = (id(self), get_ident())
        if key in _being_shown:
            return "..."
        _being_shown.add(key)
        try:
            said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        finally:
            _being_shown.discard(key)
        return f"{self.__class__.__qualname__}({said})"

    return __repr__


def _freezing(names: frozenset[str]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)  # of a subclass; here there is room for nothing else

    def __delattr__(self: Any, name: str) -> None:
        if name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _pickling(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    def __getstate__(self: Any) -> list[Any]:
        return list(values(self))

    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
