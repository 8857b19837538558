"""The fields that a rule can match on, for each kind of action, and where an action keeps them.

A value that cannot be compared safely (a path with `..`, a host that is no text) is Unmatchable:
the action is blocked, because nobody knows which rules it would have met. `pattern_problem` says
which patterns make sense for a field.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.model.hosts import canonical_host
from paddock.policy.globs import check_glob, is_literal
from paddock.policy.problems import suggest
from paddock.policy.subject import Subject

MAX_VALUE = 1 << 16  # a longer name, path or host is an attack, not a name
OPERATIONS = ("read", "write", "list", "info", "exists", "make_dir", "rename", "remove", "lock",
              "watch")  # fmt: skip
READ_OPERATIONS = frozenset({"read", "list", "info", "exists", "watch"})  # the others write
# Some servers take these for a slash, an escape or an end, and others do not.
_AMBIGUOUS = re.compile(r"%(2f|5c|25|3b|[01][0-9a-f]|7f)|[\\;\x00-\x1f\x7f]", re.IGNORECASE)
_METHOD = re.compile(r"[A-Za-z-]+")


class Unmatchable(ValueError):
    """An action has a value that no rule can be compared with."""


class Field(msgspec.Struct, frozen=True):
    """One thing to match on. Where an action has several values (both paths of a rename, all names
    of a program), the stricter reading holds: one is enough to tighten, a grant needs all."""

    values: Callable[[Subject], tuple[Any, ...]]
    separator: str = ""
    folds_case: bool = False
    choices: tuple[str, ...] = ()  # when not empty, the only texts that make sense
    says: str = ""


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise Unmatchable(f"{what} is not a text: {str(value)[:60]!r}")
    if len(value) > MAX_VALUE:
        raise Unmatchable(f"{what} is longer than {MAX_VALUE} characters")
    return value


def _folded(name: str) -> Callable[[Subject], tuple[str, ...]]:
    return lambda subject: (_text(subject.action.arguments.get(name), name).casefold(),)


def _name(subject: Subject) -> tuple[str, ...]:
    return (_text(subject.action.name, "name"),)


def _effect(subject: Subject) -> tuple[str, ...]:
    return (subject.effect.value,)


def host_name(value: Any) -> str:
    """Return the one spelling of the host of an action: `127.1` and a name in wide letters lead
    somewhere, too."""
    host = _text(value, "host")
    if not host.isascii():  # what goes over the wire is ASCII
        raise Unmatchable(f"not a host in plain ASCII: {host[:60]!r}")
    try:
        return canonical_host(host)
    except InvalidInput as error:
        raise Unmatchable(error.message) from None


def host_of(action: Action) -> str:
    """Return the host that an action would speak to, or the name that it would look up."""
    arguments = action.arguments
    if "host" in arguments:
        return host_name(arguments["host"])
    if action.kind is Kind.DNS:
        return host_name(arguments.get("name", action.name))
    # The name of a model's action is that of the model.
    return host_name(None if action.kind is Kind.MODEL else action.name)


def port_of(action: Action) -> int:
    """Return the port that an action would speak to."""
    port = action.arguments.get("port")
    if type(port) is not int or not 0 < port < 65536:
        raise Unmatchable(f"not a port: {str(port)[:60]!r}")
    return port


def _hosts(subject: Subject) -> tuple[str, ...]:
    return (host_of(subject.action),)


def sandbox_file(value: Any, what: str = "path") -> str:
    """Return a path as rules compare it: absolute, without `.`, `..` or doubled slashes."""
    text = _text(value, what)
    if not text.startswith("/"):
        raise Unmatchable(f"{what} is not absolute: {text[:60]!r}")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Unmatchable(f"{what} contains `..`: {text[:60]!r}; give the path that is meant")
    return "/" + "/".join(parts)


def _file_paths(subject: Subject) -> tuple[str, ...]:
    arguments = subject.action.arguments
    path = sandbox_file(arguments.get("path"))
    return (path, sandbox_file(arguments["to"], "to")) if "to" in arguments else (path,)


def _operation(subject: Subject) -> tuple[str, ...]:
    return (_text(subject.action.arguments.get("operation", subject.action.name), "operation"),)


def _language(subject: Subject) -> tuple[str, ...]:
    language = subject.action.arguments.get("language", subject.action.name)
    return (_text(language, "language").casefold(),)


def program_names(action: Action) -> tuple[str, ...]:
    """Return the file that is executed: as it was called, as it is where links were followed, and
    the known programs that it is a copy of."""
    arguments = action.arguments
    called = _text(arguments.get("program", action.name), "program")
    real, same_as = arguments.get("real_path"), arguments.get("same_as")
    if real is None and same_as is None:
        return (called,)
    if not isinstance(same_as or [], list | tuple):
        raise Unmatchable("same_as is not a list of paths")
    others = [] if real is None else [_text(real, "real_path")]
    others += [_text(path, "same_as") for path in same_as or ()]
    return tuple(dict.fromkeys([called, *others]))


def is_writable_program(subject: Subject) -> bool:
    """Return whether the agent could have written the file: then its name says nothing about it,
    and no rule that grants by name can mean it."""
    return bool(subject.action.arguments.get("is_writable"))


def programs(subject: Subject) -> tuple[str, ...]:
    """Return every name that the program goes by: as called, as it is, and as it is told it is
    called."""
    names = program_names(subject.action)
    argv = subject.action.arguments.get("argv")
    if isinstance(argv, list | tuple) and argv and isinstance(argv[0], str):
        # A program of many faces (busybox) does what it is told it is called.
        applet = posixpath.basename(argv[0]).removeprefix("-")
        if applet and applet not in map(posixpath.basename, names):
            return (*names, applet)
    return names


def program_paths(subject: Subject) -> tuple[str, ...]:
    """Return where the program lies. Raises Unmatchable when that cannot be told."""
    called, *others = program_names(subject.action)
    paths = [sandbox_file(name, "program") for name in others]
    try:
        paths.append(sandbox_file(called, "program"))
    except Unmatchable:
        # As called it may be relative; then only the real path says where it lies.
        if subject.action.arguments.get("real_path") is None:
            raise
    return tuple(paths)


def _cwd(subject: Subject) -> tuple[str, ...]:
    return (sandbox_file(subject.action.arguments.get("cwd"), "cwd"),)


def _argv(subject: Subject) -> tuple[tuple[str, ...], ...]:
    argv = subject.action.arguments.get("argv")
    if not isinstance(argv, list | tuple) or not all(isinstance(word, str) for word in argv):
        raise Unmatchable("argv is not a list of words")
    # What a program is told it is called is its caller's choice: rules see what it is.
    return tuple((posixpath.basename(name), *argv[1:]) for name in program_names(subject.action))


def _http_path(subject: Subject) -> tuple[str, ...]:
    """Return the decoded path, because `/%61dmin` is `/admin` to every server."""
    path = _text(subject.action.arguments.get("path"), "path")
    decoded = unquote(path)
    is_plain = path.startswith("/") and not _AMBIGUOUS.search(path) and "\ufffd" not in decoded
    if not is_plain or "//" in decoded or not {".", ".."}.isdisjoint(decoded.split("/")):
        raise Unmatchable(f"a path that servers read differently: {path[:60]!r}")
    return (decoded,)


def _method(subject: Subject) -> tuple[str, ...]:
    method = _text(subject.action.arguments.get("method"), "method")
    if not _METHOD.fullmatch(method):
        raise Unmatchable(f"not a method: {method[:60]!r}")
    return (method.casefold(),)


def _query(subject: Subject) -> tuple[str, ...]:
    query = subject.action.arguments.get("query") or ""
    if isinstance(query, Mapping):
        pairs = [(key, item) for key, value in query.items()
                 for item in (value if isinstance(value, list | tuple) else [value])]  # fmt: skip
    else:
        text = _text(query, "query") if query else ""
        pairs = parse_qsl(text, keep_blank_values=True)
        if ";" in text:  # it parts pairs for some servers
            pairs += parse_qsl(text.replace(";", "&"), keep_blank_values=True)
    return tuple(f"{key}={value}" for key, value in pairs)


def _port(subject: Subject) -> tuple[int, ...]:
    return (port_of(subject.action),)


_EFFECTS = tuple(effect.value for effect in Effect)
_EFFECT = Field(_effect, choices=_EFFECTS, says="read, write or admin, as computed")
_HOST = Field(_hosts, ".", folds_case=True, says="the host that is spoken to")

FIELDS: Mapping[Kind, Mapping[str, Field]] = {
    Kind.EXEC: {
        "program": Field(programs, "/", says="a name, a path or a glob of what is executed"),
        "argv": Field(_argv, says="the words from the first on; ** stands for any words"),
        "cwd": Field(_cwd, "/", says="the directory that it runs in"),
        "path": Field(program_paths, "/", says="the absolute path of the program"),
    },
    Kind.TOOL: {
        "name": Field(_name, says="the tool's name"),
        "effect": _EFFECT,
    },
    Kind.FILE: {
        "operation": Field(_operation, choices=OPERATIONS, says="what is done to the file"),
        "path": Field(_file_paths, "/", says="the absolute path; of a rename, either of both"),
    },
    Kind.CODE: {
        "language": Field(_language, folds_case=True, says="the language of the code"),
    },
    Kind.HTTP: {
        "host": _HOST,
        "method": Field(_method, folds_case=True, says="the method of the request"),
        "path": Field(_http_path, "/", says="the path of the request"),
        "query": Field(_query, says="any one name=value of the query"),
        "effect": _EFFECT,
    },
    Kind.CONNECT: {
        "host": _HOST,
        "port": Field(_port, says="a port, or two as in 8000-8100"),
    },
    Kind.DNS: {
        "name": Field(_hosts, ".", folds_case=True, says="the name that is looked up"),
    },
    Kind.MODEL: {
        "provider": Field(_folded("provider"), folds_case=True, says="who runs the model"),
        "model": Field(_folded("model"), folds_case=True, says="the model's name"),
    },
}  # fmt: skip

# By which field rules of a kind are found; the rest of a rule is looked at only then.
INDEXED: Mapping[Kind, str] = {
    Kind.EXEC: "program",
    Kind.TOOL: "name",
    Kind.FILE: "operation",
    Kind.CODE: "language",
    Kind.HTTP: "host",
    Kind.CONNECT: "host",
    Kind.DNS: "name",
    Kind.MODEL: "provider",
}

_MAX_WORDS = 64  # in one pattern of argv

PatternProblem = tuple[str, str | None]  # what is wrong, and what to write instead


def pattern_problem(kind: Kind, name: str, pattern: Any) -> PatternProblem | None:
    """Return what is wrong with a pattern for this field, or None."""
    field = FIELDS[kind][name]
    if field.choices and pattern in field.choices:
        return None
    if field.choices:
        return f"{pattern!r} is not one of the values of {name}", suggest(pattern, field.choices)
    if name in ("path", "cwd") or (name == "program" and "/" in pattern):
        problem = _path_problem(pattern, may_end_open=kind is Kind.HTTP)
        if problem is not None:
            return problem
    if field.separator == ".":
        problem = _host_problem(pattern)
        if problem is not None:
            return problem
    separator = "" if name == "program" and "/" not in pattern else field.separator
    return _SPECIAL.get(name, _glob_problem)(pattern, separator)


def _path_problem(pattern: str, *, may_end_open: bool) -> PatternProblem | None:
    if not pattern.startswith(("/", "**/")) and pattern != "**":
        return f"{pattern!r} is not an absolute path", "begin it with / or **/"
    # Of a request `/a/` is another path than `/a`; of a file it is the same.
    is_closed = may_end_open or pattern == "/" or not pattern.endswith("/")
    if not is_closed or "//" in pattern or "." in pattern.split("/"):
        return f"{pattern!r} is not how a path is compared", "no //, /./ or / at the end"
    return None


def _host_problem(pattern: str) -> PatternProblem | None:
    """Return what is wrong with a pattern of a host. It is compared with the canonical form, so it
    must be in that."""
    try:
        spelled = host_name(pattern.replace("*", "x"))
    except Unmatchable:
        return f"{pattern!r} is not a host", _host_hint(pattern)
    if is_literal(pattern) and spelled != pattern.casefold():
        return f"{pattern!r} is not how a host is compared", f"write {spelled}"
    return None


def _host_hint(pattern: str) -> str:
    try:
        return f"write {canonical_host(pattern)}"  # a name in another script
    except InvalidInput:
        return "write the name only, as in api.example.com"


def _glob_problem(pattern: str, separator: str) -> PatternProblem | None:
    try:
        check_glob(pattern, separator)
    except InvalidInput as error:
        return error.message, error.hint
    return None


def _argv_problem(pattern: tuple[str, ...], _: str) -> PatternProblem | None:
    if len(pattern) > _MAX_WORDS:
        return f"more than {_MAX_WORDS} words", "the first few words are enough"
    if "/" in pattern[0]:
        return "the first word is the program's name, without a path", "give the path with path:"
    problems = (_glob_problem(word, "") for word in pattern if word)
    return next((problem for problem in problems if problem), None)


def _port_problem(pattern: str, _: str) -> PatternProblem | None:
    first, dash, last = pattern.partition("-")
    ends = [int(port) for port in (first, last or first) if port.isascii() and port.isdigit()]
    is_range = len(pattern) <= 11 and len(ends) == 2 and bool(last) == bool(dash)
    if is_range and 0 < ends[0] <= ends[1] < 65536:
        return None
    return f"{pattern!r} is not a port", "write 443, or 8000-8100"


_SPECIAL: dict[str, Callable[[Any, str], PatternProblem | None]] = {
    "argv": _argv_problem,
    "port": _port_problem,
}
