"""The parameters of a Python function: its JSON Schema, and how arguments become a call.

Types do the describing and the checking (pydantic's reading of them, strictly, so that a text is
no number). A parameter that JSON cannot fill is not offered; it needs a default.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from paddock.doors.tools.annotations import described, readable
from paddock.doors.tools.arguments import made_from, normal_form
from paddock.doors.tools.errors import InvalidArguments
from paddock.doors.tools.plain import said
from paddock.model.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class BoundCall(msgspec.Struct, frozen=True):
    """The arguments that a function is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of a function."""

    signature: inspect.Signature
    schema: Mapping[str, Any]
    hints: Mapping[str, Any]
    _model: type[BaseModel]
    _fields: Mapping[str, str]  # the model's name for each parameter that is offered
    _unwritten: frozenset[str]  # parameters whose default has no JSON: left out when not given

    @classmethod
    def of(
        cls, function: Callable[..., Any], about: Mapping[str, str], *, is_method: bool = False
    ) -> Parameters:
        """Inspect a function. Raises InvalidInput for one that an agent cannot call. `about`
        describes the parameters. For a method the first one is left out."""
        signature = _signature(function, is_method=is_method)
        hints = _hints(function)
        offered: dict[str, _Offered] = {}
        for name, parameter in signature.parameters.items():
            one = _offered(parameter, hints.get(name, Any), about.get(name))
            if one is not None and name not in _bound_by_partial(function):
                offered[name] = one
        fields = {name: f"p{number}" for number, name in enumerate(offered)}
        model = _model_of({fields[name]: one for name, one in offered.items()})
        unwritten = frozenset(name for name, one in offered.items() if one.is_unwritten)
        return cls(signature, _schema(model), hints, model, fields, unwritten)

    def read(self, raw: str | Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments in normal form, defaults included. Raises InvalidArguments."""
        return normal_form(self._model, raw, self._dumped, is_strict=True)

    def call(self, arguments: Mapping[str, Any]) -> BoundCall:
        """Return what to call the function with: values of its types that nobody else holds. Raises
        InvalidArguments for arguments that are not in normal form."""
        made = made_from(self._model, arguments, self._dumped, is_strict=True)
        values = {name: getattr(made, self._fields[name]) for name in arguments}
        args = []
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(values.pop(name, parameter.default))
        return BoundCall(tuple(args), values)

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a plain call by name. Raises InvalidArguments."""
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidArguments(f"Invalid arguments.\n{error}") from None

    def _dumped(self, made: BaseModel) -> str:
        left_out = {
            self._fields[name]
            for name in self._unwritten
            if self._fields[name] not in made.model_fields_set
        }
        return made.model_dump_json(by_alias=True, exclude=left_out, warnings="none")


class _Offered(msgspec.Struct, frozen=True):
    """A parameter that the agent may set."""

    name: str
    annotation: Any
    description: str | None
    default: Any = inspect.Parameter.empty
    is_unwritten: bool = False


def _signature(function: Callable[..., Any], *, is_method: bool) -> inspect.Signature:
    if inspect.isclass(function) or not callable(function):
        raise InvalidInput(f"{function!r:.80} is not a function", hint="give the function to call")
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"the parameters of {function!r:.80} cannot be told: {error}",
            hint="wrap it in a function that names them",
        ) from None
    parameters = list(signature.parameters.values())
    parameters = parameters[1:] if is_method else parameters
    for one in parameters:
        if one.kind in _VARIABLE:
            raise InvalidInput(
                f"{_name(function)}: an agent cannot be told what {one} takes",
                hint="name the parameters",
            )
    return signature.replace(parameters=parameters)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(_annotated(function), include_extras=True)
    except Exception as error:  # annotations may be any text
        raise InvalidInput(
            f"{_name(function)}: a type hint cannot be resolved: {said(error)}",
            hint="define the type at the top of the module",
        ) from None


def _annotated(function: Any) -> Any:
    """Return the function that carries the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if inspect.isroutine(function):
        return function
    return type(function).__call__


def _bound_by_partial(function: Any) -> frozenset[str]:
    """Return what the host has fixed; an agent can neither see nor change it."""
    if not isinstance(function, functools.partial):
        return frozenset()
    return frozenset(function.keywords) | _bound_by_partial(function.func)


def _offered(parameter: inspect.Parameter, hint: Any, about: str | None) -> _Offered | None:
    has_default = parameter.default is not parameter.empty
    if has_default and parameter.default is None:
        hint = hint | None if isinstance(hint, type) else typing.Optional[hint]  # noqa: UP045
    try:
        annotation, adapter = readable(hint)
    except InvalidInput as error:
        if has_default:
            return None
        raise InvalidInput(f"the parameter {parameter.name}: {error.message}") from None
    words = described(annotation) or about
    if not has_default:
        return _Offered(parameter.name, annotation, words)
    is_unwritten = not _is_json(adapter, parameter.default)
    return _Offered(parameter.name, annotation, words, parameter.default, is_unwritten)


def _is_json(adapter: Any, default: Any) -> bool:
    try:
        text = adapter.dump_json(default, warnings="none")
        return bool(adapter.dump_json(adapter.validate_json(text, strict=True)) == text)
    except Exception:  # whatever the type says no with
        return False


def _model_of(offered: Mapping[str, _Offered]) -> type[BaseModel]:
    # Fields have names of our own, and the parameters' names as aliases: a parameter may be
    # called `self`, `_x` or `model_config`.
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for field, one in offered.items():
        words: dict[str, Any] = {"alias": one.name}
        if one.description:
            words["description"] = one.description
        if one.is_unwritten:
            words["default_factory"] = lambda: None
        elif one.default is not inspect.Parameter.empty:
            words["default"] = one.default
        fields[field] = (one.annotation, Field(**words))
    config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)
    made: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
    return made


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    schema = model.model_json_schema(by_alias=True, schema_generator=Untitled)
    schema.pop("title", None)
    return {"properties": {}, "required": [], **schema}


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
