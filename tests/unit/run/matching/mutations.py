"""Every small change that can be made to what a client does, by class and name."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from paddock.doors.network.bodies.digests import stable_place
from paddock.model.action import Kind
from unit.run.matching.samples import FORM, Sent


class Mutant(NamedTuple):
    """A changed sample; `of` names the class of the change."""

    of: str
    name: str
    sent: Sent


Place = tuple[str | int, ...]
_ADDED = ("x-extra", "cookie", "if-match")
_UNHEARD = ("user-agent", "traceparent", "x-stainless-lang", "content-length", "accept-encoding")


# In place of what a client makes up for each request, something else that it could have made up.
_MADE_UP = {
    "amz-sdk-invocation-id": "0cc175b9-c0f1-46b6-831c-399e26977266",
    "grpc-timeout": "4871m",
}
_SIGNED = {"5e" * 32: "7f" * 32, "20240102": "20240103"}


def mutants(sent: Sent) -> Iterator[Mutant]:
    """All of one sample."""
    if sent.kind in (Kind.HTTP, Kind.MODEL):
        yield from _address(sent)
        yield from _headers(sent)
        yield from _bodies(sent)
    else:
        for of, name, said in _json(dict(sent.arguments)):
            yield Mutant(_class_of_argument(sent, of, name), name, replace(sent, arguments=said))
        if sent.kind is Kind.TOOL:
            yield Mutant("name", "name", replace(sent, name=sent.name + "s"))


def _class_of_argument(sent: Sent, of: str, name: str) -> str:
    if sent.kind is Kind.EXEC and name.startswith(("pid", "real_path")):
        return "the number or the real file of a program"
    return "1 as 1.0 where no bytes are sent" if of == "1 as 1.0" else of


def _address(sent: Sent) -> Iterator[Mutant]:
    def changed(of: str, name: str, **words: Any) -> Mutant:
        return Mutant(of, name, replace(sent, address={**sent.address, **words}))

    path, query = sent.address["path"], sent.address.get("query")
    if sent.kind is Kind.HTTP:  # by another one it would be no question to a model
        yield from (changed("method", one, method=one) for one in ("DELETE", "PATCH"))
        segments = path.split("/")
        for index in range(1, len(segments)):
            for word in ("other", segments[index] + "x", segments[index].upper() + "_", ""):
                new = [*segments[:index], word, *segments[index + 1 :]]
                yield changed("path", f"{index} {word}", path="/".join(new))
        yield changed("path", "longer", path=path + "/more")
        yield changed("path", "slash", path=path + "/")
        yield changed("path", "escaped", path=path[:-1] + f"%{ord(path[-1]):02X}")
    yield changed("scheme", "http", scheme="http")
    yield changed("host", "lookalike", host=sent.address["host"] + ".evil.example")
    yield changed("port", "8443", port=8443)
    yield changed("the version of HTTP", "h2", http_version="HTTP/2")
    yield changed("query", "added", query=f"{query}&z=1" if query else "z=1")
    yield from (changed("query", name, query=one) for name, one in _queries(query))
    for was, to in _SIGNED.items():
        if query is not None and was in query:
            yield changed("what a client makes up", to, query=query.replace(was, to))


def _queries(query: str | None) -> Iterator[tuple[str, str | None]]:
    if query is None:
        return
    pairs = query.split("&")
    yield "removed", None
    yield "reversed", "&".join(reversed(pairs))
    yield "semicolons", query.replace("&", ";")
    for at, pair in enumerate(pairs):
        name, _, value = pair.partition("=")
        for to in (f"{name}={value}1", f"{name}x={value}", f"{name.upper()}={value}", name):
            yield f"{at} {to}", "&".join([*pairs[:at], to, *pairs[at + 1 :]])
        yield f"{at} dropped", "&".join([*pairs[:at], *pairs[at + 1 :]])
        yield f"{at} twice", "&".join([*pairs[: at + 1], pair, *pairs[at + 1 :]])
        escaped = f"{name}=%{ord(value[0]):02x}{value[1:]}" if value else f"{name}=+"
        yield f"{at} escaped", "&".join([*pairs[:at], escaped, *pairs[at + 1 :]])


def _headers(sent: Sent) -> Iterator[Mutant]:
    def changed(of: str, name: str, headers: dict[str, str]) -> Mutant:
        return Mutant(of, name, replace(sent, headers=headers))

    for name, value in sent.headers.items():
        if name in ("content-type", "host", *_UNHEARD):
            continue
        others = {one: text for one, text in sent.headers.items() if one != name}
        yield changed("header", f"{name} removed", others)
        yield changed("header", f"{name} changed", {**others, name: value + "x"})
        yield changed("header", f"{name} twice", {**others, name: f"{value}, {value}"})
        yield changed("header", f"{name} case", {**others, name: value.swapcase() + " "})
    for name in _ADDED:
        yield changed("header", f"{name} added", {**sent.headers, name: "1"})
    for name in _UNHEARD:
        yield changed("a header that no server acts upon", name, {**sent.headers, name: "9"})
    made_up = {name: one for name, one in _MADE_UP.items() if name in sent.headers}
    for name, value in made_up.items():
        yield changed("what a client makes up", name, {**sent.headers, name: value})
    for at, value in sent.keyed.items():
        flipped = {**sent.keyed, at: "0" + value[1:]}
        is_signed = stable_place(at) in sent.keyed
        of = "what a client makes up" if is_signed else "credential"
        if not at.endswith(stable_place("")):
            yield Mutant(of, f"{at} changed", replace(sent, keyed=flipped))
            yield Mutant("credential", f"{at} removed", replace(sent, keyed={}))
        else:  # another key, or another scope: the signature is another one as well
            both = {one: "0" + text[1:] for one, text in sent.keyed.items()}
            yield Mutant("credential", f"{at} changed", replace(sent, keyed=both))
    more = {**sent.keyed, "headers.cookie": "cd" * 16}
    yield Mutant("credential", "added", replace(sent, keyed=more))


def _bodies(sent: Sent) -> Iterator[Mutant]:
    if sent.raw is not None:
        for at in range(len(sent.raw)):
            flipped = sent.raw[:at] + bytes([sent.raw[at] ^ 1]) + sent.raw[at + 1 :]
            yield Mutant("bytes", f"{at}", replace(sent, raw=flipped))
        yield Mutant("bytes", "longer", replace(sent, raw=sent.raw + b"\0"))
        yield Mutant("bytes", "shorter", replace(sent, raw=sent.raw[:-1]))
    elif sent.headers.get("content-type") == FORM:
        yield from (Mutant("form", name, replace(sent, body=b)) for name, b in _forms(sent.body))
    elif sent.body is not None:
        for of, name, body in _json(sent.body):
            if sent.kind is Kind.HTTP or isinstance(body.get("model"), str):
                yield Mutant(of, name, replace(sent, body=body))


def _forms(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield "reversed", pairs[::-1]
    for at, (name, value) in enumerate(pairs):
        yield f"{at} value", [*pairs[:at], (name, value + "0"), *pairs[at + 1 :]]
        yield f"{at} name", [*pairs[:at], (name + "s", value), *pairs[at + 1 :]]
        yield f"{at} dropped", [*pairs[:at], *pairs[at + 1 :]]
        yield f"{at} twice", [*pairs[: at + 1], *pairs[at:]]


def _json(value: Any) -> Iterator[tuple[str, str, Any]]:
    for place, one in list(_places(value)):
        for of, name, to in _of_value(one):
            yield of, f"{'.'.join(map(str, place))} {name}", _with(value, place, lambda _, t=to: t)
        if place:
            yield "removed", f"{'.'.join(map(str, place))} removed", _without(value, place)


def _places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, value
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(one, (*place, key))


def _of_value(one: Any) -> Iterator[tuple[str, str, Any]]:
    match one:
        case dict():
            yield "added", "one more key", {**one, "more": 1}
            if one:
                key = next(iter(one))
                renamed = {("_" + k if k == key else k): v for k, v in one.items()}
                yield "renamed", f"{key} renamed", renamed
            if len(one) > 1:
                yield "the order of keys in JSON", "reordered", dict(reversed(one.items()))
        case list():
            yield "added", "one more item", [*one, None]
            if one:
                yield "added", "first item twice", [one[0], *one]
                yield "type", "as its first", one[0]
            if len(one) > 1:
                yield "reordered", "reversed", one[::-1]
        case bool():
            yield "value", "not", not one
            yield "type", "as a number", int(one)
            yield "type", "null", None
        case int() | float():
            yield "value", "one more", one + 1
            yield "value", "less", -one - 1
            yield "type", "as text", str(one)
            yield "type", "true", True
            if isinstance(one, int):
                yield "1 as 1.0", "as 1.0", float(one)
        case str():
            yield "value", "longer", one + "x"
            yield "value", "with a space", one + " "
            yield "value", "empty", ""
            yield "value", "a line", "\n" + one
            yield "value", "case", one.swapcase() + "."
            lookalike = one.replace("a", "\u0430").replace("e", "\u0435").replace("o", "\u043e")
            if lookalike != one:
                yield "value", "lookalike", lookalike
            yield "type", "null", None
            yield "type", "in a list", [one]
        case None:
            yield "type", "false", False
            yield "type", "zero", 0
            yield "type", "empty", ""


def _with(value: Any, place: Place, change: Callable[[Any], Any]) -> Any:
    if not place:
        return change(value)
    copied = copy.copy(value)
    copied[place[0]] = _with(copied[place[0]], place[1:], change)
    return copied


def _without(value: Any, place: Place) -> Any:
    def cut(holder: Any) -> Any:
        copied = copy.copy(holder)
        del copied[place[-1]]
        return copied

    return _with(value, place[:-1], cut)
