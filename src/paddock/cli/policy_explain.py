"""`paddock policy explain`: an action from the words of the command line, and what is decided."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from paddock.cli.output import say, say_json
from paddock.cli.policy_file import read_policy
from paddock.model.action import Action, Effect, Kind
from paddock.model.errors import InvalidInput
from paddock.policy.reach import usually_reversible

HOME_DIRECTORY = "/home/user"
_MAX_JSON = 1 << 20
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def explain_action(options: argparse.Namespace) -> int:
    """The result first, then every rule and where it parted from the action."""
    from paddock.model.plain import plain
    from paddock.policy.explain import explain

    action = action_from(options)
    policy = read_policy(options.file, options.stage)
    spent = dict(_spent(text) for text in options.spent)
    unknown = [name for name in spent if name not in {rule.id for rule in policy.rules}]
    if unknown:
        raise InvalidInput(f"--spent: the file has no rule {unknown[0]!r}")
    explanation = explain(policy, action, spent)
    if options.json:
        say_json(explanation.as_json())
    else:
        say("\n".join(map(plain, explanation.lines())))
    return 0


def action_from(options: argparse.Namespace) -> Action:
    """The action that the options describe."""
    if options.args is not None and options.tool is None:
        raise InvalidInput("--args: goes with --tool")
    if options.json_action is not None:
        return _from_json(options.json_action)
    if options.exec is not None:
        return _exec(options.exec)
    if options.tool is not None:
        arguments = _object(options.args, "--args") if options.args is not None else {}
        return Action(Kind.TOOL, options.tool, arguments)
    for operation, path in (("read", options.file_read), ("write", options.file_write)):
        if path is not None:
            return _file(operation, path)
    return _outside(options)


def _outside(options: argparse.Namespace) -> Action:
    if options.code is not None:
        code = {"language": options.code, "code": "", "context": "default"}
        return Action(Kind.CODE, options.code, code, Effect.WRITE, is_contained=True)
    if options.http is not None:
        return _http(*options.http)
    if options.connect is not None:
        return _connect(options.connect)
    if options.dns is not None:
        return Action(Kind.DNS, options.dns, {"name": options.dns})
    provider, slash, model = options.model.partition("/")
    if not slash or not provider or not model:
        raise InvalidInput(f"--model: {options.model!r} is not PROVIDER/MODEL")
    where = {"host": f"api.{provider}.com", "port": 443}
    return Action(Kind.MODEL, model, {"provider": provider, "model": model, **where})


def _exec(text: str) -> Action:
    """One program: what a shell would start besides is decided by itself, so it is not taken."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise InvalidInput(f"--exec: {text!r} is not words: {error}") from None
    for word in words:
        if word and set(word) <= set(";&|<>()"):
            raise InvalidInput(
                f"--exec: {word!r} is for a shell, and --exec is one program",
                hint="each program that a shell starts is decided by itself: ask for each",
            )
    if not words or not words[0]:
        raise InvalidInput("--exec: names no program")
    arguments = {"program": words[0], "argv": words, "cwd": HOME_DIRECTORY}
    return Action(Kind.EXEC, words[0], arguments, Effect.WRITE, is_contained=True)


def _file(operation: str, path: str) -> Action:
    arguments = {"operation": operation, "path": path}
    effect = Effect.READ if operation == "read" else Effect.WRITE
    return Action(Kind.FILE, operation, arguments, effect, is_contained=True)


def _http(method: str, url: str) -> Action:
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError as error:
        raise InvalidInput(f"--http: {url!r} is not a URL: {error}") from None
    if not parts.hostname or parts.scheme not in ("http", "https"):
        raise InvalidInput(f"--http: {url!r} is not a URL such as https://example.com/path")
    effect = Effect.READ if method.upper() in _SAFE_METHODS else Effect.WRITE
    arguments = {
        "method": method.upper(),
        "host": parts.hostname,
        "port": port,
        "path": parts.path or "/",
        "query": parts.query,
        "headers": {},
        "body": {},
    }
    is_reversible = usually_reversible(Kind.HTTP, effect)
    return Action(Kind.HTTP, parts.hostname, arguments, effect, is_reversible)


def _connect(text: str) -> Action:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise InvalidInput(f"--connect: {text!r} is not HOST:PORT")
    place = {"host": host, "port": int(port)}
    return Action(Kind.CONNECT, host, place, Effect.WRITE, is_reversible=False)


def _from_json(text: str) -> Action:
    """As an example of a rule writes it, or whole, as the journal has it."""
    from paddock.policy.examples import action_of

    content = _object(_stdin() if text == "-" else text, "--action")
    kind = content.get("kind")
    if kind not in list(Kind):
        raise InvalidInput(f"--action: kind is one of {', '.join(Kind)}, not {kind!r}")
    if "arguments" in content:
        return _whole(Kind(kind), content)
    try:
        return action_of(Kind(kind), _completed(Kind(kind), content))
    except InvalidInput as error:
        raise InvalidInput(f"--action: {error.message}") from None


def _completed(kind: Kind, content: Mapping[str, Any]) -> Mapping[str, Any]:
    argv = content.get("argv")
    if kind is Kind.EXEC and isinstance(argv, list) and argv:
        return {"program": argv[0], "cwd": HOME_DIRECTORY, **content}
    return content


def _whole(kind: Kind, content: Mapping[str, Any]) -> Action:
    name, arguments = content.get("name", ""), content["arguments"]
    effect, context = content.get("effect", "read"), content.get("context", {})
    if not isinstance(name, str) or effect not in list(Effect):
        raise InvalidInput("--action: name is a text, effect one of read, write, admin")
    if not isinstance(arguments, dict) or not isinstance(context, dict):
        raise InvalidInput("--action: arguments and context are objects")
    return Action(
        kind,
        name,
        arguments,
        Effect(effect),
        is_reversible=content.get("is_reversible", usually_reversible(kind, Effect(effect)))
        is True,
        is_contained=content.get("is_contained", False) is True,
        context=context,
    )


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{option}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{option}: not a JSON object")
    return value


def _stdin() -> str:
    data = sys.stdin.buffer.read(_MAX_JSON + 1)
    if len(data) > _MAX_JSON:
        raise InvalidInput(f"--action: more than {_MAX_JSON} bytes")
    return data.decode(errors="replace")


def _spent(text: str) -> tuple[str, int]:
    name, _, amount = text.rpartition("=")
    if not name or not amount.isascii() or not amount.isdigit() or len(amount) > 15:
        raise InvalidInput(f"--spent: {text!r} is not RULE=AMOUNT with a whole amount")
    return name, int(amount)
